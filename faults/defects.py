"""Known Zab bugs that a node can be built with: a checker that never fails proves nothing.

Each defect is a subclass of a core or store or link class that overrides the one method in which the bug lived. Its
scenario (scenarios/defects/) leads a real ensemble into the situation in which the bug shows; the same scenario passes
without it. Where the rest of the node would mask a bug, the defect takes that mask away too, and says so.
"""

import builtins
from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec

from node.channel.header import Header, Kind
from node.channel.session import Outcome, Session
from node.core import zxid as zx
from node.core.broadcast import Peer
from node.core.history import History, Stretch
from node.core.machine import Settings
from node.core.messages import Ack, AckEpoch, AckLeader, Commit, Message, Phase, Propose, Role, Run, Sync, Vote
from node.core.ready import NewLeaderRecord, Record, Recovered, TruncRecord, TxnRecords
from node.core.zxid import Zxid
from node.net.link import Links
from node.parts import Parts
from node.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """One known bug. `property` is the one that its scenario must find violated."""

    name: str
    about: str
    ticket: str | None
    property: str
    scenario: str
    replace: Callable[[Parts], None]
    probabilistic: str | None = None  # why a run may miss it, or None

    @builtins.property
    def path(self) -> str:
        """What NodeConfig.defect takes."""
        return f"{__name__}:{self.name.upper().replace('-', '_')}"

    def build(self, parts: Parts) -> None:
        self.replace(parts)


# ---- acknowledging what is not durable ----


class AckBeforeSync(Peer):
    """The follower's ACK leaves when the proposal is queued, not when it is on disk."""

    def on_ready(self) -> None:
        if self.ack_due and not self.established and self.leader is not None:
            self.ack_due = False
            self.send(self.leader, Ack(self.current_epoch, self.history.last))
        super().on_ready()


class AckLeaderBeforeSync(Peer):
    """The follower's ACK-LD leaves before the initial history and the new epoch are on disk."""

    def acknowledge_leader(self, leader: int) -> None:
        self.send(leader, AckLeader(self.current_epoch, self.history.last, self.amnesiac))


class EpochBeforeHistory(Store):
    """current_epoch reaches the disk in a sync of its own, before the history that it stands for."""

    def write(self, records: list[Record]) -> None:
        epochs: list[Record] = [record for record in records if isinstance(record, NewLeaderRecord)]
        if epochs:
            super().write(epochs)
            self.make_durable()
        super().write(records)


class PromiseNotDurable(Peer):
    """A follower keeps accepted_epoch in memory only: a restart forgets the promise."""

    def promise(self, epoch: int) -> None:
        self.accepted_epoch = epoch
        self.event_after_sync("accepted_epoch", epoch=epoch, leader=self.leader)


class LeaderPromiseNotDurable(Peer):
    """The leader proposes an epoch that it has not stored itself."""

    def promise_as_leader(self, epoch: int) -> None:
        self.accepted_epoch = epoch
        self.event_after_sync("accepted_epoch", epoch=epoch, leader=self.me)
        self.own_epoch_durable()


# ---- counting wrongly ----


class CommitWithoutQuorum(Peer):
    """The leader commits at n/2 acknowledgements, which is one too few."""

    def commit_point(self) -> Zxid:
        acked = [self.durable, *(f.acked for f in self.followers.values() if f.active and not f.amnesiac)]
        acked.sort(reverse=True)
        return acked[min(self.quorum.size - 2, len(acked) - 1)]


class CountOwnAckEarly(Peer):
    """The leader counts its own ACK at once, and writes its log when it finds the time: every ten heartbeats."""

    late: list[TxnRecords]
    written = 0

    def abandon(self) -> None:
        self.write_late()
        super().abandon()

    def log_own(self, records: TxnRecords) -> None:
        self.late.append(records)
        self.durable = self.history.last
        self.commit_due = True

    def on_heartbeat(self) -> None:
        if self.now - self.written >= 10 * self.settings.heartbeat:
            self.write_late()
        super().on_heartbeat()

    def write_late(self) -> None:
        for records in getattr(self, "late", []):
            self.record(records)
            self.accepted(records.first, records.crcs)
        self.late = []
        self.written = self.now


