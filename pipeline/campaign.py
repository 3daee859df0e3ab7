"""Many runs at once: what a number is on average, how sure that is, and what got worse from one campaign to the next."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from math import sqrt
from statistics import mean, stdev
from typing import Any

from pipeline.judge import WORST_FIRST, Verdict, worst

# 97.5 % points of Student's t by degrees of freedom; from 30 on they are within 4 % of the normal distribution's 1.96.
_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110,
    2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip

# The numbers that are compared, and whether more of them is better.
MORE_IS_BETTER = {
    "acked_per_second": True,
    "latency_p50_ms": False,
    "latency_p99_ms": False,
    "longest_unavailability_s": False,
    "election_s": False,
    "recovery_s": False,
    "converged_s": False,
    "frames_per_write": False,
    "transactions_per_batch": True,
}


def summary(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """summary.json: the campaign's verdict, its runs worst first, and its numbers by scenario, ensemble size and fault."""
    ranked = sorted(verdicts, key=lambda it: (WORST_FIRST.index(it.verdict), it.path))
    overall = worst(it.verdict for it in verdicts)
    return {
        "verdict": overall,
        "runs": [_run(it) for it in ranked],
        "scenarios": _groups(verdicts, lambda it: str(it.facts["scenario"] or "(no name)")),
        "sizes": _groups(verdicts, lambda it: f"{it.facts['nodes']} nodes"),
        "recovery": _recovery(verdicts),
        "properties": _properties(verdicts),
    }


def interval(values: Sequence[float]) -> dict[str, Any]:
    """`n`, `mean` and the half-width of its 95 % confidence interval (`within`; None for a single value)."""
    if len(values) < 2:
        return {"n": len(values), "mean": values[0] if values else None, "within": None}
    return {"n": len(values), "mean": mean(values), "within": _t(len(values) - 1) * stdev(values) / sqrt(len(values))}


def compare(before: Sequence[Verdict], after: Sequence[Verdict]) -> list[dict[str, Any]]:
    """What differs between two campaigns, by scenario, worse first. Numbers are compared with Welch's t-test: a difference counts
    when its 95 % confidence interval does not contain 0. Verdicts are compared as they are, with the runs that show it."""
    found = []
    for scenario in sorted({str(it.facts["scenario"]) for it in (*before, *after)}):
        old, new = ([it for it in side if str(it.facts["scenario"]) == scenario] for side in (before, after))
        if not old or not new:
            where = "first" if old else "second"
            found.append(
                {"scenario": scenario, "what": "runs", "change": "only", "words": f"only in the {where} campaign"}
            )
            continue
        found += _verdicts(scenario, old, new)
        for name in MORE_IS_BETTER:
            found += _number(scenario, name, old, new)
    return sorted(found, key=lambda it: ("worse", "better", "only").index(it["change"]))


def _run(it: Verdict) -> dict[str, Any]:
    names = ("acked", "acked_per_second", "latency_p50_ms", "latency_p99_ms", "longest_unavailability_s", "elections")
    return {
        "path": it.path, "scenario": it.facts["scenario"], "nodes": it.facts["nodes"], "seed": it.facts["seed"],
        "defect": it.facts["defect"], "verdict": it.verdict, "reasons": it.json["reasons"], "copies": it.copies,
        "command": it.facts["command"], **{name: it.json["metrics"].get(name) for name in names},
    }  # fmt: skip


def _groups(verdicts: Sequence[Verdict], key: Callable[[Verdict], str]) -> list[dict[str, Any]]:
    """Verdicts counted and numbers averaged, by a key."""
    groups: dict[str, list[Verdict]] = {}
    for it in verdicts:
        groups.setdefault(key(it), []).append(it)
    return [
        {
            "name": name,
            "runs": len(group),
            "verdicts": dict(Counter(it.verdict for it in group)),
            "numbers": {number: interval(_values(number, group)) for number in MORE_IS_BETTER},
        }
        for name, group in sorted(groups.items())
    ]


def _recovery(verdicts: Iterable[Verdict]) -> list[dict[str, Any]]:
    """Seconds from a fault to the next new commit, by kind of fault and role of what it hit."""
    found: dict[tuple[str, str], list[float]] = {}
    never: Counter[tuple[str, str]] = Counter()
    for it in verdicts:
        for fault in it.json["metrics"].get("faults", []):
            key = (fault["do"], fault["role"] or "none")
            if fault["seconds"] is None:
                never[key] += 1
            else:
                found.setdefault(key, []).append(fault["seconds"])
    return [
        {"do": do, "role": role, **interval(found.get((do, role), [])), "never": never[do, role]}
        for do, role in sorted({*found, *never})
    ]


def _properties(verdicts: Iterable[Verdict]) -> dict[str, dict[str, int]]:
    """How often each property was judged how."""
    found: dict[str, Counter[str]] = {}
    for it in verdicts:
        for name, judgement in it.judgements().items():
            found.setdefault(name, Counter())[judgement] += 1
    return {name: dict(counted) for name, counted in found.items()}


def _values(name: str, group: Iterable[Verdict]) -> list[float]:
    """A number of each run that has it. `recovery_s` is the median of a run's recoveries."""
    found = []
    for it in group:
        numbers = it.json["metrics"]
        if name == "recovery_s":
            took = sorted(fault["seconds"] for fault in numbers.get("faults", []) if fault["seconds"] is not None)
            value = took[len(took) // 2] if took else None
        else:
            value = numbers.get(name)
        if value is not None:
            found.append(float(value))
    return found


def _verdicts(scenario: str, old: Sequence[Verdict], new: Sequence[Verdict]) -> list[dict[str, Any]]:
    """Verdicts that one campaign has more often than the other."""
    found = []
    for verdict in WORST_FIRST[:-1]:
        shares = [sum(it.verdict == verdict for it in side) / len(side) for side in (old, new)]
        if shares[0] == shares[1]:
            continue
        shown = [it for it in (new if shares[1] > shares[0] else old) if it.verdict == verdict]
        found.append(
            {
                "scenario": scenario, "what": verdict, "change": "worse" if shares[1] > shares[0] else "better",
                "words": f"{shares[0]:.0%} of {len(old)} runs, then {shares[1]:.0%} of {len(new)}",
                "evidence": [{"path": it.path, "reasons": it.json["reasons"][:1]} for it in shown[:3]],
            }
        )  # fmt: skip
    return found


def _number(scenario: str, name: str, old: Sequence[Verdict], new: Sequence[Verdict]) -> list[dict[str, Any]]:
    """A number whose difference is more than chance, by Welch's t-test."""
    a, b = _values(name, old), _values(name, new)
    if len(a) < 2 or len(b) < 2:
        return []
    parts = [stdev(side) ** 2 / len(side) for side in (a, b)]
    difference, error = mean(b) - mean(a), sqrt(sum(parts))
    spread = sum(part**2 / (len(side) - 1) for part, side in zip(parts, (a, b), strict=True))
    within = _t(int(sum(parts) ** 2 / spread)) * error if spread else 0.0
    if abs(difference) <= within:
        return []
    better = (difference > 0) == MORE_IS_BETTER[name]
    return [
        {
            "scenario": scenario, "what": name, "change": "better" if better else "worse",
            "words": f"{mean(a):.3g}, then {mean(b):.3g} ({difference:+.3g} ± {within:.2g})",
            "evidence": {"before": interval(a), "after": interval(b), "difference": difference, "within": within},
        }
    ]  # fmt: skip


def _t(freedom: int) -> float:
    """Student's t for a two-sided 95 % interval."""
    return _T[max(freedom, 1) - 1] if freedom <= len(_T) else 1.96
