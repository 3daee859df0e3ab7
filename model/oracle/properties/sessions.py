"""The checkers of ZooKeeper's promises about sessions and ephemeral znodes (programmer's guide).

They judge by sessions.jsonl, which has the answers to clients with sessions, in the order in which their connections
carried them, and by the servers' logs, which show at which zxid each session ended, and the changes of each znode.
"""

from collections import Counter, deque
from collections.abc import Iterator
from typing import TypeVar

from zab_chaos.model.events import (
    DeleteAcknowledged,
    DiskAfterLife,
    Effect,
    EphemeralCreated,
    ReadAnswered,
    RequestRefused,
    SessionBegan,
    SessionEndLogged,
    SessionOver,
    SetAcknowledged,
    SetWatchesAnswered,
    SyncAnswered,
    WriteSent,
    ZxidPair,
    packed,
)
from zab_chaos.model.oracle.evidence import node_names, show
from zab_chaos.model.oracle.facts import Facts
from zab_chaos.model.oracle.properties.checker import Checker
from zab_chaos.model.oracle.spans import FOREVER, SECOND
from zab_chaos.model.oracle.znodes import NO_NODE, NODE_EXISTS, is_sequential_name, parent_of, without_number

GUIDE = "ZooKeeper programmer's guide"
# Or five times its timeout, if that is longer: at the end the test clients wait for four times that.
ENDS_WITHIN = 10 * SECOND
WriteAcknowledged = EphemeralCreated | SetAcknowledged | DeleteAcknowledged
Answer = ReadAnswered | WriteAcknowledged | RequestRefused | SetWatchesAnswered | SyncAnswered
_Answer = TypeVar("_Answer", bound=Answer)
Write = tuple[int, str, str, int | None]  # client, op, path, value


