"""Makes the summary of a campaign (summary.json): the mean of each number over the runs, with its confidence interval.

A run is one observation: intervals are 95 % confidence intervals of the mean over runs, by Student's t.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import mean, median
from typing import Any

from zab_chaos.model.verdict import WORST_FIRST, worst
from zab_chaos.pipeline.folders import SourceFolder
from zab_chaos.pipeline.judging import JudgedRun
from zab_chaos.pipeline.naming import experiment, plural
from zab_chaos.pipeline.significance import interval_half_width


@dataclass(frozen=True, slots=True)
class Number:
    """A number that is measured for each run: its name in `metrics`, its unit ("" for a plain ratio), and its meaning."""

    name: str
    unit: str
    more_is_better: bool
    about: str


NUMBERS = (
    Number("acked_per_second", "1/s", True, "successful operations of the load, per second of the load"),
    Number("unknown_share", "", False, "share of the operations whose outcome is unknown; latencies do not count them"),
    Number("latency_p50_ms", "ms", False, "latency of successful operations from the due time, median"),
    Number("latency_p90_ms", "ms", False, "90th percentile, successful operations"),
    Number("latency_p99_ms", "ms", False, "99th percentile, successful operations"),
    Number("latency_p999_ms", "ms", False, "99.9th percentile, successful operations"),
    Number("longest_unavailability_s", "s", False, "longest time in which a write was waiting and none was served"),
    Number("recovery_s", "s", False, "from a fault to the next new commit, median of a run's faults"),
    Number("election_s", "s", False, "from looking for a leader to its establishment, mean of a run's elections"),
    Number("election_rounds", "", False, "rounds of an election in which the later leader voted, mean"),
    Number("election_messages", "", False, "votes that all nodes sent during an election, mean"),
    Number("catch_up_s", "s", False, "from following to having the epoch's history, mean of nodes that lacked some"),
    Number("converged_s", "s", False, "from the last healing until all nodes are equal"),
    Number("messages_per_write", "", False, "FORWARD, ANSWER, PROPOSE, ACK, COMMIT of all nodes per committed write"),
    Number("syncs_per_write", "", False, "syncs of a log for each committed write, all nodes"),
    Number("transactions_per_batch", "", True, "transactions that became durable with one sync"),
)


def select_campaign(verdicts: Sequence[JudgedRun], name: str, folders: Sequence[SourceFolder]) -> list[JudgedRun]:
    """Select the runs of one campaign by its folders. A run whose copy is in the other campaign counts in both."""
    paths = {folder.path for folder in folders}
    mine = ((it, [path for path in (it.path, *it.copies) if path in paths]) for it in verdicts)
    return [replace(it, path=its[0], copies=its[1:], campaign=name) for it, its in mine if its]


def summary(verdicts: Sequence[JudgedRun]) -> dict[str, Any]:
    """Return the content of summary.json: the verdict, the runs worst first, the numbers by scenario and by size, and by campaign."""
    ranked = sorted(verdicts, key=lambda it: (WORST_FIRST.index(it.verdict), it.path))
    overall = worst(it.verdict for it in verdicts)
    by_size = sorted(verdicts, key=lambda it: it.facts["nodes"] or 0)
    return {
        "verdict": overall,
        "numbers": [asdict(number) for number in NUMBERS],
        "runs": [_run(it) for it in ranked],
        "scenarios": _groups(sorted(verdicts, key=experiment_of), experiment_of),
        "sizes": _groups(by_size, lambda it: plural(nodes, "node") if (nodes := it.facts["nodes"]) else "not known"),
        "catching_up": _catching_up(verdicts),
    }


def experiment_of(it: JudgedRun) -> str:
    """Return the name of the experiment that a run belongs to."""
    return experiment(str(it.facts["scenario"] or "(no name)"), it.facts["defect"])


def mean_with_interval(values: Sequence[float]) -> dict[str, Any]:
    """Return `n`, `mean` and the half-width of its 95 % confidence interval (`within`; None for a single value)."""
    if len(values) < 2:
        return {"n": len(values), "mean": values[0] if values else None, "within": None}
    return {"n": len(values), "mean": mean(values), "within": interval_half_width(values)}


def values_of(name: str, group: Iterable[JudgedRun]) -> list[float]:
    """Return the values of a number for those runs that have it."""
    return [value for it in group if (value := value_of(name, it)) is not None]


def value_of(name: str, it: JudgedRun) -> float | None:
    """Return the value of a number for one run; None if the run does not have it. `recovery_s` is the median over the run's faults;
    a fault after which nothing was committed does not count."""
    numbers = it.json["metrics"]
    if name == "recovery_s":
        took = [fault["seconds"] for fault in numbers.get("faults", []) if fault["seconds"] is not None]
        return median(took) if took else None
    value = numbers.get(name)
    return None if value is None else float(value)


def _run(it: JudgedRun) -> dict[str, Any]:
    names = ("acked", "acked_per_second", "latency_p50_ms", "latency_p99_ms", "longest_unavailability_s", "elections")
    return {
        "path": it.path, "campaign": it.campaign, "scenario": it.facts["scenario"], "nodes": it.facts["nodes"], "seed": it.facts["seed"],
        "defect": it.facts["defect"], "verdict": it.verdict, "reasons": it.json["reasons"], "copies": it.copies,
        "command": it.facts["command"], **{name: it.json["metrics"].get(name) for name in names},
    }  # fmt: skip


def _groups(verdicts: Sequence[JudgedRun], key: Callable[[JudgedRun], str]) -> list[dict[str, Any]]:
    """Group the runs, which are sorted, by a key and campaign; count the verdicts and average the numbers of each group."""
    groups: dict[tuple[str, str], list[JudgedRun]] = {}
    for it in verdicts:
        groups.setdefault((key(it), it.campaign), []).append(it)
    return [
        {
            "name": name,
            "campaign": campaign,
            "runs": len(group),
            "verdicts": dict(Counter(it.verdict for it in group)),
            "numbers": {number.name: mean_with_interval(values_of(number.name, group)) for number in NUMBERS},
        }
        for (name, campaign), group in groups.items()
    ]


def _catching_up(verdicts: Iterable[JudgedRun]) -> list[dict[str, Any]]:
    """Return how often nodes caught up, with the sums of transactions added and cut off and bytes of snapshots, by kind."""
    sums: dict[tuple[str, str], Counter[str]] = {}
    for it in verdicts:
        for row in it.json["metrics"].get("catch_up", []):
            sums_of_kind = sums.setdefault((row["kind"], it.campaign), Counter())
            sums_of_kind.update({name: row[name] for name in ("times", "transactions", "cut", "bytes")})
    by_kind = sorted(sums.items(), key=lambda one: one[0][0])
    return [{"kind": kind, "campaign": campaign, **counted} for (kind, campaign), counted in by_kind]
