"""The broadcasts of each epoch's primary, in its order. Like the delivered history, a ghost variable to check deliveries."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from zab_chaos.model.events import Broadcast, TxnSummary
from zab_chaos.node.core import digest as dg

_NEVER = 0  # stands for a counter that the primary skipped; a transaction has this digest only by chance


@dataclass(slots=True)
class EpochBroadcasts:
    """The broadcasts of one process in one epoch.

    `digests[c - 1]` is the digest of counter c, `senders[c - 1]` the event that broadcast it, and `txns[c - 1]` the content of
    its transaction, None if that was not recorded.
    """

    epoch: int
    node: int
    life: int
    delivered: int  # zxid up to which the process had delivered before its first broadcast
    events: list[Broadcast] = field(default_factory=list)
    digests: "array[int]" = field(default_factory=lambda: array("Q"))
    senders: list[Broadcast | None] = field(default_factory=list)
    txns: list[TxnSummary | None] = field(default_factory=list)

    def event_of(self, counter: int) -> Broadcast | None:
        """Return the event that broadcast a counter, None if it was never broadcast."""
        return self.senders[counter - 1] if counter <= len(self.senders) else None


class PrimaryBroadcast(msgspec.Struct, frozen=True):
    """One `broadcast` event, its primary, and the counter that the primary should have broadcast next."""

    event: Broadcast
    primary: EpochBroadcasts
    expected: int


class Broadcasts:
    """The primaries of each epoch. There must be one; if there are more, each has its own record."""

    def __init__(self, *, counters_go_on: bool = False) -> None:
        self._counters_go_on = counters_go_on  # see `zab_chaos.model.oracle.facts.Facts`
        self.epochs: dict[int, list[EpochBroadcasts]] = {}
        self.highest = 0
        self._newest: tuple[int, int, array[int]] = (0, 0, array("Q"))  # what `matches` is asked for most

    def add(self, event: Broadcast, delivered: int) -> PrimaryBroadcast:
        """Add an event. `delivered` is the zxid up to which the node's `deliver` and `snapshot` events of this life go."""
        primary = self._primary(event, delivered)
        digests = dg.read_all(event.digests)
        next_counter = len(primary.digests) + 1
        expected = event.first if self._counters_go_on and not primary.events else next_counter
        primary.events.append(event)
        missing = event.first - next_counter
        if missing > 0:
            primary.digests.extend([_NEVER] * missing)
            primary.senders.extend([None] * missing)
            primary.txns.extend([None] * missing)
        # A counter that is broadcast again replaces the earlier transaction.
        self._newest = (event.epoch, event.first, digests)
        place = slice(event.first - 1, event.first - 1 + len(digests))
        primary.digests[place] = digests
        primary.senders[place] = [event] * len(digests)
        txns: Sequence[TxnSummary | None] = event.txns
        primary.txns[place] = txns if len(txns) == len(digests) else [None] * len(digests)
        return PrimaryBroadcast(event, primary, expected)

    def zxid_with(self, digest: int) -> int | None:
        """Return a zxid that was broadcast with this digest, None if there is none."""
        for epoch, primaries in self.epochs.items():
            for primary in primaries:
                if digest in primary.digests:
                    return epoch << 32 | primary.digests.index(digest) + 1
        return None

    def has(self, zxid: int) -> bool:
        """Return whether some process broadcast a transaction with this zxid."""
        return any(primary.event_of(zxid & 0xFFFFFFFF) for primary in self.epochs.get(zxid >> 32, ()))

    def matches(self, epoch: int, first: int, digests: "array[int]") -> bool:
        """Return whether some process broadcast exactly these transactions in that epoch, with counters from `first` on."""
        if self._newest == (epoch, first, digests):
            return True
        primaries, end = self.epochs.get(epoch, ()), first - 1 + len(digests)
        if len(primaries) == 1:
            return primaries[0].digests[first - 1 : end] == digests
        return any(primary.digests[first - 1 : end] == digests for primary in primaries)

    def _primary(self, event: Broadcast, delivered: int) -> EpochBroadcasts:
        primaries = self.epochs.setdefault(event.epoch, [])
        for primary in primaries:
            if (primary.node, primary.life) == (event.node, event.life):
                return primary
        primary = EpochBroadcasts(event.epoch, event.node, event.life, delivered)
        primaries.append(primary)
        self.highest = max(self.highest, event.epoch)
        return primary
