"""The comparison of two campaigns: what it reports, and what it does not. Spark is not started."""

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import mean
from typing import Any

import pytest

from tests.unit.pipeline.campaigns import recorded
from zab_chaos.pipeline.comparison import LEAST_EFFECT, Comparison, compare
from zab_chaos.pipeline.judging import JudgedRun
from zab_chaos.pipeline.significance import holm


def run(
    number: int,
    *,
    verdict: str = "PASS",
    scenario: str = "s",
    defect: str | None = None,
    expect: dict[str, str] | None = None,
    violated: str | None = None,
    **metrics: Any,
) -> JudgedRun:
    command, told = f"zab run {scenario} --seed {number}", None if expect is None else json.dumps(expect)
    facts = {"scenario": scenario, "defect": defect, "nodes": 3, "seed": number, "command": command, "expect": told}
    properties = [{"name": violated, "verdict": "VIOLATION"}] if violated else []
    reasons = [] if verdict == "PASS" else ["something is violated"]
    said = {"verdict": verdict, "exit": 0, "properties": properties, "reasons": reasons, "metrics": metrics}
    return JudgedRun(number, f"/r/{scenario}/{number}", facts, said, [])


def campaign(values: Sequence[float | None], name: str = "latency_p50_ms", first: int = 1) -> list[JudgedRun]:
    """Runs of the seeds from `first` on."""
    return [run(number, **{name: value}) for number, value in enumerate(values, first)]


def verdicts(violations: int, runs: int, defect: str | None = None) -> list[JudgedRun]:
    return [run(i, verdict="VIOLATION" if i < violations else "PASS", defect=defect) for i in range(runs)]


def told(found: Comparison) -> dict[str, str]:
    return {it.what: it.change for it in found.differences}


def halves(runs: list[JudgedRun], draw: random.Random) -> tuple[list[JudgedRun], list[JudgedRun]]:
    mixed = draw.sample(runs, len(runs))
    return mixed[::2], mixed[1::2]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "runs"), [("usual", 48), ("usual", 16), ("faulty", 24)])
def test_halves_of_one_campaign_do_not_differ(name: str, runs: int) -> None:
    """At most 5 % of random halvings of recorded runs show any difference."""
    draw, some = random.Random(name), recorded(name)[:runs]
    assert len(some) == runs
    found = [compare(*halves(some, draw)) for _ in range(400)]
    assert min(len(it.compared) for it in found) >= 13
    assert sum(bool(it.differences) for it in found) <= 20


@pytest.mark.slow
def test_without_correction_halves_would_differ() -> None:
    """This shows that the correction is needed: the test above would fail without it."""
    draw, runs = random.Random("usual"), recorded("usual")
    found = [compare(*halves(runs, draw)) for _ in range(100)]
    assert sum(any(it.difference.p < 0.05 for it in one.compared) for one in found) > 20


def test_a_slower_fail_over_is_found() -> None:
    """Nodes that wait twice as long for a silent leader have longer pauses of writes and longer recoveries."""
    found = compare(recorded("usual"), recorded("slow"))
    changes = told(found)
    assert (changes["longest_unavailability_s"], changes["recovery_s"]) == ("worse", "worse")
    assert "VIOLATION" not in changes
    assert found.worse
    back = told(compare(recorded("slow"), recorded("usual")))
    assert (back["longest_unavailability_s"], back["recovery_s"]) == ("better", "better")


def test_violations_that_appear_are_found() -> None:
    found = compare(recorded("usual"), recorded("faulty"))
    assert told(found)["VIOLATION"] == "worse"
    (row,) = [it for it in found.compared if it.what == "VIOLATION"]
    assert row.difference.low > 0
    back = compare(recorded("faulty"), recorded("usual"))
    (gone,) = [it for it in back.compared if it.what == "VIOLATION"]
    for it in row, gone:
        assert it.examples
        assert all(one["path"].startswith("/faulty/") and one["why"] for one in it.examples)


def test_a_few_slow_runs_are_enough() -> None:
    assert told(compare(recorded("usual")[:8], recorded("slow")[:8]))["longest_unavailability_s"] == "worse"


def test_a_worse_number_comes_with_an_example_run() -> None:
    found = compare(campaign([10, 11, 12, 11]), campaign([20, 22, 21, 29], first=11))
    (worse,) = found.differences
    assert (worse.what, worse.change, worse.runs) == ("latency_p50_ms", "worse", (4, 4))
    assert worse.effect == "11 ms, then 23 ms: +12 ms (+109 %)"
    assert worse.interval == "+5.64 to +18.4 ms"
    assert worse.examples == [{"path": "/r/s/14", "command": "zab run s --seed 14", "why": "latency_p50_ms was 29 ms"}]
    assert found.words == "1 worse in 1 comparison"


