"""Computes the commit lag of each node: how many transactions some other node has delivered and this one has not.

A transaction's position is counted over all epochs: the number of transactions ever delivered of the earlier epochs, plus its
counter. So two nodes can be compared by one number. A restarted node keeps its position, because what it delivered is in its
log. An amnesiac node starts at 0.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import merge
from typing import Any

from zab_chaos.harness.report.columns import Columns
from zab_chaos.harness.report.html.lifetimes import TracedLife
from zab_chaos.harness.results.source import TraceLine

POINTS = 6000  # on the run's time axis; points that are closer are merged, and the highest lag is kept


@dataclass(slots=True)
class Lag:
    """One life's lag. At `t[i]` (nanoseconds) the node delivered: it was `before[i]` behind, then `after[i]`."""

    node: int
    life: int
    t: list[int] = field(default_factory=list)
    before: list[int] = field(default_factory=list)
    after: list[int] = field(default_factory=list)

    def add(self, t: int, before: int, after: int, resolution: int) -> None:
        """Add the next delivery; merge it with the last one if it is within `resolution`."""
        if self.t and t - self.t[-1] < resolution:
            self.before[-1] = max(self.before[-1], before)
            self.after[-1] = after
        else:
            self.t.append(t)
            self.before.append(before)
            self.after.append(after)

    def as_json(self, zero: int) -> dict[str, Any]:
        """Return the lag for the page, with times in microseconds since `zero`."""
        t = [(one - zero) // 1000 for one in self.t]
        return {"node": self.node, "life": self.life, "t": t, "before": self.before, "after": self.after}


def lags(lives: list[TracedLife], length: int) -> list[Lag]:
    """Return the lag of each life that delivered anything. `length`: of the run, in nanoseconds."""
    advances = _advances(lives)
    found = {index: Lag(life.node, life.number) for index, life in enumerate(lives)}
    amnesiac = {index for index, life in enumerate(lives) if life.amnesiac_until is not None}
    reached: dict[int, int] = {}
    head = 0
    for t, index, position in advances:
        node, lag = lives[index].node, found[index]
        if index in amnesiac:
            amnesiac.remove(index)
            reached[node] = 0
        before = head - reached.get(node, 0)
        reached[node] = max(reached.get(node, 0), position)
        head = max(head, position)
        lag.add(t, max(before, 0), head - reached[node], length // POINTS)
    return [lag for lag in found.values() if lag.t]


def _advances(lives: list[TracedLife]) -> Iterator[tuple[int, int, int]]:
    """Return every advance of every life as (time, index of the life, position reached), by time."""
    longest: dict[int, int] = {}
    for life in lives:
        for _, epoch, counter in _reached(life):
            longest[epoch] = max(longest.get(epoch, 0), counter)
    base, total = {}, 0
    for epoch in sorted(longest):
        base[epoch] = total
        total += longest[epoch]
    found = (
        Columns(3, sorted((t, index, base[epoch] + counter) for t, epoch, counter in _reached(life)))
        for index, life in enumerate(lives)
    )
    return merge(*found)


def _reached(life: TracedLife) -> Iterator[tuple[int, int, int]]:
    """Yield (time, epoch, counter) of all that the life delivered, then of the snapshots that it restored."""
    yield from life.delivered
    for event in life.events:
        if (zxid := _restored(event)) is not None:
            yield event.t, *zxid


def _restored(event: TraceLine) -> tuple[int, int] | None:
    """Return the zxid up to which a restored snapshot counts as delivered; None for other events."""
    if event.event != "snapshot" or event.kind != "restored":
        return None
    match event.zxid:
        case [int(epoch), int(counter)]:
            return epoch, counter
    return None