class Sessions(Checker):
    """ZooKeeper programmer's guide, "Consistency Guarantees": sequential consistency, and a single system image.

    Verifies:

    - No two sessions have the same number.
    - The zxids of the answers to a session never go back, even at another server.
    - A read shows the znode's last change up to the zxid of the answer, its creation, version, owner and data, as the
      delivered history has them. A list shows the children likewise.
    - The history has each acknowledged create, set and delete at the zxid of the answer, by that session.
    - The number of a sequential znode is the number of children that its parent had been given before.
    - Whatever a session did was requested by its client, and is done once, in the order of the requests, also over several
      servers; except the deletions at its end.
    - A request that was refused because of the state was refused in such a state.
    - A session writes nothing after its end.
    - No session ends by a request if its client was told that it had expired, or was to fall silent.
    - A session that is over for its client has ended in the history within `ENDS_WITHIN` or five times its timeout, whichever
      is longer, or that long after the last leader was established.

    Does not verify what a run that has not converged may have delivered beyond its records, nor what sessions did that no
    client on record opened, nor that a session that ends by itself was silent.
    """

    name = "sessions"
    source = GUIDE
    statement = (
        "A session is shown what is true at the zxid of the answer, and never an older state, at whichever server. What it is "
        "told that it made is there, and it does what it was asked for, once, and nothing after its end."
    )

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._began: dict[int, SessionBegan] = {}  # by session
        self._latest: dict[int, Answer] = {}  # by client: the latest answer to its session
        self._disks_read = 0  # the last time that a server's log was read

    def on_left(self, event: DiskAfterLife) -> None:
        self._disks_read = max(self._disks_read, event.t)

    def on_began(self, line: SessionBegan) -> None:
        self.checked += 1
        self._latest.pop(line.client, None)
        first = self._began.setdefault(line.session, line)
        if first is not line:
            self.findings.add(f"session {line.session:#x} began a second time", [first, line])

    def on_wrote(self, line: SetAcknowledged) -> None:
        if line.changed not in (None, line.zxid):
            self.findings.add(
                f"session {line.session:#x} was told that it wrote {line.path} at {show(line.zxid)}, and that the last change "
                f"was at {show(line.changed)}",
                [line],
            )
        self._check_order(line)

    def on_look(self, line: ReadAnswered) -> None:
        if not line.last:
            self._check_order(line)

    def _check_order(self, line: Answer) -> None:
        """Check that the zxid of an answer does not go back."""
        before = self._latest.get(line.client)
        if before is not None and packed(line.zxid) < packed(before.zxid):
            self.findings.add(
                f"client {line.client} was told {show(line.zxid)}, after its session had been told {show(before.zxid)}",
                [before, line],
            )
        else:
            self._latest[line.client] = line

    on_made = on_removed = on_refused = on_stand = on_synced = _check_order

    def at_end(self) -> None:
        lines = self.facts.session_lines
        self._sent: dict[Write, WriteSent] = {
            (it.client, it.op, it.path, it.value): it for it in lines if isinstance(it, WriteSent)
        }
        self._ended = {it.session: it for it in lines if isinstance(it, SessionEndLogged)}
        self._over = {it.session: it for it in lines if isinstance(it, SessionOver)}
        lists: dict[str, list[ReadAnswered]] = {}
        for look in self._in_history([it for it in lines if isinstance(it, ReadAnswered)]):
            self._check_read(look)
            if look.children is not None:
                lists.setdefault(look.path, []).append(look)
        for path, looks in lists.items():
            self._check_children(path, looks)
        for done in self._in_history([it for it in lines if isinstance(it, WriteAcknowledged)]):
            self._check_done(done)
        for refused in self._in_history([it for it in lines if isinstance(it, RequestRefused)]):
            self._check_refusal(refused)
        if self._sent:
            self._check_writes_requested()
        if self._ended:
            self._check_writes_after_end()
            self._check_end_requested()
        if self.facts.changes.known_upto == FOREVER:
            self._check_all_ended()

    def _in_history(self, lines: list[_Answer]) -> Iterator[_Answer]:
        """Return the answers at zxids up to which the history is known."""
        upto = self.facts.changes.known_upto
        return (line for line in lines if packed(line.zxid) <= upto)

    def _check_end_requested(self) -> None:
        """Report sessions that were closed by a request their client never sent."""
        for ended in self._ended.values():
            over = self._over.get(ended.session)
            if ended.asked and over is not None and over.why != "closed":
                self.findings.add(
                    f"session {ended.session:#x} ended at {show(ended.zxid)}, by a request that its client has not made",
                    [over, ended],
                )

    def _check_all_ended(self) -> None:
        """Report sessions that the servers keep although they are over for their clients."""
        led = max((event.t for event in self.facts.established), default=FOREVER)
        for session, over in self._over.items():
            began = self._began.get(session)
            within = max(ENDS_WITHIN, 5 * began.timeout * SECOND // 1000) if began is not None else ENDS_WITHIN
            if session not in self._ended and max(over.t, led) + within < self._disks_read:
                self.findings.add(
                    f"session {session:#x} was over for client {over.client} ({over.why}), and no log has ended it",
                    [over],
                )

    def _check_read(self, look: ReadAnswered) -> None:
        self.checked += 1
        last = self.facts.changes.last_change(look.path, packed(look.zxid))
        right = last.zxid if last is not None else None
        saw, was = state(look.changed), state(right)
        if saw == was and last is not None and look.created is not None:
            saw += f", created at {show(look.created)}, at version {look.version}"
            was += f", created at {show(last.created)}, at version {last.version}"
        if saw == was and last is not None and look.value not in (None, last.value):
            saw += ", with other data"
        maker = self.facts.effects.txn_at(last.created) if last is not None and look.owner else None
        if maker is not None and maker[0] != look.owner:
            saw += f", as session {look.owner:#x}'s"
        if saw != was:
            self.findings.add(
                f"client {look.client} looked at {look.path} at {node_names([look.node])}, at {show(look.zxid)}, and saw "
                f"{saw}; right was {was}",
                [look, self.facts.effects.broadcast(right) if right is not None else None],
            )

    def _check_children(self, path: str, looks: list[ReadAnswered]) -> None:
        """Check each list of a znode's children. A change of the list adds or removes one child; its creation empties it."""
        expected: set[str] = set()
        changes = deque(self.facts.changes.of(path))
        for look in sorted(looks, key=lambda look: packed(look.zxid)):
            self.checked += 1
            while changes and changes[0].zxid <= packed(look.zxid):
                child = changes.popleft().child
                expected = expected ^ {child} if child is not None else set()
            if sorted(look.children or ()) != sorted(expected):
                wrong = ", ".join(sorted(expected ^ set(look.children or ()))) or "one of them twice"
                self.findings.add(
                    f"client {look.client} was shown other children in {path} by {node_names([look.node])} than it has at "
                    f"{show(look.zxid)}: {wrong}",
                    [look],
                )

    def _check_done(self, line: WriteAcknowledged) -> None:
        """Check that the history has an acknowledged write."""
        self.checked += 1
        txn = self.facts.effects.txn_at(packed(line.zxid))
        done: tuple[object, ...]
        if isinstance(line, SetAcknowledged):
            verb, done = "wrote", ("set", line.path, line.version, line.value)
        elif isinstance(line, DeleteAcknowledged):
            verb, done = "deleted", ("delete", line.path)
        else:
            verb, done = "made", ("create", line.path)
        if txn is None or txn[0] != line.session or done not in [step[: len(done)] for step in txn[2]]:
            self.findings.add(
                f"session {line.session:#x} was told that it {verb} {line.path} at {show(line.zxid)}, and the history does "
                "not have that there",
                [line, self.facts.effects.broadcast(packed(line.zxid))],
            )

    def _check_writes_requested(self) -> None:
        """Report what a session did without a request, a second time, out of order or with a wrong number. The deletions at
        its end need no request."""
        done: dict[Write, int] = {}
        children: Counter[str] = Counter()  # by parent: how many it has been given
        # By session: of the requests that were carried out, the one that was made last.
        latest: dict[int, WriteSent] = {}
        for zxid, (session, _, steps) in self.facts.effects.known_txns():
            given = [(step, _count_child(children, step)) for step in steps]
            began, ended = self._began.get(session), self._ended.get(session)
            if (
                began is None
                or zxid > self.facts.changes.known_upto
                or (ended is not None and zxid == packed(ended.zxid))
            ):
                continue
            for (op, path, _, value), number in given:
                self.checked += 1
                sent = self._request(began.client, op, path, value)
                first = done.setdefault((began.client, op, sent.path if sent is not None else path, value), zxid)
                last = latest.get(session)
                if sent is None:
                    wrong = f"and client {began.client} had not asked for it"
                elif first != zxid:
                    wrong = f"which it had done at {show(first)} already, and client {began.client} had asked for once"
                elif last is not None and sent.t < last.t:
                    at = show(done[began.client, last.op, last.path, last.value])
                    wrong = (
                        f"after the {last.op} of {last.path} at {at}, which client {began.client} had asked for later"
                    )
                elif sent.sequential and int(path.removeprefix(sent.path)) != number:
                    wrong = f"where number {number} was next"
                else:
                    latest[session] = sent
                    continue
                self.findings.add(
                    f"session {session:#x} did a {op} of {path} at {show(zxid)}, {wrong}",
                    [sent or began, self.facts.effects.broadcast(zxid)],
                )

    def _request(self, client: int, op: str, path: str, value: int | None) -> WriteSent | None:
        """Return the request for a step of a transaction, None if there is none."""
        sent = self._sent.get((client, op, path, value))
        if sent is None and op == "create":
            sent = self._sent.get((client, op, without_number(path), value))
        sequential = sent is not None and is_sequential_name(path, sent.path)
        return sent if sent is not None and sent.sequential == sequential else None

    def _check_refusal(self, refused: RequestRefused) -> None:
        """Check that a refusal was true in its state. No request of such a client depends on a version or on children."""
        self.checked += 1
        zxid = packed(refused.zxid)
        was, now = (self.facts.changes.last_change_zxid(refused.path, at) for at in (zxid - 1, zxid))
        right = {NO_NODE: now is None, NODE_EXISTS: was is not None}
        if not right.get(refused.error, False):
            self.findings.add(
                f"client {refused.client} was refused {refused.path}, at {show(refused.zxid)}, as {refused.error!r}; right was "
                f"{state(now)}",
                [refused, self.facts.effects.broadcast(zxid)],
            )

    def _check_writes_after_end(self) -> None:
        for zxid, (session, _, steps) in self.facts.effects.known_txns():
            ended = self._ended.get(session)
            if ended is not None and steps and zxid > packed(ended.zxid):
                self.findings.add(
                    f"session {session:#x} wrote {show(zxid)}, and had ended at {show(ended.zxid)}",
                    [ended, self.facts.effects.broadcast(zxid)],
                )


class Ephemerals(Checker):
    """ZooKeeper programmer's guide, "Ephemeral Nodes": they exist as long as the session that created them is active.

    Verifies for every read of an ephemeral znode, at whichever server, that the znode exists from the zxid of its creation
    to the zxid at which its session ended, or its client has deleted it, and neither before nor after; that the history
    deletes it there; and that no server has one at the end whose client had closed its session, or had been silent for much
    longer than the session's timeout. Does not verify how soon a silent session ends.
    """

    name = "ephemerals"
    source = GUIDE
    statement = "An ephemeral znode is there as long as the session that made it, at every server alike, and no longer."

    def at_end(self) -> None:
        lines = self.facts.session_lines
        self._created = {it.path: it for it in lines if isinstance(it, EphemeralCreated)}
        self._deletes = {(it.client, it.path) for it in lines if isinstance(it, WriteSent) and it.op == "delete"}
        self._ended = {it.session: it for it in reversed(lines) if isinstance(it, SessionEndLogged)}  # the first counts
        self._over = {it.session: it for it in lines if isinstance(it, SessionOver)}
        for look in (it for it in lines if isinstance(it, ReadAnswered)):
            if look.changed is not None and (look.owner or look.path in self._created):
                self._check_present(look)
            elif look.changed is None and look.path in self._created:
                self._check_absent(look, self._created[look.path])
        for made in self._created.values():
            if self.facts.changes.last_change_zxid(made.path, packed(made.zxid)) == packed(made.zxid):
                self._check_deletion(made)

    def _check_present(self, look: ReadAnswered) -> None:
        """Check a read that shows the znode: its session created it, and has not ended."""
        self.checked += 1
        owner = look.owner or 0
        made, ended, over = self._created.get(look.path), self._ended.get(owner), self._over.get(owner)
        where = f"{look.path} is there at {node_names([look.node])}, at {show(look.zxid)}"
        if made is not None and made.session != owner:
            whose = f"session {owner:#x}'s" if owner else "one that is not ephemeral"
            self.findings.add(f"{where}, as {whose}; session {made.session:#x} has made it", [made, look])
        elif ended is not None and packed(look.zxid) >= packed(ended.zxid):
            self.findings.add(f"{where}, although its session {owner:#x} ended at {show(ended.zxid)}", [ended, look])
        elif made is not None and (deleted := self._deletion(made)) is not None and packed(look.zxid) >= deleted:
            self.findings.add(
                f"{where}, although its client deleted it at {show(deleted)}",
                [made, self.facts.effects.broadcast(deleted), look],
            )
        elif look.last and over is not None:
            self.findings.add(f"{where}, in the end, although its client's session {owner:#x} was over", [over, look])

    def _check_absent(self, look: ReadAnswered, made: EphemeralCreated) -> None:
        """Check a read that does not show the znode: it was not created yet, was deleted, or its session has ended."""
        self.checked += 1
        ended, at = self._ended.get(made.session), packed(look.zxid)
        if packed(made.zxid) <= at < self._end(made):
            why = f"which ended at {show(ended.zxid)}" if ended is not None else "which no log has ended"
            self.findings.add(
                f"{look.path} is gone at {node_names([look.node])}, at {show(look.zxid)}; it was made at {show(made.zxid)} by "
                f"session {made.session:#x}, {why}",
                [made, look, ended],
            )

    def _check_deletion(self, made: EphemeralCreated) -> None:
        """Check that the history deletes the znode where its session ends, unless its client has deleted it before."""
        change, ended = self.facts.changes.next_change(made.path, packed(made.zxid)), self._ended.get(made.session)
        end = self._end(made)
        gone = change.zxid if change is not None else FOREVER
        if gone != end and min(gone, end) <= self.facts.history.last:
            self.checked += 1
            went, over = (f"at {show(at)}" if at != FOREVER else "never" for at in (gone, end))
            self.findings.add(
                f"{made.path} was made at {show(made.zxid)} by session {made.session:#x}, which ended {over}; it went {went}",
                [made, ended, self.facts.effects.broadcast(min(gone, end))],
            )

    def _end(self, made: EphemeralCreated) -> int:
        """Return the zxid from which on the znode must be gone."""
        ended = self._ended.get(made.session)
        return min(packed(ended.zxid) if ended is not None else FOREVER, self._deletion(made) or FOREVER)

    def _deletion(self, made: EphemeralCreated) -> int | None:
        """Return the zxid at which the history deletes the znode, if its client had asked for that."""
        if (made.client, made.path) not in self._deletes:
            return None
        change = self.facts.changes.next_change(made.path, packed(made.zxid))
        return change.zxid if change is not None and change.op == "delete" else None


def state(changed: int | ZxidPair | None) -> str:
    """Describe what a read shows of a znode: the zxid of its last change, or that the znode does not exist."""
    return "that there is none" if changed is None else f"the state of {show(changed)}"


def _count_child(children: Counter[str], step: Effect) -> int:
    """Return how many children the parent of a step's znode had been given before; count the one that a create gives it."""
    op, path, *_ = step
    parent = parent_of(path)
    before = children[parent]
    if op == "create":
        children[parent] += 1
        children[path] = 0
    return before
