"""The meaning of log records, without files: which of them become durable together, and the state that they make."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Self

from zab_chaos.node.core.ready import (
    EpochRecord,
    MemberRecord,
    NewLeaderRecord,
    Record,
    Recovered,
    SnapRecord,
    TruncRecord,
    TxnRecords,
)
from zab_chaos.node.core.zxid import Zxid, show


def one_by_one(records: Iterable[Record]) -> Iterator[Record]:
    """Yield the records as the log stores them: one for each transaction, without digests."""
    for record in records:
        if type(record) is TxnRecords:
            for at, txn in enumerate(record.txns, record.first):
                yield TxnRecords(Zxid(at), [txn], [])
        else:
            yield record


def atomic_groups(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Yield the records that become durable together, in order: single ones, or groups. A group that is still open is left
    out."""
    group: list[Record] = []
    for record in records:
        group.append(record)
        if type(group[0]) not in (TruncRecord, SnapRecord) or type(record) is NewLeaderRecord:
            yield group
            group = []


@dataclass(slots=True)
class LogContents:
    """The state that the records of a log make.

    `base` is the zxid of the snapshot below the history, 0 for none. `history` has the transactions above it: (zxid, payload).
    """

    accepted_epoch: int = 0
    current_epoch: int = 0
    amnesiac: bool = False
    base: int = 0
    history: list[tuple[int, bytes]] = field(default_factory=list)

    @classmethod
    def of(cls, found: Recovered) -> Self:
        base = found.snapshot[0] if found.snapshot is not None else 0
        history = [entry for first, txns in found.runs for entry in enumerate(txns, first)]
        return cls(found.accepted_epoch, found.current_epoch, found.amnesiac, base, history)

    def copy(self) -> "LogContents":
        return replace(self, history=self.history[:])

    def apply(self, records: Iterable[Record]) -> None:
        for record in records:
            match record:
                case EpochRecord(epoch):
                    self.accepted_epoch = epoch
                case TxnRecords(first, txns, _):
                    self.history += enumerate(txns, first)
                case TruncRecord(keep):
                    while self.history and self.history[-1][0] > keep:
                        self.history.pop()
                case SnapRecord(zxid, _, _):
                    self.base, self.history = zxid, []
                case NewLeaderRecord(epoch):
                    self.current_epoch = epoch
                case MemberRecord():
                    self.amnesiac = False

    def matches(self, found: "LogContents") -> bool:
        """Return whether a recovery that found `found` recovered this state. Its snapshot may have been taken later."""
        epochs = (self.accepted_epoch, self.current_epoch, self.amnesiac)
        if epochs != (found.accepted_epoch, found.current_epoch, found.amnesiac) or self.last != found.last:
            return False
        if found.base == self.base:
            return self.history == found.history
        place = next((place for place, (zxid, _) in enumerate(self.history, 1) if zxid == found.base), None)
        return place is not None and self.history[place:] == found.history

    @property
    def last(self) -> int:
        return self.history[-1][0] if self.history else self.base

    def __str__(self) -> str:
        kept = f"f.p = {self.accepted_epoch}, f.a = {self.current_epoch} and a history up to {show(Zxid(self.last))}"
        kept += f" above a snapshot at {show(Zxid(self.base))}" if self.base else ""
        return f"{kept}, with the mark of a lost disk" if self.amnesiac else kept
