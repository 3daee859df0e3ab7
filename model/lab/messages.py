"""The lab's nine messages, under the names of its wire format (db-19, "Wire format")."""

from enum import IntEnum

import msgspec

from zab_chaos.node.core.zxid import Zxid, show


def shown(node: int) -> int:
    """A node's number for people, who count from 1. The lab's arguments, messages and dump count from 0, as published."""
    return node + 1


class Role(IntEnum):
    """The numbers are the dump's."""

    LOOKING = 0
    FOLLOWING = 1
    LEADING = 2


class Txn(msgspec.Struct, frozen=True, gc=False):
    zxid: Zxid
    payload: bytes

    def __str__(self) -> str:
        return f"{show(self.zxid)} {self.payload.decode(errors='backslashreplace')}"


class LookForLeader(msgspec.Struct, frozen=True, tag=True):
    src_id: int
    last_zxid: Zxid
    peer_epoch: int


class Vote(msgspec.Struct, frozen=True, tag=True):
    voter_id: int
    last_zxid: Zxid
    peer_epoch: int
    leader_id: int


class NewEpoch(msgspec.Struct, frozen=True, tag=True):
    new_epoch: int


class AckEpoch(msgspec.Struct, frozen=True, tag=True):
    current_epoch: int
    last_zxid: Zxid


class NewLeader(msgspec.Struct, frozen=True, tag=True):
    new_epoch: int
    history: tuple[Txn, ...]


class AckLeader(msgspec.Struct, frozen=True, tag=True):
    new_epoch: int


class Propose(msgspec.Struct, frozen=True, tag=True):
    txn: Txn


class Ack(msgspec.Struct, frozen=True, tag=True):
    zxid: Zxid


class Commit(msgspec.Struct, frozen=True, tag=True):
    zxid: Zxid


Message = LookForLeader | Vote | NewEpoch | AckEpoch | NewLeader | AckLeader | Propose | Ack | Commit
