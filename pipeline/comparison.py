"""What differs between two campaigns, and what shows it.

Numbers are compared by Welch's t-test: a difference counts when its 95 % confidence interval does not contain 0. Of many numbers that did
not change, one in twenty differs so by chance; so it is told how many were compared. Verdicts are compared as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import mean, stdev
from typing import Any

from zab_chaos.model.verdict import WORST_FIRST
from zab_chaos.pipeline.campaign import NUMBERS, Number, interval, name_of, t95, value_of, values_of
from zab_chaos.pipeline.judging import Judged

CHANGES = ("worse", "better", "only")


@dataclass(frozen=True, slots=True)
class Comparison:
    """`differences`: worse ones first; each has `scenario`, `what`, `change` (worse, better, only: only one campaign has the
    scenario), `words` and `evidence`. `compared`: how many numbers there were to compare."""

    differences: list[dict[str, Any]]
    compared: int

    @property
    def worse(self) -> bool:
        return any(it["change"] == "worse" for it in self.differences)


def compare(before: Sequence[Judged], after: Sequence[Judged]) -> Comparison:
    """Scenario by scenario; a scenario with a defect is one of its own."""
    found: list[dict[str, Any]] = []
    compared = 0
    for scenario in sorted({name_of(it) for it in (*before, *after)}):
        old, new = ([it for it in side if name_of(it) == scenario] for side in (before, after))
        if not old or not new:
            words = f"only in the {'first' if old else 'second'} campaign"
            found.append({"scenario": scenario, "what": "runs", "change": "only", "words": words, "evidence": {}})
            continue
        found += _verdicts(scenario, old, new)
        for number in NUMBERS:
            a, b = values_of(number.name, old), values_of(number.name, new)
            if len(a) > 1 and len(b) > 1:
                compared += 1
                found += _number(scenario, number, a, b, new)
    return Comparison(sorted(found, key=lambda it: CHANGES.index(it["change"])), compared)


def _verdicts(scenario: str, old: Sequence[Judged], new: Sequence[Judged]) -> list[dict[str, Any]]:
    """Verdicts that one campaign has more often than the other, with runs that have them."""
    found = []
    for verdict in WORST_FIRST[:-1]:
        shares = [sum(it.verdict == verdict for it in side) / len(side) for side in (old, new)]
        if shares[0] == shares[1]:
            continue
        shown = [it for it in (new if shares[1] > shares[0] else old) if it.verdict == verdict]
        runs = [
            {"path": it.path, "command": it.facts["command"], "why": " ".join(it.json["reasons"][:1])}
            for it in shown[:3]
        ]
        found.append(
            {
                "scenario": scenario, "what": verdict, "change": "worse" if shares[1] > shares[0] else "better",
                "words": f"{shares[0]:.0%} of {len(old)} runs, then {shares[1]:.0%} of {len(new)}",
                "evidence": {"runs": runs},
            }
        )  # fmt: skip
    return found


def _number(
    scenario: str, number: Number, a: Sequence[float], b: Sequence[float], new: Sequence[Judged]
) -> list[dict[str, Any]]:
    """A difference that is more than chance, with the run of the second campaign that has the worst value."""
    difference, within = mean(b) - mean(a), welch(a, b)
    if abs(difference) <= within:
        return []
    better = (difference > 0) == number.more_is_better
    having = [(value, it) for it in new if (value := value_of(number.name, it)) is not None]
    value, extreme = (min if number.more_is_better else max)(having, key=lambda pair: pair[0])
    unit = f" {number.unit}" if number.unit else ""
    run = {"path": extreme.path, "command": extreme.facts["command"], "why": f"{number.name} was {value:.3g}{unit}"}
    return [
        {
            "scenario": scenario, "what": number.name, "change": "better" if better else "worse",
            "words": f"{mean(a):.3g}, then {mean(b):.3g}{unit} ({difference:+.3g} ± {within:.2g})",
            "evidence": {
                "before": interval(a), "after": interval(b), "difference": difference, "within": within, "runs": [run],
            },
        }
    ]  # fmt: skip


def welch(a: Sequence[float], b: Sequence[float]) -> float:
    """Half the width of the 95 % confidence interval of the difference of two means, variances not assumed equal."""
    parts = [stdev(side) ** 2 / len(side) for side in (a, b)]
    spread = sum(part**2 / (len(side) - 1) for part, side in zip(parts, (a, b), strict=True))
    return t95(int(sum(parts) ** 2 / spread)) * sqrt(sum(parts)) if spread else 0.0
