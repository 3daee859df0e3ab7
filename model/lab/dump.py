"""What a run leaves: the canonical dump (db-19, "Canonical dump format"), and the same for people."""

import struct
from collections.abc import Iterable, Sequence
from typing import Protocol

from zab_chaos.model.lab.messages import Role, Txn, shown
from zab_chaos.node.core.zxid import Zxid, counter_of, epoch_of, show

MAGIC = b"DSEZAB01"
NODE = struct.Struct("<IB7I")  # id, role, current and accepted epoch, last zxid, last committed, history's length
TXN = struct.Struct("<3I")  # zxid, payload's length


class Dumped(Protocol):
    """What the dump says of a node: db-19's state."""

    @property
    def id(self) -> int: ...
    @property
    def role(self) -> Role: ...
    @property
    def current_epoch(self) -> int: ...
    @property
    def accepted_epoch(self) -> int: ...
    @property
    def last_committed(self) -> Zxid: ...
    @property
    def history(self) -> list[Txn]: ...
    def last_zxid(self) -> Zxid: ...


def dump(nodes: Sequence[Dumped]) -> bytes:
    """The bytes whose sha256 is compared: all numbers u32 little-endian, nodes ascending by id."""
    return b"".join([MAGIC, struct.pack("<I", len(nodes)), *map(_node, nodes)])


def _node(node: Dumped) -> bytes:
    last, committed = node.last_zxid(), node.last_committed
    head = NODE.pack(
        node.id,
        node.role,
        node.current_epoch,
        node.accepted_epoch,
        epoch_of(last),
        counter_of(last),
        epoch_of(committed),
        counter_of(committed),
        len(node.history),
    )
    return b"".join([head, *map(_txn, node.history)])


def _txn(txn: Txn) -> bytes:
    return TXN.pack(epoch_of(txn.zxid), counter_of(txn.zxid), len(txn.payload)) + txn.payload


def show_dump(nodes: Iterable[Dumped]) -> str:
    """The dump's contents, a line a node and a line a transaction."""
    return "".join(line + "\n" for node in nodes for line in _node_lines(node))


def _node_lines(node: Dumped) -> list[str]:
    head = (
        f"node {shown(node.id)}  {node.role.name.capitalize()}  current_epoch {node.current_epoch}  "
        f"accepted_epoch {node.accepted_epoch}  last_zxid {show(node.last_zxid())}  "
        f"last_committed {show(node.last_committed)}  history {len(node.history)}"
    )
    return [
        head,
        *(f"    {txn}{'' if txn.zxid <= node.last_committed else '  (not committed)'}" for txn in node.history),
    ]
