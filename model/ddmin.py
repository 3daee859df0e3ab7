"""Delta debugging: a short list that still does what a long one did (Zeller and Hildebrandt, 2002)."""

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
First = Callable[[Sequence[list[T]]], int | None]  # the index of the first candidate that still fails, or None


def ddmin(items: Sequence[T], first: First[T]) -> list[T]:
    """A part of `items`, in their order, that still fails and of which no single item can be left out.

    `items` fails, and is not asked about. `first` sees the candidates of one round in the order in which they are to be
    preferred: first nothing at all, then what is left when a run of neighbours goes, long runs before short ones. The
    round after a success goes on behind what was left out. The same answers give the same result.
    """
    kept = list(items)
    if not kept or first([[]]) is not None:
        return []
    size = (len(kept) + 1) // 2
    while size:
        kept = _without_runs(kept, size, first)
        size = min(size // 2, len(kept) // 2) if size > 1 else 0
    return kept


def _without_runs(kept: list[T], size: int, first: First[T]) -> list[T]:
    """As many runs of `size` neighbours as can go have gone."""
    start = 0
    while len(kept) > 1:
        places = list(range(0, len(kept), size))
        behind = [place for place in places if place >= start] + [place for place in places if place < start]
        rests = [kept[:place] + kept[place + size :] for place in behind]
        found = first(rests)
        if found is None:
            return kept
        kept, start = rests[found], behind[found]
    return kept
