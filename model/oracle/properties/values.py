"""What the delivered transactions add up to, and what clients were shown of it (LADIS 2008, section 1)."""

from bisect import bisect_left
from collections.abc import Sequence

from zab_chaos.model.events import LOGS, TRACES, Complete, Effect, Invoke, Line
from zab_chaos.model.oracle.effects import Effects
from zab_chaos.model.oracle.evidence import show
from zab_chaos.model.oracle.facts import READS, Request
from zab_chaos.model.oracle.properties.checker import Checker
from zab_chaos.model.oracle.service import ServiceTimes
from zab_chaos.model.oracle.znodes import (
    NO_NODE,
    STATE_ERRORS,
    RequestedStep,
    Znode,
    Znodes,
    is_impossible,
    is_ordinary,
)
from zab_chaos.node.tree.refusal import BAD_PATH, BAD_REQUEST, NO_LEADER, TOO_LARGE

COUNTER = 0xFFFFFFFF  # the part of a zxid that is not its epoch


class ValuesAndVersions(Checker):
    """LADIS 2008: transactions are prepared on the state that they are applied to, and clients are shown that state.

    Verifies, by applying the delivered transactions in the history's order to an empty tree: a znode is created once, at
    version 0, below a parent; each set raises its version by one; what is set, deleted or checked exists, and at the
    version that was its condition; what is deleted has no children; a sequential name has its parent's count of
    creations; the steps of a multi hold one after the other. A read, and a refusal for a reason of the state, must be
    true at exactly the zxid that it names (one that names none rests on a state before the first transaction), which the
    answering node must have delivered; a node that has just started answers nothing before it has joined a leader, and from
    then on nothing older than what that leader had delivered; no path of letters, digits and "-._" (that of a sequential
    znode with its number) is refused as a bad one, no request with such paths as a bad one, and no read as too large; and no
    write with a path that can't be one is refused for a reason of the state. Nothing is refused for want of a leader
    by a node that was in broadcast from before it was asked until it had answered. And what was acknowledged before another
    write was invoked has the lower zxid, and one that is refused was judged no earlier than that. Does not verify refusals
    for other reasons, nor that a read is up to date (a node may be behind), nor contents beyond their CRC-32; and it judges
    nothing behind a transaction of which no `broadcast` says what it does.
    """

    name = "values and versions"
    source = "LADIS 2008"
    statement = (
        "The delivered transactions are consistent with one another. Reads and refusals are true at their zxid; those of a "
        "node that has just started are no older than what its first leader had. Writes that were acknowledged or refused "
        "keep their order in time."
    )

    def at_end(self) -> None:
        effects = self.facts.effects
        if not effects.recorded:
            self.not_applicable = "the broadcasts do not say what their transactions do"
            return
        self._refused_in_time()
        self._service = ServiceTimes(self.facts)
        self._state = Znodes()
        answers = self._answers()
        answers.append((2**64, None))
        latest: Invoke | None = None  # the last invoked of the writes so far
        place = self._look(answers, 0, 0)
        for zxid, txn in zip(self.facts.history.zxids, effects.txns, strict=True):
            if txn is None:
                self.unknown.append(
                    f"values and versions can't be judged from {show(zxid)} on: nothing says what it does"
                )
                return
            request = self.facts.requests.get((txn[0], txn[1]))
            if zxid not in effects.fences:
                self._transaction(zxid, txn[2], request)
                latest = self._in_time(zxid, request, latest)
            if answers[place][0] <= zxid:
                place = self._look(answers, place, zxid)
        self._look(answers, place, 2**64 - 1)

    # ---- transactions ----

    def _transaction(self, zxid: int, steps: Sequence[Effect], request: Request | None) -> None:
        self.checked += 1
        state = self._state
        asked: Sequence[RequestedStep | None] = request.invoke.requested_steps if request is not None else ()
        if len(asked) != len(steps):
            asked = [None] * len(steps)
        for step, asked_step in zip(steps, asked, strict=True):
            flaw = state.flaw(step, asked_step)
            if flaw is not None:
                self._flawed(zxid, step, request, flaw)
            state.apply(zxid, step)

    def _flawed(self, zxid: int, step: Effect, request: Request | None, flaw: str) -> None:
        before = self._state.by_path.get(step[1])
        self.findings.add(
            f"{show(zxid)} {flaw}",
            [
                self._effects.broadcast(before.changed_zxid)
                if before is not None and before.changed_zxid != zxid
                else None,
                request.invoke if request is not None else None,
                self._effects.broadcast(zxid),
            ],
        )

    def _in_time(self, zxid: int, request: Request | None, latest: Invoke | None) -> Invoke | None:
        """Whatever has a lower zxid was invoked before this write was acknowledged."""
        if request is None:
            return latest
        invoke, complete = request.invoke, request.complete
        if latest is not None and complete is not None and complete.outcome == "ok" and complete.t < latest.t:
            self.findings.add(
                f"the write of client {invoke.client}, seq {invoke.seq}, was acknowledged before that of client "
                f"{latest.client}, seq {latest.seq}, was invoked, and has the higher zxid, {show(zxid)}",
                [invoke, complete, latest, self._effects.broadcast(zxid)],
            )
        return invoke if latest is None or invoke.t > latest.t else latest

    def _refused_in_time(self) -> None:
        """Whatever was acknowledged before a write was invoked is in the state that refuses it."""
        acked: list[tuple[int, int, Request]] = [
            (it.complete.t, it.zxid, it)
            for it in self.facts.requests.values()
            if it.complete and it.complete.outcome == "ok" and it.zxid is not None and it.invoke.op not in READS
        ]
        acked.sort(key=lambda write: write[0])
        times = [t for t, _, _ in acked]
        highest: list[tuple[int, Request]] = []  # of the writes acknowledged up to then
        for _, zxid, write in acked:
            highest.append((zxid, write) if not highest or zxid > highest[-1][0] else highest[-1])
        for request in self.facts.requests.values():
            invoke, complete, judged = request.invoke, request.complete, request.zxid
            if complete is None or judged is None or invoke.op in READS or complete.error not in STATE_ERRORS:
                continue
            before = bisect_left(times, invoke.t)
            if before and highest[before - 1][0] > judged:
                known, of = highest[before - 1]
                self.findings.add(
                    f"the write of client {invoke.client}, seq {invoke.seq}, was refused ({complete.error}) in the light of "
                    f"{show(judged)}, and {show(known)} had been acknowledged to client {of.invoke.client} before it was "
                    "invoked",
                    [of.complete, invoke, complete],
                )

    # ---- answers ----

    def _answers(self) -> list[tuple[int, Request | None]]:
        """The reads and the refusals that name a state, by the zxid at which they must be true."""
        found: list[tuple[int, Request | None]] = []
        for request in self.facts.requests.values():
            complete = request.complete
            if complete is None or complete.outcome == "unknown":
                continue
            if self._is_baseless(request, complete):
                self._wrong(request, f"is {complete.error!r}, and nothing in it is wrong")
            if complete.error == NO_LEADER and self._service.lasted(request.invoke, complete):
                self._wrong(request, f"is {complete.error!r}, and node {complete.node} had one all the time")
            read = request.invoke.op in READS
            if not read and self._tells_of_a_state(request, complete):
                self._wrong(request, f"is {complete.error!r}, and whatever the state, a path in it is wrong")
            if self._names_a_state(request, complete):
                found.append((self._point(request.zxid or 0), request))
        found.sort(key=lambda answer: answer[0])
        return found

    def _names_a_state(self, request: Request, complete: Complete) -> bool:
        """Whether it is a read, or a refusal with a zxid. What ZooKeeper's servers name when the state is not the reason is
        theirs. Acknowledged writes are judged elsewhere (exactly once)."""
        if complete.outcome == "ok":
            return request.invoke.op in READS
        return complete.error in STATE_ERRORS or (self.facts.run.evidence == TRACES and request.zxid is not None)

    def _is_baseless(self, request: Request, complete: Complete) -> bool:
        """Whether a request with nothing strange in it is refused for how it is written, or a read for its size. ZooKeeper has
        more reasons to."""
        asked, traced = request.invoke.requested_steps, self.facts.run.evidence == TRACES
        if complete.error == TOO_LARGE:
            return traced and request.invoke.op in READS
        bad = complete.error == BAD_REQUEST and traced and len(asked) > 0
        return (bad or complete.error == BAD_PATH) and all(map(is_ordinary, asked))

    def _tells_of_a_state(self, request: Request, complete: Complete) -> bool:
        """Whether a write that no state would do is refused for a reason of the state. Then "bad path", which is not ordered,
        tells of a state, too: that nothing else was wrong. ZooKeeper's servers judge step by step."""
        if self.facts.run.evidence != TRACES or complete.error not in STATE_ERRORS:
            return False
        return any(is_impossible(step) for step in request.invoke.requested_steps)

    def _point(self, zxid: int) -> int:
        """Where the history stands at the zxid that an answer names. Before the first transaction of an epoch ZooKeeper's
        servers name e:0, which is none: everything before that epoch is meant."""
        if self.facts.run.evidence != LOGS or not zxid or zxid & COUNTER:
            return zxid
        zxids = self.facts.history.zxids
        before = bisect_left(zxids, zxid)
        return zxids[before - 1] if before else 0

    def _look(self, answers: Sequence[tuple[int, Request | None]], place: int, zxid: int) -> int:
        """Judge the answers up to `zxid`, where the state is now; the place of the first one after it."""
        while place < len(answers) and answers[place][0] <= zxid:
            at, request = answers[place]
            place += 1
            if request is not None:
                self._answer(at, request, here=at == zxid)
        return place

    def _answer(self, zxid: int, request: Request, *, here: bool) -> None:
        self.checked += 1
        invoke, complete = request.invoke, request.complete
        assert complete is not None
        if not here:
            self._wrong(request, f"names {show(zxid)}, which no node has delivered")
            return
        node = self.facts.nodes.get(complete.node or 0)
        if zxid and (node is None or not node.had_delivered(zxid, complete.t)):
            self._wrong(request, f"names {show(zxid)}, which node {complete.node} had not delivered yet")
        elif (early := self._too_early(zxid, request.invoke, complete)) is not None:
            self._wrong(request, early)
        elif complete.outcome == "failed" and complete.error not in STATE_ERRORS:
            return
        elif invoke.op in READS:
            self._read(zxid, request, complete)
        elif (error := self._state.expected_error(invoke.requested_steps)) != complete.error:
            right = f"{error!r} was right" if error else "nothing was wrong with it"
            self._wrong(request, f"is {complete.error!r}, but at {show(zxid)} {right}")

    def _too_early(self, zxid: int, invoke: Invoke, complete: Complete) -> str | None:
        """Why the node that answered had nothing to show yet at `zxid`, in words. Nothing is known of it but of our own."""
        if self.facts.run.evidence != TRACES:
            return None
        least = self._service.least(invoke, complete)
        if least is None:
            return f"names {show(zxid)}, and node {complete.node} had not joined a leader yet since its start"
        if zxid < least:
            return f"names {show(zxid)}, and when node {complete.node} started, its first leader had delivered {show(least)}"
        return None

    def _read(self, zxid: int, request: Request, complete: Complete) -> None:
        op, path = request.invoke.op, request.invoke.path
        znode = self._state.by_path.get(path)
        if znode is None:
            if op == "exists" and complete.error is not None:
                self._wrong(request, f"is {complete.error!r}, though it asks just that")
            elif complete.version is not None or (op != "exists" and complete.error != NO_NODE):
                self._wrong(request, f"shows {path}, which does not exist at {show(zxid)}")
        elif complete.error is not None:
            self._wrong(request, f"is {complete.error!r}, but {path} exists at {show(zxid)}")
        elif complete.version != znode.version:
            self._wrong(request, f"shows {path} at version {complete.version}, but {show(zxid)} has {znode.version}")
        elif op == "get" and complete.value != znode.value:
            self._wrong(request, f"shows another value of {path}, version {znode.version}, than {show(zxid)} has")
        elif op == "children" and not _lists(complete, znode):
            self._wrong(request, f"lists children of {path} that are not those at {show(zxid)}")

    def _wrong(self, request: Request, words: str) -> None:
        invoke = request.invoke
        lines: list[Line | None] = [invoke, request.complete]
        znode = self._state.by_path.get(invoke.path)
        if znode is not None and znode.changed_zxid:
            lines.insert(0, self._effects.broadcast(znode.changed_zxid))
        self.findings.add(f"the answer to client {invoke.client}, seq {invoke.seq} ({invoke.op}), {words}", lines)

    @property
    def _effects(self) -> Effects:
        return self.facts.effects


def _lists(complete: Complete, znode: Znode) -> bool:
    told = complete.children or []
    return len(told) == len(znode.children) and znode.children == set(told)
