"""Severities, exit codes and the form of verdict.json."""

import json

import pytest

from zab_chaos.model.verdict import Evidence, Judgement, Outcome, Property, Verdict, Violation, worst


def prop(judgement: Judgement) -> Property:
    violations = [Violation("it went wrong", [Evidence("ops.jsonl", 3, {"t": 1})])]
    return Property(
        name="replay equality",
        source="zab-chaos",
        verdict=judgement,
        statement="...",
        checked=1,
        violations=violations if judgement is Judgement.VIOLATION else [],
    )


def verdict(outcome: Outcome) -> Verdict:
    return Verdict(verdict=outcome, exit=outcome.exit_code, properties=[], reasons=[], metrics={})


def test_the_exit_codes_are_the_documented_ones() -> None:
    assert {outcome.value: outcome.exit_code for outcome in Outcome} == {
        "PASS": 0,
        "VIOLATION": 1,
        "UNKNOWN": 2,
        "HARNESS-ERROR": 3,
        "BEYOND-FAULT-MODEL": 5,
    }


def test_the_worst_of_several_outcomes() -> None:
    order = [3, 1, 2, 5, 0]
    outcomes = sorted(Outcome, key=lambda outcome: order.index(outcome.exit_code))
    for place, outcome in enumerate(outcomes):
        assert worst([*outcomes[place:], *outcomes[place:]]) is outcome
    assert worst([]) is Outcome.PASS


@pytest.mark.parametrize(
    ("before", "judgement", "after"),
    [
        (Outcome.PASS, Judgement.PASS, Outcome.PASS),
        (Outcome.PASS, Judgement.NOT_APPLICABLE, Outcome.PASS),
        (Outcome.PASS, Judgement.VIOLATION, Outcome.VIOLATION),
        (Outcome.PASS, Judgement.UNKNOWN, Outcome.UNKNOWN),
        (Outcome.VIOLATION, Judgement.UNKNOWN, Outcome.VIOLATION),
        (Outcome.BEYOND_FAULT_MODEL, Judgement.PASS, Outcome.BEYOND_FAULT_MODEL),
        (Outcome.HARNESS_ERROR, Judgement.VIOLATION, Outcome.HARNESS_ERROR),
    ],
)
def test_including_a_property_of_another_judge(before: Outcome, judgement: Judgement, after: Outcome) -> None:
    both = verdict(before).including(prop(judgement), ["replayed"])
    assert (both.verdict, both.exit) == (after, after.exit_code)
    assert both.reasons == ["replayed"]
    assert both.property("replay equality").verdict is judgement


def test_verdict_json_has_the_documented_form() -> None:
    said = json.loads(verdict(Outcome.PASS).including(prop(Judgement.VIOLATION)).to_json())
    assert list(said) == ["verdict", "exit", "properties", "reasons", "metrics"]
    assert (said["verdict"], said["exit"]) == ("VIOLATION", 1)
    assert said["properties"][0] == {
        "name": "replay equality",
        "source": "zab-chaos",
        "verdict": "VIOLATION",
        "statement": "...",
        "checked": 1,
        "violations": [{"words": "it went wrong", "evidence": [{"file": "ops.jsonl", "line": 3, "event": {"t": 1}}]}],
        "more": 0,
    }