class EarlyReady(Peer):
    """The primary broadcasts as soon as NEWLEADER is out, without waiting for a quorum of ACK-LD."""

    @builtins.property
    def room(self) -> int:
        return super().room if self.established or not self.synchronizing else self.settings.outstanding

    @builtins.property
    def synchronizing(self) -> bool:
        return self.role == Role.LEADING and self.phase == Phase.SYNCHRONIZATION

    @builtins.property
    def primary(self) -> bool:
        return self.established or self.synchronizing

    @builtins.property
    def in_broadcast(self) -> bool:
        return self.phase == Phase.BROADCAST or self.synchronizing

    def submit(self, txns: list[bytes]) -> Zxid:
        first = self.next_zxid()
        self.gathered += txns
        return first

    def on_ready(self) -> None:
        if self.synchronizing:
            self.flush()
        super().on_ready()


class AmnesiacVotes(Peer):
    """A node that lost its disk takes part as if it had always been empty."""

    def __init__(self, settings: Settings, recovered: Recovered) -> None:
        super().__init__(settings, replace(recovered, amnesiac=False))


# ---- taking what must not be taken ----


class NoTruncate(Peer):
    """The leader sends the suffix where a truncation is needed too."""

    def difference_to(self, ack: AckEpoch) -> Sync:
        sync = super().difference_to(ack)
        return sync if sync.snapshot else Sync(max(sync.keep, ack.last_zxid), None, sync.runs)


class TruncateTooFar(Peer):
    """The leader cuts a follower back below the common point, and does not send again what that cost."""

    def difference_to(self, ack: AckEpoch) -> Sync:
        sync = super().difference_to(ack)
        if sync.snapshot or sync.keep >= ack.last_zxid or zx.counter_of(sync.keep) < 2:
            return sync
        return Sync(Zxid(sync.keep - 1), None, sync.runs)


class MemoryNotLog(Peer):
    """Who returns to the election without a restart speaks of its delivered state, and forgets the tail of its log."""

    def own_vote(self) -> Vote:
        return msgspec.structs.replace(super().own_vote(), zxid=self.delivered)

    def history_key(self) -> tuple[int, Zxid]:
        return self.current_epoch, self.delivered

    def acknowledge_epoch(self, leader: int) -> None:
        whole = self.history
        self.history = History(whole.snapshot)  # what it has in memory
        for batch in whole.between(max(self.history.base, whole.base), max(self.delivered, self.history.base)):
            self.history.append(Run(batch.first, batch.txns))
        super().acknowledge_epoch(leader)
        self.history = whole

    def cut_back(self, keep: Zxid) -> None:
        """It believes that its history ends there."""
        self.record(TruncRecord(self.history.last))


class LooseHistory(History):
    """A history that takes transactions in whatever order they come: what nodes with the bugs below would hold.

    `last` stays the highest zxid, and a zxid that is not held stands where it would have stood.
    """

    def append(self, run: Run) -> TxnRecords:
        highest = self.last
        tail = self.stretches[-1]
        if run.first != zx.zxid(tail.epoch, tail.first + self._length(len(self.stretches) - 1)):
            self.stretches.append(Stretch(zx.epoch_of(run.first), zx.counter_of(run.first), len(self.txns)))
        records = super().append(run)
        self.last = max(highest, self.last)
        return records

    def position(self, z: Zxid) -> int:
        count = 0
        for i, stretch in enumerate(self.stretches):
            place = z - zx.zxid(stretch.epoch, stretch.first)
            if 0 <= place < self._length(i):
                return stretch.offset + place + 1
        for i, stretch in enumerate(self.stretches):
            first = zx.zxid(stretch.epoch, stretch.first)
            if z >= first:
                count = stretch.offset + min(z - first + 1, self._length(i))
        return count


