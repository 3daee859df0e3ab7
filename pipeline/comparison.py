"""Compares two campaigns: finds the differences that are larger than chance explains, and runs that show them.

The numbers of the runs are compared by the paired t-test if both campaigns have the same seeds, else by Welch's; the shares of the
verdicts by Fisher's exact test. All p-values are corrected together by Holm's method. A difference is reported if its corrected
p-value is below `SIGNIFICANCE_LEVEL` and it is at least `LEAST_EFFECT` of the first campaign's value. If two campaigns do not
really differ, the probability that any difference is reported is at most 5 %.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from zab_chaos.model.verdict import WORST_FIRST, Outcome
from zab_chaos.pipeline.campaign import NUMBERS, Number, experiment_of, value_of, values_of
from zab_chaos.pipeline.judging import JudgedRun
from zab_chaos.pipeline.naming import format_number, plural
from zab_chaos.pipeline.significance import MeasuredDifference, compare_means, compare_pairs, compare_shares, holm

SIGNIFICANCE_LEVEL = 0.05
LEAST_EFFECT = 0.05
CHANGES = ("worse", "better", "same")
EXAMPLES = 3  # runs that are named for a verdict


@dataclass(frozen=True, slots=True)
class ComparedValue:
    """A number of a scenario's runs, or the share of a verdict, compared between the two campaigns.

    `what` is the name of the number or the verdict, `examples` are runs that show the difference, `p` is the corrected
    p-value.
    """

    scenario: str
    what: str
    unit: str  # "runs" for a verdict: its difference is one of shares
    about: str
    more_is_better: bool
    runs: tuple[int, int]
    difference: MeasuredDifference
    examples: list[dict[str, str]]
    p: float = 1.0

    @property
    def change(self) -> str:
        """`worse`, `better`, or `same`. `same` means that no difference was shown, not that there is none."""
        relative = self.difference.relative
        if self.p >= SIGNIFICANCE_LEVEL or (relative is not None and abs(relative) < LEAST_EFFECT):
            return "same"
        return "better" if (self.difference.value > 0) == self.more_is_better else "worse"

    @property
    def effect(self) -> str:
        """Both values and their difference in words: `11 ms, then 23 ms: +12 ms (+109 %)`."""
        it = self.difference
        if self.unit == "runs":
            sides = [
                f"{round(share * n)} of {n} runs" for share, n in zip((it.before, it.after), self.runs, strict=True)
            ]
            return f"{sides[0]}, then {sides[1]}: {100 * it.value:+.3g} percentage points"
        part = "" if it.relative is None else f" ({format_number(100 * it.relative, '+')} %)"
        return f"{self._with_unit(format_number(it.before))}, then {self._with_unit(format_number(it.after))}: {self._with_unit(format_number(it.value, '+'))}{part}"

    @property
    def interval(self) -> str:
        """The confidence interval of the difference in words: `+8.7 to +15.3 ms`."""
        if self.unit == "runs":
            return f"{100 * self.difference.low:+.3g} to {100 * self.difference.high:+.3g} percentage points"
        return (
            f"{format_number(self.difference.low, '+')} to {self._with_unit(format_number(self.difference.high, '+'))}"
        )

    @property
    def p_words(self) -> str:
        """The corrected p-value in words: `p = 0.012`."""
        return "p < 0.001" if self.p < 0.001 else f"p = {self.p:.2g}"

    def _with_unit(self, number: str) -> str:
        return f"{number} {self.unit}".rstrip()

    def as_json(self) -> dict[str, Any]:
        it = self.difference
        return {
            "scenario": self.scenario, "what": self.what, "unit": self.unit, "change": self.change, "runs": list(self.runs),
            "before": it.before, "after": it.after, "difference": it.value, "low": it.low, "high": it.high,
            "relative": it.relative, "p": it.p, "corrected_p": self.p, "words": self.effect, "shown": self.examples,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class VerdictCounts:
    """How many runs of a scenario got each verdict in each campaign. A scenario may occur in only one of them."""

    scenario: str
    before: dict[str, int]
    after: dict[str, int]
    violations: list[dict[str, str]]  # examples: runs of the second campaign with a violation that is not expected

    @property
    def words(self) -> str:
        return f"{_counted(self.before)}, then {_counted(self.after)}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of a comparison. `compared` lists what got worse first. `counts` has the verdicts of every scenario."""

    compared: list[ComparedValue]
    counts: list[VerdictCounts]

    @property
    def differences(self) -> list[ComparedValue]:
        return [it for it in self.compared if it.change != "same"]

    @property
    def worse(self) -> bool:
        return any(it.change == "worse" for it in self.compared)

    @property
    def words(self) -> str:
        """The result in words: `2 worse, 1 better in 48 comparisons`."""
        changes = Counter(it.change for it in self.compared)
        if not self.compared:
            return "nothing could be compared: no scenario has runs in both campaigns"
        found = ", ".join(f"{changes[change]} {change}" for change in CHANGES[:-1] if changes[change])
        return f"{found or 'no difference'} in {plural(len(self.compared), 'comparison')}"

    def as_json(self) -> dict[str, Any]:
        return {
            "limit": SIGNIFICANCE_LEVEL, "least_effect": LEAST_EFFECT, "worse": self.worse,
            "verdicts": [{"scenario": it.scenario, "before": it.before, "after": it.after} for it in self.counts],
            "compared": [it.as_json() for it in self.compared],
        }  # fmt: skip


