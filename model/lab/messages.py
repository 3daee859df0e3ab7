"""The nine messages of the lab, with the names of its wire format (db-19, "Wire format")."""

from enum import IntEnum

import msgspec

from zab_chaos.node.core.zxid import Zxid, show


def display_number(node: int) -> int:
    """Return the number of a node in texts for people, which count from 1. Arguments, messages and the dump count from 0."""
    return node + 1


class Role(IntEnum):
    """The role of a node. The numbers are those of the dump."""

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
