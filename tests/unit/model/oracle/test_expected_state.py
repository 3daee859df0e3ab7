"""The checker of the state that a scenario expects at the end."""

from collections.abc import Sequence
from typing import Any

import pytest

from zab_chaos.model.events import Inject, Milestone, Run
from zab_chaos.model.oracle.facts import Damage
from zab_chaos.model.oracle.oracle import Oracle
from zab_chaos.model.verdict import Judgement, Verdict

Held = dict[int, dict[str, str | None]]


def judged(expected: Any, held: Held | None, *damages: Damage, faults: Sequence[Inject] = ()) -> Verdict:
    oracle = Oracle()
    for fault in faults:
        oracle.add_fault(fault)
    if held is not None:
        oracle.add_milestone(Milestone(t=7, line=3, event="state", held=held))
    for damage in damages:
        oracle.add_damage(damage)
    return oracle.finish(Run(nodes=2, expect={"state": expected}))


@pytest.mark.parametrize(
    ("held", "judgement"),
    [
        ({1: {"/a": "x"}, 2: {"/a": "x"}}, Judgement.PASS),
        ({1: {"/a": "x"}, 2: {"/a": "y"}}, Judgement.VIOLATION),
        ({1: {"/a": "x"}, 2: {"/a": None}}, Judgement.VIOLATION),
        ({1: {"/a": "z"}, 2: {}}, Judgement.VIOLATION),
        ({1: {"/a": "x"}, 2: {}}, Judgement.UNKNOWN),
        ({}, Judgement.UNKNOWN),
        (None, Judgement.UNKNOWN),
    ],
)
def test_all_nodes_must_hold_the_same_one_of_the_allowed_values(held: Held | None, judgement: Judgement) -> None:
    verdict = judged({"/a": ["x", "y"]}, held)
    assert verdict.property("expected state").verdict is judgement
    unread = "expected state is unknown: the nodes did not converge, or did not answer"
    assert (unread in verdict.reasons) is (judgement is Judgement.UNKNOWN)


def test_a_violation_cites_what_the_nodes_held_in_the_order_of_nodes() -> None:
    held: Held = {10: {"/a": None}, 2: {"/a": "x"}}
    (violation,) = judged({"/a": ["x"]}, held, Damage("ops.jsonl", 1, "is gone")).property("expected state").violations
    assert violation.words == "/a: node 2 'x', node 10 no such znode; all must have 'x'"
    assert [(one.file, one.line) for one in violation.evidence] == [("harness.jsonl", 3)]


@pytest.mark.parametrize(
    ("values", "confirmed", "judgement"),
    [
        ("yy", True, Judgement.VIOLATION),
        ("yy", False, Judgement.UNKNOWN),
        ("yz", False, Judgement.VIOLATION),  # whatever the faults were
        ("xx", False, Judgement.PASS),
    ],
)
def test_other_values_prove_nothing_if_the_faults_were_not_those_of_the_scenario(
    values: str, confirmed: bool, judgement: Judgement
) -> None:
    held: Held = {node: {"/a": value} for node, value in enumerate(values, 1)}
    faults = [
        Inject(t=1, line=1, id=1, do="crash", confirmed=True),
        Inject(t=2, line=2, id=2, do="pause", confirmed=confirmed),
    ]
    assert judged({"/a": ["x"]}, held, faults=faults).property("expected state").verdict is judgement


def test_an_unreadable_expectation_is_unknown() -> None:
    verdict = judged({"/a": "x"}, {1: {"/a": "x"}})
    assert verdict.property("expected state").verdict is Judgement.UNKNOWN
    assert any(reason.startswith("run.json, expect.state: Expected `array`") for reason in verdict.reasons)


def test_of_data_that_are_no_text_only_the_beginning_is_shown() -> None:
    held: Held = {1: {"/a": "0.1.\ufffdXF\x0f\ufffd" + "y" * 40}, 2: {"/a": "z" * 40}}
    (violation,) = judged({"/a": ["x"]}, held).property("expected state").violations
    assert violation.words == f"/a: node 1 '0.1.'... (of the load), node 2 '{'z' * 30}'...; all must have 'x'"
