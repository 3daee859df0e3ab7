"""When each fault of a run was injected and healed, whether it took effect, and how long no write succeeded."""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.model import events as ev
from zab_chaos.model.oracle.facts import WRITES


class Injected(ev.Inject, kw_only=True, tag="inject"):
    """An inject line, with what a scenario needs to repeat the fault."""

    params: dict[str, Any] = {}  # noqa: RUF012 - msgspec copies it
    pairs: list[tuple[int, int]] = []  # noqa: RUF012


FAULTS: Any = Injected | ev.Heal
OPERATIONS: Any = ev.Invoke | ev.Complete


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One fault. Times are seconds since the workload began."""

    id: Any
    do: str
    target: str
    nodes: list[int]
    at: float
    healed: float | None  # None: an instantaneous fault, or one that was never healed
    confirmed: bool
    stood_still: float | None  # seconds of the longest time until the next fault in which writes waited and none
    # succeeded; None: until the end


def hit(target: str, nodes: Sequence[int]) -> str:
    """`leader = 2`: what the scenario said, and the nodes that it was."""
    numbers = " ".join(map(str, nodes))
    return target if not numbers or target == f"node-{numbers}" else f"{target} = {numbers}"


def origin(folder: RunFolder) -> int:
    """Zero of the schedule, in monotonic nanoseconds: the start of the workload, else the run's first milestone."""
    times = {line.event: line.t for line in reversed(list(folder.lines("harness.jsonl", ev.Milestone)))}
    return int(times.get("workload-started", min(times.values(), default=0)))


def spans(folder: RunFolder) -> list[Span]:
    """The run's faults in the order in which they were injected."""
    zero = origin(folder)
    lines = list(folder.lines("faults.jsonl", FAULTS))
    heals = {line.id: line for line in lines if isinstance(line, ev.Heal)}
    writes = _Writes.of(folder)
    injects = [line for line in lines if isinstance(line, Injected)]
    if not injects:
        return []
    ends = [line.t for line in injects[1:]] + [max([0, *writes.successes])]
    found = []
    for line, end in zip(injects, ends, strict=True):
        heal = heals.get(line.id)
        found.append(
            Span(
                id=line.id,
                do=line.do,
                target=target_words(line.target),
                nodes=line.nodes,
                at=(line.t - zero) / 1e9,
                healed=None if heal is None else (heal.t - zero) / 1e9,
                confirmed=line.confirmed and (heal is None or heal.confirmed),
                stood_still=writes.longest_pause(line.t, end),
            )
        )
    return found


def target_words(target: Any) -> str:
    """What the scenario calls its target; several are written one after the other. None: the shape or the pairs say it."""
    if target is None:
        return "links"
    return ", ".join(map(str, target)) if isinstance(target, list) else str(target)


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
