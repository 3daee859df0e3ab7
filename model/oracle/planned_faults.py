"""Compares the faults of a written schedule, which run.json has, with the injections on record."""

from collections.abc import Iterator, Sequence

from zab_chaos.model.events import Inject, PlannedFault
from zab_chaos.model.oracle.spans import SECOND

ROUNDING = SECOND // 1000  # times of a schedule are in seconds, with fractions


def missing_faults(schedule: Sequence[PlannedFault], injects: Sequence[Inject], zero: int) -> Iterator[PlannedFault]:
    """Yield the planned faults without an injection, the last one first. `zero`: when the load began, in nanoseconds.

    Both are in the order of their times, which is also that in which a schedule is carried out. It is read backwards: a fault
    may be injected late, after another one has taken effect for example, but never before its time. There may be more
    injections: of the loss of a disk at a crash point, for example.
    """
    left = list(injects)
    for planned in reversed(schedule):
        earliest = zero + int(planned.at * SECOND) - ROUNDING
        places = (place for place in reversed(range(len(left))) if _is_of(left[place], planned, earliest))
        place = next(places, None)
        if place is None:
            yield planned
        else:
            del left[place:]


def _is_of(inject: Inject, planned: PlannedFault, earliest: int) -> bool:
    return inject.t >= earliest and (inject.do, inject.target) == (planned.do, planned.target)
