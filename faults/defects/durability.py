"""Bugs in what is durable when: acknowledging, promising or counting what the disk does not hold yet."""

from zab_chaos.node.core.broadcast import Peer
from zab_chaos.node.core.messages import Ack, AckLeader
from zab_chaos.node.core.ready import NewLeaderRecord, Record, TxnRecords
from zab_chaos.node.store.store import Store


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
            self.accepted(records.first, records.digests)
        self.late = []
        self.written = self.now
