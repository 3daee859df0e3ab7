"""Transactions: what the leader broadcasts, each stating a result and not how to reach it (LADIS 2008, section 1).

LADIS writes one as ("/a", "2", 2): path, value, resulting version. Applying a transaction twice is harmless, and so is
applying again, in order, all that followed it. That needs a create to state its parent's child counter too, since the
next sequential name depends on it.
"""

import msgspec
from zlib_ng.zlib_ng import crc32

from zab_chaos.node.core.messages import Wire


class CreateTxn(Wire, frozen=True, tag="create", gc=False):
    """The znode exists with `data`, version 0, no child ever; its parent's child counter is `sequence`."""

    path: str
    data: bytes
    sequence: int


class SetTxn(Wire, frozen=True, tag="set", gc=False):
    """The znode holds `data` at `version`."""

    path: str
    data: bytes
    version: int


class DeleteTxn(Wire, frozen=True, tag="delete", gc=False):
    """There is no such znode."""

    path: str


class CheckTxn(Wire, frozen=True, tag="check", gc=False):
    """Changes nothing. It takes a place in the order, so that its answer has one; `version` is what it found."""

    path: str
    version: int


Change = CreateTxn | SetTxn | DeleteTxn | CheckTxn


class MultiTxn(Wire, frozen=True, tag="multi"):
    """Several changes under one zxid: all or nothing is what a single transaction is anyway."""

    changes: list[Change]


class FenceTxn(Wire, frozen=True, tag="fence", gc=False):
    """Changes no znode. With it the client's highest number in the tree is at least that of the transaction's origin."""


class Origin(Wire, frozen=True, gc=False):
    """Who asked: the client's number and its request's, and the node and life that the client is connected to."""

    node: int
    life: int
    client: int
    seq: int


class Txn(Wire, frozen=True):
    """A transaction with its origin, so that the node that owes the answer recognises it at delivery."""

    origin: Origin
    change: Change | MultiTxn | FenceTxn


Effect = tuple[str, str, int | None, int | None]  # op, path, resulting version, CRC-32 of the value
Summary = tuple[int, int, list[Effect]]  # client, seq, and what is done, step by step


def summary(origin: Origin, change: Change | MultiTxn | FenceTxn) -> Summary:
    """A transaction as `broadcast` tells it in a trace."""
    if type(change) is SetTxn:  # most of them
        return origin.client, origin.seq, [("set", change.path, change.version, crc32(change.data))]
    if type(change) is MultiTxn:
        return origin.client, origin.seq, [_effect(each) for each in change.changes]
    return origin.client, origin.seq, [_effect(change)]


def summary_of(data: bytes) -> Summary:
    """The same of an encoded one."""
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
_decode = msgspec.msgpack.Decoder(Txn).decode


def decode(data: bytes) -> Txn:
    """The transaction in `data`. Raises msgspec.DecodeError if it is none, which in a committed one is corruption."""
    return _decode(data)