def compare(before: Sequence[JudgedRun], after: Sequence[JudgedRun]) -> Comparison:
    """Compare two campaigns by scenario. A scenario with a defect counts as a separate one."""
    found: list[ComparedValue] = []
    counts: list[VerdictCounts] = []
    for scenario in sorted({experiment_of(it) for it in (*before, *after)}):
        old, new = ([it for it in side if experiment_of(it) == scenario] for side in (before, after))
        violating = [it for it in new if it.verdict is Outcome.VIOLATION and not it.as_expected]
        examples = [_example(it) for it in violating[:EXAMPLES]]
        counts.append(VerdictCounts(scenario, _counts(old), _counts(new), examples))
        if old and new:
            found += [*_verdicts(scenario, old, new), *_numbers(scenario, old, new)]
    corrected = holm([it.difference.p for it in found])
    rows = [replace(it, p=p) for it, p in zip(found, corrected, strict=True)]
    return Comparison(sorted(rows, key=lambda it: CHANGES.index(it.change)), counts)


def _verdicts(scenario: str, old: Sequence[JudgedRun], new: Sequence[JudgedRun]) -> Iterator[ComparedValue]:
    """Compare the share of each verdict except PASS. Of the expected verdict, more is better; a violation of another property
    than the expected one does not count as that verdict."""
    for verdict in WORST_FIRST[:-1]:
        good = verdict == new[0].expect.get("verdict")
        had, have = (
            [it for it in side if it.verdict == verdict and (it.as_expected or not good)] for side in (old, new)
        )
        if had or have:
            difference = compare_shares(len(had), len(old), len(have), len(new))
            examples = [_example(it) for it in (have if difference.value > 0 else had)[:EXAMPLES]]
            runs = (len(old), len(new))
            yield ComparedValue(
                scenario, verdict, "runs", "share of the runs with this verdict", good, runs, difference, examples
            )


def _numbers(scenario: str, old: Sequence[JudgedRun], new: Sequence[JudgedRun]) -> Iterator[ComparedValue]:
    """Compare every number that at least two runs of each campaign have. The example is the second campaign's most extreme run."""
    pairs = _pairs(old, new)
    for number in NUMBERS:
        a, b = values_of(number.name, old), values_of(number.name, new)
        if pairs:
            both = [values for pair in pairs if len(values := values_of(number.name, pair)) == 2]
            a, b = [values[0] for values in both], [values[1] for values in both]
        if len(a) > 1 and len(b) > 1:
            difference = compare_pairs(a, b) if pairs else compare_means(a, b)
            examples = [_most_extreme(number, new, highest=difference.value > 0)]
            runs = (len(a), len(b))
            yield ComparedValue(
                scenario, number.name, number.unit, number.about, number.more_is_better, runs, difference, examples
            )


def _pairs(old: Sequence[JudgedRun], new: Sequence[JudgedRun]) -> list[tuple[JudgedRun, JudgedRun]]:
    """Return the two runs of each seed, if both campaigns have the same seeds, each once; else nothing."""
    of_seed = {it.facts["seed"]: it for it in old}
    same = len(of_seed) == len(old) == len(new) and of_seed.keys() == {it.facts["seed"] for it in new}
    return [(of_seed[it.facts["seed"]], it) for it in new] if same else []


def _most_extreme(number: Number, runs: Sequence[JudgedRun], *, highest: bool) -> dict[str, str]:
    having = [(value, it) for it in runs if (value := value_of(number.name, it)) is not None]
    value, it = (max if highest else min)(having, key=lambda pair: pair[0])
    return {**_example(it), "why": f"{number.name} was {format_number(value)} {number.unit}".rstrip()}


def _example(it: JudgedRun) -> dict[str, str]:
    return {"path": it.path, "command": str(it.facts["command"] or ""), "why": " ".join(it.json["reasons"][:1])}


def _counts(runs: Sequence[JudgedRun]) -> dict[str, int]:
    return dict(Counter(str(it.verdict) for it in runs))


def _counted(verdicts: dict[str, int]) -> str:
    """Return the counts in words: `8 runs (7 PASS, 1 VIOLATION)`."""
    ranked = [f"{verdicts[name]} {name}" for name in WORST_FIRST[::-1] if name in verdicts]
    return f"{plural(sum(verdicts.values()), 'run')} ({', '.join(ranked)})" if ranked else "no run"
