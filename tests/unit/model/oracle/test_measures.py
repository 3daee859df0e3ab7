"""The verdict's numbers, computed by hand."""

import pytest

from zab_chaos.model.events import Heal, Inject
from zab_chaos.model.oracle.facts import Facts
from zab_chaos.model.oracle.measures import (
    AFTERMATH_NS,
    longest_pause,
    longest_unavailability,
    pause_after,
    percentile,
    seconds,
)


@pytest.mark.parametrize(
    ("value", "expected"), [(5, 5.0), (2.5, 2.5), ("5s", 5.0), ("800ms", 0.8), ("2 min", 120.0), ("1.5", 1.5)]
)
def test_times_as_scenarios_write_them(value: object, expected: float) -> None:
    assert seconds(value) == expected


@pytest.mark.parametrize("value", ["soon", "5 fortnights", "-1s", "", True, None])
def test_what_is_no_time_is_refused_with_an_example(value: object) -> None:
    with pytest.raises(ValueError, match="800ms"):
        seconds(value)


def test_nearest_rank() -> None:
    assert percentile([7], 0.5) == 7
    assert percentile([1, 2, 3, 4], 0.5) == 2
    assert percentile(list(range(1, 101)), 0.99) == 99
    assert percentile([1, 2], 0.99) == 2


@pytest.mark.parametrize(
    ("due", "done", "expected"),
    [
        ([], [], 0.0),
        ([10, 20, 30], [11, 21, 31], 1),
        ([10, 20, 30], [11, 51, 52], 31),  # due at 20, next success at 51
        ([10, 100], [11, 101], 1),  # nothing was due in between
        ([10, 20, 60], [11], 40),  # never again: from 20 to the last thing that was due
        ([10, 20], [], 10),
    ],
)
def test_unavailability_counts_from_the_first_write_that_waits(
    due: list[int], done: list[int], expected: float
) -> None:
    facts = Facts()
    facts.writes_due.extend(due)
    facts.writes_done.extend(done)
    assert longest_unavailability(facts) == pytest.approx(expected / 1e9)


@pytest.mark.parametrize(
    ("injects", "expected"),
    [
        ({}, None),
        ({"crash": 15}, "crash"),
        ({"wipe": 5, "crash": 15}, "crash"),
        ({"pause": 30}, "pause"),  # it began in the middle of it
        ({"crash": 60}, None),  # after it
    ],
)
def test_the_pause_goes_with_the_fault_before_it(injects: dict[str, int], expected: str | None) -> None:
    facts = paused()
    for number, (do, t) in enumerate(injects.items()):
        facts.inject(Inject(id=number, t=t, line=1, do=do, target="one", nodes=[1], confirmed=True))
    assert pause_after(facts, longest_pause(facts)) == expected


def test_a_fault_that_was_over_long_before_is_not_the_reason() -> None:
    facts = paused(late=AFTERMATH_NS + 100)
    facts.inject(Inject(id=1, t=5, line=1, do="partition", target="one", nodes=[1], confirmed=True))
    facts.heal(Heal(id=1, t=50, line=2, confirmed=True))
    assert pause_after(facts, longest_pause(facts)) is None


def paused(late: int = 0) -> Facts:
    """Writes that succeed at 11 and 51, the second one due at 20; both `late`."""
    facts = Facts()
    facts.writes_due.extend([late + 10, late + 20])
    facts.writes_done.extend([late + 11, late + 51])
    return facts
