"""Operations on lists of time spans (start, end), in nanoseconds, ascending and disjoint."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import pairwise

Span = tuple[int, int]
SECOND = 1_000_000_000  # ns
FOREVER = 2**63


def merged(spans: Iterable[Span], gap: int = 0) -> list[Span]:
    """Return the union of the spans. Spans that are at most `gap` apart become one."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start - found[-1][1] <= gap:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def intersection(one: list[Span], other: list[Span]) -> list[Span]:
    """Return the times that are in both lists. What ends before the other list begins costs almost nothing."""
    if not one or not other:
        return []
    found, i, j = [], _first_after(one, other[0][0]), _first_after(other, one[0][0])
    while i < len(one) and j < len(other):
        start, end = max(one[i][0], other[j][0]), min(one[i][1], other[j][1])
        if start < end:
            found.append((start, end))
        if one[i][1] < other[j][1]:
            i += 1
        else:
            j += 1
    return found


def _first_after(spans: list[Span], t: int) -> int:
    """Return the index of the first span that ends after `t`."""
    return bisect_right(spans, t, key=lambda span: span[1])


def shared(spans: Iterable[Span], least: int) -> list[Span]:
    """Return the times that are in at least `least` (1 or more) of the spans, which need not be disjoint here."""
    changes = sorted(change for start, end in spans for change in ((start, 1), (end, -1)))
    found: list[Span] = []
    count, since = 0, 0
    for t, change in changes:
        before, count = count, count + change
        if before < least <= count:
            since = t
        elif count < least <= before:
            found.append((since, t))
    return found


def longer(spans: Iterable[Span], bound: int) -> list[Span]:
    """Return the spans that are longer than the bound."""
    return [span for span in spans if span[1] - span[0] > bound]


def gaps(span: Span, times: Iterable[int], bound: int) -> Iterator[Span]:
    """Find the parts of a span, longer than the bound, in which there is none of these times. The times ascend."""
    start, end = span
    points = [start, *(t for t in times if start < t < end), end]
    yield from ((a, b) for a, b in pairwise(points) if b - a > bound)


def difference(one: list[Span], other: Iterable[Span]) -> list[Span]:
    """Return the times that are in `one` and not in `other`."""
    between, before = [], 0
    for start, end in merged(other):
        between.append((before, start))
        before = end
    return intersection(one, [*between, (before, FOREVER)])
