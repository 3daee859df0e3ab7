"""The primary's view: it judges conditional requests by the future state and turns them into idempotent transactions.

"The leader can perform the transformation because it has a perfect view of the future state" (LADIS 2008, section 1): the
delivered state with all outstanding transactions on top. `Primary` holds only the difference, a `FutureZnode` for each path
that an outstanding transaction touches.
"""

from collections import deque

import msgspec

from zab_chaos.node.core.zxid import Zxid
from zab_chaos.node.tree.paths import ROOT, parent_of, path_error
from zab_chaos.node.tree.refusal import (
    BAD_PATH,
    BAD_REQUEST,
    NO_PARENT,
    NODE_EXISTS,
    NOT_EMPTY,
    Refusal,
    bad_version,
    forgotten_client,
    no_node,
    superseded,
    too_large,
)
from zab_chaos.node.tree.requests import (
    ANY,
    Check,
    Create,
    Delete,
    Fence,
    ForwardedRequest,
    Multi,
    Set,
    Step,
    Write,
    request_size,
)
from zab_chaos.node.tree.seqs import NO_SEQ, Seqs
from zab_chaos.node.tree.tree import Tree
from zab_chaos.node.tree.txns import (
    Change,
    CheckTxn,
    CreateTxn,
    DeleteTxn,
    FenceTxn,
    MultiTxn,
    Origin,
    SetTxn,
    Summary,
    Txn,
    encode,
    summary,
)

NAME_BYTES = 10  # digits of a sequential name, as in ZooKeeper


class FutureZnode(msgspec.Struct, gc=False):
    """A znode as it will be. `outstanding`: how many undelivered transactions touch it."""

    exists: bool
    version: int
    sequence: int
    children: int
    outstanding: int = 0


_ABSENT = FutureZnode(False, 0, 0, 0)


