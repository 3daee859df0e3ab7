"""The state that all phases share, the two ways in, and the one record out.

Two rules govern this room. The core never acts: whatever must happen is handed out by `ready()`. And nothing is
promised before it is durable: an effect that needs the disk waits in `_effects` until `synced` covers its record.

Each phase is a class of its own that extends `Machine` (election, discovery, synchronization, broadcast); `Peer` joins
them. A phase calls another one only through the abstract methods declared here.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from zab_chaos.node.core import digest as dg
from zab_chaos.node.core import zxid as zx
from zab_chaos.node.core.agreement import Agreement
from zab_chaos.node.core.history import History
from zab_chaos.node.core.messages import (
    Ack,
    AckEpoch,
    AckLeader,
    Cepoch,
    Commit,
    CommitLeader,
    Confirm,
    Confirmed,
    Fetch,
    Member,
    Message,
    NewEpoch,
    NewLeader,
    Phase,
    Ping,
    Propose,
    Role,
    Run,
    Sync,
    Vote,
)
from zab_chaos.node.core.messages import History as HistoryMessage
from zab_chaos.node.core.quorum import Majority
from zab_chaos.node.core.ready import Deliver, Event, Install, Ready, Record, Recovered
from zab_chaos.node.core.zxid import ZERO, Zxid

MS = 1_000_000  # nanoseconds
PATIENCE_HEARTBEATS = 3  # in so many every peer that can be heard has said what its digest is


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Who this node is and how long it waits. Times are nanoseconds of the node's own clock."""

    me: int
    members: tuple[int, ...]
    heartbeat: int = 100 * MS
    timeout: int = 800 * MS
    finalize: int = 40 * MS
    sync_timeout: int = 5000 * MS
    outstanding: int = 1000
    counter_max: int = zx.COUNTER_MAX


@dataclass(slots=True)
class Follower:
    """A leader's view of one follower, in one session. What a follower has not sent yet is None."""

    accepted_epoch: int
    amnesiac: bool
    ack_epoch: AckEpoch | None = None
    forwarding: bool = False  # was sent NEWLEADER, and every PROPOSE since
    active: bool = False  # sent ACK-LD, was sent COMMIT-LD (or will be, when the epoch is established)
    acked: Zxid = ZERO  # durable at the follower up to here


@dataclass(slots=True)
class Inquiry:
    """A leader's question to followers, whether they follow it in its epoch still. `done` hears who confirmed, a quorum."""

    asked: set[int]
    done: Callable[[set[int]], None]
    confirmed: set[int] = field(default_factory=set)


# Where a message is expected. Anything else is a stray of an iteration that is over, and is dropped: sessions make
# that rare, and no promise rests on it.
_LEADING = Role.LEADING
_FOLLOWING = Role.FOLLOWING
EXPECTED: dict[type, frozenset[tuple[Role, Phase]]] = {
    Vote: frozenset((role, phase) for role in Role for phase in Phase),
    Ping: frozenset((role, phase) for role in Role for phase in Phase),
    Cepoch: frozenset((role, phase) for role in Role for phase in Phase),
    NewEpoch: frozenset({(_FOLLOWING, Phase.DISCOVERY)}),
    AckEpoch: frozenset((_LEADING, phase) for phase in (Phase.DISCOVERY, Phase.SYNCHRONIZATION, Phase.BROADCAST)),
    Fetch: frozenset({(_FOLLOWING, Phase.SYNCHRONIZATION)}),
    HistoryMessage: frozenset({(_LEADING, Phase.DISCOVERY)}),
    NewLeader: frozenset({(_FOLLOWING, Phase.SYNCHRONIZATION)}),
    AckLeader: frozenset({(_LEADING, Phase.SYNCHRONIZATION), (_LEADING, Phase.BROADCAST)}),
    CommitLeader: frozenset({(_FOLLOWING, Phase.SYNCHRONIZATION), (_FOLLOWING, Phase.BROADCAST)}),
    Confirm: frozenset({(_FOLLOWING, Phase.SYNCHRONIZATION), (_FOLLOWING, Phase.BROADCAST)}),
    Confirmed: frozenset({(_LEADING, Phase.DISCOVERY), (_LEADING, Phase.SYNCHRONIZATION), (_LEADING, Phase.BROADCAST)}),
    Member: frozenset({(_FOLLOWING, Phase.BROADCAST)}),
    Propose: frozenset({(_FOLLOWING, Phase.SYNCHRONIZATION), (_FOLLOWING, Phase.BROADCAST)}),
    Ack: frozenset({(_LEADING, Phase.SYNCHRONIZATION), (_LEADING, Phase.BROADCAST)}),
    Commit: frozenset({(_FOLLOWING, Phase.BROADCAST)}),
}
FROM_LEADER = frozenset({NewEpoch, Fetch, NewLeader, CommitLeader, Confirm, Member, Propose, Commit})

