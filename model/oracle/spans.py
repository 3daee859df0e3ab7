"""Operations on lists of time spans (start, end), in nanoseconds, ascending and disjoint."""

from collections.abc import Iterable

Span = tuple[int, int]
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
    """Return the times that are in both lists."""
    found, i, j = [], 0, 0
    while i < len(one) and j < len(other):
        start, end = max(one[i][0], other[j][0]), min(one[i][1], other[j][1])
        if start < end:
            found.append((start, end))
        if one[i][1] < other[j][1]:
            i += 1
        else:
            j += 1
    return found


def difference(one: list[Span], other: Iterable[Span]) -> list[Span]:
    """Return the times that are in `one` and not in `other`."""
    gaps, before = [], 0
    for start, end in merged(other):
        gaps.append((before, start))
        before = end
    return intersection(one, [*gaps, (before, FOREVER)])
