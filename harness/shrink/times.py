"""The steps of shrinking that simplify times: an earlier end, shorter intervals, rounder numbers."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from math import floor, isinf

from msgspec import structs

from zab_chaos.faults.scenario import Scenario

INTERVALS = (0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)  # seconds: shorter intervals to try
DURATION_SHARES = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4)  # shorter durations to try, as shares of the present one
DURATION_MIN = 0.5  # seconds
FEWEST_DIGITS = (0, 1, 2, 3)

Change = Callable[[float], float]


def shorter(scenario: Scenario) -> Iterator[Scenario]:
    """Yield candidates with an earlier end of the load, without the faults and operations after it."""
    last = max([DURATION_MIN, *_start_times(scenario)])
    for end in (*(round(part * scenario.duration, 1) for part in DURATION_SHARES), last):
        if DURATION_MIN <= end < scenario.duration and (candidate := ended(scenario, end)) is not None:
            yield candidate


def ended(scenario: Scenario, end: float) -> Scenario | None:
    """Return the scenario with the end of the load at `end` or earlier, without the faults and operations after it.

    None if no operation of a list would be left, because an empty list means a drawn load.
    """
    faults = tuple(step for step in scenario.faults if step.at <= end)
    operations = tuple(one for one in scenario.operations if one.at <= end)
    if scenario.operations and not operations:
        return None
    return replace(scenario, duration=min(end, scenario.duration), faults=faults, operations=operations)


def just_after(moment: float) -> float:
    """Return a round end of the load that is later than this moment, which may be before its beginning or infinite."""
    return moment if isinf(moment) else max(DURATION_MIN, floor(moment * 10 + 1) / 10)


def earlier(scenario: Scenario) -> Iterator[Scenario]:
    """Yield candidates with a shorter interval between two events (later events move, too), or with a shorter fault."""
    before = 0.0
    for moment in _start_times(scenario):
        for interval in INTERVALS:
            if interval < moment - before:
                yield _moved(scenario, moment, moment - before - interval)
        before = moment
    for index, step in enumerate(scenario.faults):
        for lasts in INTERVALS[1:]:
            if step.lasts is not None and lasts < step.lasts:
                yield _with_lasts(scenario, index, lasts)


def rounder(scenario: Scenario) -> Iterator[Scenario]:
    """Yield candidates with fewer digits in all times, then in single ones. No time becomes later, so the search terminates."""
    for digits in FEWEST_DIGITS:
        yield _with_times(scenario, partial(_floor, digits))
    for moment in _start_times(scenario):
        for digits in FEWEST_DIGITS:
            yield _with_start_times(scenario, partial(_floor_one, digits, moment))
    for index, step in enumerate(scenario.faults):
        for digits in FEWEST_DIGITS:
            if step.lasts is not None and _floor(digits, step.lasts):
                yield _with_lasts(scenario, index, _floor(digits, step.lasts))


def _floor(digits: int, seconds: float) -> float:
    scale = 10.0**digits
    return floor(seconds * scale + 1e-6) / scale


def _floor_one(digits: int, moment: float, seconds: float) -> float:
    return _floor(digits, seconds) if seconds == moment else seconds


def _start_times(scenario: Scenario) -> list[float]:
    """Return the times at which faults or operations begin, in ascending order."""
    return sorted({*(step.at for step in scenario.faults), *(one.at for one in scenario.operations)})


def _moved(scenario: Scenario, since: float, by: float) -> Scenario:
    """Return the scenario with everything that begins at `since` or later, and the end, `by` seconds earlier."""
    moved = _with_start_times(scenario, lambda at: round(at - by, 6) if at >= since else at)
    return replace(moved, duration=max(DURATION_MIN, round(scenario.duration - by, 6)))


def _with_start_times(scenario: Scenario, change: Change) -> Scenario:
    """Return the scenario with `change` applied to the start times of its faults and operations."""
    return replace(
        scenario,
        faults=tuple(replace(step, at=change(step.at)) for step in scenario.faults),
        operations=tuple(structs.replace(one, at=change(one.at)) for one in scenario.operations),
    )


def _with_times(scenario: Scenario, change: Change) -> Scenario:
    """Return the scenario with `change` applied to all its times; the end stays after every start."""
    changed = _with_start_times(scenario, change)
    faults = tuple(replace(step, lasts=step.lasts and (change(step.lasts) or step.lasts)) for step in changed.faults)
    duration = max([DURATION_MIN, change(scenario.duration), *_start_times(changed)])
    return replace(changed, faults=faults, duration=duration)


def _with_lasts(scenario: Scenario, index: int, lasts: float) -> Scenario:
    faults = scenario.faults
    return replace(scenario, faults=(*faults[:index], replace(faults[index], lasts=lasts), *faults[index + 1 :]))
