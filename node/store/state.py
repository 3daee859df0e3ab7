"""The durable variables of DSN 2011, Table 1, that result from the log's records, without the transactions' bytes."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from zab_chaos.node.core.ready import (
    EpochRecord,
    MemberRecord,
    NewLeaderRecord,
    Record,
    SnapRecord,
    TruncRecord,
    TxnRecords,
)
from zab_chaos.node.core.zxid import ZERO, Zxid


class Outline:
    """The zxids of a history: `base`, below which nothing is known, and spans of consecutive zxids above it."""

    def __init__(self) -> None:
        self.base = ZERO
        self._spans: list[tuple[int, int]] = []  # first and last zxid, ascending

    @property
    def last(self) -> Zxid:
        return Zxid(self._spans[-1][1]) if self._spans else self.base

    def append(self, first: Zxid, count: int) -> None:
        """Add `count` consecutive zxids from `first` on."""
        if count == 0:
            return
        spans, upto = self._spans, first + count - 1
        if spans and first == spans[-1][1] + 1:
            spans[-1] = (spans[-1][0], upto)
        else:
            spans.append((first, upto))

    def truncate(self, keep: Zxid) -> None:
        """Forget everything above `keep`. Nothing is known below `base`, so `keep` may become the new base."""
        while self._spans and self._spans[-1][0] > keep:
            self._spans.pop()
        if self._spans:
            first, last = self._spans[-1]
            self._spans[-1] = (first, min(last, keep))
        self.base = min(self.base, keep)

    def start_from(self, zxid: Zxid) -> None:
        """Start again from a snapshot that has replaced the history."""
        self.base = zxid
        self._spans.clear()

    def __contains__(self, zxid: Zxid) -> bool:
        return zxid == self.base or any(first <= zxid <= last for first, last in self._spans)

    def above(self, zxid: Zxid) -> Iterator[tuple[Zxid, Zxid]]:
        """Yield the spans above `zxid`, each as (first, last)."""
        for first, last in self._spans:
            if last > zxid:
                yield Zxid(max(first, zxid + 1)), Zxid(last)


@dataclass(slots=True)
class LogState:
    """f.p, f.a, whether this node lost its disk, and the outline of its history."""

    accepted_epoch: int = 0
    current_epoch: int = 0
    amnesiac: bool = False
    outline: Outline = field(default_factory=Outline)

    def apply(self, record: Record) -> None:
        """Apply one more record of the log."""
        if type(record) is TxnRecords:
            self.outline.append(record.first, len(record.txns))
            return
        match record:
            case EpochRecord(epoch):
                self.accepted_epoch = epoch
            case TruncRecord(keep):
                self.outline.truncate(keep)
            case SnapRecord(zxid):
                self.outline.start_from(zxid)
            case NewLeaderRecord(epoch):
                self.current_epoch = epoch
            case MemberRecord():
                self.amnesiac = False

    def summary(self) -> tuple[int, int, bool, Zxid]:
        """Return the part of the state that a CHECKPOINT repeats."""
        return self.accepted_epoch, self.current_epoch, self.amnesiac, self.outline.last
