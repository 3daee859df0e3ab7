"""The Zab messages, under the names of DSN 2011 (Fig. 5), plus election votes, the leader's fetch, and heartbeats.

Every message is a frozen msgspec struct, encoded as a tagged MessagePack array; the decoder rejects anything else. `NAMES`
maps a class to the paper's spelling, which traces and crash points use.
"""

from enum import IntEnum
from typing import get_args

import msgspec

from zab_chaos.node.core.zxid import Zxid

NOBODY = 0  # in a vote; node ids begin at 1


class Role(IntEnum):
    LOOKING = 0
    FOLLOWING = 1
    LEADING = 2


class Phase(IntEnum):
    ELECTION = 0
    DISCOVERY = 1
    SYNCHRONIZATION = 2
    BROADCAST = 3


class Wire(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Base of everything that is sent on a link."""


class TxnRun(Wire, frozen=True):
    """A run of transactions with consecutive zxids of one epoch: `first`, `first + 1`, ..."""

    first: Zxid
    txns: list[bytes]


class Shape(Wire, frozen=True):
    """The outline of a history, from which a node computes the difference to its own.

    `base` is the zxid below which the log was purged (a snapshot's; committed). `epochs` lists, ascending, (epoch, last
    counter of that epoch) for what lies above `base`.
    """

    base: Zxid
    epochs: list[tuple[int, int]]


class Sync(Wire, frozen=True):
    """A history as a difference to the receiver's: cut back to `keep`, or start from a snapshot; then append `runs`.

    `snapshot` is None, or (zxid, digest, state) of committed state that replaces everything (`keep` is then its zxid).
    """

    keep: Zxid
    snapshot: tuple[Zxid, int, bytes] | None
    runs: list[TxnRun]


class Vote(Wire, frozen=True, tag="VOTE"):
    """A FastLeaderElection notification: the vote, and the voter's round and role.

    `leader` is `NOBODY` if the voter votes for no node. `established`: the voter leads, and its epoch is established.
    """

    round: int
    leader: int
    zxid: Zxid
    epoch: int
    role: Role
    amnesiac: bool
    established: bool = False


class Cepoch(Wire, frozen=True, tag="CEPOCH"):
    """f.1.1: the follower's last promise, f.p."""

    accepted_epoch: int
    amnesiac: bool


class NewEpoch(Wire, frozen=True, tag="NEWEPOCH"):
    """l.1.1: the epoch that the prospective leader proposes."""

    epoch: int


class AckEpoch(Wire, frozen=True, tag="ACK-E"):
    """f.1.2: the promise not to accept anything from earlier epochs; f.a, the last zxid, and the outline of the history.

    `epoch` names the acknowledged proposal (metadata for sanity checks, LADIS 2008). `promised` is False when the promise
    for this epoch was given before, perhaps to another leader: the answer then counts in no quorum.
    """

    epoch: int
    current_epoch: int
    last_zxid: Zxid
    shape: Shape
    promised: bool
    amnesiac: bool


class Fetch(Wire, frozen=True, tag="FETCH"):
    """The prospective leader asks the follower with the best history for what it lacks (DSN 2011, section V-A)."""

    epoch: int
    shape: Shape


class History(Wire, frozen=True, tag="HISTORY"):
    """The answer to FETCH: the follower's history as a difference to the leader's."""

    epoch: int
    current_epoch: int
    sync: Sync


class NewLeader(Wire, frozen=True, tag="NEWLEADER"):
    """l.2.1: the epoch and its initial history, as a difference."""

    epoch: int
    sync: Sync


class AckLeader(Wire, frozen=True, tag="ACK-LD"):
    """f.2.1: the epoch and its initial history are durable, up to `last_zxid`.

    A node that had lost its disk first answers with `amnesiac` set, which counts in no quorum, and again without it once it
    is a member.
    """

    epoch: int
    last_zxid: Zxid
    amnesiac: bool


class CommitLeader(Wire, frozen=True, tag="COMMIT-LD"):
    """l.2.2: the epoch is established, and everything up to `committed` may be delivered.

    `digest` is the running digest up to there.
    """

    epoch: int
    committed: Zxid
    digest: int


class Confirm(Wire, frozen=True, tag="CONFIRM"):
    """The leader asks a follower whether it still follows in this epoch.

    `number` names the inquiry (see `discovery`).
    """

    epoch: int
    number: int


class Confirmed(Wire, frozen=True, tag="ACK-CONFIRM"):
    """A follower confirms: since it promised this epoch it has kept its disk and promised no later epoch."""

    epoch: int
    number: int


class Member(Wire, frozen=True, tag="MEMBER"):
    """The leader tells a node that had lost its disk that it counts in quorums again.

    `quorum`: the members that confirmed it.
    """

    epoch: int
    quorum: list[int]


class Propose(Wire, frozen=True, tag="PROPOSE"):
    """l.3.1: transactions of the current epoch, in order.

    (`committed`, `digest`) is the leader's running digest up to what it has delivered, for the digest check.
    """

    epoch: int
    run: TxnRun
    committed: Zxid
    digest: int


class Ack(Wire, frozen=True, tag="ACK"):
    """f.3.2: everything up to `zxid` is durable (cumulative)."""

    epoch: int
    zxid: Zxid


class Commit(Wire, frozen=True, tag="COMMIT"):
    """l.3.2: everything up to `zxid` is committed (cumulative).

    `digest` is the running digest up to there.
    """

    epoch: int
    zxid: Zxid
    digest: int


class Ping(Wire, frozen=True, tag="PING"):
    """A heartbeat: the sender's role and epoch, and the running digest of its history up to `delivered`."""

    role: Role
    epoch: int
    delivered: Zxid
    digest: int


Message = (
    Vote
    | Cepoch
    | NewEpoch
    | AckEpoch
    | Fetch
    | History
    | NewLeader
    | AckLeader
    | CommitLeader
    | Confirm
    | Confirmed
    | Member
    | Propose
    | Ack
    | Commit
    | Ping
)

NAMES: dict[type, str] = {kind: str(kind.__struct_config__.tag) for kind in get_args(Message)}
