"""Bugs of histories: which transactions a node accepts, truncates, or believes to have."""

from zab_chaos.node.core import zxid as zx
from zab_chaos.node.core.broadcast import Broadcasting
from zab_chaos.node.core.followers import Follower
from zab_chaos.node.core.following import Following
from zab_chaos.node.core.history import EpochRange, History
from zab_chaos.node.core.journal import Journal
from zab_chaos.node.core.messages import AckEpoch, AckLeader, Commit, Message, Propose, Sync, TxnRun
from zab_chaos.node.core.peer import Peer
from zab_chaos.node.core.ready import TruncRecord, TxnRecords
from zab_chaos.node.core.zxid import Zxid


class GetsNoTruncation(Follower):
    """A leader's view of a follower in which no difference contains a truncation."""

    @staticmethod
    def difference(history: History, ack: AckEpoch) -> Sync:
        sync = Follower.difference(history, ack)
        return sync if sync.snapshot else Sync(max(sync.keep, ack.last_zxid), None, sync.runs)


class NoTruncate(Peer):
    """The leader sends only the suffix where a truncation is needed too. One method."""

    follower_type = GetsNoTruncation


class IsCutTooFar(Follower):
    """A leader's view of a follower in which truncations reach one transaction too far back."""

    @staticmethod
    def difference(history: History, ack: AckEpoch) -> Sync:
        sync = Follower.difference(history, ack)
        if sync.snapshot or sync.keep >= ack.last_zxid or zx.counter_of(sync.keep) < 2:
            return sync
        return Sync(Zxid(sync.keep - 1), None, sync.runs)


class TruncateTooFar(Peer):
    """The leader truncates a follower below the common point, and does not resend what was lost by that. One method."""

    follower_type = IsCutTooFar


class ShowsMemory(Following):
    """A follower whose ACK-E describes the delivered state instead of the log."""

    def acknowledge_epoch(self) -> None:
        journal, full = self.journal, self.journal.history
        delivered = journal.history = History(full.snapshot, full.txn_digest)
        for batch in full.between(max(delivered.base, full.base), max(journal.delivered, delivered.base)):
            delivered.append(TxnRun(batch.first, batch.txns))
        super().acknowledge_epoch()
        journal.history = full


class ForgetfulJournal(Journal):
    """A journal that neither truncates its log nor writes transactions that it already has."""

    def adopt(self, sync: Sync, epoch: int) -> None:
        """Skip transactions that the log has: the leader resends them only because they were not in memory."""
        runs = []
        for run in sync.runs:
            held = sum(Zxid(run.first + i) in self.history for i in range(len(run.txns)))
            if held < len(run.txns):
                runs.append(TxnRun(Zxid(run.first + held), run.txns[held:]))
        super().adopt(Sync(sync.keep, sync.snapshot, runs), epoch)

    def truncate(self, keep: Zxid) -> None:
        """Truncate nothing: this node believes that its history ends there."""
        self._out.record(TruncRecord(self.history.last))


class MemoryNotLog(Peer):
    """A node that returns to the election without a restart uses its delivered state, and forgets the tail of its log.

    Two methods use the delivered state, in votes and in ACK-E; two of the journal leave the forgotten tail in the log.
    """

    following_type = ShowsMemory
    journal_type = ForgetfulJournal

    def history_key(self) -> tuple[int, Zxid]:
        return self.current_epoch, self.delivered


class LooseHistory(History):
    """A history that accepts transactions in any order, as nodes with the bugs below need it.

    `last` is the highest zxid; a zxid that is missing has the position that it would have had.
    """

    def append(self, run: TxnRun) -> TxnRecords:
        highest = self.last
        tail = self.epoch_ranges[-1]
        if run.first != tail.before + 1 + self._length(len(self.epoch_ranges) - 1):
            self.epoch_ranges.append(EpochRange(zx.epoch_of(run.first), Zxid(run.first - 1), len(self.txns)))
        records = super().append(run)
        self.last = max(highest, self.last)
        return records

    def position(self, z: Zxid) -> int:
        count = 0
        for i, epoch_range in enumerate(self.epoch_ranges):
            place = z - epoch_range.before
            if 0 < place <= self._length(i):
                return epoch_range.offset + place
        for i, epoch_range in enumerate(self.epoch_ranges):
            if z > epoch_range.before:
                count = epoch_range.offset + min(z - epoch_range.before, self._length(i))
        return count


class TakesGaps(Following):
    """A follower that accepts any proposal above its last one."""

    def on_propose(self, source: int, message: Propose) -> None:
        current = message.epoch == self.peer.current_epoch
        if self.joined and current and message.run.first > self.journal.history.last:
            self.accept(message)

    def on_commit(self, source: int, message: Commit) -> None:
        # A correct node would stop at a COMMIT beyond its log, and mask the bug.
        if message.zxid <= self.journal.history.last:
            super().on_commit(source, message)


class GapAccepted(Peer):
    """A follower accepts any proposal above its last one, not only the next one.

    Two methods, and a history that accepts gaps.
    """

    history_type = LooseHistory
    following_type = TakesGaps


class ForwardsLate(Broadcasting):
    """A primary that forwards proposals to a joiner only after its ACK-LD."""

    def send_new_leader(self, peer: int, ack: AckEpoch) -> None:
        super().send_new_leader(peer, ack)
        self.followers[peer].forwarding = False

    def on_ack_leader(self, source: int, message: AckLeader) -> None:
        if source in self.followers:
            self.followers[source].forwarding = True
        super().on_ack_leader(source, message)


class JoinRace(GapAccepted):
    """The leader computes a joiner's difference first, and adds it to the broadcast list when it answers. Two methods."""

    broadcasting_type = ForwardsLate


class TakesOldEpochs(TakesGaps):
    """A follower that accepts proposals of any epoch."""

    def on_propose(self, source: int, message: Propose) -> None:
        if self.joined:
            self.accept(message)

    def on_stray(self, source: int, message: Message) -> None:
        if isinstance(message, Propose):
            self.on_propose(source, message)


class StaleEpochAccepted(GapAccepted):
    """A follower accepts proposals of an older epoch's leader too. Two methods."""

    following_type = TakesOldEpochs
