"""The numbers of a verdict: how much, how fast, and how long nothing went."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from math import ceil
from typing import Any

from zab_chaos.model.oracle.facts import Facts

AFTERMATH_NS = 2_000_000_000  # a pause that begins later has another reason than the fault
_UNITS = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "min": 60.0}


def seconds(value: object) -> float:
    """A scenario's time in seconds: 5, 2.5, "5s", "800ms", "2min". Raises ValueError."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", str(value))
    if match is None or match[2] not in _UNITS:
        raise ValueError(f"{value!r} is no time; write seconds as a number, or for instance 5s, 800ms, 2min")
    return float(match[1]) * _UNITS[match[2]]


def percentile(ascending: Sequence[int], share: float) -> int:
    """The nearest-rank percentile of a sorted, non-empty sequence."""
    return ascending[max(0, ceil(share * len(ascending)) - 1)]


def pauses(due: Sequence[int], done: Sequence[int], end: int) -> Iterator[tuple[int, int]]:
    """Begin and end of each time in which a write was due and none succeeded, in order.

    Between two successes the time counts from the first write that came due after the former; after the last success to
    `end`. `due`: when each write was, `done`: when those that succeeded were answered, both ascending.
    """
    for before, after in zip([-1, *done], [*done, end], strict=True):
        waiting = bisect_left(due, before)
        if waiting < len(due) and due[waiting] < after:
            yield due[waiting], after


def longest_pause(facts: Facts) -> tuple[int, int]:
    """Begin and end (ns) of the longest of the `pauses`, up to the end of the workload, or to the last thing that the clients
    wrote down. Equal if there was none."""
    due, done = sorted(facts.writes_due), sorted(facts.writes_done)
    if not due:
        return 0, 0
    stopped = facts.milestones.get("workload-stopped")
    end = stopped.t if stopped is not None else max(due[-1], done[-1] if done else 0)
    return max(pauses(due, done, end), key=lambda pause: pause[1] - pause[0], default=(0, 0))


def longest_unavailability(facts: Facts) -> float:
    """Seconds of `longest_pause`. 0.0 without writes."""
    return _seconds_of(longest_pause(facts))


def pause_after(facts: Facts, pause: tuple[int, int]) -> str | None:
    """The kind of the fault that a pause (ns) goes with: the last one before the pause began that was still there,
    or had ended at most `AFTERMATH_NS` before, or else the first one during the pause. None if there is no such fault."""
    begin, end = pause
    healed = {heal.id: heal.t for heal in facts.heals}
    near = [it for it in facts.injects if it.t < end and healed.get(it.id, it.t) + AFTERMATH_NS >= begin]
    near.sort(key=lambda inject: inject.t)
    before = [inject for inject in near if inject.t <= begin]
    return (before[-1] if before else near[0]).do if near else None


def _seconds_of(pause: tuple[int, int]) -> float:
    begin, end = pause
    return (end - begin) / 1e9


def unknown_with_effect(facts: Facts) -> int:
    """How many writes whose clients were not told an outcome took effect."""
    answered = {key for key, one in facts.requests.items() if one.complete and one.complete.outcome != "unknown"}
    return sum(key in facts.requests and key not in answered for key in facts.effects.first)


def fault_recovery(facts: Facts) -> list[dict[str, Any]]:
    """For each fault the seconds from its injection to the next new commit anywhere; None if there was none."""
    growth = facts.ledger.growth()
    found = []
    for inject in facts.injects:
        following = bisect_right(growth, inject.t)
        took = (growth[following] - inject.t) / 1e9 if following < len(growth) else None
        found.append({"id": inject.id, "do": inject.do, "nodes": inject.nodes, "seconds": took})
    return found


def metrics(facts: Facts) -> dict[str, Any]:
    """The verdict's `metrics`. Counts are of writes and reads together unless the name says `writes`; times in seconds
    unless the name says `ms`."""
    latencies = sorted(facts.latencies)
    begin, settled = facts.milestones.get("safety-ended"), facts.settled()
    pause = longest_pause(facts)
    return {
        "acked": facts.outcomes["ok"],
        "failed": facts.outcomes["failed"],
        "unknown": facts.outcomes["unknown"],
        "writes_acked": facts.write_outcomes["ok"],
        "writes_failed": facts.write_outcomes["failed"],
        "writes_unknown": facts.write_outcomes["unknown"],
        "delivered": len(facts.ledger),
        "latency_p50_ms": percentile(latencies, 0.50) / 1e6 if latencies else None,
        "latency_p99_ms": percentile(latencies, 0.99) / 1e6 if latencies else None,
        "elections": len(facts.leads),
        "epochs": len({event.epoch for event in facts.established}),
        "lives": len(facts.lives),
        "faults": fault_recovery(facts),
        "unknown_with_effect": unknown_with_effect(facts),
        "longest_unavailability_s": _seconds_of(pause),
        "longest_unavailability_fault": pause_after(facts, pause),
        "converged_s": (settled.t - begin.t) / 1e9 if begin and settled and settled.event == "converged" else None,
    }
