"""Union, intersection and difference of time spans, and the times that several of them share."""

import pytest

from zab_chaos.model.oracle.spans import FOREVER, Span, difference, intersection, merged, shared


@pytest.mark.parametrize(
    ("gap", "spans"),
    [
        (0, [(0, 4), (5, 9), (10, 12), (20, 21)]),
        (1, [(0, 12), (20, 21)]),
        (8, [(0, 21)]),
    ],
)
def test_spans_at_most_a_gap_apart_are_merged(gap: int, spans: list[Span]) -> None:
    assert merged([(20, 21), (5, 9), (0, 4), (1, 3), (10, 12)], gap) == spans


def test_intersection_is_symmetric() -> None:
    one: list[Span] = [(0, 10), (20, 30), (40, 50)]
    other: list[Span] = [(1, 2), (3, 4), (9, 21), (30, 45)]
    both = [(1, 2), (3, 4), (9, 10), (20, 21), (40, 45)]
    assert intersection(one, other) == intersection(other, one) == both


@pytest.mark.parametrize(
    ("least", "times"), [(1, [(0, 12), (20, 21)]), (2, [(1, 4), (5, 9)]), (3, [(2, 3), (6, 7)]), (4, [])]
)
def test_times_that_several_spans_share(least: int, times: list[Span]) -> None:
    assert shared([(0, 9), (1, 4), (2, 3), (5, 12), (6, 7), (20, 21)], least) == times


def test_difference_with_spans_that_touch_overlap_and_lie_outside() -> None:
    assert difference([(0, 10), (20, 30)], [(8, 9), (2, 4), (3, 5), (10, 22), (40, 50)]) == [
        (0, 2), (5, 8), (9, 10), (22, 30),
    ]  # fmt: skip
    assert difference([(0, FOREVER)], [(3, FOREVER)]) == [(0, 3)]
