"""What an analysis and a comparison print, and the exit code of a comparison. Spark is not started."""

from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from zab_chaos.harness.cli.analyze import exit_code_of, show
from zab_chaos.harness.cli.differences import show_comparison
from zab_chaos.pipeline.analysis import Analysis
from zab_chaos.pipeline.campaign import summary
from zab_chaos.pipeline.comparison import compare
from zab_chaos.pipeline.judging import JudgedRun


def campaign(scenario: str, seconds: float) -> list[JudgedRun]:
    facts = {"scenario": scenario, "defect": None, "expect": None, "nodes": 3, "command": ""}
    said: dict[str, Any] = {"verdict": "PASS", "exit": 0, "properties": [], "reasons": []}
    return [
        JudgedRun(
            seed,
            f"/r/{scenario}/{seed}",
            facts | {"seed": seed},
            said | {"metrics": {"election_s": seconds + seed / 1e4}},
            [],
        )
        for seed in range(20)
    ]


@pytest.mark.parametrize(
    ("after", "code"),
    [(campaign("a", 1.0), 0), (campaign("a", 9.0), 1), (campaign("a", 0.1), 0), (campaign("renamed", 1.0), 2)],
)
def test_campaigns_without_a_common_scenario_are_not_said_to_be_no_worse(after: list[JudgedRun], code: int) -> None:
    found = compare(campaign("a", 1.0), after)
    assert exit_code_of(found, fail_if_worse=True) == code
    assert exit_code_of(found, fail_if_worse=False) == 0


def test_the_worst_runs_are_shown_with_their_reasons_and_numbers() -> None:
    """The table is cut after 30 runs, the totals are of all."""
    runs = campaign("a", 1.0) + campaign("b", 1.0)
    worst = runs[-1]
    worst.json.update(verdict="VIOLATION", reasons=["one", "two", "three", "four"])
    worst.copies.extend(["/copy/1", "/copy/2"])
    numbers = {"acked": 4321, "acked_per_second": 99.951, "latency_p50_ms": 1.25, "latency_p99_ms": 1250.4}
    worst.json["metrics"].update(numbers, longest_unavailability_s=0.0)
    console = Console(file=StringIO(), width=200)
    show(Analysis(runs, 7, summary(runs)), "out", console)
    said = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    (row,) = [line for line in said if line.startswith("VIOLATION")]
    assert row.split() == ["VIOLATION", "b", "19", "3", "4,321", "100", "1.25", "1,250", "0"]
    heads = next(line for line in said if "p50" in line)
    assert heads.split("  ")[-1].strip() == "longest pause s"
    assert len([line for line in said if line.startswith("PASS")]) == 29
    assert "... and 10 more, none of them worse" in said
    begin = said.index("/r/b/19: VIOLATION")
    assert [line.strip() for line in said[begin + 1 : begin + 5]] == ["one", "two", "three", ""]
    assert "40 runs: 1 VIOLATION, 39 PASS; copies left out: 2; new or changed: 7" in said


def test_the_differences_are_shown_with_their_examples() -> None:
    old, new = campaign("a", 1.0), campaign("a", 9.0)[:12]
    new[3].json.update(verdict="VIOLATION", reasons=["it broke"])
    new[11].json.update(verdict="VIOLATION", reasons=["it broke again"])
    console = Console(file=StringIO(), width=300)
    show_comparison(compare(old, new), ("before", "after"), console)
    said = [line.strip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]
    assert said[:2] == ["first    before", "second   after"]
    assert "a: 20 runs (20 PASS), then 12 runs (10 PASS, 2 VIOLATION)" in said
    assert [line for line in said if line.startswith("violated in")] == ["violated in /r/a/3: it broke"]
    assert "see /r/a/11: election_s was 9 s" in said
    (shown,) = [line for line in said if line.startswith("95 % confidence")]
    assert shown.endswith("p < 0.001, corrected; 20 and 12 runs")
