"""The results of a measurement (figures) and its scale."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from zab_chaos.model.oracle import measures


class MissingRequirement(Exception):
    """Raised if this machine lacks something that a measurement needs. The text says what, and how to install it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number with its unit. `rounds`: the values of which it is the median (or maximum), in their order."""

    name: str
    value: float
    unit: str
    rounds: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much to measure. The published numbers use the defaults."""

    nodes: int = 3
    keys: int = 100
    payload: int = 1024  # bytes
    outstanding: int = 1000
    rounds: int = 5
    writes: int = 30_000  # in one round
    warm_up: int = 10_000  # writes before the first round
    single: int = 1000  # writes of which only one is outstanding at a time
    starts: int = 5
    failovers: int = 9
    history: int = 1_000_000  # transactions that are written before memory is measured
    judged: int = 200_000  # transactions that the oracle judges in a round
    simulated: float = 120.0  # seconds of a simulated run
    frames_seconds: float = 1.0  # seconds of each round on a link
    events: Sequence[int] = (
        1_000_000,
        2_000_000,
        5_000_000,
        10_000_000,
    )  # events that the pipeline analyses in one call
    campaign: int = 1000  # short simulated runs that the pipeline analyses in one call
    sizes: Sequence[int] = (3, 5, 7)
    payloads: Sequence[int] = (16, 256, 1024, 4096, 16384, 65536)


NORMAL = Scale()
QUICK = Scale(
    rounds=3,
    writes=10_000,
    warm_up=5000,
    single=300,
    starts=3,
    failovers=3,
    history=100_000,
    judged=50_000,
    simulated=30.0,
    frames_seconds=0.3,
    payloads=(256, 1024, 16384),
    events=(200_000, 1_000_000),
    campaign=50,
)


def median(name: str, unit: str, rounds: Sequence[float]) -> Figure:
    """Return the median of several rounds."""
    return Figure(name=name, value=statistics.median(rounds), unit=unit, rounds=list(rounds))


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the value that `percent` of the values do not exceed (nearest rank). Raises ValueError if there are none."""
    if not values:
        raise ValueError("there is no percentile of no values")
    return measures.percentile(sorted(values), percent / 100)
