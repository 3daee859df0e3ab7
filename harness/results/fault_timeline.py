"""Computes when the schedule of a run began, and how long no write succeeded after each of its faults."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any

from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.model import events as ev
from zab_chaos.model.oracle.facts import WRITES
from zab_chaos.model.oracle.measures import pauses
from zab_chaos.model.oracle.spans import FOREVER, Span

OPERATIONS: Any = ev.Invoke | ev.Complete


def origin(folder: RunFolder) -> int:
    """Return the schedule's time zero in monotonic nanoseconds: the start of the workload, else the first milestone."""
    times = {line.event: line.t for line in reversed(list(folder.lines("harness.jsonl", ev.Milestone)))}
    return int(times.get("workload-started", min(times.values(), default=0)))


def pauses_of_writes(folder: RunFolder, faults: Sequence[int]) -> list[float | None]:
    """Return for each fault the longest time (s) before the next fault in which writes waited and none succeeded.

    None: no write succeeded until the end. `faults`: the times of the injections, ascending, in monotonic nanoseconds.
    """
    waits, successes = _writes(folder)
    end = max(successes, default=0)
    found = list(pauses(waits, successes, end))
    return [_longest(found, waits, begin, until) for begin, until in pairwise([*faults, end])]


def _writes(folder: RunFolder) -> tuple[list[Span], list[int]]:
    """Return when each write was due and answered (`FOREVER`: never), and the times of successful writes, ascending."""
    due: dict[tuple[int, int], int] = {}
    waits: list[Span] = []
    successes = []
    for line in folder.lines("ops.jsonl", OPERATIONS):
        key = (line.client, line.seq)
        if isinstance(line, ev.Invoke):
            if line.op in WRITES:
                due[key] = line.due
        elif key in due:
            waits.append((due.pop(key), line.t))
            successes += [line.t] if line.outcome == "ok" else []
    return [*waits, *((since, FOREVER) for since in due.values())], sorted(successes)


def _longest(found: Sequence[Span], waits: Sequence[Span], begin: int, until: int) -> float | None:
    """Return the longest (s) of the pauses that end in [begin, until], or of the one that begins before `until` and ends later.

    None if a write waited after `begin` and none succeeded any more.
    """
    first, last = (bisect_right(found, time, key=itemgetter(1)) for time in (begin, until))
    if first == len(found):
        return None if any(answered > begin for _, answered in waits) else 0.0
    last = max(last, first + (found[first][0] < until))
    return max((end - since for since, end in found[first:last]), default=0) / 1e9