# The same by (role, phase): what is expected there.
EXPECTED_IN: dict[tuple[Role, Phase], frozenset[type]] = {
    (role, phase): frozenset(kind for kind, places in EXPECTED.items() if (role, phase) in places)
    for role in Role
    for phase in Phase
}

HANDLERS: dict[type, str] = {
    Vote: "on_vote",
    Ping: "on_ping",
    Cepoch: "on_cepoch",
    NewEpoch: "on_new_epoch",
    AckEpoch: "on_ack_epoch",
    Fetch: "on_fetch",
    HistoryMessage: "on_history",
    NewLeader: "on_new_leader",
    AckLeader: "on_ack_leader",
    CommitLeader: "on_commit_leader",
    Confirm: "on_confirm",
    Confirmed: "on_confirmed",
    Member: "on_member",
    Propose: "on_propose",
    Ack: "on_ack",
    Commit: "on_commit",
}

# The edges of the phase diagram; everything may return to ELECTION.
EDGES: frozenset[tuple[Phase, Phase]] = frozenset(
    {
        (Phase.ELECTION, Phase.DISCOVERY),
        (Phase.DISCOVERY, Phase.SYNCHRONIZATION),
        (Phase.SYNCHRONIZATION, Phase.BROADCAST),
        *((phase, Phase.ELECTION) for phase in Phase),
    }
)


class SanityCheckFailed(Exception):
    """Something that cannot happen has happened; the server must stop (LADIS 2008, section 2)."""


class NotLeading(Exception):
    """Only an established leader, the primary, may broadcast."""


