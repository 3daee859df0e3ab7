"""The tree: delivered state. Transactions in, in zxid order; reads out; the whole as bytes for a snapshot."""

import msgspec

from zab_chaos.node.core.digest import Hash, blake2b
from zab_chaos.node.core.zxid import ZERO, Zxid
from zab_chaos.node.tree.outcomes import Failed, Ok
from zab_chaos.node.tree.paths import ROOT, name_of, parent_of, path_error
from zab_chaos.node.tree.refusal import BAD_PATH, no_node
from zab_chaos.node.tree.requests import Children, Exists, Get, Read
from zab_chaos.node.tree.seqs import CLIENTS_MAX, raise_seq, session_share
from zab_chaos.node.tree.txns import CreateTxn, DeleteTxn, MultiTxn, SetTxn, Txn, decode
from zab_chaos.node.tree.znode import Znode

_FORMAT = 2
_MASK = 2**64 - 1


class _State(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """A dump: every znode as (path, data, version, sequence), in the order of their paths; then (client, seq)."""

    format: int
    znodes: list[tuple[str, bytes, int, int]]
    sessions: list[tuple[int, int]]


class _Head(msgspec.Struct, array_like=True):
    """What all formats begin with."""

    format: int


_decoder = msgspec.msgpack.Decoder(_State)
_head = msgspec.msgpack.Decoder(_Head)


class StateError(ValueError):
    """The bytes are not a tree's state."""


class Tree:
    """The znodes as of `zxid`, the last transaction applied, and in `sessions` how far each client has come.

    `digest` (64 bits) is the sum of the znodes' and clients' shares: it depends on the state only, not on the way there. A
    share is computed when the digest is asked for: once, however often a batch of transactions changes its znode. `share`:
    the ensemble's `HASHES[NodeConfig.digest]`.
    """

    def __init__(self, hash_bytes: Hash = blake2b) -> None:
        self._hash_bytes = hash_bytes
        self.zxid: Zxid = ZERO
        self._start([(ROOT, b"", 0, 0)], [])

    def apply(self, zxid: Zxid, data: bytes) -> Txn:
        """Apply the transaction in `data`; returns it decoded: it says what the result is and who asked.

        Raises msgspec.DecodeError if `data` is no transaction.
        """
        txn = decode(data)
        self.perform(zxid, txn)
        return txn

    @property
    def digest(self) -> int:
        hash_bytes = self._hash_bytes
        for node in self._stale:
            share = node.digest_share(hash_bytes)
            self._sum += share - node.share
            node.share = share
        self._stale.clear()
        sessions, shares = self.sessions, self._shares
        for client in self._changed_clients:
            share = session_share(client, sessions[client], hash_bytes)
            self._sum += share - shares.get(client, 0)
            shares[client] = share
        self._changed_clients.clear()
        self._sum &= _MASK
        return self._sum

    def perform(self, zxid: Zxid, txn: Txn) -> None:
        """Apply a decoded transaction.

        While a suffix is redelivered (after a restart, in order) the tree may be ahead of the transaction: what it
        changes may be deleted already, what it deletes may have been made anew. Then it is passed over: whatever made
        the tree differ comes again, later in that suffix.
        """
        origin, change = txn.origin, txn.change
        client = origin.client
        forgotten = raise_seq(self.sessions, client, origin.seq)
        self._changed_clients.add(client)
        if forgotten is not None:
            self._forget(forgotten)
        if type(change) is SetTxn:
            self._set(change)
        elif type(change) is MultiTxn:
            for each in change.changes:
                self._change(each)
        else:
            self._change(change)
        self.zxid = zxid

    def read(self, request: Read) -> Ok | Failed:
        """Execute a read on the state as it is now."""
        node = self.znodes.get(request.path)
        if node is None:
            return self._missing(request)
        if isinstance(request, Get):
            return Ok(self.zxid, node.version, data=node.data)
        if isinstance(request, Children):
            return Ok(self.zxid, node.version, children=sorted(node.children))
        return Ok(self.zxid, node.version)

    def dump(self) -> bytes:
        """The state as bytes, the same for the same state. The zxid is not in it: a snapshot carries that itself."""
        znodes = [(path, node.data, node.version, node.sequence) for path, node in sorted(self.znodes.items())]
        return msgspec.msgpack.encode(_State(_FORMAT, znodes, list(self.sessions.items())))

    def load(self, state: bytes, zxid: Zxid) -> None:
        """Replace everything by a dumped state, as of `zxid`. Raises StateError, and then nothing has changed."""
        try:
            known = _head.decode(state).format
            if known != _FORMAT:
                raise StateError(f"a snapshot's state has format {known}; this version reads format {_FORMAT} only")
            decoded = _decoder.decode(state)
        except msgspec.DecodeError as error:
            raise StateError(f"a snapshot's state of {len(state)} bytes is not a tree: {error}") from error
        _examine(decoded)
        self._start(decoded.znodes, decoded.sessions)
        self.zxid = zxid

    def _start(self, znodes: list[tuple[str, bytes, int, int]], sessions: list[tuple[int, int]]) -> None:
        self.sessions = dict(sessions)  # client -> the highest seq delivered; the longest unused first
        self._shares: dict[int, int] = {}  # of the sessions, as far as they are in the sum
        self._changed_clients: set[int] = set(
            self.sessions
        )  # clients whose share is not, or not as it is now, in the sum
        self.znodes: dict[str, Znode] = {}
        self._sum = 0
        self._stale: set[Znode] = set()  # those whose share is not, or not as it is now, in the sum
        for path, data, version, sequence in znodes:
            self._add(path, Znode(path, data, version, sequence))

    def _forget(self, client: int) -> None:
        """A client that has not written for the longest time."""
        self._sum -= self._shares.pop(client, 0)
        self._changed_clients.discard(client)

    def _change(self, change: object) -> None:
        if isinstance(change, CreateTxn):
            self._create(change)
        elif isinstance(change, SetTxn):
            self._set(change)
        elif isinstance(change, DeleteTxn):
            self._delete(change.path)

    def _create(self, change: CreateTxn) -> None:
        parent = self.znodes.get(parent_of(change.path))
        if parent is None:
            return
        parent.sequence = change.sequence
        self._stale.add(parent)
        node = self.znodes.get(change.path)
        if node is None:
            self._add(change.path, Znode(change.path, change.data, 0, 0))
        else:
            node.data, node.version, node.sequence = change.data, 0, 0
            self._stale.add(node)

    def _set(self, change: SetTxn) -> None:
        node = self.znodes.get(change.path)
        if node is not None:
            node.data = change.data
            node.version = change.version
            self._stale.add(node)

    def _delete(self, path: str) -> None:
        if path not in self.znodes:
            return
        self.znodes[parent_of(path)].children.discard(name_of(path))
        doomed = [path]
        while doomed:  # more than one only while a suffix is redelivered, which creates the children again
            gone = doomed.pop()
            node = self.znodes.pop(gone)
            self._stale.discard(node)
            self._sum -= node.share
            doomed.extend(f"{gone}/{name}" for name in node.children)

    def _add(self, path: str, node: Znode) -> None:
        self.znodes[path] = node
        if path != ROOT:
            self.znodes[parent_of(path)].children.add(name_of(path))
        self._stale.add(node)

    def _missing(self, request: Read) -> Ok | Failed:
        fault = path_error(request.path)
        if fault:
            return Failed(BAD_PATH, fault, self.zxid)
        if isinstance(request, Exists):
            return Ok(self.zxid)
        refusal = no_node(request.path)
        return Failed(refusal.error, refusal.words, self.zxid)


def _examine(state: _State) -> None:
    """Raise StateError unless the state is one that `dump` could have written."""
    seen: set[str] = set()
    for path, _data, version, sequence in state.znodes:
        fault = path_error(path)
        if fault is None and path in seen:
            fault = f"{path} is in it twice"
        if fault is None and path != ROOT and parent_of(path) not in seen:
            fault = f"{path} comes without its parent"
        if fault is None and (version < 0 or sequence < 0):
            fault = f"{path} has a negative version or counter"
        if fault:
            raise StateError(f"a snapshot's state is damaged: {fault}")
        seen.add(path)
    if ROOT not in seen:
        raise StateError("a snapshot's state is damaged: the root is missing")
    clients = {client for client, seq in state.sessions if 0 <= client < 2**64 and seq >= 0}
    if len(clients) != len(state.sessions) or len(clients) > CLIENTS_MAX:
        raise StateError("a snapshot's state is damaged: its clients are not what a tree remembers")
