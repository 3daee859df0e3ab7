"""Transactions: what the leader broadcasts. Each states a result, not how to reach it (LADIS 2008, section 1).

LADIS writes one as ("/a", "2", 2): path, value, resulting version. Applying a transaction twice is harmless, and so is
applying again, in order, everything that followed it. For that, a create must also state its parent's child counter, since
the next sequential name depends on it.
"""

import msgspec
from zlib_ng.zlib_ng import crc32

from zab_chaos.node.core.messages import Wire


class CreateTxn(Wire, frozen=True, tag="create", gc=False):
    """The znode exists with `data` and version 0 and never had children; its parent's child counter is `sequence`."""

    path: str
    data: bytes
    sequence: int


class SetTxn(Wire, frozen=True, tag="set", gc=False):
    """The znode has `data` at `version`."""

    path: str
    data: bytes
    version: int


class DeleteTxn(Wire, frozen=True, tag="delete", gc=False):
    """There is no such znode."""

    path: str


class CheckTxn(Wire, frozen=True, tag="check", gc=False):
    """Changes nothing. It gives the answer a place in the order; `version` is the version found."""

    path: str
    version: int


Change = CreateTxn | SetTxn | DeleteTxn | CheckTxn


class MultiTxn(Wire, frozen=True, tag="multi"):
    """Several changes under one zxid. A single transaction takes effect entirely or not at all."""

    changes: list[Change]


class FenceTxn(Wire, frozen=True, tag="fence", gc=False):
    """Changes no znode, and raises the client's highest seq in the tree to that of the transaction's origin."""


class Origin(Wire, frozen=True, gc=False):
    """The origin of a request: the node and life that the client is connected to, the client, and the request's seq."""

    node: int
    life: int
    client: int
    seq: int


class Txn(Wire, frozen=True):
    """A transaction with its origin, by which the node that owes the answer recognises it at delivery."""

    origin: Origin
    change: Change | MultiTxn | FenceTxn


Effect = tuple[str, str, int | None, int | None]  # operation, path, resulting version, CRC-32 of the value
Summary = tuple[int, int, list[Effect]]  # client, seq, and the effects in order


def summary(origin: Origin, change: Change | MultiTxn | FenceTxn) -> Summary:
    """Return a transaction in the form in which `broadcast` traces it."""
    if type(change) is SetTxn:  # most of them
        return origin.client, origin.seq, [("set", change.path, change.version, crc32(change.data))]
    if type(change) is MultiTxn:
        return origin.client, origin.seq, [_effect(each) for each in change.changes]
    return origin.client, origin.seq, [_effect(change)]


def summary_of(data: bytes) -> Summary:
    """Return the summary of an encoded transaction."""
    txn = decode(data)
    return summary(txn.origin, txn.change)


def _effect(change: object) -> Effect:
    if isinstance(change, SetTxn):
        return "set", change.path, change.version, crc32(change.data)
    if isinstance(change, CreateTxn):
        return "create", change.path, 0, crc32(change.data)
    if isinstance(change, CheckTxn):
        return "check", change.path, change.version, None
    if isinstance(change, DeleteTxn):
        return "delete", change.path, None, None
    return "fence", "", None, None


encode = msgspec.msgpack.Encoder().encode
# Raises msgspec.DecodeError: in a committed transaction that is corruption.
decode = msgspec.msgpack.Decoder(Txn).decode
