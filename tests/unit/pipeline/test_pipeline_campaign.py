"""The summary of a campaign, from numbers that are given. Spark is not started."""

from typing import Any

import pytest

from zab_chaos.pipeline.campaign import mean_with_interval, summary
from zab_chaos.pipeline.judging import JudgedRun
from zab_chaos.pipeline.naming import experiment


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


def test_recovery_is_grouped_by_kind_and_role_and_long_lists_are_sampled() -> None:
    faults = [{"do": "crash", "role": "leader", "seconds": i / 1000, "stood_still": 0.5} for i in range(1, 1001)]
    faults.append({"do": "crash", "role": "follower", "seconds": None, "stood_still": 0.0})
    follower, leader = summary([run(1, faults=faults)])["recovery"]
    assert (follower["role"], follower["n"], follower["never"], follower["seconds"]) == ("follower", 0, 1, [])
    assert (leader["n"], leader["mean"], leader["never"]) == (1000, pytest.approx(0.5005), 0)
    assert (len(leader["seconds"]), leader["seconds"][0], leader["seconds"][-1]) == (200, 0.001, 1.0)


def test_a_run_without_any_recorded_commit_does_not_count_as_never_recovered() -> None:
    faults = [{"do": "crash", "role": None, "seconds": None, "stood_still": 0.5}]
    (row,) = summary([run(1, faults=faults, delivered=0), run(2, faults=faults, delivered=7)])["recovery"]
    assert (row["never"], row["stood_still"]["n"]) == (1, 2)


def test_catching_up_is_summed_by_kind() -> None:
    rows = [{"kind": "difference", "times": 2, "transactions": 5, "cut": 0, "bytes": 0, "seconds": 0.1}]
    found = summary([run(1, catch_up=rows), run(2, catch_up=rows)])["catching_up"]
    assert found == [{"kind": "difference", "times": 4, "transactions": 10, "cut": 0, "bytes": 0}]


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
