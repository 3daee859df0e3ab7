"""The statistics of a comparison, checked against scipy's tests, published examples and general properties."""

import random

import pytest
import scipy

from zab_chaos.pipeline.significance import compare_means, compare_pairs, compare_shares, holm, interval_half_width


def test_means_are_compared_as_scipys_welch_does() -> None:
    draw = random.Random(1)
    for _ in range(20):
        a = [draw.gauss(10, 1) for _ in range(draw.randint(2, 9))]
        b = [draw.gauss(11, 4) for _ in range(draw.randint(2, 9))]
        found, welch = compare_means(a, b), scipy.stats.ttest_ind(b, a, equal_var=False)
        low, high = welch.confidence_interval(0.95)
        assert (found.p, found.low, found.high) == pytest.approx((welch.pvalue, low, high))


def test_students_sleep_data() -> None:
    """Student 1908, as R's manual has it: t = -1.8608, 17.776 degrees of freedom, p = 0.07939, -3.3654832 to 0.2054832."""
    first = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
    second = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
    found = compare_means(second, first)
    assert found.p == pytest.approx(0.07939, abs=1e-5)
    assert (found.low, found.high) == pytest.approx((-3.3654832, 0.2054832), abs=1e-6)
    # The ten patients are the same: t = -4.0621, 9 degrees of freedom, p = 0.002833, -2.4598858 to -0.7001142.
    found = compare_pairs(second, first)
    assert found.p == pytest.approx(0.002833, abs=1e-6)
    assert (found.low, found.high) == pytest.approx((-2.4598858, -0.7001142), abs=1e-6)


def test_pairs_that_all_differ_by_the_same() -> None:
    """By chance all have the same sign with a probability of two in 2**n."""
    assert compare_pairs([1.0, 5.0, 9.0], [3.0, 7.0, 11.0]).p == 0.25
    assert compare_pairs([0.1, 0.7, 0.3], [0.2, 0.8, 0.4]).p == 0.25  # but for rounding
    assert compare_pairs([0.0] * 8, [3.0] * 8).p == 1 / 128
    assert compare_pairs([1.0, 5.0], [1.0, 5.0]).p == 1


def test_the_lady_tasting_tea() -> None:
    """Fisher 1935: three of four cups on each side, p = 0.4857."""
    assert compare_shares(3, 4, 1, 4).p == pytest.approx(0.4857, abs=1e-4)


def test_the_interval_of_two_shares_is_newcombes() -> None:
    """Newcombe 1998, table II, (a) by method 10: 56 of 70 against 48 of 80 is 0.0524 to 0.3339."""
    found = compare_shares(48, 80, 56, 70)
    assert (found.value, found.low, found.high) == pytest.approx((0.2, 0.0524, 0.3339), abs=1e-4)


def test_values_that_never_vary() -> None:
    """Equal values do not differ. Two values that occur three times each are separated by side with a chance of 1 in 10."""
    assert compare_means([5.0, 5.0], [5.0, 5.0, 5.0]).p == 1
    found = compare_means([5.0] * 3, [9.0] * 3)
    assert (found.p, found.low, found.high) == (pytest.approx(0.1), 4, 4)
    assert compare_means([5.0] * 3, [9.0, 9.1, 9.2]).p < 0.001


def test_there_is_no_relative_difference_to_zero() -> None:
    assert compare_means([0.0, 0.0], [1.0, 2.0]).relative is None
    assert compare_means([-4.0, -4.0], [-2.0, -2.0]).relative == 0.5


def test_an_interval_is_students() -> None:
    """Five values, four degrees of freedom, t = 2.776, standard deviation 1.5811."""
    assert interval_half_width([1, 2, 3, 4, 5]) == pytest.approx(1.9634, abs=1e-3)


def test_holm_by_hand() -> None:
    """The smallest of four is multiplied by 4, the next by 3 and so on. The results are ascending and at most 1."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_holm_limits_the_probability_of_a_false_difference() -> None:
    """Of 400 sets of 20 comparisons without a difference, most show one uncorrected, and about 20 corrected."""
    draw = random.Random(2)
    families = [[draw.random() for _ in range(20)] for _ in range(400)]
    assert sum(min(family) < 0.05 for family in families) > 200
    assert sum(min(holm(family)) < 0.05 for family in families) <= 30
