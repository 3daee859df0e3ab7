"""The content of the delivered transactions: the delivered history, joined with the broadcasts of the primaries."""

from bisect import bisect_left
from collections.abc import Iterator

from zab_chaos.model.events import Broadcast, TxnSummary
from zab_chaos.model.oracle.broadcasts import Broadcasts, EpochBroadcasts
from zab_chaos.model.oracle.delivered_history import DeliveredHistory

FENCE = "fence"


class Effects:
    """The content of every delivered transaction, at the end of a run.

    `broadcasts` and `txns` have one entry for each transaction of the delivered history: the event that broadcast it and its
    content, None where no `broadcast` records that. `fences` are the zxids of transactions that change nothing: they only keep
    out later transactions of their client up to their seq.
    `first_effects` maps each request (client, seq) to the zxid at which it took effect for the first time, fences left out.
    """

    def __init__(self, history: DeliveredHistory, broadcasts: Broadcasts) -> None:
        self._history = history
        self._broadcasts = broadcasts
        self.broadcasts: list[Broadcast | None] = []
        self.txns: list[TxnSummary | None] = []
        self._find_contents()
        self.first_effects: dict[tuple[int, int], int] = {}
        self.fences: set[int] = set()
        for zxid, txn in self.known_txns():
            if _is_fence(txn):
                self.fences.add(zxid)
            else:
                self.first_effects.setdefault((txn[0], txn[1]), zxid)

    def broadcast(self, zxid: int) -> Broadcast | None:
        """Return the event that broadcast a delivered transaction, None if there is none."""
        index = self._history.index(zxid)
        return self.broadcasts[index] if index is not None else None

    def known_txns(self) -> Iterator[tuple[int, TxnSummary]]:
        """Return the delivered transactions with known content, each with its zxid."""
        for zxid, txn in zip(self._history.zxids, self.txns, strict=True):
            if txn is not None:
                yield zxid, txn

    def txn_at(self, zxid: int) -> TxnSummary | None:
        """Return the content of a delivered transaction, None if it was not delivered or its content is not known."""
        index = self._history.index(zxid)
        return self.txns[index] if index is not None else None

    def undelivered_proposals(self) -> Iterator[tuple[Broadcast | None, TxnSummary]]:
        """Return the transactions at the end of each epoch that were broadcast and never delivered, each with its event.
        Fences are left out."""
        for epoch, primaries in self._broadcasts.epochs.items():
            delivered = self._history.count_below((epoch + 1) << 32) - self._history.count_below(epoch << 32)
            for primary in primaries:
                for counter, txn in enumerate(primary.txns[delivered:], delivered + 1):
                    if txn is not None and not _is_fence(txn):
                        yield primary.event_of(counter), txn

    def first_unknown(self) -> int | None:
        """Return the first delivered zxid whose content is not known, None if all are known."""
        return next((zxid for zxid, txn in zip(self._history.zxids, self.txns, strict=True) if txn is None), None)

    def _find_contents(self) -> None:
        zxids, start = self._history.zxids, 0
        while start < len(zxids):
            epoch = zxids[start] >> 32
            end = bisect_left(zxids, (epoch + 1) << 32, start)
            self._add_epoch(start, end, self._broadcasts.epochs.get(epoch, []))
            start = end

    def _add_epoch(self, start: int, end: int, primaries: list[EpochBroadcasts]) -> None:
        """Add the contents of the history from index `start` to `end`, which is one epoch with these primaries."""
        zxids, digests = self._history.zxids[start:end], self._history.digests[start:end]
        place, consecutive = (zxids[0] & 0xFFFFFFFF) - 1, zxids[-1] - zxids[0] == end - start - 1
        broadcast = slice(place, place + end - start)
        if consecutive and primaries and primaries[0].digests[broadcast] == digests:
            self.broadcasts += primaries[0].senders[broadcast]
            self.txns += primaries[0].txns[broadcast]
            return
        for zxid, digest in zip(zxids, digests, strict=True):
            primary, place = self._primary_of(zxid, digest, primaries), (zxid & 0xFFFFFFFF) - 1
            self.broadcasts.append(primary.senders[place] if primary is not None else None)
            self.txns.append(primary.txns[place] if primary is not None else None)

    def _primary_of(self, zxid: int, digest: int, primaries: list[EpochBroadcasts]) -> EpochBroadcasts | None:
        place = (zxid & 0xFFFFFFFF) - 1
        for primary in primaries:
            if place < len(primary.digests) and primary.digests[place] == digest:
                return primary
        return None


def _is_fence(txn: TxnSummary) -> bool:
    return len(txn[2]) == 1 and txn[2][0][0] == FENCE
