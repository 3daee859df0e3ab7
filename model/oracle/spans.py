"""Spans of time: lists of (start, end), ascending and apart from each other."""

from collections.abc import Iterable

Span = tuple[int, int]
FOREVER = 2**63


def merged(spans: Iterable[Span], gap: int = 0) -> list[Span]:
    """As few spans as cover the given ones; those that are at most `gap` apart become one."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start - found[-1][1] <= gap:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def common(one: list[Span], other: list[Span]) -> list[Span]:
    """What is in both."""
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


def without(one: list[Span], other: Iterable[Span]) -> list[Span]:
    """What is in the one and not in the other."""
    gaps, before = [], 0
    for start, end in merged(other):
        gaps.append((before, start))
        before = end
    return common(one, [*gaps, (before, FOREVER)])