class Primary:
    """Prepares a leader's transactions. `request_bytes` limits one request's paths and data.

    Contract: from the establishment of an epoch on, `prepare` is called in the order in which the transactions are
    broadcast, after everything of earlier epochs was applied to the tree; `delivered` is called for every transaction right
    after it was applied; `reset` is called when leadership begins or ends.

    A client's writes take effect in the order of their seqs, through whichever nodes they come: a write is refused if its
    seq is not above the highest one that was judged (prepared or refused) here or delivered. If the client is not known, it
    may have been forgotten. Then a request is refused if its session began before a forgotten client was last used: a later
    request of the client may have come through another node.
    """

    def __init__(self, tree: Tree, request_bytes: int = 2**20) -> None:
        self._tree = tree
        self._limit = request_bytes
        self.outstanding_bytes = 0  # size of the prepared and not yet delivered transactions
        self._futures: dict[str, FutureZnode] = {}
        self._queue: deque[tuple[bytes, list[str]]] = deque()
        self._judged = Seqs(tree.clients_max)  # that were prepared or refused
        self._summaries: list[Summary] = []

    def leftovers(self) -> dict[str, int]:
        """Return how much is held, by what it is. Without outstanding transactions, each number must be 0."""
        return {
            "outstanding transactions": len(self._queue),
            "znodes with outstanding transactions": len(self._futures),
        }

    def prepare(self, request: ForwardedRequest, origin: Origin, since: Zxid, zxid: Zxid) -> bytes | Refusal:
        """Return the encoded transaction for `request`, or its refusal. A refusal changes at most the client's highest seq.

        A request that no state allows is refused without a transaction, and is no use of its client: a use has the zxid of a
        transaction. Otherwise a client could seem to be forgotten with a zxid that no session can have seen.
        `since`: what the client's node had delivered when the session began. `zxid`: the transaction will have it.
        """
        client, seq = origin.client, origin.seq
        if self._may_be_forgotten(client, since):
            return forgotten_client(self._tree.clients_max)
        latest = self.latest(client)
        if type(request) is Fence:  # fences may repeat, also when the client's seq is higher
            self._judged.use(client, max(seq, latest), zxid)
            return self._prepared(origin, FenceTxn(), {})
        if seq <= latest:
            return superseded(seq, latest)
        if (invalid := self._invalid(request)) is not None:
            return invalid
        self._judged.use(client, seq, zxid)
        change, draft = self._judge(request)
        return change if isinstance(change, Refusal) else self._prepared(origin, change, draft)

    def fence(self, origin: Origin) -> bytes:
        """Return an encoded fence with the seq of a request that was judged."""
        return self._prepared(origin, FenceTxn(), {})

    def latest(self, client: int) -> int:
        """Return the client's highest seq that was judged here or delivered, or NO_SEQ."""
        latest = self._judged.get(client)  # covers delivered ones: in this epoch all were prepared here
        return self._tree.sessions.get(client) if latest == NO_SEQ else latest

    def _may_be_forgotten(self, client: int, since: Zxid) -> bool:
        """Return whether an unknown client may have been used after `since`, and then forgotten."""
        judged, delivered = self._judged, self._tree.sessions
        outdated = since < judged.forgotten or (since < delivered.forgotten and client not in delivered)
        return outdated and client not in judged

    def summaries(self) -> list[Summary]:
        """Return the summaries of the transactions that were prepared since the last call."""
        summaries, self._summaries = self._summaries, []
        return summaries

    def _judge(self, request: Write) -> tuple[Change | MultiTxn | Refusal, dict[str, FutureZnode]]:
        """Return the change that the request becomes, or its refusal, and the future znodes that it changes."""
        draft: dict[str, FutureZnode] = {}
        return self._multi(request, draft) if type(request) is Multi else self._step(request, draft), draft

    def _invalid(self, request: Write) -> Refusal | None:
        """Return a refusal if the request is refused in every state.

        A deposed leader may say so too, since no state is looked at.
        """
        if request_size(request) > self._limit:
            return too_large(request_size(request), self._limit)
        return _multi_refusal(request) if type(request) is Multi else _path_refusal(request)

    def _prepared(self, origin: Origin, change: Change | MultiTxn | FenceTxn, draft: dict[str, FutureZnode]) -> bytes:
        data = encode(Txn(origin, change))
        for path, future in draft.items():
            before = self._futures.get(path)
            future.outstanding = before.outstanding + 1 if before is not None else 1
            self._futures[path] = future
        self._queue.append((data, list(draft)))
        self.outstanding_bytes += len(data)
        self._summaries.append(summary(origin, change))
        return data

    def delivered(self, data: bytes) -> None:
        """Take note that the transaction `data` was applied to the tree.

        Transactions that another primary prepared are ignored.
        """
        if not self._queue or self._queue[0][0] != data:
            return
        self.outstanding_bytes -= len(data)
        for path in self._queue.popleft()[1]:
            future = self._futures[path]
            future.outstanding -= 1
            if not future.outstanding:
                del self._futures[path]

    def reset(self) -> None:
        """Forget all outstanding transactions: leadership was lost, and the next leader decides about them."""
        self._futures.clear()
        self._queue.clear()
        self.outstanding_bytes = 0
        self._judged.clear()
        self._summaries.clear()

    def _future(self, path: str, draft: dict[str, FutureZnode]) -> FutureZnode:
        """Return the znode as it will be after all outstanding transactions and the draft."""
        future = draft.get(path) or self._futures.get(path)
        if future is not None:
            return future
        node = self._tree.znodes.get(path)
        if node is None:
            return _ABSENT
        return FutureZnode(True, node.version, node.sequence, len(node.children))

    def _multi(self, request: Multi, draft: dict[str, FutureZnode]) -> MultiTxn | Refusal:
        changes: list[Change] = []
        for number, step in enumerate(request.steps, 1):
            change = self._step(step, draft)
            if isinstance(change, Refusal):
                return _step_refusal(number, request, change)
            changes.append(change)
        return MultiTxn(changes)

    def _step(self, step: Step, draft: dict[str, FutureZnode]) -> Change | Refusal:
        if type(step) is Set:
            return self._set(step, draft)
        if type(step) is Create:
            return self._create(step, draft)
        if type(step) is Delete:
            return self._delete(step, draft)
        return self._check(step, draft)

    def _set(self, step: Set, draft: dict[str, FutureZnode]) -> SetTxn | Refusal:
        seen = self._future(step.path, draft)
        if not seen.exists or (step.version != ANY and step.version != seen.version):
            return _condition_refusal(step, seen)
        version = seen.version + 1
        draft[step.path] = FutureZnode(True, version, seen.sequence, seen.children)
        return SetTxn(step.path, step.data, version)

    def _check(self, step: Check, draft: dict[str, FutureZnode]) -> CheckTxn | Refusal:
        seen = self._future(step.path, draft)
        if not seen.exists or (step.version != ANY and step.version != seen.version):
            return _condition_refusal(step, seen)
        return CheckTxn(step.path, seen.version)

    def _create(self, step: Create, draft: dict[str, FutureZnode]) -> CreateTxn | Refusal:
        if step.path == ROOT and not step.sequential:
            return Refusal(NODE_EXISTS, "the root always exists")
        above = parent_of(step.path)
        parent = self._future(above, draft)
        if not parent.exists:
            return Refusal(NO_PARENT, f"{above}, the parent of {step.path}, does not exist")
        path = f"{step.path}{parent.sequence:0{NAME_BYTES}d}" if step.sequential else step.path
        if self._future(path, draft).exists:
            return Refusal(NODE_EXISTS, f"there is a znode {path} already")
        sequence = parent.sequence + 1
        draft[above] = FutureZnode(True, parent.version, sequence, parent.children + 1)
        draft[path] = FutureZnode(True, 0, 0, 0)
        return CreateTxn(path, step.data, sequence)

    def _delete(self, step: Delete, draft: dict[str, FutureZnode]) -> DeleteTxn | Refusal:
        seen = self._future(step.path, draft)
        if not seen.exists or (step.version != ANY and step.version != seen.version):
            return _condition_refusal(step, seen)
        if seen.children:
            return Refusal(NOT_EMPTY, f"{step.path} has {seen.children} children; a znode with children is not deleted")
        above = parent_of(step.path)
        parent = self._future(above, draft)
        draft[above] = FutureZnode(True, parent.version, parent.sequence, parent.children - 1)
        draft[step.path] = FutureZnode(False, 0, 0, 0)
        return DeleteTxn(step.path)


def _path_refusal(step: Step) -> Refusal | None:
    """Return a refusal if the step's path is invalid in every state.

    The path of a sequential create may end with '/', since digits follow.
    """
    fault = path_error(step.path + "0" if type(step) is Create and step.sequential else step.path)
    if fault is None and type(step) is Delete and step.path == ROOT:
        fault = "the root cannot be deleted"
    return Refusal(BAD_PATH, fault) if fault is not None else None


def _multi_refusal(request: Multi) -> Refusal | None:
    if not request.steps:
        return Refusal(BAD_REQUEST, "a multi needs at least one step")
    for number, step in enumerate(request.steps, 1):
        refusal = _path_refusal(step)
        if refusal is not None:
            return _step_refusal(number, request, refusal)
    return None


def _step_refusal(number: int, multi: Multi, refusal: Refusal) -> Refusal:
    """Return the refusal of a multi for one of its steps."""
    return Refusal(refusal.error, f"step {number} of {len(multi.steps)}: {refusal.words}")


def _condition_refusal(step: Set | Check | Delete, seen: FutureZnode) -> Refusal:
    """Return the refusal for an unmet condition: no such znode, or another version."""
    if seen.exists:
        return bad_version(step.path, step.version, seen.version)
    return no_node(step.path)
