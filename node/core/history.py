"""A node's history h_f (DSN 2011, Table 1): the log's transactions above a snapshot, in memory.

Within one epoch counters are contiguous, and one zxid names one transaction, so the last counter of each epoch outlines a
history. Such outlines are enough to find the last common zxid of two histories, up to which they agree.
"""

from dataclasses import dataclass

from zab_chaos.node.core import zxid as zx
from zab_chaos.node.core.digest import Hash
from zab_chaos.node.core.errors import SanityCheckFailed
from zab_chaos.node.core.messages import Shape, Sync, TxnRun
from zab_chaos.node.core.ready import TxnRecords
from zab_chaos.node.core.zxid import ZERO, Zxid

Snapshot = tuple[Zxid, int, bytes]  # zxid, running digest at that zxid, the tree's state


class NotInHistory(Exception):
    """The history does not hold this zxid."""


@dataclass(slots=True)
class EpochRange:
    """The position of one epoch's transactions in a history's lists.

    The transactions `before + 1`, `before + 2`, ... are at the indices `offset`, `offset + 1`, ...
    """

    epoch: int
    before: Zxid
    offset: int


class History:
    """Transactions above `base`, and the newest snapshot (at or above `base`), from which any lagging node can start.

    The first epoch range always belongs to the epoch of `base`, even when it is empty.
    """

    def __init__(self, snapshot: Snapshot | None, txn_digest: Hash) -> None:
        self.snapshot = snapshot
        self.txn_digest = txn_digest
        self.txns: list[bytes] = []
        self.digests: list[int] = []
        self.bytes = 0  # size of the transactions above the newest snapshot
        self._rebase(snapshot[0] if snapshot else ZERO)

    def _rebase(self, base: Zxid) -> None:
        self.base = base
        self.last = base
        self.epoch_ranges = [EpochRange(zx.epoch_of(base), base, 0)]

    def _length(self, i: int) -> int:
        end = self.epoch_ranges[i + 1].offset if i + 1 < len(self.epoch_ranges) else len(self.txns)
        return end - self.epoch_ranges[i].offset

    def _find(self, epoch: int) -> int | None:
        for i in range(len(self.epoch_ranges) - 1, -1, -1):
            if self.epoch_ranges[i].epoch == epoch:
                return i
        return None

    def position(self, z: Zxid) -> int:
        """Return how many transactions above `base` there are up to and including `z`. Raises NotInHistory."""
        if z == self.last:
            return len(self.txns)
        tail = self.epoch_ranges[-1]  # almost every lookup is for the newest epoch
        place = z - tail.before
        if 0 < place <= len(self.txns) - tail.offset:
            return tail.offset + place
        if z == self.base:
            return 0
        i = self._find(zx.epoch_of(z))
        if i is not None:
            place = z - self.epoch_ranges[i].before
            if 0 < place <= self._length(i):
                return self.epoch_ranges[i].offset + place
        raise NotInHistory(zx.show(z))

    def __contains__(self, z: Zxid) -> bool:
        try:
            self.position(z)
        except NotInHistory:
            return False
        return True

    def is_next(self, z: Zxid) -> bool:
        """Return whether `z` may follow the last zxid: the next counter of its epoch, or counter 1 of a later one."""
        last = self.last
        if z >> 32 == last >> 32:
            return z == last + 1
        return z > last and zx.counter_of(z) == 1

    def append(self, run: TxnRun) -> TxnRecords:
        """Add transactions that follow (see `is_next`). Return the records that the log must hold."""
        records = TxnRecords(run.first, run.txns, list(map(self.txn_digest, run.txns)))
        self._extend(records)
        self.bytes += sum(map(len, run.txns))
        return records

    def _extend(self, records: TxnRecords) -> None:
        first, txns = records.first, records.txns
        if first >> 32 != self.epoch_ranges[-1].epoch:
            self.epoch_ranges.append(EpochRange(zx.epoch_of(first), Zxid(first - 1), len(self.txns)))
        self.txns += txns
        self.digests += records.digests
        self.last = first + (len(txns) - 1)

    def truncate(self, keep: Zxid) -> None:
        """Cut the history back so that `keep` is the last zxid. Raises NotInHistory."""
        length = self.position(keep)
        self.bytes -= sum(map(len, self.txns[length:]))
        del self.txns[length:], self.digests[length:]
        self.epoch_ranges = [self.epoch_ranges[0]] + [s for s in self.epoch_ranges[1:] if s.offset < length]
        self.last = keep

    def between(self, after: Zxid, upto: Zxid) -> list[TxnRecords]:
        """Return the transactions above `after` up to `upto`, one batch for each epoch. Raises NotInHistory."""
        tail = self.epoch_ranges[-1]
        shift = tail.offset - tail.before
        # Most calls are for the newest epoch. It has a gap only where a leader is wrong.
        if tail.before < after < upto <= self.last and shift + self.last == len(self.txns):
            start, end = shift + after, shift + upto
            return [TxnRecords(after + 1, self.txns[start:end], self.digests[start:end])]
        start, end = self.position(after), self.position(upto)
        batches = []
        for i, epoch_range in enumerate(self.epoch_ranges):
            low, high = max(start, epoch_range.offset), min(end, epoch_range.offset + self._length(i))
            if low < high:
                first = epoch_range.before + (1 + low - epoch_range.offset)
                batches.append(TxnRecords(first, self.txns[low:high], self.digests[low:high]))
        return batches

    def shape(self) -> Shape:
        ranges = enumerate(self.epoch_ranges)
        return Shape(self.base, [(s.epoch, zx.counter_of(s.before) + self._length(i)) for i, s in ranges])

    def common(self, other: Shape) -> Zxid | None:
        """Return the last zxid that both histories hold, or None if that is below what this one still holds."""
        for epoch, last in reversed(other.epochs):
            if epoch < self.epoch_ranges[0].epoch:
                return None
            i = self._find(epoch)
            if i is None:
                continue
            floor = zx.counter_of(self.epoch_ranges[i].before)
            counter = min(last, floor + self._length(i))
            if i == 0 and counter < floor:
                return None
            if counter > 0 or (i == 0 and self.base == ZERO):
                return zx.zxid(epoch, counter)
        return None

    def difference(self, other: Shape) -> Sync:
        """Return what turns the other history into this one.

        That is a truncation and a suffix, or a snapshot and a suffix.
        """
        keep = self.common(other)
        snapshot = None
        if keep is None or keep < other.base:
            if self.snapshot is None:
                raise SanityCheckFailed("a history that was never purged has every common point")
            snapshot = self.snapshot
            keep = snapshot[0]
        return Sync(keep, snapshot, [TxnRun(b.first, b.txns) for b in self.between(keep, self.last)])

    def replace(self, snapshot: Snapshot) -> None:
        """Start again from a snapshot and keep no transaction."""
        self.txns.clear()
        self.digests.clear()
        self.bytes = 0
        self.snapshot = snapshot
        self._rebase(snapshot[0])

    def compact(self, snapshot: Snapshot) -> None:
        """Use a new durable snapshot.

        Transactions above the previous snapshot are kept, so that small lags stay cheap.
        """
        previous = self.snapshot[0] if self.snapshot else self.base
        self.snapshot = snapshot
        tail = self.between(previous, self.last)
        self.txns, self.digests = [], []
        self._rebase(previous)
        for batch in tail:
            self._extend(batch)
        self.bytes = sum(map(len, self.txns[self.position(snapshot[0]) :]))
