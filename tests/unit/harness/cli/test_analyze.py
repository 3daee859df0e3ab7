"""The exit code of a comparison. Spark is not started."""

from typing import Any

import pytest

from zab_chaos.harness.cli.analyze import exit_code_of
from zab_chaos.pipeline.comparison import compare
from zab_chaos.pipeline.judging import JudgedRun


def campaign(scenario: str, seconds: float) -> list[JudgedRun]:
    facts = {"scenario": scenario, "defect": None, "nodes": 3, "command": ""}
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
