"""Scenarios of a few seconds for the simulated world."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from zab_chaos.faults.scenario import Scenario, load
from zab_chaos.harness.runs import catalogue


@pytest.fixture(scope="session")
def shipped() -> Callable[[str], Scenario]:
    """Return a shipped scenario with the same faults and a tenth of the drawn load. Listed operations are kept."""

    @cache  # some tests draw hundreds of scenarios from one
    def read(name: str) -> Scenario:
        scenario = load(catalogue.shipped()[name])
        expect = replace(scenario.expect, min_acked=min(scenario.expect.min_acked, 20))
        light = scenario.workload if scenario.operations else replace(scenario.workload, rate=40.0)
        return replace(scenario, workload=light, expect=expect, record=False)

    return read
