"""Bugs in the execution of clients' requests, and in the answers to them."""

from collections.abc import Iterable

import msgspec

from zab_chaos.node.clients.application import Application
from zab_chaos.node.clients.session import ClientSession, PendingRequest
from zab_chaos.node.clients.sessions import FORWARD_BYTES, ClientSessions, ForwardedWrite
from zab_chaos.node.core.digest import Hash
from zab_chaos.node.core.peer import Peer
from zab_chaos.node.core.zxid import Zxid
from zab_chaos.node.tree.forwarding import Forward
from zab_chaos.node.tree.outcomes import Failed, Ok, Outcome, outcome_of
from zab_chaos.node.tree.primary import FutureZnode, Primary
from zab_chaos.node.tree.refusal import Refusal
from zab_chaos.node.tree.requests import ANY, Check, Children, ForwardedRequest, Get, Read, Set
from zab_chaos.node.tree.seqs import NO_SEQ
from zab_chaos.node.tree.tree import Tree
from zab_chaos.node.tree.txns import CheckTxn, Origin, SetTxn, Txn, decode


class StalePrimary(Application):
    """A new primary prepares writes at once, although its tree does not have the whole initial history yet."""

    def may_prepare(self, machine: Peer) -> bool:
        return True


class ForgetfulPrimary(Primary):
    """The primary does not check a write's sequence number against the latest one of its client."""

    def latest(self, client: int) -> int:
        return NO_SEQ


class TrustingPrimary(Primary):
    """The primary takes a client that it does not know for a new one."""

    def _may_be_forgotten(self, client: int, since: Zxid) -> bool:
        return False


class UnfencedSessions(ClientSessions):
    """A node serves a session at once, although the outcome of some of its writes is unknown."""

    def _fenced(self, session: ClientSession) -> bool:
        return True


class ExecutedTwice(Application):
    """The leader executes forwarded writes twice, as if the frame had been sent again."""

    def on_forward(self, source: int, message: Forward, machine: Peer) -> None:
        super().on_forward(source, message, machine)
        super().on_forward(source, message, machine)


class WrongValueRead(Tree):
    """A get returns the value before the last set, with the version after it."""

    def __init__(self, hash_bytes: Hash, clients_max: int) -> None:
        super().__init__(hash_bytes, clients_max)
        self._before: dict[str, bytes] = {}

    def perform(self, zxid: Zxid, txn: Txn) -> None:
        change = txn.change
        if isinstance(change, SetTxn) and change.path in self.znodes:
            self._before[change.path] = self.znodes[change.path].data
        super().perform(zxid, txn)

    def read(self, request: Read) -> Ok | Failed:
        outcome = super().read(request)
        if isinstance(request, Get) and isinstance(outcome, Ok) and request.path in self._before:
            return msgspec.structs.replace(outcome, data=self._before[request.path])
        return outcome


class DirtyTree(Tree):
    """Reads return uncommitted sets that were prepared on this node (`uncommitted`)."""

    def __init__(self, hash_bytes: Hash, clients_max: int) -> None:
        super().__init__(hash_bytes, clients_max)
        self.uncommitted: dict[str, SetTxn] = {}

    def perform(self, zxid: Zxid, txn: Txn) -> None:
        super().perform(zxid, txn)
        if isinstance(txn.change, SetTxn) and self.uncommitted.get(txn.change.path) == txn.change:
            del self.uncommitted[txn.change.path]

    def read(self, request: Read) -> Ok | Failed:
        outcome, uncommitted = super().read(request), self.uncommitted.get(request.path)
        if isinstance(request, Get) and isinstance(outcome, Ok) and uncommitted is not None:
            return msgspec.structs.replace(outcome, data=uncommitted.data, version=uncommitted.version)
        return outcome


