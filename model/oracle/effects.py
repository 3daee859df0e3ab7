"""What the delivered transactions did: the ledger, held together with what the primaries broadcast."""

from bisect import bisect_left
from collections.abc import Iterator

from zab_chaos.model.events import Broadcast, Summary
from zab_chaos.model.oracle.broadcasts import Broadcasts, Primary
from zab_chaos.model.oracle.ledger import Ledger

FENCE = "fence"


class Effects:
    """The content of every transaction of the ledger, as it is at the end of a run.

    `txns` belongs to the ledger's transactions one by one; None where no `broadcast` says what that transaction does.
    `fences`: those that only say that nothing of their client up to their seq may follow. `first`: where each request,
    (client, seq), took effect; the second time, if there is one, is not in it, and a fence is no effect.
    `recorded`: whether any `broadcast` of the run says what its transactions do; older ones do not.
    """

    def __init__(self, ledger: Ledger, broadcasts: Broadcasts) -> None:
        self._ledger = ledger
        self._broadcasts = broadcasts
        primaries = [primary for epoch in broadcasts.epochs.values() for primary in epoch]
        self.recorded = any(event.txns for primary in primaries for event in primary.events)
        self.txns: list[Summary | None] = self._contents() if self.recorded else [None] * len(ledger)
        self.first: dict[tuple[int, int], int] = {}
        self.fences: set[int] = set()
        for zxid, txn in self.known():
            if _is_fence(txn):
                self.fences.add(zxid)
            else:
                self.first.setdefault((txn[0], txn[1]), zxid)

    def broadcast(self, zxid: int) -> Broadcast | None:
        """The event that broadcast a transaction of the ledger."""
        index = self._ledger.index(zxid)
        if index is None:
            return None
        primary = self._author(zxid, self._ledger.digests[index], self._broadcasts.epochs.get(zxid >> 32, []))
        return None if primary is None else primary.event_of(zxid & 0xFFFFFFFF)

    def known(self) -> Iterator[tuple[int, Summary]]:
        """The ledger's transactions of which something says what they do."""
        for zxid, txn in zip(self._ledger.zxids, self.txns, strict=True):
            if txn is not None:
                yield zxid, txn

    def at(self, zxid: int) -> Summary | None:
        """A transaction of the ledger; None if it has none there, or nothing says what it does."""
        index = self._ledger.index(zxid)
        return self.txns[index] if index is not None else None

    def proposed(self) -> Iterator[tuple[Broadcast | None, Summary]]:
        """What was broadcast at the end of its epoch and never delivered, fences left out; with the event that did it."""
        for epoch, primaries in self._broadcasts.epochs.items():
            done = self._ledger.below((epoch + 1) << 32) - self._ledger.below(epoch << 32)
            for primary in primaries:
                for counter, txn in enumerate(primary.txns[done:], done + 1):
                    if txn is not None and not _is_fence(txn):
                        yield primary.event_of(counter), txn

    def missing(self) -> int | None:
        """The first delivered zxid of which no `broadcast` says what it does; None if all is known."""
        return next((zxid for zxid, txn in zip(self._ledger.zxids, self.txns, strict=True) if txn is None), None)

    def _contents(self) -> list[Summary | None]:
        found: list[Summary | None] = []
        zxids, start = self._ledger.zxids, 0
        while start < len(zxids):
            epoch = zxids[start] >> 32
            end = bisect_left(zxids, (epoch + 1) << 32, start)
            found += self._of_epoch(start, end, self._broadcasts.epochs.get(epoch, []))
            start = end
        return found

    def _of_epoch(self, start: int, end: int, primaries: list[Primary]) -> list[Summary | None]:
        """The content of the ledger from `start` up to `end`, an epoch with these primaries."""
        zxids, digests = self._ledger.zxids[start:end], self._ledger.digests[start:end]
        place, consecutive = (zxids[0] & 0xFFFFFFFF) - 1, zxids[-1] - zxids[0] == end - start - 1
        broadcast = slice(place, place + end - start)
        if consecutive and primaries and primaries[0].digests[broadcast] == digests:
            return primaries[0].txns[broadcast]
        authors = [self._author(zxid, digest, primaries) for zxid, digest in zip(zxids, digests, strict=True)]
        return [
            author.txns[(zxid & 0xFFFFFFFF) - 1] if author is not None else None
            for zxid, author in zip(zxids, authors, strict=True)
        ]

    def _author(self, zxid: int, digest: int, primaries: list[Primary]) -> Primary | None:
        place = (zxid & 0xFFFFFFFF) - 1
        for primary in primaries:
            if place < len(primary.digests) and primary.digests[place] == digest:
                return primary
        return None


def _is_fence(txn: Summary) -> bool:
    return len(txn[2]) == 1 and txn[2][0][0] == FENCE
