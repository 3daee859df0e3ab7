"""The metrics of a verdict: counts, latencies and unavailability."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from math import ceil
from typing import Any, TypeVar

from zab_chaos.model.oracle.facts import Facts
from zab_chaos.model.oracle.fault_evidence import ended_by_themselves
from zab_chaos.model.oracle.spans import FOREVER, Span

AFTERMATH_NS = 2_000_000_000  # a pause that begins later than this after a fault has another reason
IDLE_NS = 2_000_000_000  # nobody wants to write in a time, longer than this, in which no write waits
_N = TypeVar("_N", int, float)
_UNITS = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "min": 60.0}


def seconds(value: object) -> float:
    """Convert a time of a scenario (5, 2.5, "5s", "800ms", "2min") to seconds. Raises ValueError."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", str(value))
    if match is None or match[2] not in _UNITS:
        raise ValueError(f"{value!r} is not a time; write seconds as a number, or for instance 5s, 800ms, 2min")
    return float(match[1]) * _UNITS[match[2]]


def percentile(ascending: Sequence[_N], share: float) -> _N:
    """Return the nearest-rank percentile of a sorted, non-empty sequence. `share` is between 0 and 1."""
    return ascending[max(0, ceil(share * len(ascending)) - 1)]


def pauses(waits: Iterable[Span], served: Iterable[int], end: int) -> Iterator[Span]:
    """Return the pauses, in order: the times (begin, end) in which a write waited and none was served.

    A pause between two writes that are served begins at the earlier one's answer if a write is waiting then, otherwise when
    the next write is due. It ends early if no write waits for longer than `IDLE_NS`. Nothing after `end` counts. `waits` has
    the due time and the answer time of each write (`FOREVER` if never answered), `served` the answer times of those served.
    """
    by_due = sorted(waits)
    dues = [due for due, _ in by_due]
    latest = list(accumulate((answered for _, answered in by_due), max))  # latest answer to the writes due so far
    idle = (t for t, due in zip(latest, [*dues[1:], FOREVER], strict=False) if due - t > IDLE_NS)
    ends = sorted(t for t in (*served, *idle) if t <= end)
    for before, after in zip([-1, *ends], [*ends, end], strict=True):
        number = bisect_right(dues, before)
        if number and latest[number - 1] > before:
            since = before
        else:
            since = dues[number] if number < len(dues) else end
        if since < after:
            yield since, after


def longest_pause(facts: Facts) -> Span:
    """Return begin and end (ns) of the longest of the `pauses`; they are equal if there is none.

    The time ends with the workload, or, if that is not recorded, with the last write that was served or due.
    """
    waits, served = facts.write_waits, [*facts.writes_done, *facts.refusals]
    stopped = facts.milestones.get("workload-stopped")
    end = stopped.t if stopped is not None else max([*served, *(due for due, _ in waits)], default=0)
    return max(pauses(waits, served, end), key=lambda pause: pause[1] - pause[0], default=(0, 0))


def pause_after(facts: Facts, pause: Span) -> str | None:
    """Return the kind of the fault that explains a pause (ns), None if no fault does.

    It is the last fault that began before the pause and was still active, or had ended at most `AFTERMATH_NS` earlier;
    otherwise the first fault during the pause.
    """
    begin, end = pause
    near = [it for it in facts.faults if it.t < end and facts.healed_at.get(it.id, it.t) + AFTERMATH_NS >= begin]
    near.sort(key=lambda inject: inject.t)
    before = [inject for inject in near if inject.t <= begin]
    return (before[-1] if before else near[0]).do if near else None


def _seconds_of(pause: Span) -> float:
    begin, end = pause
    return (end - begin) / 1e9


def unknown_with_effect(facts: Facts) -> int | None:
    """Return the number of writes that took effect although their outcome is unknown to the client.

    None for a foreign system: no record says which request a transaction carries out.
    """
    if facts.run.foreign:
        return None
    requests = [facts.requests.get(key) for key in facts.effects.first_effects]
    return sum(request is not None and not request.known for request in requests)


def fault_recovery(facts: Facts) -> list[dict[str, Any]]:
    """Return for each fault the seconds from its injection to the next first delivery on any node, None if there was none."""
    growth = facts.history.growth_times()
    found = []
    for inject in facts.injects:
        following = bisect_right(growth, inject.t)
        took = (growth[following] - inject.t) / 1e9 if following < len(growth) else None
        found.append({"id": inject.id, "do": inject.do, "nodes": inject.nodes, "seconds": took})
    return found


def _ends(facts: Facts) -> list[dict[str, Any]]:
    return [{"node": ended.node, "code": ended.code} for ended in ended_by_themselves(facts)]


def metrics(facts: Facts) -> dict[str, Any]:
    """Return the verdict's `metrics`. Counts include writes and reads unless the name has `writes`. Times are in seconds
    unless the name has `ms`."""
    latencies = sorted(facts.latencies)
    pause = longest_pause(facts)
    return {
        "acked": facts.outcomes["ok"],
        "failed": facts.outcomes["failed"],
        "unknown": facts.outcomes["unknown"],
        "writes_acked": facts.write_outcomes["ok"],
        "writes_failed": facts.write_outcomes["failed"],
        "writes_unknown": facts.write_outcomes["unknown"],
        "delivered": len(facts.history),
        "latency_p50_ms": percentile(latencies, 0.50) / 1e6 if latencies else None,
        "latency_p99_ms": percentile(latencies, 0.99) / 1e6 if latencies else None,
        "elections": len(facts.began_to_lead),
        "epochs": len({event.epoch for event in facts.established}),
        "lives": len(facts.lives),
        "faults": fault_recovery(facts),
        "unknown_with_effect": unknown_with_effect(facts),
        "longest_unavailability_s": _seconds_of(pause),
        "longest_unavailability_fault": pause_after(facts, pause),
        "converged_s": facts.convergence_seconds(),
        **({"ended": _ends(facts)} if facts.run.foreign else {}),
    }
