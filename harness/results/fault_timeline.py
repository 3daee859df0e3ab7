"""When the schedule of a run began, and how long no write succeeded after each of its faults."""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.model import events as ev
from zab_chaos.model.oracle.facts import WRITES

OPERATIONS: Any = ev.Invoke | ev.Complete


def origin(folder: RunFolder) -> int:
    """Zero of the schedule, in monotonic nanoseconds: the start of the workload, else the run's first milestone."""
    times = {line.event: line.t for line in reversed(list(folder.lines("harness.jsonl", ev.Milestone)))}
    return int(times.get("workload-started", min(times.values(), default=0)))


def pauses_of_writes(folder: RunFolder, faults: Sequence[int]) -> list[float | None]:
    """For each fault the longest time (s) until the next one in which writes waited and none succeeded; None: until the end.

    `faults`: when they were injected, ascending, in monotonic nanoseconds.
    """
    writes = _Writes.of(folder)
    end = max([0, *writes.successes])
    return [writes.longest_pause(begin, until) for begin, until in pairwise([*faults, end])]


@dataclass(frozen=True, slots=True)
class _Writes:
    """When each write was due and answered (or never), and when writes succeeded, ascending."""

    waits: list[tuple[int, float]]
    successes: list[int]

    @classmethod
    def of(cls, folder: RunFolder) -> "_Writes":
        due: dict[tuple[int, int], int] = {}
        waits: list[tuple[int, float]] = []
        successes = []
        for line in folder.lines("ops.jsonl", OPERATIONS):
            key = (line.client, line.seq)
            if isinstance(line, ev.Invoke):
                if line.op in WRITES:
                    due[key] = line.due
            elif key in due:
                waits.append((due.pop(key), line.t))
                successes += [line.t] if line.outcome == "ok" else []
        return cls([*waits, *((since, math.inf) for since in due.values())], sorted(successes))

    def longest_pause(self, begin: int, end: int) -> float | None:
        """The longest time (s) between two successes in which a write waited, for pauses in [begin, end] or around `begin`.

        None if a write waited after `begin` and none succeeded any more.
        """
        first, last = bisect_right(self.successes, begin), bisect_right(self.successes, end)
        if first == len(self.successes):
            return None if any(answered > begin for _, answered in self.waits) else 0.0
        around = self.successes[max(0, first - 1) : max(first + 1, last)]
        longest = 0
        for before, after in sorted(pairwise(around), key=lambda pause: pause[0] - pause[1]):  # the longest first
            if after - before <= longest:
                break
            since = min(
                max(before, due) for due, answered in self.waits if answered > before
            )  # there is the one at `after`
            longest = max(longest, after - since)
        return longest / 1e9
