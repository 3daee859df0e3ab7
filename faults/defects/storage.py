"""Bugs in what a disk is taken to hold: snapshots, truncations, torn tails, and what was never synced."""

from contextlib import suppress

from zab_chaos.node.core import digest as dg
from zab_chaos.node.core.ready import Record, SnapRecord, TruncRecord, TxnRecords
from zab_chaos.node.core.zxid import Zxid
from zab_chaos.node.store import log_record
from zab_chaos.node.store.disk import DiskFile
from zab_chaos.node.store.errors import DiskFailed
from zab_chaos.node.store.log import Log
from zab_chaos.node.store.log_record import StoredRecord
from zab_chaos.node.store.reader import SegmentReader
from zab_chaos.node.store.recovery import Recovery
from zab_chaos.node.store.state import LogState
from zab_chaos.node.store.store import Store
from zab_chaos.node.tree.tree import Tree


class NewestSnapshot(Recovery):
    """Starts from the newest snapshot, also when the log has been cut back behind it."""

    def choose_snapshot(self, state: LogState) -> Zxid | None:
        return self.snapshots[-1] if self.snapshots else super().choose_snapshot(state)


class DirtySnapshot(Store):
    """A snapshot holds all that was logged, committed or not, and is believed although a truncation came after it.

    ZOOKEEPER-1549 wrote such snapshots and ZOOKEEPER-4837 restored them: a restart undoes the truncation. Without the
    second half (`NewestSnapshot`) a sound recovery would find no snapshot on the log's path, and refuse to start.
    """

    recovery = NewestSnapshot
    tail: tuple[tuple[int, bytes, int], ...] = ()  # zxid, transaction and digest of what was logged and not committed

    def append(self, record: Record) -> None:
        super().append(record)
        if isinstance(record, TxnRecords):
            numbered = enumerate(zip(record.txns, record.digests, strict=True), record.first)
            self.tail += tuple((z, txn, txn_digest) for z, (txn, txn_digest) in numbered)
        elif isinstance(record, TruncRecord):
            self.tail = tuple(entry for entry in self.tail if entry[0] <= record.keep)
        elif isinstance(record, SnapRecord):
            self.tail = ()

    def take_snapshot(self, zxid: Zxid, digest: int, state: bytes) -> None:
        self.tail = tuple(entry for entry in self.tail if entry[0] > zxid)
        tree = Tree()
        tree.load(state, zxid)
        for z, txn, txn_digest in self.tail:
            tree.apply(Zxid(z), txn)
            digest = dg.fold(digest, z, txn_digest)
        super().take_snapshot(tree.zxid, digest, tree.dump())


class StaleOffset(Log):
    """After a truncation it goes on writing where the longer log would have ended: a hole of zeros is left.

    TRUNC is a record here, which makes no file shorter, so the handle is moved on by what a cut file would have lost.
    """

    lost = 0  # bytes of the records that were cut off, at least

    def write(self, records: list[Record]) -> None:
        for record in records:
            if isinstance(record, TruncRecord):
                cut = sum(last - first + 1 for first, last in self.state.outline.above(record.keep))
                self.lost += cut * log_record.OVERHEAD_BYTES
        super().write(records)

    def sync(self) -> None:
        super().sync()
        if self.lost:
            self.close()
            self._offset += self.lost
            self._file = self._disk.open(self._name, self._offset)
            self.lost = 0


class HoleIsTheEnd(SegmentReader):
    """Takes zeros for the end of the log, whatever lies behind them."""

    def check_hole(self, offset: int, batch: int) -> None:
        return


class ReadsUpToAHole(Recovery):
    reader = HoleIsTheEnd


class StaleHandle(Store):
    """The log is written on at a stale offset after a truncation, and what lies behind the hole is lost at a restart.

    ZOOKEEPER-1489. A sound reader finds the records behind the hole and refuses to start; ZooKeeper's took the zeros for
    the end of the log, and so does this one.
    """

    log_type = StaleOffset
    recovery = ReadsUpToAHole


class TruncateErrorIgnored(Store):
    """A truncation that the disk refuses is taken for done, and the node goes on with its log as it was.

    ZOOKEEPER-3701. The truncation's group (its TRUNC, the suffix and NEWLEADER) never reaches the disk.
    """

    def write(self, records: list[Record]) -> None:
        try:
            super().write(records)
        except DiskFailed:
            if not any(isinstance(record, TruncRecord) for record in records):
                raise


class ReadsTornRecords(SegmentReader):
    """A record whose end never reached the disk is read as if it had: zeros stand for what is missing."""

    def unfinished(self, found: StoredRecord) -> StoredRecord | None:
        return found


class KeepsTornTail(Recovery):
    reader = ReadsTornRecords


class TornTailKept(Store):
    """Recovery reads the torn record at the end of the log as a valid one, with bytes that nobody broadcast."""

    recovery = KeepsTornTail


class GoesOnAtTheEnd(Log):
    """Takes what recovery has read for durable."""

    def make_durable_again(self, good: bytes) -> DiskFile:
        return self._disk.open(self._name, len(good))


class RecoveredNotSynced(Store):
    """What recovery finds in the page cache counts as durable, although the process before was killed before its sync.

    A record that is only half there sends the log on to a new segment, so no later sync covers what lies before it: the
    next power cut takes it, and the new segment's CHECKPOINT tells of records that are gone.
    """

    log_type = GoesOnAtTheEnd


class SyncErrorIgnored(Store):
    """A sync that failed is taken for one that worked: what it was to make durable is acknowledged, and gone.

    After a failed fsync the kernel may drop the pages, or take them for clean: no later sync writes them.
    """

    def make_durable(self) -> None:
        with suppress(DiskFailed):
            super().make_durable()
