"""The node's clock: its rate, its jumps, and that it never goes back."""

import random
from itertools import count
from unittest.mock import MagicMock

import pytest

from zab_chaos.node.clock import Clock
from zab_chaos.node.commands import Commands


class Source:
    def __init__(self, now: int = 1_000) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


def test_an_untouched_clock_shows_the_source() -> None:
    source = Source(7)
    clock = Clock(source)
    assert clock.now_ns() == 7
    source.now = 123_456_789_012
    assert clock.now_ns() == 123_456_789_012
    assert clock.rate == 1.0


def test_the_default_source_is_the_monotonic_clock() -> None:
    clock = Clock()
    first = clock.now_ns()
    assert clock.now_ns() >= first > 0


def test_a_rate_counts_from_the_moment_it_is_set() -> None:
    source = Source(1_000)
    clock = Clock(source)
    source.now = 2_000
    clock.rate = 2.0
    assert clock.now_ns() == 2_000
    source.now = 3_000
    assert clock.now_ns() == 4_000
    clock.rate = 0.5
    source.now = 5_000
    assert clock.now_ns() == 5_000
    clock.rate = 1.0
    source.now = 5_100
    assert clock.now_ns() == 5_100


def test_it_knows_what_it_showed_when_its_rate_changed() -> None:
    """The process may be interrupted after the change, so a reading after it would show too much or too little."""
    source = Source(1_000)
    clock = Clock(source)
    clock.rate = 0.5
    source.now = 2_000
    clock.rate = 1.0
    source.now = 9_000
    assert (clock.now_ns(), clock.changed_ns) == (8_500, 1_500)
    clock.jump(-7_000)
    clock.rate = 2.0
    assert clock.changed_ns == clock.now_ns()


def test_the_answers_to_commands_show_the_rate_also_if_the_process_was_interrupted_after_the_changes() -> None:
    readings = count(0, 1_000)
    commands = Commands(MagicMock(), Clock(lambda: next(readings)), None, print)
    first, second = (commands.handle("clock-rate", {"rate": rate})["clock_ns"] for rate in (0.5, 1.0))
    assert second - first == 500


@pytest.mark.parametrize("rate", [0.49, 2.01, 0.0, -1.0, float("nan"), float("inf")])
def test_a_rate_out_of_bounds_is_refused_and_changes_nothing(rate: float) -> None:
    clock = Clock(Source())
    with pytest.raises(ValueError, match=r"rate is 0\.5 to 2\.0"):
        clock.rate = rate
    assert clock.rate == 1.0


def test_a_jump_ahead_shows_at_once() -> None:
    source = Source(1_000)
    clock = Clock(source)
    clock.jump(500)
    assert clock.now_ns() == 1_500
    source.now = 1_100
    assert clock.now_ns() == 1_600


def test_a_jump_back_holds_the_clock_until_time_has_caught_up() -> None:
    source = Source(1_000)
    clock = Clock(source)
    assert clock.now_ns() == 1_000
    clock.jump(-300)
    assert clock.now_ns() == 1_000
    source.now = 1_200
    assert clock.now_ns() == 1_000
    source.now = 1_400
    assert clock.now_ns() == 1_100


def test_the_clock_never_goes_back() -> None:
    rng = random.Random(5)
    source = Source()
    clock = Clock(source)
    last = clock.now_ns()
    for _ in range(2_000):
        source.now += rng.randrange(1_000)
        if rng.random() < 0.3:
            clock.rate = rng.uniform(0.5, 2.0)
        if rng.random() < 0.3:
            clock.jump(rng.randrange(-5_000, 5_000))
        now = clock.now_ns()
        assert now >= last
        last = now


def test_years_of_uptime_keep_nanoseconds() -> None:
    source = Source(0)
    clock = Clock(source)
    source.now = 90 * 86_400 * 10**9 + 1
    assert clock.now_ns() == source.now