class RawSession(Session):
    """Every frame counts, whatever its session or number; nothing ever closes."""

    __slots__ = ()

    def receive(self, header: Header) -> Outcome:
        self.theirs = max(self.theirs, header.incarnation)
        self.heard = True
        opened = header.kind != Kind.HELLO and not self.up
        self.up = self.up or opened
        if header.kind == Kind.MESSAGES:
            return Outcome(opened=opened, accepted=True)
        return Outcome(opened=opened, answer=header.kind != Kind.THANKS)

    def close(self, number: int = 0) -> None:
        self.heard = self.up = False


class RawLinks(Links):
    """Plain ZeroMQ: it reconnects by itself, loses what was on its way, and delivers what it had queued."""

    session_type = RawSession
    immediate = False

    def redial(self, peer: int) -> None:
        pass

    def disconnected(self, peer: int) -> None:
        pass


class GapAccepted(Peer):
    """The follower takes any proposal above its last one, not just the next."""

    history_type = LooseHistory

    def on_propose(self, source: int, message: Propose) -> None:
        if self.joined and message.epoch == self.current_epoch and message.run.first > self.history.last:
            self.take(message)

    def on_commit(self, source: int, message: Commit) -> None:
        if message.zxid <= self.history.last:  # a sound node would stop here, and the bug would not show
            super().on_commit(source, message)

    def take(self, message: Propose) -> None:
        records = self.history.append(message.run)
        last = self.history.last
        self.record(records, lambda: self.now_durable(last))
        self.accepted(records.first, records.crcs)
        self.ack_due = True


class JoinRace(GapAccepted):
    """The leader computes a joiner's difference first, and puts it on the broadcast list when it answers."""

    def send_new_leader(self, peer: int) -> None:
        super().send_new_leader(peer)
        self.followers[peer].forwarding = not self.established

    def on_ack_leader(self, source: int, message: AckLeader) -> None:
        if source in self.followers:
            self.followers[source].forwarding = True
        super().on_ack_leader(source, message)


class StaleEpochAccepted(GapAccepted):
    """The follower takes proposals of an older epoch's leader, too."""

    def on_propose(self, source: int, message: Propose) -> None:
        if self.joined:
            self.take(message)

    def on_stray(self, source: int, message: Message) -> None:
        if isinstance(message, Propose) and self.role == Role.FOLLOWING:
            self.on_propose(source, message)


# ---- the catalogue ----


def _peer(kind: type[Peer]) -> Callable[[Parts], None]:
    def build(parts: Parts) -> None:
        parts.peer = kind

    return build


def _store(kind: type[Store]) -> Callable[[Parts], None]:
    def build(parts: Parts) -> None:
        parts.store = kind

    return build


def _raw_links(parts: Parts) -> None:
    parts.links = RawLinks


def _peer_on_raw_links(kind: type[Peer]) -> Callable[[Parts], None]:
    def build(parts: Parts) -> None:
        parts.peer = kind
        parts.links = RawLinks

    return build