@pytest.mark.parametrize(
    ("name", "change"), [("acked_per_second", "worse"), ("election_s", "better"), ("unknown_share", "better")]
)
def test_less_can_be_worse_or_better(name: str, change: str) -> None:
    without = run(9)  # as a run in which nothing happened that the number measures
    (found,) = compare(campaign([100, 101, 102], name), [*campaign([50, 51, 52], name), without]).differences
    assert (found.what, found.change, found.examples[0]["path"]) == (name, change, "/r/s/1")


def test_chance_is_no_difference() -> None:
    found = compare(campaign([10, 12, 14, 9]), campaign([11, 13, 12, 10], first=11))
    assert (found.differences, found.worse, len(found.compared)) == ([], False, 1)
    assert found.words == "no difference in 1 comparison"


def test_a_certain_but_small_difference_is_not_reported() -> None:
    """For values that hardly vary, differences of 4 % and of 6 % are both certain; the least effect is between them."""
    assert 0.04 < LEAST_EFFECT < 0.06
    before = [100 + i / 100 for i in range(10)]
    small, large = (compare(campaign(before), campaign([by * it for it in before], first=11)) for by in (1.04, 1.06))
    assert small.compared[0].p < 1e-9
    assert (told(small), told(large)) == ({}, {"latency_p50_ms": "worse"})


def test_a_change_from_zero_is_a_difference() -> None:
    assert told(compare(campaign([0.0] * 8), campaign([1.0 + i for i in range(8)]))) == {"latency_p50_ms": "worse"}


def test_more_comparisons_need_more_evidence() -> None:
    """A difference among two comparisons is significant; among twenty, the same numbers are not enough."""
    old, new = campaign([10, 11, 12, 13]), campaign([12.5, 13, 14.5, 15], first=11)
    assert told(compare(old, new)) == {"latency_p50_ms": "worse"}
    others = [run(i, scenario=f"other-{k}", latency_p50_ms=10.0 + i) for k in range(19) for i in range(4)]
    found = compare([*old, *others], [*new, *others])
    assert (len(found.compared), found.differences) == (20, [])


SEEDS = [10, 100, 50, 300, 40, 20]  # they differ by much more than what is to be found
SLOWER = [it + 8 + i for i, it in enumerate(SEEDS)]


def test_runs_of_the_same_seeds_are_compared_in_pairs_in_any_order() -> None:
    (same,) = compare(campaign(SEEDS), campaign(SLOWER)[::-1]).compared
    assert (same.change, same.runs, same.difference.before) == ("worse", (6, 6), mean(SEEDS))
    (others,) = compare(campaign(SEEDS), campaign(SLOWER, first=2)).compared
    assert (others.change, others.runs) == ("same", (6, 6))
    assert others.difference.value == pytest.approx(same.difference.value)


def test_a_pair_of_which_one_run_lacks_a_number_is_left_out() -> None:
    (found,) = compare(campaign([None, *SEEDS, 7]), campaign([5, *SLOWER, None])).compared
    assert (found.runs, found.difference.before, found.difference.after) == ((6, 6), mean(SEEDS), mean(SLOWER))
    assert compare(campaign([None, 1, 2]), campaign([1, 2, None])).compared == []


@pytest.mark.parametrize("side", [0, 1])
def test_with_two_runs_of_a_seed_nothing_is_paired(side: int) -> None:
    sides = [campaign(SEEDS), campaign(SLOWER)]
    sides[side].append(sides[side][0])
    (found,) = compare(*sides).compared
    assert (found.change, found.runs) == ("same", (6 + (side == 0), 6 + (side == 1)))


@pytest.mark.slow
def test_pairs_differ_by_chance_as_rarely_as_halves() -> None:
    draw, runs = random.Random("pairs"), recorded("usual")
    assert sum(bool(compare(*map(numbered, halves(runs, draw))).differences) for _ in range(100)) <= 5


def numbered(runs: Sequence[JudgedRun]) -> list[JudgedRun]:
    """The runs as if they were of the seeds from 1 on."""
    return [replace(it, facts={**it.facts, "seed": seed}) for seed, it in enumerate(runs, 1)]


@pytest.mark.parametrize(("before", "after"), [([10], [99]), ([10], [99, 98]), ([10, 11], [99])])
def test_numbers_of_a_single_run_are_not_compared(before: list[float], after: list[float]) -> None:
    found = compare(campaign(before), campaign(after, first=11))
    assert found.compared == []
    assert not found.worse