class Machine:
    """State, channels in, obligations out. The phases add what happens on each message."""

    history_type: type[History] = History

    def __init__(self, settings: Settings, recovered: Recovered) -> None:
        self.settings = settings
        self.me = settings.me
        self.quorum = Majority(settings.members)
        # Durable (DSN 2011, Table 1), as of the records handed out; `durable` says how far the disk has come.
        self.accepted_epoch = recovered.accepted_epoch
        self.current_epoch = recovered.current_epoch
        self.history = self.history_type(recovered.snapshot)
        for first, txns in recovered.runs:
            self.history.append(Run(first, txns))
        self.durable = self.history.last
        self.amnesiac = recovered.amnesiac
        # Volatile.
        self.role = Role.LOOKING
        self.phase = Phase.ELECTION
        self.leader: int | None = None
        self._expected = EXPECTED_IN[self.role, self.phase]
        self.in_broadcast = False  # leads an established epoch, or follows one
        self.delivered = recovered.snapshot[0] if recovered.snapshot else ZERO
        self.digest = recovered.snapshot[1] if recovered.snapshot else dg.EMPTY
        self.committed = self.delivered
        self.agreement = Agreement(self.quorum.size, PATIENCE_HEARTBEATS * settings.heartbeat)
        self.now = 0
        self.deadline: int | None = None  # the current phase must be over by then
        self.finalize_at: int | None = None  # the election is decided by then
        self.iteration = 0
        self.links: set[int] = set()
        self._heard: dict[int, int] = {}
        self._fresh: set[int] = set()
        self._silent_at = 0  # before that no session can have been silent for too long
        self._pinged = -settings.heartbeat
        self._handed_out = 0
        self._effects: deque[tuple[int, Callable[[], None]]] = deque()
        self._out = Ready()
        self.asked = False  # the latest `ready` was not empty
        self._handlers: dict[type, Callable[[int, Any], None]] = {
            kind: getattr(self, name) for kind, name in HANDLERS.items()
        }

    # ---- what a driver calls ----

    def start(self, now: int) -> None:
        """Begin. Call once, before anything else."""
        self.now = now
        self.look("start")

    def link_up(self, peer: int) -> None:
        """A new session with `peer` is open in both directions."""
        self.links.add(peer)
        self.agreement.forget(peer)
        self._heard[peer] = self.now
        self._silent_at = min(self._silent_at, self.now + self.settings.timeout + 1)
        self.on_link_up(peer)

    def link_down(self, peer: int, why: str) -> None:
        """The session with `peer` is closed: what was in it is lost."""
        if peer in self.links:
            self.links.discard(peer)
            self.on_link_down(peer, why)

    def step(self, source: int, message: Message) -> None:
        """A message from `source`, in its session's order."""
        if source not in self.links:
            return  # of a session that this node has closed
        self._fresh.add(source)
        kind = type(message)
        if kind not in self._expected or (kind in FROM_LEADER and source != self.leader):
            self.on_stray(source, message)
            return
        try:
            self._handlers[kind](source, message)
        except SanityCheckFailed as error:
            self._out.abort = str(error)

    def tick(self, now: int) -> None:
        """Time passes. Call at least a few times in each heartbeat, after what has arrived was stepped."""
        self.now = now
        if self._fresh:
            for peer in self._fresh:
                self._heard[peer] = now
            self._fresh.clear()
        if now >= self._silent_at:
            self._look_for_silence(now)
        if now - self._pinged >= self.settings.heartbeat:
            self._pinged = now
            self.on_heartbeat()
        self.on_tick()
        if self.agreement.disputed:
            self.settle_dispute()

    def _look_for_silence(self, now: int) -> None:
        """Close the sessions in which nothing came for too long; the next look is due when the others could be silent."""
        latest = now - self.settings.timeout
        for peer in sorted([peer for peer in self.links if self._heard[peer] < latest]):
            self.reset(peer, "silent")
        heard = [self._heard[peer] for peer in self.links]
        self._silent_at = min(heard, default=now) + self.settings.timeout + 1

    def wakes_at(self) -> int:
        """When `tick` will have something to do if nothing else happens before: a heartbeat, a silence, a deadline."""
        wakes = self._pinged + self.settings.heartbeat
        patience = self.settings.timeout + 1
        for peer in self.links:
            if peer not in self._fresh and self._heard[peer] + patience < wakes:
                wakes = self._heard[peer] + patience
        if self.deadline is not None and self.deadline < wakes:
            wakes = self.deadline
        if self.finalize_at is not None and self.finalize_at < wakes:
            wakes = self.finalize_at
        return wakes

    def synced(self, upto: int) -> None:
        """The first `upto` records are durable."""
        while self._effects and self._effects[0][0] <= upto:
            self._effects.popleft()[1]()

    def submit(self, txns: list[bytes]) -> Zxid:
        """Broadcast transactions (abcast); the zxid of the first. Raises NotLeading. See `room`."""
        raise NotImplementedError

    def snapshot_taken(self, zxid: Zxid, digest: int, state: bytes) -> None:
        """The driver has stored a snapshot of the delivered state at `zxid` durably."""
        self.history.compact((zxid, digest, state))

    def ready(self) -> Ready:
        """The obligations since the last call; an empty answer is not to be kept."""
        try:
            self.on_ready()
        except SanityCheckFailed as error:
            self._out.abort = str(error)
        out = self._out
        self.asked = out.asks()
        if self.asked:  # what is empty is still ours to fill
            self._out = Ready()
            self._handed_out += len(out.records)
        out.upto = self._handed_out
        return out

    # ---- what phases use ----

    def send(self, peer: int, message: Message) -> None:
        if peer in self.links:
            self._out.messages.append((peer, message))

    def send_after_sync(self, peer: int, message: Message) -> None:
        if peer in self.links:
            self._out.messages_after_sync.append((peer, message))

    def send_all(self, message: Message) -> None:
        for peer in sorted(self.links):
            self._out.messages.append((peer, message))

    def record(self, record: Record, effect: Callable[[], None] | None = None) -> None:
        """Append to the log; `effect` happens when it is durable."""
        self._out.records.append(record)
        if effect is not None:
            self._effects.append((self._handed_out + len(self._out.records), effect))

    def in_this_iteration(self, effect: Callable[[], None]) -> Callable[[], None]:
        """`effect`, unless a new iteration has begun until then."""
        iteration = self.iteration

        def guarded() -> None:
            if self.iteration == iteration:
                effect()

        return guarded

    def event(self, name: str, **fields: Any) -> None:
        self._out.events.append(Event(name, fields))

    def event_after_sync(self, name: str, **fields: Any) -> None:
        self._out.events_after_sync.append(Event(name, fields))

    def reset(self, peer: int, why: str) -> None:
        """Close the session with `peer`; whatever was to be sent in it is dropped. A new one opens by itself."""
        if peer not in self.links:
            return
        self._out.resets.append(peer)
        self._out.messages = [m for m in self._out.messages if m[0] != peer]
        self._out.messages_after_sync = [m for m in self._out.messages_after_sync if m[0] != peer]
        self.link_down(peer, why)

    def enter(self, role: Role, phase: Phase, leader: int | None, why: str) -> None:
        """The one place where role and phase change. Refuses edges that the protocol does not have."""
        assert (self.phase, phase) in EDGES, f"{self.phase.name} -> {phase.name}"
        if (role, leader) != (self.role, self.leader) or phase == Phase.ELECTION:
            self.event("role", role=role.name, leader=leader, why=why)
        self.role, self.phase, self.leader = role, phase, leader
        self._expected = EXPECTED_IN[role, phase]
        self.in_broadcast = phase is Phase.BROADCAST
        self.event("phase", phase=phase.name, epoch=self.accepted_epoch)

    def deliver(self) -> None:
        """Hand out what is committed and durable here, in zxid order (f.3.3)."""
        target = min(self.committed, self.durable)
        if target <= self.delivered:
            return
        if self.delivered < self.history.base:
            snapshot = self.history.snapshot
            assert snapshot is not None
            self._out.deliveries.append(Install(*snapshot))
            self.delivered, self.digest = snapshot[0], snapshot[1]
            self.agreement.remember(*snapshot[:2])
            if target <= self.delivered:
                return
        for batch in self.history.between(self.delivered, target):
            z, digest = int(batch.first), self.digest
            for txn in batch.digests:
                digest = dg.fold(digest, z, txn)
                z += 1
            self.digest = digest
            self._out.deliveries.append(Deliver(batch.first, batch.txns, batch.digests, digest))
            self.delivered = Zxid(z - 1)
            self.agreement.remember(self.delivered, digest)

    def check_digest(self, zxid: Zxid, digest: int, source: int) -> None:
        """Nodes that delivered the same prefix have the same digest; whoever has another one than the rest stops."""
        self.agreement.hear(source, zxid, digest, self.delivered, self.digest, self.now)
        if self.agreement.disputed:
            self.settle_dispute()

    def settle_dispute(self) -> None:
        """End, if this node is the one that is wrong. If its leader is, that one finds out by itself."""
        why = self.agreement.wrong(self.leader if self.role is Role.FOLLOWING else None, self.now)
        if why is not None:
            self._out.abort = why

    def adopt(self, sync: Sync, epoch: int) -> None:
        """Make this history equal to the leader's, given as a difference. The caller closes the group (NEWLEADER)."""
        raise NotImplementedError

    # ---- what the phases provide ----

    def look(self, why: str) -> None:
        """Phase 0, from wherever this node is: a new iteration."""
        raise NotImplementedError

    def follow(self, leader: int) -> None:
        """Phase 1 as a follower."""
        raise NotImplementedError

    def lead(self) -> None:
        """Phase 1 as the prospective leader."""
        raise NotImplementedError

    def on_link_up(self, peer: int) -> None:
        raise NotImplementedError

    def on_link_down(self, peer: int, why: str) -> None:
        raise NotImplementedError

    def on_stray(self, source: int, message: Message) -> None:
        raise NotImplementedError

    def on_heartbeat(self) -> None:
        raise NotImplementedError

    def on_tick(self) -> None:
        raise NotImplementedError

    def on_ready(self) -> None:
        raise NotImplementedError
