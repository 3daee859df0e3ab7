"""Delta debugging as a pure function: what is left fails, and nothing of it can go."""

from collections.abc import Callable, Sequence
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from zab_chaos.model.ddmin import ddmin

Fails = Callable[[list[int]], bool]


class Asked:
    """Answers from a predicate, and remembers every candidate."""

    def __init__(self, fails: Fails) -> None:
        self.fails = fails
        self.seen: list[list[int]] = []

    def first(self, candidates: Sequence[list[int]]) -> int | None:
        for index, candidate in enumerate(candidates):
            self.seen.append(candidate)
            if self.fails(candidate):
                return index
        return None


def is_minimal(kept: list[int], fails: Fails) -> bool:
    return not any(fails(kept[:index] + kept[index + 1 :]) for index in range(len(kept)))


@given(st.integers(0, 60), st.sets(st.integers(0, 59), max_size=8))
@settings(deadline=None)
def test_exactly_what_is_needed_is_left(size: int, needed: set[int]) -> None:
    needed = {one for one in needed if one < size}
    assert ddmin(range(size), Asked(lambda kept: needed <= set(kept)).first) == sorted(needed)


@given(st.integers(1, 40), st.integers(0, 10**6))
@settings(deadline=None)
def test_no_single_item_can_go_whatever_fails(size: int, seed: int) -> None:
    """Failing need not be monotone: here whole parts fail at random, and so do their parts or not."""

    def fails(kept: list[int]) -> bool:
        return kept == items or (len(kept) > 0 and Random(f"{seed} {kept}").random() < 0.3)

    items = list(range(size))
    kept = ddmin(items, Asked(fails).first)
    assert fails(kept)
    assert kept == sorted(set(kept) & set(items))
    assert len(kept) == 1 or is_minimal(kept, fails)


def test_the_same_answers_ask_the_same_questions() -> None:
    runs = [Asked(lambda kept: {3, 17, 18} <= set(kept)) for _ in range(2)]
    results = [ddmin(range(40), run.first) for run in runs]
    assert results == [[3, 17, 18]] * 2
    assert runs[0].seen == runs[1].seen


def test_what_fails_without_anything_needs_nothing() -> None:
    asked = Asked(lambda kept: True)
    assert ddmin([1, 2, 3], asked.first) == []
    assert asked.seen == [[]]
    assert ddmin([], asked.first) == []


def test_few_of_many_take_few_questions() -> None:
    asked = Asked(lambda kept: {100, 900} <= set(kept))
    assert ddmin(range(1000), asked.first) == [100, 900]
    assert len(asked.seen) < 150


def test_a_budget_that_is_spent_leaves_what_fails() -> None:
    asked = Asked(lambda kept: {5, 30} <= set(kept))

    def first(candidates: Sequence[list[int]]) -> int | None:
        return asked.first(candidates) if len(asked.seen) < 6 else None

    kept = ddmin(range(64), first)
    assert {5, 30} <= set(kept)
    assert len(kept) < 64
