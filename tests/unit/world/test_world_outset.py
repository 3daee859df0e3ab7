"""The two ends of a scenario: what the nodes' disks hold before the start, and what all nodes hold at the end."""

from dataclasses import replace

import pytest

from faults.scenario import Expect, Operation, Scenario, Workload
from harness.final import judge_state
from harness.sim import simulate
from model.verdict import Judgement

ASKED = (
    Operation(at=0.1, value="a"),
    Operation(at=0.2, do="cas", version=1, value="b"),
    Operation(at=0.3, do="cas", version=1, value="c"),
)


def ends_with(**state: tuple[str | None, ...]) -> Scenario:
    return Scenario(
        name="state", about="-", duration=1.0, operations=ASKED, workload=Workload(clients=1, keys=1),
        expect=Expect(state={f"/{name.replace('_', '-')}": values for name, values in state.items()}),
    )  # fmt: skip


def test_the_state_at_the_end_is_what_was_expected() -> None:
    verdict = simulate(ends_with(key_0=("x", "b"), key_1=(None,)), 1, None).verdict
    assert verdict.exit == 0, verdict.reasons
    assert verdict.property("expected state").checked == 6


def test_another_state_is_a_violation_that_says_who_holds_what() -> None:
    verdict = simulate(ends_with(key_0=("c", None)), 1, None).verdict
    assert verdict.violated == ["expected state"]
    assert "node 1 'b', node 2 'b', node 3 'b'; all are to have 'c' or no such znode" in verdict.reasons[0]


def test_without_an_expected_state_nothing_is_asked() -> None:
    verdict = simulate(replace(ends_with(), expect=Expect()), 1, None).verdict
    assert "expected state" not in [item.name for item in verdict.properties]


@pytest.mark.parametrize(
    ("held", "judgement"),
    [
        ({"1": {"/a": "x"}, "2": {"/a": "x"}}, Judgement.PASS),
        ({"1": {"/a": "x"}, "2": {"/a": "y"}}, Judgement.VIOLATION),
        ({"1": {"/a": "x"}, "2": {"/a": None}}, Judgement.VIOLATION),
        ({"1": {"/a": "x"}, "2": {}}, Judgement.UNKNOWN),
        ({}, Judgement.UNKNOWN),
    ],
)
def test_all_nodes_must_hold_the_same_of_what_will_do(
    held: dict[str, dict[str, str | None]], judgement: Judgement
) -> None:
    assert judge_state({"/a": ("x", "y")}, {"event": "state", "held": held, "line": 3}).verdict is judgement


def test_what_was_never_read_is_not_known() -> None:
    assert judge_state({"/a": ("x",)}, None).verdict is Judgement.UNKNOWN
