"""The shipped scenarios and the known bugs in the simulated world."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from faults.defects import DEFECTS
from faults.scenario import Scenario, load
from harness import catalogue
from harness.sim import simulate
from model.verdict import Judgement

LONG = "long-mix"
HONEST = [name for name in catalogue.shipped() if not name.startswith("defects/") and name != LONG]


@pytest.mark.parametrize("name", HONEST)
def test_a_shipped_scenario_ends_as_it_says(name: str, shipped: Callable[[str], Scenario]) -> None:
    scenario = shipped(name)
    done = simulate(scenario, 2, None)
    assert done.outcome == "finished"
    assert done.verdict.exit == scenario.expect.exit, done.verdict.reasons


@pytest.mark.parametrize("name", sorted(DEFECTS))
def test_a_known_bug_is_caught_within_few_seeds(name: str) -> None:
    defect = DEFECTS[name]
    scenario = load(catalogue.shipped()[f"defects/{defect.scenario}"])
    for seed in range(1, 9):
        verdict = simulate(scenario, seed, defect.path).verdict
        if verdict.property(defect.property).verdict is Judgement.VIOLATION:
            return
    pytest.fail(f"{name} was not caught in 8 seeds")


@pytest.mark.parametrize("name", sorted({defect.scenario for defect in DEFECTS.values()}))
def test_without_the_bug_its_scenario_passes(name: str) -> None:
    scenario = load(catalogue.shipped()[f"defects/{name}"])
    scenario = replace(scenario, workload=replace(scenario.workload, rate=min(scenario.workload.rate, 100.0)))
    done = simulate(scenario, 1, None)
    assert done.verdict.exit == 0, done.verdict.reasons
