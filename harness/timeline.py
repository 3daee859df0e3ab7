"""When each fault of a run was injected and healed, whether it took effect, and how long writes stood still."""

from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from harness.results import RunFolder

WRITES = {"create", "set", "delete", "multi"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One fault. Times are seconds since the workload began."""

    id: Any
    do: str
    target: str
    nodes: list[int]
    at: float
    healed: float | None  # None: a fault of an instant, or one that was never healed
    confirmed: bool
    stood_still: (
        float | None
    )  # seconds of the longest pause between two writes' successes until the next fault; None: for good


def origin(folder: RunFolder) -> int:
    """The schedule's zero in monotonic nanoseconds: when the workload began, else the run's first milestone."""
    times = {line["event"]: line["t"] for line in reversed(list(folder.lines("harness.jsonl")))}
    return int(times.get("workload-started", min(times.values(), default=0)))


def spans(folder: RunFolder) -> list[Span]:
    """The run's faults in the order in which they were injected."""
    zero = origin(folder)
    lines = list(folder.lines("faults.jsonl"))
    heals = {line["id"]: line for line in lines if line["type"] == "heal"}
    successes = _successes(folder)
    injects = [line for line in lines if line["type"] == "inject"]
    if not injects:
        return []
    ends = [line["t"] for line in injects[1:]] + [max([0, *successes])]
    found = []
    for line, end in zip(injects, ends, strict=True):
        heal = heals.get(line["id"])
        found.append(
            Span(
                id=line["id"],
                do=line["do"],
                target=str(line["target"]),
                nodes=list(line.get("nodes") or []),
                at=(line["t"] - zero) / 1e9,
                healed=None if heal is None else (heal["t"] - zero) / 1e9,
                confirmed=bool(line["confirmed"]) and (heal is None or heal.get("confirmed") is not False),
                stood_still=_longest_pause(successes, line["t"], end),
            )
        )
    return found


def _successes(folder: RunFolder) -> list[int]:
    """When writes succeeded, ascending."""
    writes: set[tuple[int, int]] = set()
    times = []
    for line in folder.lines("ops.jsonl"):
        key = (line["client"], line["seq"])
        if line["type"] == "invoke" and line["op"] in WRITES:
            writes.add(key)
        elif line["type"] == "complete" and line["outcome"] == "ok" and key in writes:
            times.append(line["t"])
    return sorted(times)


def _longest_pause(successes: list[int], begin: int, end: int) -> float | None:
    """Seconds of the longest time between two successes: of those that lie in [begin, end], and the one around `begin`.

    None if there was no success any more after `begin`.
    """
    first, last = bisect_right(successes, begin), bisect_right(successes, end)
    if first == len(successes):
        return None
    around = successes[max(0, first - 1) : max(first + 1, last)]
    return max((after - before for before, after in pairwise(around)), default=0) / 1e9
