"""The tree: the delivered state. It applies transactions in zxid order, answers reads, and is dumped for snapshots."""

from itertools import pairwise

import msgspec

from zab_chaos.node.core.digest import Hash, blake2b
from zab_chaos.node.core.settings import CLIENTS_MAX, FORMAT_WITHOUT_FORGOTTEN, FORMAT_WITHOUT_USES, STATE_FORMAT
from zab_chaos.node.core.zxid import ZERO, Zxid
from zab_chaos.node.tree.outcomes import Failed, Ok
from zab_chaos.node.tree.paths import ROOT, name_of, parent_of, path_error
from zab_chaos.node.tree.refusal import BAD_PATH, brief, no_node
from zab_chaos.node.tree.requests import Children, Exists, Get, Read
from zab_chaos.node.tree.seqs import Seqs, forgotten_share, session_share
from zab_chaos.node.tree.txns import CreateTxn, DeleteTxn, MultiTxn, SetTxn, Txn, decode
from zab_chaos.node.tree.znode import Znode

_MASK = 2**64 - 1

_Znodes = list[tuple[str, bytes, int, int]]  # path, data, version, sequence


class _State(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """A dump: every znode, in the order of the paths; then what `Seqs` holds."""

    format: int
    znodes: _Znodes
    sessions: list[tuple[int, int, Zxid]]
    forgotten: Zxid


class _StateWithoutUses(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """A dump of older nodes: the clients as (client, seq)."""

    format: int
    znodes: _Znodes
    sessions: list[tuple[int, int]]


class _Head(msgspec.Struct, array_like=True):
    """The beginning that all formats share."""

    format: int


_decoder = msgspec.msgpack.Decoder(_State)
_decoder_without_uses = msgspec.msgpack.Decoder(_StateWithoutUses)
_head = msgspec.msgpack.Decoder(_Head)


class StateError(ValueError):
    """The bytes are not a tree's state."""


class Tree:
    """The znodes as of `zxid`, the last applied transaction, and in `sessions` the highest delivered seq of each client.

    `digest` (64 bits) is the sum of the shares of all znodes and clients and of what `sessions` has forgotten: it depends on
    the state only, not on its history. When the remembered clients were used last is not in it.
    A share is computed when the digest is read: once, however often a batch of transactions changes the znode.
    `hash_bytes`: the ensemble's `HASHES[NodeConfig.digest]`. `clients_max`: how many clients are remembered. `state_format`: of
    dumps and digest; an older one where a recording of older nodes is replayed.
    """

    def __init__(
        self, hash_bytes: Hash = blake2b, clients_max: int = CLIENTS_MAX, state_format: int = STATE_FORMAT
    ) -> None:
        self._hash_bytes = hash_bytes
        self._format = state_format
        self.clients_max = clients_max
        self.zxid: Zxid = ZERO
        self._start([(ROOT, b"", 0, 0)], Seqs(clients_max))

    def apply(self, zxid: Zxid, data: bytes) -> Txn:
        """Apply the encoded transaction `data`, and return it decoded.

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
            share = session_share(client, sessions.get(client), hash_bytes)
            self._sum += share - shares.get(client, 0)
            shares[client] = share
        self._changed_clients.clear()
        self._sum &= _MASK
        if sessions.forgotten and self._format == STATE_FORMAT:
            return (self._sum + forgotten_share(sessions.forgotten, hash_bytes)) & _MASK
        return self._sum

    def perform(self, zxid: Zxid, txn: Txn) -> None:
        """Apply a decoded transaction.

        While a suffix is redelivered (after a restart, in order) the tree may be ahead of the transaction: a znode that it
        changes may be deleted already, and one that it deletes may have been created again. Then it is skipped: whatever
        made the tree differ comes again later in that suffix.
        """
        origin, change = txn.origin, txn.change
        client = origin.client
        forgotten = self.sessions.use(client, origin.seq, zxid)
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
        """Execute a read on the present state."""
        node = self.znodes.get(request.path)
        if node is None:
            return self._missing(request)
        if isinstance(request, Get):
            return Ok(self.zxid, node.version, data=node.data)
        if isinstance(request, Children):
            return Ok(self.zxid, node.version, children=sorted(node.children))
        return Ok(self.zxid, node.version)

    def dump(self) -> bytes:
        """Return the state as bytes, equal for equal states. The zxid is not included: a snapshot has it."""
        znodes = [(path, node.data, node.version, node.sequence) for path, node in sorted(self.znodes.items())]
        sessions = self.sessions.entries()
        if self._format == FORMAT_WITHOUT_USES:
            return msgspec.msgpack.encode(_StateWithoutUses(self._format, znodes, [entry[:2] for entry in sessions]))
        return msgspec.msgpack.encode(_State(self._format, znodes, sessions, self.sessions.forgotten))

    def load(self, state: bytes, zxid: Zxid) -> None:
        """Replace everything by a dumped state, as of `zxid`. If it raises StateError, nothing has changed."""
        try:
            znodes, sessions, forgotten = _decode_state(state, zxid)
        except msgspec.DecodeError as error:
            raise StateError(f"a snapshot's state of {len(state)} bytes is not a tree: {error}") from error
        _validate(znodes, sessions, self.clients_max)
        self._start(znodes, Seqs(self.clients_max, sessions, forgotten))
        self.zxid = zxid

    def _start(self, znodes: _Znodes, sessions: Seqs) -> None:
        self.sessions = sessions
        self._shares: dict[int, int] = {}  # by client: its share as included in the sum
        self._changed_clients: set[int] = set(
            sessions.clients()
        )  # clients whose share in the sum is missing or out of date
        self.znodes: dict[str, Znode] = {}
        self._sum = 0
        self._stale: set[Znode] = set()  # znodes whose share in the sum is missing or out of date
        for path, data, version, sequence in znodes:
            self._add(path, Znode(path, data, version, sequence))

    def _forget(self, client: int) -> None:
        """Remove the share of a client that was forgotten."""
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
        while doomed:  # there are children only while a suffix is redelivered, which creates them again
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
            return Failed(BAD_PATH, brief(fault), self.zxid)
        if isinstance(request, Exists):
            return Ok(self.zxid)
        refusal = no_node(request.path)
        return Failed(refusal.error, brief(refusal.words), self.zxid)


def _decode_state(state: bytes, zxid: Zxid) -> tuple[_Znodes, list[tuple[int, int, Zxid]], Zxid]:
    """Return the znodes, the entries of `Seqs` and what it has forgotten. Raises StateError, msgspec.DecodeError.

    What an older node has dumped does not say when clients were used, nor whether any was forgotten: all may have been at
    `zxid`.
    """
    known = _head.decode(state).format
    if known in (STATE_FORMAT, FORMAT_WITHOUT_FORGOTTEN):
        decoded = _decoder.decode(state)
        _validate_uses(decoded.sessions, decoded.forgotten)
        return decoded.znodes, decoded.sessions, decoded.forgotten
    if known == FORMAT_WITHOUT_USES:
        older = _decoder_without_uses.decode(state)
        return older.znodes, [(client, seq, zxid) for client, seq in older.sessions], zxid
    formats = f"{FORMAT_WITHOUT_USES} to {STATE_FORMAT}"
    raise StateError(f"a snapshot's state has format {known}; this version reads formats {formats} only")


def _validate(znodes: _Znodes, sessions: list[tuple[int, int, Zxid]], clients_max: int) -> None:
    """Raise StateError unless `dump` could have written the state."""
    seen: set[str] = set()
    for path, _data, version, sequence in znodes:
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
    clients = {client for client, seq, _ in sessions if 0 <= client < 2**64 and seq >= 0}
    if len(clients) != len(sessions):
        raise StateError("a snapshot's state is damaged: its clients are not what a tree remembers")
    if len(clients) > clients_max:
        raise StateError(
            f"a snapshot's state has {len(clients)} clients, and clients_max is {clients_max}: the limit must stay as it was"
        )


def _validate_uses(sessions: list[tuple[int, int, Zxid]], forgotten: Zxid) -> None:
    uses = [forgotten, *(used for _, _, used in sessions)]
    if any(later <= earlier for earlier, later in pairwise(uses)) or forgotten < ZERO:
        raise StateError("a snapshot's state is damaged: its clients are not in the order of their last use")
