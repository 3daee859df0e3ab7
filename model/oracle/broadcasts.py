"""What each epoch's primary broadcast, in its order: the other ghost that deliveries are held against."""

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from zab_chaos.model.events import Broadcast, Summary
from zab_chaos.node.core import digest as dg

_NEVER = 0  # fills the place of a counter that the primary passed over; no transaction has this digest but by chance


@dataclass(slots=True)
class Primary:
    """One process's broadcasts in one epoch. `digests[c - 1]` belongs to counter c, and so does `txns[c - 1]`: what the
    transaction does, None if that was not recorded."""

    epoch: int
    node: int
    life: int
    delivered: int  # zxid up to which its trace shows deliveries before its first broadcast
    events: list[Broadcast] = field(default_factory=list)
    digests: "array[int]" = field(default_factory=lambda: array("Q"))
    txns: list[Summary | None] = field(default_factory=list)

    def event_of(self, counter: int) -> Broadcast | None:
        """The event that broadcast a counter, None if it was never broadcast."""
        if counter > len(self.digests) or self.digests[counter - 1] == _NEVER:
            return None
        return self.events[max(0, bisect_right(self.events, counter, key=lambda event: event.first) - 1)]


class Step(msgspec.Struct, frozen=True):
    """One `broadcast` event: by whom, and which counter was to come next."""

    event: Broadcast
    primary: Primary
    expected: int


class Broadcasts:
    """Epoch -> its primaries. There must be one; if there are more, each is kept apart."""

    def __init__(self) -> None:
        self.epochs: dict[int, list[Primary]] = {}
        self.highest = 0

    def add(self, event: Broadcast, delivered: int) -> Step:
        """`delivered`: up to where the node has delivered in this life, by its own `deliver` and `snapshot` events."""
        primary = self._primary(event, delivered)
        digests = dg.read_all(event.digests)
        expected = len(primary.digests) + 1
        primary.events.append(event)
        missing = event.first - expected
        if missing > 0:
            primary.digests.extend([_NEVER] * missing)
            primary.txns.extend([None] * missing)
        # What is broadcast again replaces what it was before: nobody can have meant both.
        place = slice(event.first - 1, event.first - 1 + len(digests))
        primary.digests[place] = digests
        txns: Sequence[Summary | None] = event.txns
        primary.txns[place] = txns if len(txns) == len(digests) else [None] * len(digests)
        return Step(event, primary, expected)

    def has(self, zxid: int) -> bool:
        """Whether some process broadcast a transaction with this zxid."""
        return any(primary.event_of(zxid & 0xFFFFFFFF) for primary in self.epochs.get(zxid >> 32, ()))

    def matches(self, epoch: int, first: int, digests: "array[int]") -> bool:
        """Whether some process broadcast exactly these transactions in that epoch."""
        end = first - 1 + len(digests)
        return digests in [primary.digests[first - 1 : end] for primary in self.epochs.get(epoch, ())]

    def _primary(self, event: Broadcast, delivered: int) -> Primary:
        primaries = self.epochs.setdefault(event.epoch, [])
        for primary in primaries:
            if (primary.node, primary.life) == (event.node, event.life):
                return primary
        primary = Primary(event.epoch, event.node, event.life, delivered)
        primaries.append(primary)
        self.highest = max(self.highest, event.epoch)
        return primary
