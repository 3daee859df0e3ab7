"""The result of a run: the canonical dump (db-19, "Canonical dump format"), and the same as text."""

import struct
from collections.abc import Iterable, Sequence
from typing import Protocol

from zab_chaos.model.lab.messages import Role, Txn, display_number
from zab_chaos.node.core.zxid import Zxid, counter_of, epoch_of, show

MAGIC = b"DSEZAB01"
NODE = struct.Struct("<IB7I")  # id, role, current and accepted epoch, last zxid, last committed, history's length
TXN = struct.Struct("<3I")  # zxid, payload's length


class DumpedNode(Protocol):
    """The state of a node that the dump contains (db-19)."""

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


def dump(nodes: Sequence[DumpedNode]) -> bytes:
    """Return the canonical dump, whose sha256 is compared. Numbers are little-endian u32 (roles u8), nodes ascend by id."""
    return b"".join([MAGIC, struct.pack("<I", len(nodes)), *map(_node, nodes)])


def _node(node: DumpedNode) -> bytes:
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


def show_dump(nodes: Iterable[DumpedNode]) -> str:
    """Return the content of the dump as text: one line for each node and for each transaction."""
    return "".join(line + "\n" for node in nodes for line in _node_lines(node))


def _node_lines(node: DumpedNode) -> list[str]:
    head = (
        f"node {display_number(node.id)}  {node.role.name.capitalize()}  current_epoch {node.current_epoch}  "
        f"accepted_epoch {node.accepted_epoch}  last_zxid {show(node.last_zxid())}  "
        f"last_committed {show(node.last_committed)}  history {len(node.history)}"
    )
    return [
        head,
        *(f"    {txn}{'' if txn.zxid <= node.last_committed else '  (not committed)'}" for txn in node.history),
    ]