ACK_BEFORE_SYNC = Defect(
    name="ack-before-sync",
    about="a follower acknowledges a proposal when it is queued, not when it is durable",
    ticket=None,
    property="committed stays",
    scenario="ack-before-sync",
    replace=_peer(AckBeforeSync),
)
ACK_LD_BEFORE_SYNC = Defect(
    name="ack-ld-before-sync",
    about="a follower sends ACK-LD before the initial history is durable",
    ticket="ZOOKEEPER-3911, 4646",
    property="committed stays",
    scenario="ack-ld-before-sync",
    replace=_peer(AckLeaderBeforeSync),
)
EPOCH_BEFORE_HISTORY = Defect(
    name="epoch-before-history",
    about="current_epoch is durable before the history it stands for",
    ticket="ZOOKEEPER-4643, 4785",
    property="committed stays",
    scenario="epoch-before-history",
    replace=_store(EpochBeforeHistory),
)
PROMISE_NOT_DURABLE = Defect(
    name="promise-not-durable",
    about="a follower's promise (accepted_epoch) does not survive a crash",
    ticket="ZOOKEEPER-335, 1082",
    property="one leader an epoch",
    scenario="promise-not-durable",
    replace=_peer(PromiseNotDurable),
)
COMMIT_WITHOUT_QUORUM = Defect(
    name="commit-without-quorum",
    about="the leader commits at n/2 acknowledgements",
    ticket=None,
    property="agreement",
    scenario="commit-without-quorum",
    replace=_peer(CommitWithoutQuorum),
)
NO_TRUNCATE = Defect(
    name="no-truncate",
    about="the leader sends a suffix where a truncation is needed",
    ticket="ZOOKEEPER-1154",
    property="agreement",
    scenario="no-truncate",
    replace=_peer(NoTruncate),
)
GAP_ACCEPTED = Defect(
    name="gap-accepted",
    about="a follower takes any zxid above its last one; on raw links, since sessions would close at the gap",
    ticket=None,
    property="local primary order",
    scenario="gap-accepted",
    replace=_peer_on_raw_links(GapAccepted),
)
RAW_ZMQ = Defect(
    name="raw-zmq",
    about="links without sessions: ZeroMQ loses frames around a reconnect and says nothing",
    ticket=None,
    property="channels",
    scenario="raw-zmq",
    replace=_raw_links,
)
AMNESIAC_VOTES = Defect(
    name="amnesiac-votes",
    about="a node that lost its disk votes and counts in quorums",
    ticket="ZOOKEEPER-261, 2325",
    property="committed stays",
    scenario="amnesiac-votes",
    replace=_peer(AmnesiacVotes),
)
STALE_EPOCH_ACCEPTED = Defect(
    name="stale-epoch-accepted",
    about="a follower takes proposals of an older epoch's leader; on raw links, since sessions would drop them",
    ticket=None,
    property="global primary order",
    scenario="stale-epoch-accepted",
    replace=_peer_on_raw_links(StaleEpochAccepted),
)

LEADER_PROMISE_NOT_DURABLE = Defect(
    name="leader-promise-not-durable",
    about="the leader proposes an epoch that it has not stored itself",
    ticket="ZOOKEEPER-1291",
    property="epochs",
    scenario="leader-promise-not-durable",
    replace=_peer(LeaderPromiseNotDurable),
)
COUNT_OWN_ACK_EARLY = Defect(
    name="count-own-ack-early",
    about="the leader counts its own ACK before its own disk has the proposal",
    ticket=None,
    property="committed stays",
    scenario="count-own-ack-early",
    replace=_peer(CountOwnAckEarly),
)
TRUNCATE_TOO_FAR = Defect(
    name="truncate-too-far",
    about="the leader truncates a follower below the common point",
    ticket="ZOOKEEPER-1156",
    property="committed stays",
    scenario="truncate-too-far",
    replace=_peer(TruncateTooFar),
)
MEMORY_NOT_LOG = Defect(
    name="memory-not-log",
    about="an election without a restart uses the delivered state instead of the log",
    ticket="ZOOKEEPER-2845",
    property="agreement",
    scenario="memory-not-log",
    replace=_peer(MemoryNotLog),
)
JOIN_RACE = Defect(
    name="join-race",
    about="a joiner's difference is computed before it joins the broadcast list; gaps are taken, or they would mask it",
    ticket="ZOOKEEPER-962, 1264",
    property="local primary order",
    scenario="join-race",
    replace=_peer(JoinRace),
)
EARLY_READY = Defect(
    name="early-ready",
    about="the primary broadcasts before a quorum has acknowledged its initial history",
    ticket=None,
    property="primary integrity",
    scenario="early-ready",
    replace=_peer(EarlyReady),
)

DEFECTS: dict[str, Defect] = {
    defect.name: defect
    for defect in (
        ACK_BEFORE_SYNC,
        ACK_LD_BEFORE_SYNC,
        EPOCH_BEFORE_HISTORY,
        PROMISE_NOT_DURABLE,
        COMMIT_WITHOUT_QUORUM,
        NO_TRUNCATE,
        GAP_ACCEPTED,
        RAW_ZMQ,
        AMNESIAC_VOTES,
        STALE_EPOCH_ACCEPTED,
        LEADER_PROMISE_NOT_DURABLE,
        COUNT_OWN_ACK_EARLY,
        TRUNCATE_TOO_FAR,
        MEMORY_NOT_LOG,
        JOIN_RACE,
        EARLY_READY,
    )
}
