"""Bugs of the store: wrong assumptions about what is on the disk (snapshots, truncations, torn tails, failed syncs)."""

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
    """Starts from the newest snapshot, also if the log has been truncated to a point before it."""

    def choose_snapshot(self, state: LogState) -> Zxid | None:
        return self.snapshots[-1] if self.snapshots else super().choose_snapshot(state)


class DirtySnapshot(Store):
    """A snapshot contains everything logged, committed or not, and is restored although a truncation came after it.

    ZOOKEEPER-1549 wrote such snapshots and ZOOKEEPER-4837 restored them: a restart undoes the truncation. Without the
    second half (`NewestSnapshot`) a correct recovery would find no snapshot that is consistent with the log, and refuse to
    start.
    """

    recovery = NewestSnapshot
    tail: tuple[
        tuple[int, bytes, int], ...
    ] = ()  # (zxid, transaction, digest) of logged transactions that are not committed

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
    """After a truncation the log is written on where the longer log would have ended: a hole of zeros is left.

    Here TRUNC is a record, which makes no file shorter. So the offset is moved forward by the number of bytes that a
    truncated file would have lost.
    """

    lost = 0  # bytes of the truncated records, at least

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
    """Treats zeros as the end of the log, also if records follow them."""

    def check_no_later_batch(self, offset: int, batch: int) -> None:
        return


class ReadsUpToAHole(Recovery):
    """A recovery that ends at a hole of zeros in the log."""

    reader = HoleIsTheEnd


class StaleHandle(Store):
    """After a truncation the log is written on at a stale offset, and the records behind the hole are lost at a restart.

    ZOOKEEPER-1489. A correct reader finds the records behind the hole and refuses to start; ZooKeeper's reader took the
    zeros for the end of the log, and so does this one.
    """

    log_type = StaleOffset
    recovery = ReadsUpToAHole


class TruncateErrorIgnored(Store):
    """A truncation that fails on the disk counts as done, and the node goes on with its old log.

    ZOOKEEPER-3701. The truncation's group (its TRUNC, the suffix and NEWLEADER) never reaches the disk.
    """

    def write(self, records: list[Record]) -> None:
        try:
            super().write(records)
        except DiskFailed:
            if not any(isinstance(record, TruncRecord) for record in records):
                raise


class ReadsTornRecords(SegmentReader):
    """Reads a record whose end never reached the disk as a complete one, with zeros for the missing bytes."""

    def torn_record(self, found: StoredRecord) -> StoredRecord | None:
        return found


class KeepsTornTail(Recovery):
    """A recovery that reads torn records as valid ones."""

    reader = ReadsTornRecords


class TornTailKept(Store):
    """Recovery reads a torn record at the end of the log as a valid one, with bytes that no primary broadcast."""

    recovery = KeepsTornTail


class GoesOnAtTheEnd(Log):
    """Treats everything that recovery has read as durable."""

    def make_durable_again(self, good: bytes) -> DiskFile:
        return self._disk.open(self._name, len(good))

    def seal_newest(self) -> None:
        return


class RecoveredNotSynced(Store):
    """Records that recovery finds in the page cache count as durable, although the last process was killed before its sync.

    After an incomplete record the log continues in a new segment. Without a SEAL, no later sync covers the records before it. A
    power cut loses them then, while the CHECKPOINT of the new segment refers to them.
    """

    log_type = GoesOnAtTheEnd


class SyncErrorIgnored(Store):
    """A failed sync counts as a successful one: records that were never written are acknowledged.

    After a failed fsync the kernel may drop the pages, or consider them clean: no later sync writes them.
    """

    def make_durable(self) -> None:
        with suppress(DiskFailed):
            super().make_durable()
