"""Transactions: what the leader broadcasts, each stating a result and not how to reach it (LADIS 2008, section 1).

LADIS writes one as ("/a", "2", 2): path, value, resulting version. Applying a transaction twice is harmless, and so is
applying again, in order, all that followed it. That needs a create to state its parent's child counter too, since the
next sequential name depends on it.
"""

import msgspec

from node.core.messages import Wire


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


class Origin(Wire, frozen=True, gc=False):
    """Who asked: the client's number and its request's, and the node and life that the client is connected to."""

    node: int
    life: int
    client: int
    seq: int


class Txn(Wire, frozen=True):
    """A transaction with its origin, so that the node that owes the answer recognises it at delivery."""

    origin: Origin
    change: Change | MultiTxn


encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Txn).decode


def decode(data: bytes) -> Txn:
    """The transaction in `data`. Raises msgspec.DecodeError if it is none, which in a committed one is corruption."""
    return _decode(data)
