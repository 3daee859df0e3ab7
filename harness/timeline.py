"""When each fault of a run was injected and healed, whether it took effect, and how soon writes succeeded again."""

from bisect import bisect_right
from dataclasses import dataclass
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
    recovered: float | None  # seconds from the fault to the first success of a write that was sent after it


def origin(folder: RunFolder) -> int:
    """The schedule's zero in monotonic nanoseconds: when the workload began, else the run's first milestone."""
    times = {line["event"]: line["t"] for line in reversed(list(folder.lines("harness.jsonl")))}
    return int(times.get("workload-started", min(times.values(), default=0)))


def spans(folder: RunFolder) -> list[Span]:
    """The run's faults in the order in which they were injected."""
    zero = origin(folder)
    lines = list(folder.lines("faults.jsonl"))
    heals = {line["id"]: line for line in lines if line["type"] == "heal"}
    sent, successes = _writes(folder)
    found = []
    for line in lines:
        if line["type"] != "inject":
            continue
        heal = heals.get(line["id"])
        back = _first_success(sent, successes, line["t"])
        found.append(
            Span(
                id=line["id"],
                do=line["do"],
                target=str(line["target"]),
                nodes=list(line.get("nodes") or []),
                at=(line["t"] - zero) / 1e9,
                healed=None if heal is None else (heal["t"] - zero) / 1e9,
                confirmed=bool(line["confirmed"]) and (heal is None or heal.get("confirmed") is not False),
                recovered=None if back is None else (back - line["t"]) / 1e9,
            )
        )
    return found


def _writes(folder: RunFolder) -> tuple[list[int], list[int]]:
    """Of every write that succeeded, when it was sent (ascending); and the earliest success among it and later ones."""
    open_writes: dict[tuple[int, int], int] = {}
    pairs = []
    for line in folder.lines("ops.jsonl"):
        key = (line["client"], line["seq"])
        if line["type"] == "invoke" and line["op"] in WRITES:
            open_writes[key] = line["t"]
        elif line["type"] == "complete" and key in open_writes:
            began = open_writes.pop(key)
            if line["outcome"] == "ok":
                pairs.append((began, line["t"]))
    pairs.sort()
    earliest = float("inf")
    successes = []
    for _, ended in reversed(pairs):
        earliest = min(earliest, ended)
        successes.append(int(earliest))
    return [began for began, _ in pairs], successes[::-1]


def _first_success(sent: list[int], successes: list[int], after: int) -> int | None:
    place = bisect_right(sent, after)
    return successes[place] if place < len(successes) else None
