"""Statistics of two samples of runs: the difference, its confidence interval, and its p-value.

The unit is the run. Operations within a run share its faults and its elections, so they are not independent observations.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot, sqrt
from statistics import mean, stdev, variance

import scipy  # which imports scipy.stats when it is first used: a second that most commands need not wait for

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class MeasuredDifference:
    """The difference of two means or shares. `low` and `high` are the confidence interval of `after - before`."""

    before: float
    after: float
    low: float
    high: float
    p: float

    @property
    def value(self) -> float:
        return self.after - self.before

    @property
    def relative(self) -> float | None:
        """The difference relative to `before`; None if that is 0."""
        return self.value / abs(self.before) if self.before else None


def compare_means(before: Sequence[float], after: Sequence[float]) -> MeasuredDifference:
    """Compare two means by Welch's t-test, which does not assume equal variances. Each side needs two values.

    If neither side varies at all, a t-test is undefined. Then there are only two different values, and Fisher's exact test
    gives the probability that chance alone assigns them to the two sides.
    """
    old, new = mean(before), mean(after)
    parts = [variance(side) / len(side) for side in (before, after)]
    error = sqrt(sum(parts))
    if not error:
        p = 1.0 if old == new else _fisher(0, len(before), len(after), len(after))
        return MeasuredDifference(old, new, new - old, new - old, p)
    terms = [part**2 / (len(side) - 1) for part, side in zip(parts, (before, after), strict=True)]
    freedom = sum(parts) ** 2 / sum(terms)  # Welch and Satterthwaite
    return _by_t(old, new, error, freedom)


def compare_pairs(before: Sequence[float], after: Sequence[float]) -> MeasuredDifference:
    """Compare two means by the paired t-test; values at the same place belong together. Each side needs two values.

    If all pairs differ by the same, a t-test is undefined. Then the sign test gives the probability.
    """
    differences = [round(b - a, 9) for a, b in zip(before, after, strict=True)]
    old, new, error = mean(before), mean(after), stdev(differences) / sqrt(len(differences))
    if not error:
        return MeasuredDifference(
            old, new, new - old, new - old, 2 * 0.5 ** len(differences) if any(differences) else 1.0
        )
    return _by_t(old, new, error, len(differences) - 1)


def _by_t(old: float, new: float, error: float, freedom: float) -> MeasuredDifference:
    """Return the difference of two means, by its standard error and its degrees of freedom."""
    within = _quantile(freedom) * error
    p = 2 * float(scipy.stats.t.sf(abs(new - old) / error, freedom))
    return MeasuredDifference(old, new, new - old - within, new - old + within, p)


def compare_shares(had: int, before: int, have: int, after: int) -> MeasuredDifference:
    """Compare two shares, `had` of `before` runs and `have` of `after`, by Fisher's exact test. The interval is Newcombe's, from
    Wilson's interval of each share."""
    old, new = had / before, have / after
    a, b = (scipy.stats.binomtest(k, n).proportion_ci(CONFIDENCE, "wilson") for k, n in ((had, before), (have, after)))
    low = new - old - hypot(new - b.low, a.high - old)
    high = new - old + hypot(b.high - new, old - a.low)
    return MeasuredDifference(old, new, float(low), float(high), _fisher(had, before, have, after))


def interval_half_width(values: Sequence[float]) -> float:
    """Return half the width of the confidence interval of a mean, by Student's t. Needs two values."""
    return _quantile(len(values) - 1) * stdev(values) / sqrt(len(values))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values corrected by Holm's method. If values below a limit are called significant, the probability that any of
    them is a false alarm is below that limit."""
    corrected = [1.0] * len(p_values)
    least = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        least = max(least, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = least
    return corrected


def _fisher(had: int, before: int, have: int, after: int) -> float:
    return float(scipy.stats.fisher_exact([[had, before - had], [have, after - have]]).pvalue)


def _quantile(freedom: float) -> float:
    return float(scipy.stats.t.ppf((1 + CONFIDENCE) / 2, freedom))
