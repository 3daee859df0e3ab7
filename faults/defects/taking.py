"""Bugs in what a history takes and what it lets go of."""

from zab_chaos.node.core import zxid as zx
from zab_chaos.node.core.broadcast import Peer
from zab_chaos.node.core.history import History, Stretch
from zab_chaos.node.core.messages import AckEpoch, AckLeader, Commit, Message, Propose, Role, Run, Sync
from zab_chaos.node.core.ready import TruncRecord, TxnRecords
from zab_chaos.node.core.zxid import Zxid


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

    def history_key(self) -> tuple[int, Zxid]:
        return self.current_epoch, self.delivered

    def acknowledge_epoch(self, leader: int) -> None:
        whole = self.history
        self.history = History(whole.snapshot)  # what it has in memory
        for batch in whole.between(max(self.history.base, whole.base), max(self.delivered, self.history.base)):
            self.history.append(Run(batch.first, batch.txns))
        super().acknowledge_epoch(leader)
        self.history = whole

    def adopt(self, sync: Sync, epoch: int) -> None:
        """What the leader sends again because memory did not have it, the log may have: it is not written twice."""
        runs = []
        for run in sync.runs:
            held = sum(Zxid(run.first + i) in self.history for i in range(len(run.txns)))
            if held < len(run.txns):
                runs.append(Run(Zxid(run.first + held), run.txns[held:]))
        super().adopt(Sync(sync.keep, sync.snapshot, runs), epoch)

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
        self.accepted(records.first, records.digests)
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
