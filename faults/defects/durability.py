"""Bugs of durability: acknowledging, promising or counting what is not on the disk yet."""

from zab_chaos.node.core.broadcast import Broadcasting
from zab_chaos.node.core.discovery import Choosing
from zab_chaos.node.core.following import Following
from zab_chaos.node.core.messages import Ack, AckLeader
from zab_chaos.node.core.peer import Peer
from zab_chaos.node.core.ready import NewLeaderRecord, Record, Recovered, TxnRecords
from zab_chaos.node.core.settings import Settings
from zab_chaos.node.store.store import Store


class AcksEarly(Following):
    """A follower that sends ACK before its sync."""

    def on_ready(self) -> None:
        if self.ack_due:
            self.ack_due = False
            self.out.send(self.leader, Ack(self.peer.current_epoch, self.journal.history.last))


class AckBeforeSync(Peer):
    """A follower sends ACK when the proposal is queued, not when it is on the disk. One method."""

    following_type = AcksEarly


class AcksLeaderEarly(Following):
    """A follower that sends ACK-LD before its sync."""

    def acknowledge_leader(self) -> None:
        peer = self.peer
        self.out.send(self.leader, AckLeader(peer.current_epoch, self.journal.history.last, peer.amnesiac))


class AckLeaderBeforeSync(Peer):
    """A follower sends ACK-LD before the initial history and the new epoch are on the disk. One method."""

    following_type = AcksLeaderEarly


class EpochBeforeHistory(Store):
    """current_epoch is synced separately, before the history that belongs to it."""

    def write(self, records: list[Record]) -> None:
        epochs: list[Record] = [record for record in records if isinstance(record, NewLeaderRecord)]
        if epochs:
            super().write(epochs)
            self.make_durable()
        super().write(records)


class PromisesInMemory(Following):
    """A follower that does not write accepted_epoch."""

    def promise(self, epoch: int) -> None:
        self.peer.accepted_epoch = epoch
        self.out.event_after_sync("accepted_epoch", epoch=epoch, leader=self.leader)


class PromiseNotDurable(Peer):
    """A follower keeps accepted_epoch in memory only: a restart forgets the promise. One method."""

    following_type = PromisesInMemory


class ProposesInMemory(Choosing):
    """A prospective leader that does not write accepted_epoch."""

    def promise(self) -> None:
        self.peer.accepted_epoch = self.epoch
        self.out.event_after_sync("accepted_epoch", epoch=self.epoch, leader=self.me)
        self.own_epoch_durable()


class LeaderPromiseNotDurable(Peer):
    """The leader proposes an epoch that it has not stored itself. One method."""

    choosing_type = ProposesInMemory


class LogsLate(Broadcasting):
    """A primary that counts its own log as durable at once, and leaves the writing to the peer."""

    peer: "CountOwnAckEarly"

    def write_own_log(self, records: TxnRecords) -> None:
        self.peer.late.append(records)
        self.journal.durable = self.journal.history.last
        self.commit_due = True


class CountOwnAckEarly(Peer):
    """The leader counts its own ACK at once, and writes its log later, every ten heartbeats.

    One method of the primary; two methods of the peer write the log.
    """

    broadcasting_type = LogsLate

    def __init__(self, settings: Settings, recovered: Recovered) -> None:
        super().__init__(settings, recovered)
        self.late: list[TxnRecords] = []
        self.written = 0

    def start_election(self, why: str) -> None:
        self.write_late()
        super().start_election(why)

    def on_heartbeat(self) -> None:
        if self.now - self.written >= 10 * self.settings.heartbeat:
            self.write_late()
        super().on_heartbeat()

    def write_late(self) -> None:
        for records in self.late:
            self.journal.write(records, self.current_epoch)
        self.late.clear()
        self.written = self.now
