"""What the core owes its driver: the obligations of one `Peer.ready()`.

The core never acts. It returns a `Ready`, and each field below is a contract with whoever drives it (the server's loop,
the simulated world, a replay). The driver fulfils a Ready in this order:

1. `resets`: close the session with each of these peers; a new one opens by itself (a new iteration, DSN 2011, II).
2. `events` go to the trace.
3. `messages` leave. They need no disk: a leader's PROPOSE goes out while its own disk still writes.
4. `records` are appended in order and made durable, one sync for all of them.
5. `Peer.synced(upto)` is called. The core reacts in the next Ready, never by itself.
6. `events_after_sync` go to the trace, then `messages_after_sync` leave: every promise and every ACK.
   They belong to the session of the time of `ready()`: if it was closed meanwhile, they are dropped.
7. `deliveries` are applied to the tree, in order, and `deliver` is traced, before any client hears of it.

`abort` ends the process after all of the above: a sanity check failed (LADIS 2008, section 2).
"""

from dataclasses import dataclass, field
from typing import Any, final

import msgspec

from zab_chaos.node.core.messages import Message
from zab_chaos.node.core.zxid import Zxid


class EpochRecord(msgspec.Struct, frozen=True):
    """EPOCH: accepted_epoch (f.p) := epoch."""

    epoch: int


class TxnRecords(msgspec.Struct, frozen=True):
    """TXN, one log record a transaction: `first`, `first + 1`, ... with the digest of each."""

    first: Zxid
    txns: list[bytes]
    digests: list[int]


class TruncRecord(msgspec.Struct, frozen=True):
    """TRUNC: the history is cut back to `keep`. Opens a group that only a NEWLEADER record closes."""

    keep: Zxid


class SnapRecord(msgspec.Struct, frozen=True):
    """SNAP: the history is replaced by a snapshot, which is stored durably first. Opens a group like TRUNC."""

    zxid: Zxid
    digest: int
    state: bytes


class NewLeaderRecord(msgspec.Struct, frozen=True):
    """NEWLEADER: current_epoch (f.a) := epoch; what stands before it is the epoch's initial history. Closes a group."""

    epoch: int


class MemberRecord(msgspec.Struct, frozen=True):
    """MEMBER: a node that had lost its disk has been synchronized by an established leader; it counts again."""


Record = EpochRecord | TxnRecords | TruncRecord | SnapRecord | NewLeaderRecord | MemberRecord


@final
class Deliver(msgspec.Struct, frozen=True):
    """Committed transactions with consecutive zxids of one epoch, and the running digest after the last of them."""

    first: Zxid
    txns: list[bytes]
    digests: list[int]
    digest: int


@final
class Install(msgspec.Struct, frozen=True):
    """Committed state that replaces the tree: a snapshot that the leader sent."""

    zxid: Zxid
    digest: int
    state: bytes


class Event(msgspec.Struct, frozen=True):
    """What happened, for the trace: the event's name and its fields (JSON values; zxids as [epoch, counter])."""

    name: str
    fields: dict[str, Any]


class Ready(msgspec.Struct):
    """One round of obligations. See the module's text for the order."""

    resets: list[int] = []
    events: list[Event] = []
    messages: list[tuple[int, Message]] = []
    records: list[Record] = []
    upto: int = 0  # number of records handed out since boot, these included: what `synced` takes
    events_after_sync: list[Event] = []
    messages_after_sync: list[tuple[int, Message]] = []
    deliveries: list[Deliver | Install] = []
    abort: str | None = None


@dataclass(slots=True)
class Recovered:
    """What the disk held at boot: the store's answer to recovery, the core's starting point.

    `snapshot` is (zxid, digest, state) or None; `runs` is the history above it: (first zxid, transactions) ascending.
    """

    accepted_epoch: int = 0
    current_epoch: int = 0
    snapshot: tuple[Zxid, int, bytes] | None = None
    runs: list[tuple[Zxid, list[bytes]]] = field(default_factory=list)
    amnesiac: bool = False