class DirtyPrimary(Primary):
    """Gives its tree the sets that it has prepared."""

    def prepare(self, request: ForwardedRequest, origin: Origin, since: Zxid, zxid: Zxid) -> bytes | Refusal:
        data = super().prepare(request, origin, since, zxid)
        if isinstance(data, bytes) and isinstance(self._tree, DirtyTree):
            change = decode(data).change
            if isinstance(change, SetTxn):
                self._tree.uncommitted[change.path] = change
        return data

    def reset(self) -> None:
        super().reset()
        if isinstance(self._tree, DirtyTree):
            self._tree.uncommitted.clear()


class StaleChildren(Tree):
    """The list of a znode's children is cached at the first read, and never updated."""

    def __init__(self, hash_bytes: Hash, clients_max: int) -> None:
        super().__init__(hash_bytes, clients_max)
        self._lists: dict[str, list[str]] = {}

    def read(self, request: Read) -> Ok | Failed:
        outcome = super().read(request)
        if isinstance(request, Children) and isinstance(outcome, Ok) and outcome.children is not None:
            children = self._lists.setdefault(request.path, outcome.children)
            return msgspec.structs.replace(outcome, children=children)
        return outcome


class ConditionIgnored(Primary):
    """The primary does not compare the version that a set or a check requires."""

    def _set(self, step: Set, draft: dict[str, FutureZnode]) -> SetTxn | Refusal:
        return super()._set(msgspec.structs.replace(step, version=ANY), draft)

    def _check(self, step: Check, draft: dict[str, FutureZnode]) -> CheckTxn | Refusal:
        return super()._check(msgspec.structs.replace(step, version=ANY), draft)


class UnorderedRefusals(Application):
    """The primary refuses writes by its own state at once, without a transaction that a quorum would have to accept."""

    fenced_errors = frozenset()


class LateRefusals(ClientSessions):
    """Refusals are answered after the whole batch was applied: a read behind one shows more than the next one is based on."""

    def _answer_refusals(self, zxid: int) -> None:
        self._refused.pop(zxid, None)


class WrongVersionTold(ClientSessions):
    """The answer to a set contains the version before it."""

    def _settle(self, session: ClientSession, entry: PendingRequest, outcome: Outcome) -> None:
        if isinstance(entry.request, Set) and isinstance(outcome, Ok) and outcome.version:
            outcome = msgspec.structs.replace(outcome, version=outcome.version - 1)
        super()._settle(session, entry, outcome)


class FailedTakesEffect(ClientSessions):
    """A write that was refused for lack of a leader is kept nevertheless, and forwarded to the next leader."""

    def __init__(self, node: int, life: int, tree: Tree, waiting: int, *, request_bytes: int) -> None:
        super().__init__(node, life, tree, waiting, request_bytes=request_bytes)
        self._kept: list[ForwardedWrite] = []

    def _fail(self, session: ClientSession, entries: Iterable[PendingRequest], words: str) -> None:
        open_ = [each for each in entries if each.outcome is None and not each.forwarded]
        self._kept += [
            (session.client, each.seq, session.since, each.request)
            for each in open_
            if not isinstance(each.request, Read)
        ]
        super()._fail(session, open_, words)

    def writes(self, size: int = FORWARD_BYTES) -> list[ForwardedWrite]:
        kept, self._kept = self._kept, []
        return kept + super().writes(size)


class AnswerBeforeDelivery(Application):
    """The primary confirms writes of its own clients when they are prepared."""

    def forward_writes(self, machine: Peer) -> tuple[Forward | None, list[bytes]]:
        forward, txns = super().forward_writes(machine)
        zxid = machine.primary.submitted + 1 if machine.primary is not None else 0
        for number, data in enumerate(txns):
            txn = decode(data)
            session = self.sessions._sessions.get(txn.origin.client)
            entry = session.open_writes.get(txn.origin.seq) if session else None
            if session is not None and entry is not None and txn.origin.node == self._node:
                self.sessions._settle(session, entry, outcome_of(Zxid(zxid + number), txn.change))
                self.sessions._advance(session)
        return forward, txns
