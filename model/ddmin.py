"""Delta debugging (Zeller and Hildebrandt, 2002): shorten a list while it still fails. Used by shrinking."""

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
FirstFailing = Callable[[Sequence[list[T]]], int | None]  # returns the index of the first failing candidate, or None


def ddmin(items: Sequence[T], first_failing: FirstFailing[T]) -> list[T]:
    """Return a subsequence of `items` that still fails and from which no single item can be removed.

    `items` itself must fail; this is not tested. `first_failing` gets the candidates of one round in order of preference: the
    empty list first, then what remains when a group of neighbours is removed, large groups before small ones. After a success,
    the next round begins behind the removed group. The result depends only on the answers.
    """
    kept = list(items)
    if not kept or first_failing([[]]) is not None:
        return []
    size = (len(kept) + 1) // 2
    while size:
        kept = _remove_groups(kept, size, first_failing)
        size = min(size // 2, len(kept) // 2) if size > 1 else 0
    return kept


def _remove_groups(kept: list[T], size: int, first_failing: FirstFailing[T]) -> list[T]:
    """Remove groups of `size` neighbours as long as the rest still fails."""
    start = 0
    while len(kept) > 1:
        places = list(range(0, len(kept), size))
        ordered = [place for place in places if place >= start] + [place for place in places if place < start]
        candidates = [kept[:place] + kept[place + size :] for place in ordered]
        found = first_failing(candidates)
        if found is None:
            return kept
        kept, start = candidates[found], ordered[found]
    return kept
