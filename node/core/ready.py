"""What the core asks of its driver: the obligations of one `Peer.ready()`.

The core does no I/O. It returns a `Ready`, and each field is a contract with the driver (the server's loop, the simulator
or a replay). The driver fulfils a Ready in this order:

1. `resets`: close the session with each of these peers; a new one opens by itself (a new iteration, DSN 2011, II).
2. `events` go to the trace.
3. `messages` leave. They need no disk: a leader's PROPOSE leaves while its own disk is still writing.
4. `records` are appended in order and made durable, with one sync for all of them.
5. `Peer.synced(upto)` is called. The core reacts in the next Ready only.
6. `events_after_sync` go to the trace, then `messages_after_sync` leave: every promise and every ACK.
   They belong to the sessions at the time of `ready()`: if one was closed meanwhile, its messages are dropped.
7. `deliveries` are applied to the tree in order, and `deliver` is traced, before any client gets an answer.

`abort` ends the process after all of the above: a sanity check failed (LADIS 2008, section 2).
"""

from dataclasses import dataclass, field
from typing import Any, final

import msgspec

from zab_chaos.node.core.messages import Message
from zab_chaos.node.core.zxid import Zxid


class EpochRecord(msgspec.Struct, frozen=True):
    """EPOCH: set accepted_epoch (f.p) to `epoch`."""

    epoch: int


class TxnRecords(msgspec.Struct, frozen=True):
    """TXN, one log record for each transaction: `first`, `first + 1`, ... with the digest of each."""

    first: Zxid
    txns: list[bytes]
    digests: list[int]


class TruncRecord(msgspec.Struct, frozen=True):
    """TRUNC: cut the history back to `keep`. Opens a group, which only a NEWLEADER record closes."""

    keep: Zxid


class SnapRecord(msgspec.Struct, frozen=True):
    """SNAP: replace the history by a snapshot, which is stored durably first. Opens a group like TRUNC."""

    zxid: Zxid
    digest: int
    state: bytes


class NewLeaderRecord(msgspec.Struct, frozen=True):
    """NEWLEADER: set current_epoch (f.a) to `epoch`; the history so far is its initial history. Closes a group."""

    epoch: int


class MemberRecord(msgspec.Struct, frozen=True):
    """MEMBER: an established leader has synchronized this node, which had lost its disk; it counts again."""


Record = EpochRecord | TxnRecords | TruncRecord | SnapRecord | NewLeaderRecord | MemberRecord


@final
class Deliver(msgspec.Struct, frozen=True):
    """Committed transactions with consecutive zxids of one epoch, and the running digest after the last one."""

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
    """A trace event: its name and its fields (JSON values; zxids as [epoch, counter])."""

    name: str
    fields: dict[str, Any]


class Ready(msgspec.Struct):
    """One round of obligations. The module's docstring has their order."""

    resets: list[int] = []
    events: list[Event] = []
    messages: list[tuple[int, Message]] = []
    records: list[Record] = []
    upto: int = 0  # number of records since boot, these included: the argument of `synced`
    events_after_sync: list[Event] = []
    messages_after_sync: list[tuple[int, Message]] = []
    deliveries: list[Deliver | Install] = []
    abort: str | None = None


@dataclass(slots=True)
class Recovered:
    """What recovery found on the disk: the state that the core starts from.

    `snapshot` is (zxid, digest, state) or None; `runs` is the history above it: (first zxid, transactions) ascending.
    """

    accepted_epoch: int = 0
    current_epoch: int = 0
    snapshot: tuple[Zxid, int, bytes] | None = None
    runs: list[tuple[Zxid, list[bytes]]] = field(default_factory=list)
    amnesiac: bool = False
