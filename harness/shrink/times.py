"""Candidates with simpler times: an earlier end, shorter intervals, rounder numbers."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from math import floor

from msgspec import structs

from zab_chaos.faults.scenario import Scenario

STEPS = (0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)  # seconds that a pause may be cut down to
PARTS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4)  # of the load's time, that may be enough
SHORTEST = 0.5  # seconds of load
FEWEST_DIGITS = (0, 1, 2, 3)

Change = Callable[[float], float]


def shorter(scenario: Scenario) -> Iterator[Scenario]:
    """An earlier end of the load, without faults and operations after it."""
    last = max([SHORTEST, *_moments(scenario)])
    for end in (*(round(part * scenario.duration, 1) for part in PARTS), last):
        if SHORTEST <= end < scenario.duration:
            faults = tuple(step for step in scenario.faults if step.at <= end)
            operations = tuple(one for one in scenario.operations if one.at <= end)
            if operations or not scenario.operations:
                yield replace(scenario, duration=end, faults=faults, operations=operations)


def earlier(scenario: Scenario) -> Iterator[Scenario]:
    """Shorter intervals between events (all later events move earlier by as much), and shorter faults."""
    before = 0.0
    for moment in _moments(scenario):
        for pause in STEPS:
            if pause < moment - before:
                yield _moved(scenario, moment, moment - before - pause)
        before = moment
    for index, step in enumerate(scenario.faults):
        for lasts in STEPS[1:]:
            if step.lasts is not None and lasts < step.lasts:
                yield _with_lasts(scenario, index, lasts)


def rounder(scenario: Scenario) -> Iterator[Scenario]:
    """Times with fewer digits, first all, then single ones; never later, so that the search terminates."""
    for digits in FEWEST_DIGITS:
        yield _mapped(scenario, partial(_floor, digits))
    for moment in _moments(scenario):
        for digits in FEWEST_DIGITS:
            yield _at(scenario, partial(_floor_one, digits, moment))
    for index, step in enumerate(scenario.faults):
        for digits in FEWEST_DIGITS:
            if step.lasts is not None and _floor(digits, step.lasts):
                yield _with_lasts(scenario, index, _floor(digits, step.lasts))


def _floor(digits: int, seconds: float) -> float:
    scale = 10.0**digits
    return floor(seconds * scale + 1e-6) / scale


def _floor_one(digits: int, moment: float, seconds: float) -> float:
    return _floor(digits, seconds) if seconds == moment else seconds


def _moments(scenario: Scenario) -> list[float]:
    return sorted({*(step.at for step in scenario.faults), *(one.at for one in scenario.operations)})


def _moved(scenario: Scenario, since: float, by: float) -> Scenario:
    """Move everything from `since` on, and the end, earlier."""
    moved = _at(scenario, lambda at: round(at - by, 6) if at >= since else at)
    return replace(moved, duration=max(SHORTEST, round(scenario.duration - by, 6)))


def _at(scenario: Scenario, change: Change) -> Scenario:
    """Change the start times of faults and operations."""
    return replace(
        scenario,
        faults=tuple(replace(step, at=change(step.at)) for step in scenario.faults),
        operations=tuple(structs.replace(one, at=change(one.at)) for one in scenario.operations),
    )


def _mapped(scenario: Scenario, change: Change) -> Scenario:
    """Change all times, and keep everything before the end."""
    changed = _at(scenario, change)
    faults = tuple(replace(step, lasts=step.lasts and (change(step.lasts) or step.lasts)) for step in changed.faults)
    duration = max([SHORTEST, change(scenario.duration), *_moments(changed)])
    return replace(changed, faults=faults, duration=duration)


def _with_lasts(scenario: Scenario, index: int, lasts: float) -> Scenario:
    faults = scenario.faults
    return replace(scenario, faults=(*faults[:index], replace(faults[index], lasts=lasts), *faults[index + 1 :]))
