"""The checkers of the channels between nodes, and of their own sanity checks (DSN 2011, section II; LADIS 2008, section 2)."""

from zab_chaos.model.events import Abort, Channel, Exit, Link
from zab_chaos.model.oracle.facts import FRAME_FAULTS, GAP, Facts
from zab_chaos.model.oracle.properties.checker import Checker
from zab_chaos.model.oracle.properties.progress import DEFAULT_BOUND
from zab_chaos.model.oracle.spans import SECOND
from zab_chaos.node.events import BAD_FRAME

AFTERMATH = SECOND  # what a fault has held back may still arrive, or be found missing
SPEAKS = 5 * SECOND  # by then nodes have received heartbeats in a session, or have closed it


class Channels(Checker):
    """DSN 2011, II: integrity, prefix and single iteration of a channel.

    Verifies for each receiving life and each peer:

    - The frames accepted within a session are one unbroken sequence from number 0 on. (A sequence that ends with `gap`
      was followed by a later frame of its session.)
    - No frame is accepted from a session that was over. Incarnations and sessions never go back, and no session
      continues with the next life of a peer.
    - The sender had opened this session with this receiver, if the sender's trace is complete and goes on afterwards.
    - The frames are of the life of the sender that ran, not of a later one.
    - A node that ends because it was asked to has on record which frames it took in the sessions that were open then, if they
      had been open for `SPEAKS`, and no fault affected their nodes or links meanwhile.
    - No session ends because of a frame that arrived and is none of the protocol, unless a fault damages or misroutes frames.
    - No session ends because frames are missing, unless a fault affected its nodes or the link between them meanwhile, or the
      simulated network loses frames (run.json: `links_are_reliable`).
    - No session ends because of a frame that is too large to be sent. If the limits do not leave room for every frame, it is
      unknown, as is whatever else would have to happen in time.

    Lost frames are legal if no others follow. Does not verify the content of other frames, nor sequences that a SIGKILL kept
    from being traced.
    """

    name = "channels"
    source = "DSN 2011"
    statement = (
        "Within a session with the sender, frames are accepted in order from the first on, without gaps. Old sessions never "
        "return. What nodes send fits into frames and is understood."
    )
    rests_on_absence = False

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._last: dict[tuple[int, int, int], Channel] = {}  # by (node, life, peer)
        self._opened: dict[tuple[int, int], dict[tuple[int, int], Link]] = {}  # by (node, life) and (peer, session)
        # By the same: the words and the event of a sequence with a gap, until the frames that follow are known.
        self._gapped: dict[tuple[int, int, int], tuple[str, Channel]] = {}
        self._sequences: list[Channel] = []
        self._bad: list[Link] = []
        self._open: dict[tuple[int, int, int], Link] = {}  # by (node, life, peer): the session that is open
        # The ends of sessions in which frames were missing, with their beginnings.
        self._gaps: list[tuple[Link, int]] = []

    def on_link(self, event: Link) -> None:
        if event.state == "opened":
            self._opened.setdefault((event.node, event.life), {})[event.peer, event.session] = event
            self._open[event.node, event.life, event.peer] = event
            return
        self.checked += 1
        if event.why.startswith(BAD_FRAME):
            self._bad.append(event)
        opened = self._open.pop((event.node, event.life, event.peer), None)
        if GAP.match(event.why) and opened is not None:
            self._gaps.append((event, opened.t))

    def on_channel(self, event: Channel) -> None:
        self.checked += 1
        self._sequences.append(event)
        key = (event.node, event.life, event.peer)
        before = self._last.get(key)
        self._last[key] = event
        session = (event.incarnation, event.session)
        frames = f"frame {event.last}" if event.first == event.last else f"frames {event.first} to {event.last}"
        who = f"node {event.node} took {frames} of session {event.session} from node {event.peer}"
        if before is not None and session == (before.incarnation, before.session):
            if before.ended == "gap":
                self._gapped.pop(key, None)
                self.findings.add(f"{who}, where frame {before.last + 1} was due", [before, event])
            else:
                self.findings.add(f"{who} after that session was over ({before.ended})", [before, event])
        elif before is not None and session < (before.incarnation, before.session):
            self.findings.add(f"{who} after session {before.session}: sessions went back", [before, event])
        elif before is not None and event.session == before.session:
            self.findings.add(f"{who} in a new life of it, and that session was with its former one", [before, event])
        elif event.first != 0:
            self.findings.add(f"{who}, although a session begins with frame 0", [event])
        if event.ended == "gap":
            self._gapped[key] = f"{who}, and then a later one: what is between them is missing", event

    def at_end(self) -> None:
        for words, event in self._gapped.values():
            self.findings.add(words, [event])
        self._check_lives()
        if self.facts.damaged():
            return
        self._check_exits()
        if not self.facts.links_tampered and not any(inject.do in FRAME_FAULTS for inject in self.facts.injects):
            for bad in self._bad:
                self.findings.add(
                    f"node {bad.node} got {bad.why} from node {bad.peer}, and no fault damages frames", [bad]
                )
        if self.facts.run.expect.get("links_are_reliable") and not self.facts.links_tampered:
            self._check_gaps()
        for end in self.facts.frames_too_large:
            words = f"node {end.node} could not send to node {end.peer}: {end.why}"
            if self.facts.frame_bytes_too_small:
                self.unknown.append(f"{words}; frame_bytes is too small for what clients may have written")
                break
            self.findings.add(words, [end])
        for event in self._sequences:
            sender = event.peer, event.incarnation
            opened = self._opened.get(sender)
            if opened and (event.node, event.session) not in opened and self.facts.lives[sender].last.t > event.t:
                self.findings.add(
                    f"node {event.node} took frames of session {event.session} from node {event.peer}, which had no such "
                    f"session with node {event.node}",
                    [event],
                )

    def _check_gaps(self) -> None:
        """Check that frames are missing only where a fault may have lost them: TCP and ZeroMQ lose none."""
        for end, opened in self._gaps:
            if not self._is_affected(end, opened, end.t):
                self.findings.add(
                    f"node {end.node} closed its session with node {end.peer}, which no fault affected: {end.why}",
                    [end],
                )

    def _is_affected(self, link: Link, start: int, end: int) -> bool:
        """Return whether a fault may have affected the nodes of this link, or the link itself, in this time."""
        ends = {link.node, link.peer}
        active = self.facts.faults_during(start - AFTERMATH, end)
        return any(ends & {*it.nodes} or any(ends == {*pair} for pair in it.pairs or ()) for it in active)

    def _check_lives(self) -> None:
        """Check that no frames are of a later life of their sender than the one that ran meanwhile."""
        for event in self._sequences:
            opened = self._opened.get((event.node, event.life), {}).get((event.peer, event.session))
            life = self.facts.nodes[event.peer].life_at(opened.t) if opened is not None else None
            if life is not None and life.last.life < event.incarnation and event.t < life.last.t:
                self.findings.add(
                    f"node {event.node} took frames of life {event.incarnation} of node {event.peer}, while life "
                    f"{life.last.life} of that node ran",
                    [life.boot, opened, event],
                )

    def _check_exits(self) -> None:
        """Check that the frames that a node took last are on record, unless it was killed."""
        if (self.expected("progress_within") or 0) > DEFAULT_BOUND:
            return  # with such timeouts a session may be silent for long
        for key, opened in self._open.items():
            ended, last = self.facts.lives[key[:2]].exit, self._last.get(key)
            if ended is None or ended.code != 0 or ended.t - opened.t < SPEAKS:
                continue
            unknown = last is None or last.session != opened.session
            if unknown and not self._is_affected(opened, ended.t - SPEAKS, ended.t):
                self.findings.add(
                    f"node {opened.node} ended without a record of the frames that it took from node {opened.peer} in "
                    f"session {opened.session}",
                    [opened, ended],
                )


class Sanity(Checker):
    """LADIS 2008, section 2: sanity checks abort the server when something happens that should be impossible.

    Verifies that no node ended because one of its own checks failed, or because of an error that its code does not handle. The
    simulator ends a node that computes without end by such an error. Does not verify anything that the nodes do not check.
    """

    name = "sanity"
    source = "LADIS 2008"
    statement = "No sanity check of a node fails."
    rests_on_absence = False

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._aborted: set[tuple[int, int]] = set()

    def on_boot(self, _event: object) -> None:
        self.checked += 1

    def on_abort(self, event: Abort) -> None:
        self._aborted.add((event.node, event.life))
        self.findings.add(f"node {event.node} stopped itself: {event.why}", [event])

    def on_exit(self, event: Exit) -> None:
        if event.code == 70 and (event.node, event.life) not in self._aborted:
            self.findings.add(f"node {event.node} ended with code 70 (a failed sanity check): {event.why}", [event])
