"""Delta debugging as a pure function: the result fails, and no single item can be left out of it."""

from collections.abc import Callable, Sequence
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from zab_chaos.model.ddmin import ddmin

Fails = Callable[[list[int]], bool]


class RecordingSearch:
    """Tries candidates with a predicate, and keeps a list of all candidates it has tried."""

    def __init__(self, fails: Fails) -> None:
        self.fails = fails
        self.tried: list[list[int]] = []

    def first(self, candidates: Sequence[list[int]]) -> int | None:
        for index, candidate in enumerate(candidates):
            self.tried.append(candidate)
            if self.fails(candidate):
                return index
        return None


def is_minimal(kept: list[int], fails: Fails) -> bool:
    return not any(fails(kept[:index] + kept[index + 1 :]) for index in range(len(kept)))


@given(st.integers(0, 60), st.sets(st.integers(0, 59), max_size=8))
def test_exactly_the_needed_items_are_left(size: int, needed: set[int]) -> None:
    needed = {one for one in needed if one < size}
    assert ddmin(range(size), RecordingSearch(lambda kept: needed <= set(kept)).first) == sorted(needed)


@given(st.integers(1, 40), st.integers(0, 10**6))
def test_no_single_item_can_be_left_out_for_any_predicate(size: int, seed: int) -> None:
    """The predicate need not be monotone: here each subset fails at random."""

    def fails(kept: list[int]) -> bool:
        return kept == items or (len(kept) > 0 and Random(f"{seed} {kept}").random() < 0.3)

    items = list(range(size))
    kept = ddmin(items, RecordingSearch(fails).first)
    assert fails(kept)
    assert kept == sorted(set(kept) & set(items))
    assert len(kept) == 1 or is_minimal(kept, fails)


def test_equal_predicates_give_equal_tries() -> None:
    runs = [RecordingSearch(lambda kept: {3, 17, 18} <= set(kept)) for _ in range(2)]
    results = [ddmin(range(40), run.first) for run in runs]
    assert results == [[3, 17, 18]] * 2
    assert runs[0].tried == runs[1].tried


def test_a_failure_that_needs_no_item_is_reduced_to_nothing() -> None:
    search = RecordingSearch(lambda kept: True)
    assert ddmin([1, 2, 3], search.first) == []
    assert search.tried == [[]]
    assert ddmin([], search.first) == []


def test_few_needed_items_of_many_take_few_tries() -> None:
    search = RecordingSearch(lambda kept: {100, 900} <= set(kept))
    assert ddmin(range(1000), search.first) == [100, 900]
    assert len(search.tried) < 150


def test_a_used_up_budget_leaves_a_failing_result() -> None:
    search = RecordingSearch(lambda kept: {5, 30} <= set(kept))

    def first(candidates: Sequence[list[int]]) -> int | None:
        return search.first(candidates) if len(search.tried) < 6 else None

    kept = ddmin(range(64), first)
    assert {5, 30} <= set(kept)
    assert len(kept) < 64
