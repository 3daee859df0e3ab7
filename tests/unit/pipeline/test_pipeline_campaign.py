"""The summary of a campaign, from numbers that are given. Spark is not started."""

from dataclasses import replace
from typing import Any

import pytest

from zab_chaos.pipeline.campaign import mean_with_interval, select_campaign, summary
from zab_chaos.pipeline.folders import SourceFolder
from zab_chaos.pipeline.judging import JudgedRun
from zab_chaos.pipeline.naming import experiment, format_number, plural


def run(
    number: int, *, verdict: str = "PASS", scenario: str = "s", defect: str | None = None, **metrics: Any
) -> JudgedRun:
    facts = {
        "scenario": scenario,
        "defect": defect,
        "nodes": 3,
        "seed": number,
        "command": f"zab run {scenario} --seed {number}",
    }
    reasons = [] if verdict == "PASS" else ["something is violated"]
    said = {
        "verdict": verdict,
        "exit": 0,
        "properties": [{"name": "p", "verdict": verdict}],
        "reasons": reasons,
        "metrics": metrics,
    }
    return JudgedRun(number, f"/r/{scenario}/{number}", facts, said, [])


def test_an_interval_is_students() -> None:
    """By hand: five values, four degrees of freedom, t = 2.776, standard deviation 1.5811."""
    found = mean_with_interval([1, 2, 3, 4, 5])
    assert (found["n"], found["mean"]) == (5, 3)
    assert found["within"] == pytest.approx(1.9634, abs=1e-3)


def test_one_value_has_no_interval_and_none_has_no_mean() -> None:
    assert mean_with_interval([7.0]) == {"n": 1, "mean": 7.0, "within": None}
    assert mean_with_interval([]) == {"n": 0, "mean": None, "within": None}


def test_the_worst_runs_come_first() -> None:
    found = summary([run(1), run(3, verdict="UNKNOWN"), run(4), run(2, verdict="VIOLATION")])
    assert found["verdict"] == "VIOLATION"
    assert [one["seed"] for one in found["runs"]] == [2, 3, 1, 4]


def test_numbers_are_averaged_by_experiment_and_by_size() -> None:
    """A scenario with a defect is another experiment. A run's recovery is the median over its faults, not their mean."""
    faults = [{"do": "crash", "role": "leader", "seconds": it, "stood_still": 0.5} for it in (1.0, 9.0, None, 2.0)]
    runs = [run(3, scenario="t"), run(1, faults=faults), run(2, defect="d", verdict="VIOLATION")]
    runs[2].facts["nodes"] = 5
    found = summary(runs)
    assert [(it["name"], it["runs"], it["verdicts"]) for it in found["scenarios"]] == [
        ("s", 1, {"PASS": 1}), ("s with d", 1, {"VIOLATION": 1}), ("t", 1, {"PASS": 1}),
    ]  # fmt: skip
    assert found["scenarios"][0]["numbers"]["recovery_s"] == {"n": 1, "mean": 2.0, "within": None}
    assert [(it["name"], it["runs"]) for it in found["sizes"]] == [("3 nodes", 2), ("5 nodes", 1)]


def test_the_size_of_an_ensemble_may_be_one_or_not_known() -> None:
    runs = [run(1), run(2, verdict="HARNESS-ERROR")]
    for one, nodes in zip(runs, (1, None), strict=True):
        one.facts["nodes"] = nodes
    assert [it["name"] for it in summary(runs)["sizes"]] == ["not known", "1 node"]


def test_sizes_are_ordered_as_numbers() -> None:
    runs = [run(number) for number in range(4)]
    for one, nodes in zip(runs, (10, 3, 10, 5), strict=True):
        one.facts["nodes"] = nodes
    assert [(it["name"], it["runs"]) for it in summary(runs)["sizes"]] == [
        ("3 nodes", 1),
        ("5 nodes", 1),
        ("10 nodes", 2),
    ]


def test_a_copy_counts_in_both_campaigns_under_its_own_path() -> None:
    judged = [replace(run(1), path="/a/1", copies=["/a/2", "/b/1"]), replace(run(2), path="/b/2")]
    mine, yours = (
        select_campaign(judged, name, [SourceFolder(path) for path in paths])
        for name, paths in (("a", ["/a/1", "/a/2"]), ("b", ["/b/1", "/b/2"]))
    )
    assert [(it.path, it.copies, it.campaign) for it in mine] == [("/a/1", ["/a/2"], "a")]
    assert [(it.path, it.copies, it.campaign) for it in yours] == [("/b/1", [], "b"), ("/b/2", [], "b")]


def test_the_numbers_of_two_campaigns_are_apart() -> None:
    """The first campaign comes first, whatever its name is."""
    rows = [{"kind": "difference", "times": 2, "transactions": 5, "cut": 0, "bytes": 0, "seconds": 0.1}]
    runs = [
        replace(run(seed, latency_p99_ms=value, catch_up=rows), campaign=campaign)
        for campaign, values in (("before", (300.0, 382.0)), ("after", (1000.0, 1102.0)))
        for seed, value in enumerate(values)
    ]
    found = summary(runs)
    for groups in ("scenarios", "sizes"):
        means = [(it["campaign"], it["runs"], it["numbers"]["latency_p99_ms"]["mean"]) for it in found[groups]]
        assert means == [("before", 2, 341), ("after", 2, 1051)]
    assert [(it["kind"], it["campaign"], it["times"]) for it in found["catching_up"]] == [
        ("difference", "before", 4), ("difference", "after", 4),
    ]  # fmt: skip
    assert sorted((it["campaign"], it["seed"]) for it in found["runs"]) == [
        ("after", 0), ("after", 1), ("before", 0), ("before", 1),
    ]  # fmt: skip


def test_catching_up_is_summed_by_kind() -> None:
    rows = [{"kind": "difference", "times": 2, "transactions": 5, "cut": 0, "bytes": 0, "seconds": 0.1}]
    found = summary([run(1, catch_up=rows), run(2, catch_up=rows)])["catching_up"]
    assert found == [{"kind": "difference", "campaign": "", "times": 4, "transactions": 10, "cut": 0, "bytes": 0}]


@pytest.mark.parametrize(
    ("scenario", "defect", "name"),
    [
        ("a", None, "a"),
        ("defects/gap", "gap", "defects/gap (defective)"),
        ("a", "gap", "a with gap"),
    ],
)
def test_an_experiments_name(scenario: str, defect: str | None, name: str) -> None:
    assert experiment(scenario, defect) == name


@pytest.mark.parametrize(
    ("value", "sign", "words"),
    [(0.012345, "", "0.0123"), (12.345, "+", "+12.3"), (-1234.5, "+", "-1,234"), (123456.7, "", "123,457")],
)
def test_a_number_has_three_significant_digits_or_all_of_a_large_one(value: float, sign: str, words: str) -> None:
    assert format_number(value, sign) == words


def test_only_one_is_singular() -> None:
    assert [plural(number, "run") for number in (0, 1, 2)] == ["0 runs", "1 run", "2 runs"]
