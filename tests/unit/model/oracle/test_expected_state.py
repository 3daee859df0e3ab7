"""The checker of the state that a scenario expects at the end."""

from typing import Any

import pytest

from zab_chaos.model.events import Milestone, Run
from zab_chaos.model.oracle.facts import Damage
from zab_chaos.model.oracle.oracle import Oracle
from zab_chaos.model.verdict import Judgement, Verdict

Held = dict[int, dict[str, str | None]]


def judged(expected: Any, held: Held | None, *damages: Damage) -> Verdict:
    oracle = Oracle()
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


def test_an_unreadable_expectation_is_unknown() -> None:
    verdict = judged({"/a": "x"}, {1: {"/a": "x"}})
    assert verdict.property("expected state").verdict is Judgement.UNKNOWN
    assert any(reason.startswith("run.json, expect.state: Expected `array`") for reason in verdict.reasons)


def test_of_data_that_are_no_text_only_the_beginning_is_shown() -> None:
    held: Held = {1: {"/a": "0.1.\ufffdXF\x0f\ufffd" + "y" * 40}, 2: {"/a": "z" * 40}}
    (violation,) = judged({"/a": ["x"]}, held).property("expected state").violations
    assert violation.words == f"/a: node 1 '0.1.'... (not text), node 2 '{'z' * 30}'...; all must have 'x'"
