"""Statistics over runs and between campaigns, on numbers that were worked out elsewhere. Spark is not started."""

from typing import Any

import pytest

from zab_chaos.pipeline.campaign import interval, summary, t95
from zab_chaos.pipeline.comparison import compare, welch
from zab_chaos.pipeline.judging import Judged
from zab_chaos.pipeline.naming import experiment


def run(
    number: int, *, verdict: str = "PASS", scenario: str = "s", defect: str | None = None, **metrics: Any
) -> Judged:
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
    return Judged(number, f"/r/{scenario}/{number}", facts, said, [])


def campaign(values: list[float], name: str = "latency_p50_ms") -> list[Judged]:
    return [run(number, **{name: value}) for number, value in enumerate(values, 1)]


def test_an_interval_is_students() -> None:
    """Gosset's own way: five values, four degrees of freedom, t = 2.776, standard deviation 1.5811."""
    found = interval([1, 2, 3, 4, 5])
    assert (found["n"], found["mean"]) == (5, 3)
    assert found["within"] == pytest.approx(1.9634, abs=1e-3)


def test_one_value_has_no_interval_and_none_has_no_mean() -> None:
    assert interval([7.0]) == {"n": 1, "mean": 7.0, "within": None}
    assert interval([]) == {"n": 0, "mean": None, "within": None}


def test_t_ends_at_the_normal_distribution() -> None:
    assert [t95(1), t95(30), t95(31)] == [12.706, 2.042, 1.96]


def test_welch_by_hand() -> None:
    """Means 3 and 6, variances 2.5 and 10: the error is sqrt(2.5), 5.88 degrees of freedom, of which 5 are taken: t = 2.571."""
    assert welch([1, 2, 3, 4, 5], [2, 4, 6, 8, 10]) == pytest.approx(2.571 * 2.5**0.5)


def test_what_got_worse_comes_with_the_run_that_shows_it() -> None:
    found = compare(campaign([10, 11, 12, 11]), campaign([20, 22, 21, 29]))
    (worse,) = found.differences
    assert (worse["what"], worse["change"]) == ("latency_p50_ms", "worse")
    assert worse["words"].startswith("11, then 23 ms (+12")
    assert worse["evidence"]["runs"] == [
        {"path": "/r/s/4", "command": "zab run s --seed 4", "why": "latency_p50_ms was 29 ms"}
    ]
    assert (found.worse, found.compared) == (True, 1)


def test_less_can_be_worse_or_better() -> None:
    a, b = [100.0, 101.0, 102.0], [50.0, 51.0, 52.0]
    changes = [
        compare(campaign(a, name), campaign(b, name)).differences[0]["change"]
        for name in ("acked_per_second", "election_s")
    ]
    assert changes == ["worse", "better"]


def test_chance_is_no_difference() -> None:
    found = compare(campaign([10, 12, 14, 9]), campaign([11, 13, 12, 10]))
    assert (found.differences, found.worse, found.compared) == ([], False, 1)


def test_a_single_run_shows_nothing_of_numbers() -> None:
    assert compare(campaign([10]), campaign([99])).compared == 0


def test_verdicts_are_compared_as_they_are() -> None:
    found = compare([run(1), run(2)], [run(3), run(4, verdict="VIOLATION")])
    (worse,) = found.differences
    assert (worse["what"], worse["change"], worse["words"]) == ("VIOLATION", "worse", "0% of 2 runs, then 50% of 2")
    assert worse["evidence"]["runs"][0]["path"] == "/r/s/4"


def test_a_defect_is_another_experiment() -> None:
    found = compare([run(1)], [run(2, defect="d")])
    assert [(it["scenario"], it["change"]) for it in found.differences] == [("s", "only"), ("s with d", "only")]
    assert not found.worse


def test_recovery_is_by_kind_and_role_and_long_ones_are_thinned() -> None:
    faults = [{"do": "crash", "role": "leader", "seconds": i / 1000, "stood_still": 0.5} for i in range(1, 1001)]
    faults.append({"do": "crash", "role": "follower", "seconds": None, "stood_still": 0.0})
    follower, leader = summary([run(1, faults=faults)])["recovery"]
    assert (follower["role"], follower["n"], follower["never"], follower["seconds"]) == ("follower", 0, 1, [])
    assert (leader["n"], leader["mean"], leader["never"]) == (1000, pytest.approx(0.5005), 0)
    assert (len(leader["seconds"]), leader["seconds"][0], leader["seconds"][-1]) == (200, 0.001, 1.0)


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
