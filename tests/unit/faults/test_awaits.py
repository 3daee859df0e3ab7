"""`awaits`: a fault is put off until an earlier one has taken effect, so that a choreography holds on a slow machine."""

import pytest

from zab_chaos.faults.scenario import ScenarioError, parse

SCENARIO = """
[scenario]
name = "awaits"
about = "one dies at a point, then the rest"

[[fault]]
at = 1
do = "crash-at"
point = "before-sync:TXN"
target = "follower"
as = "Dying"

[[fault]]
at = 2
do = "crash"
target = "all"
awaits = "{name}"
"""


def test_a_fault_awaits_an_earlier_one_by_name() -> None:
    steps = parse(SCENARIO.format(name="Dying")).schedule()
    assert [step.awaits for step in steps] == [None, "Dying"]


def test_awaiting_an_unknown_name_is_a_mistake_with_its_line() -> None:
    with pytest.raises(ScenarioError) as caught:
        parse(SCENARIO.format(name="Dyin"))
    (mistake,) = caught.value.mistakes
    assert mistake.line == 17
    assert "Dyin" in mistake.wrong
    assert "Dying" in mistake.suggestion


def test_a_scenario_with_awaits_is_written_as_it_was_read() -> None:
    scenario = parse(SCENARIO.format(name="Dying"))
    assert parse(scenario.to_toml()).schedule() == scenario.schedule()