def test_one_violation_is_listed_but_is_no_difference() -> None:
    """It could be on either side by chance. It is listed all the same, with the run."""
    found = compare(verdicts(0, 10), verdicts(1, 10))
    assert (found.differences, found.compared[0].p) == ([], 1)
    (counts,) = found.counts
    assert counts.words == "10 runs (10 PASS), then 10 runs (9 PASS, 1 VIOLATION)"
    assert [it["path"] for it in counts.violations] == ["/r/s/0"]


def test_runs_that_could_not_be_judged_are_counted() -> None:
    (counts,) = compare([run(1, verdict="HARNESS-ERROR"), run(2)], [run(3, verdict="UNKNOWN")]).counts
    assert counts.words == "2 runs (1 PASS, 1 HARNESS-ERROR), then 1 run (1 UNKNOWN)"


def test_many_violations_are_a_difference() -> None:
    found = compare(verdicts(0, 10), verdicts(6, 12))
    (row,) = found.differences
    assert (row.what, row.change, row.runs, len(row.examples)) == ("VIOLATION", "worse", (10, 12), 3)
    assert row.effect == "0 of 10 runs, then 6 of 12 runs: +50 percentage points"
    assert row.interval == "+12.9 to +74.6 percentage points"
    assert row.p_words == "p = 0.015"
    assert compare(verdicts(0, 30), verdicts(30, 30)).differences[0].p_words == "p < 0.001"


def test_a_defect_that_is_caught_less_often_is_worse() -> None:
    found = compare(verdicts(9, 10, "d"), verdicts(1, 10, "d"))
    assert (told(found), found.counts[0].violations) == ({"VIOLATION": "worse"}, [])


@pytest.mark.parametrize(
    ("expect", "violated"),
    [({"verdict": "BEYOND-FAULT-MODEL"}, None), ({"verdict": "VIOLATION", "violates": "agreement"}, "agreement")],
)
def test_more_runs_that_end_as_their_scenario_expects_are_better(expect: dict[str, str], violated: str | None) -> None:
    verdict = expect["verdict"]
    often, seldom = (
        [run(i, expect=expect, **({"verdict": verdict, "violated": violated} if i < n else {})) for i in range(10)]
        for n in (9, 1)
    )
    found = compare(seldom, often)
    assert (told(found), found.worse, found.counts[0].violations) == ({verdict: "better"}, False, [])
    assert compare(often, seldom).worse


def test_a_violation_of_another_property_than_the_expected_one_is_worse() -> None:
    expect = {"verdict": "VIOLATION", "violates": "agreement"}
    old, new = (
        [run(i, verdict="VIOLATION", expect=expect, violated=name) for i in range(10)]
        for name in ("agreement", "prefix")
    )
    found = compare(old, new)
    assert (told(found), len(found.counts[0].violations)) == ({"VIOLATION": "worse"}, 3)


def test_a_scenario_with_a_defect_is_another_experiment() -> None:
    found = compare([run(1)], [run(2, defect="d")])
    assert [(it.scenario, it.words) for it in found.counts] == [
        ("s", "1 run (1 PASS), then no run"),
        ("s with d", "no run, then 1 run (1 PASS)"),
    ]
    assert found.words == "nothing could be compared: no scenario has runs in both campaigns"


def test_worse_comes_first() -> None:
    old = [run(i, latency_p50_ms=10.0 + i, election_s=1.0 + i, catch_up_s=1.0 + i) for i in range(5)]
    new = [run(i, latency_p50_ms=10.0 + i, election_s=90.0 + i, catch_up_s=0.01 * i) for i in range(5)]
    compared = compare([*old, *old], [*new, *new]).compared
    assert [it.p for it in compared] == holm([it.difference.p for it in compared])
    changes = [it.change for it in compared]
    assert changes == ["worse", "better", "same"]
    assert all(a <= b for a, b in pairwise(map(["worse", "better", "same"].index, changes)))


def test_the_json_has_every_comparison() -> None:
    old, new = campaign([10, 11, 12, 11]), campaign([20, 22, 21, 29, 23])
    others = [run(i, scenario="t", latency_p50_ms=10.0 + i) for i in range(4)]
    said = compare([*old, *others], [*new, *others]).as_json()
    row, same = said["compared"]
    assert (said["worse"], row["change"], row["runs"], row["before"], row["after"]) == (True, "worse", [4, 5], 11, 23)
    assert (same["change"], same["difference"], same["corrected_p"]) == ("same", 0, 1)
    assert row["low"] < row["difference"] == 12 < row["high"]
    assert row["p"] < row["corrected_p"] == 2 * row["p"] < 0.05
