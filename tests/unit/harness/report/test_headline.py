"""The headline of a report: one sentence on what happened."""

from typing import Any

import msgspec
import pytest

from zab_chaos.harness.report.headline import (
    capital,
    first_violation,
    headline,
    remark,
    violated_or_uncertain,
)
from zab_chaos.model.verdict import Evidence, Judgement, Outcome, Property, Verdict, Violation, expected_ending

METRICS = {
    "writes_acked": 7245,
    "writes_unknown": 542,
    "unknown_with_effect": 3,
    "longest_unavailability_s": 2.81,
    "longest_unavailability_fault": "power-cut",
}


def judged(outcome: Outcome, *properties: Property, **metrics: Any) -> Verdict:
    return Verdict(
        verdict=outcome,
        exit=outcome.exit_code,
        properties=list(properties),
        reasons=["a reason"] if outcome is not Outcome.PASS else [],
        metrics=metrics,
    )


def prop(name: str, *found: tuple[int, str]) -> Property:
    """Return a property. Violations are given as (time of the only line of evidence, words)."""
    violations = [Violation(words, [Evidence("ops.jsonl", 1, {"t": t})]) for t, words in found]
    verdict = Judgement.VIOLATION if found else Judgement.PASS
    return Property(name=name, source="", verdict=verdict, statement="", checked=1, violations=violations)


def test_the_headline_of_a_pass() -> None:
    assert headline(judged(Outcome.PASS, prop("durability"), **METRICS)) == (
        "7,245 writes acknowledged, none lost; 542 of unknown outcome, 3 of them took effect; "
        "longest pause 2.8 s, after power-cut"
    )


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"unknown_with_effect": 0}, "542 of unknown outcome, none of them took effect"),
        ({"longest_unavailability_s": 0.142, "longest_unavailability_fault": None}, "; longest pause 142 ms"),
        ({"longest_unavailability_s": 0.0}, "took effect"),
        ({"longest_unavailability_s": 1.0}, "; longest pause 1.0 s"),
        (
            {
                "longest_unavailability_s": 0.0,
                "ended": [{"node": 2, "code": 2}, {"node": 3, "code": -11}, {"node": 2, "code": 2}],
            },
            "; node 2 ended by itself, with exit code 2; node 3 was killed by SIGSEGV",
        ),
        ({"ended": [{"node": 1, "code": -40}]}, "; node 1 was killed by signal 40"),  # of those without a name
        ({"unknown_with_effect": None}, "542 of unknown outcome; longest"),  # of a verdict that does not say
    ],
)
def test_a_pass_mentions_only_known_metrics(changed: dict[str, Any], expected: str) -> None:
    assert expected in headline(judged(Outcome.PASS, **METRICS | changed))


@pytest.mark.parametrize(("seconds", "said"), [(0.099, False), (0.1, True)])
def test_a_short_pause_is_not_mentioned(seconds: float, said: bool) -> None:
    assert ("pause" in headline(judged(Outcome.PASS, **METRICS | {"longest_unavailability_s": seconds}))) == said


@pytest.mark.parametrize(("epochs", "said"), [(0, ""), (1, "; 1 epoch"), (6, "; 6 epochs")])
def test_of_another_system_the_number_of_epochs_is_named(epochs: int, said: str) -> None:
    assert headline(judged(Outcome.PASS, writes_acked=2, epochs=epochs, ended=[])) == f"2 writes acknowledged{said}"
    assert headline(judged(Outcome.PASS, writes_acked=2, epochs=epochs)) == "2 writes acknowledged"


def test_a_single_write_is_singular() -> None:
    assert headline(judged(Outcome.PASS, writes_acked=1)) == "1 write acknowledged"


def test_none_lost_is_only_claimed_if_durability_was_judged() -> None:
    unjudged = msgspec.structs.replace(prop("durability"), verdict=Judgement.NOT_APPLICABLE)
    assert "lost" not in headline(judged(Outcome.PASS, unjudged, **METRICS))


def test_the_headline_is_the_earliest_violation() -> None:
    late, early = prop("agreement", (30, "late"), (20, "two histories")), prop("promises", (10, "promised twice"))
    assert headline(judged(Outcome.VIOLATION, late, early)) == (
        "promises violated: promised twice; also violated: agreement"
    )


def test_a_consequential_violation_is_not_the_headline() -> None:
    follows = [prop("progress", (1, "slow")), prop("durability", (2, "gone")), prop("replay equality", (3, "other"))]
    found = headline(judged(Outcome.VIOLATION, *follows, prop("agreement", (99, "two histories"))))
    assert found == "agreement violated: two histories; also violated: progress, durability, replay equality"


def test_of_many_violated_properties_the_first_are_named() -> None:
    names = ("durability", "recovery", "progress", "reliable delivery", "replay equality")
    follows = [prop(name, (number, "late")) for number, name in enumerate(names, 2)]
    found = headline(judged(Outcome.VIOLATION, prop("agreement", (1, "two histories")), *follows))
    assert found.endswith("; also violated: durability, recovery, progress, 2 more")


def test_a_lost_write_is_the_headline_rather_than_an_answer_that_it_explains() -> None:
    found = headline(judged(Outcome.VIOLATION, prop("linearizable keys", (1, "odd")), prop("durability", (2, "lost"))))
    assert found == "durability violated: lost; also violated: linearizable keys"


@pytest.mark.parametrize(
    "name",
    [
        "durability",
        "linearizable keys",
        "reliable delivery",
        "recovery",
        "progress",
        "replay equality",
        "trace integrity",
        "fault took effect",
    ],
)
def test_what_follows_from_other_violations_is_named_after_them(name: str) -> None:
    found = headline(judged(Outcome.VIOLATION, prop(name, (1, "first")), prop("agreement", (99, "two histories"))))
    assert found == f"agreement violated: two histories; also violated: {name}"


def test_a_violation_is_as_early_as_its_last_line() -> None:
    item = prop("agreement", (1, "long"), (20, "short"))
    item.violations[0].evidence.append(Evidence("ops.jsonl", 9, {"t": 50}))
    assert headline(judged(Outcome.VIOLATION, item)) == "agreement violated: short"


def test_a_violation_without_a_line_is_named_after_those_with_one() -> None:
    item = prop("progress", (1, "without a line"), (20, "slow"))
    item.violations[0].evidence.clear()
    assert headline(judged(Outcome.VIOLATION, item)) == "progress violated: slow"


def test_an_uncertain_property_is_not_the_headline_and_comes_after_it() -> None:
    unsure = msgspec.structs.replace(prop("promises", (1, "perhaps")), verdict=Judgement.UNKNOWN)
    unjudged = msgspec.structs.replace(prop("recovery"), verdict=Judgement.NOT_APPLICABLE)
    late = prop("agreement", (30, "late"), (20, "two histories"))
    verdict = judged(Outcome.VIOLATION, prop("integrity"), unjudged, unsure, prop("progress", (2, "slow")), late)
    assert headline(verdict) == "agreement violated: two histories; also violated: progress"
    shown = violated_or_uncertain(verdict)
    assert [item.name for item in shown] == ["agreement", "promises", "progress"]
    assert [one.words for one in shown[0].violations] == ["two histories", "late"]
    assert first_violation(judged(Outcome.UNKNOWN, unsure)) is None


def test_an_unknown_verdict_has_its_reason_as_headline() -> None:
    unknown = msgspec.structs.replace(judged(Outcome.UNKNOWN), reasons=["a reason", "another"])
    assert headline(unknown) == "a reason"


def test_only_the_first_letter_is_changed() -> None:
    assert capital("no ACK of node 2") == "No ACK of node 2"
    assert capital("run.json, expect: is not readable") == "run.json, expect: is not readable"


@pytest.mark.parametrize(
    ("expect", "verdict", "violated", "ending"),
    [
        ({}, "UNKNOWN", [], "PASS"),
        ({"verdict": "VIOLATION"}, "VIOLATION", ["prefix"], "VIOLATION"),
        ({"verdict": "VIOLATION", "violates": "prefix"}, "VIOLATION", ["agreement", "prefix"], "VIOLATION"),
        ({"verdict": "VIOLATION", "violates": "prefix"}, "VIOLATION", ["agreement"], "a violation of prefix"),
        ({"verdict": "VIOLATION", "violates": "prefix"}, "PASS", [], "VIOLATION"),
        ({"may_lose_quorum": True}, "BEYOND-FAULT-MODEL", [], "BEYOND-FAULT-MODEL"),
        ({"may_lose_quorum": True}, "UNKNOWN", [], "PASS"),
        ({}, "BEYOND-FAULT-MODEL", [], "PASS"),
    ],
)
def test_how_a_run_should_have_ended(expect: dict[str, Any], verdict: str, violated: list[str], ending: str) -> None:
    assert expected_ending(expect, verdict, violated) == ending


@pytest.mark.parametrize(
    ("violated", "load", "named"),
    [
        (["recovery"], 9.2, True),
        (["recovery", "progress"], 9.2, True),
        (["recovery", "agreement"], 9.2, False),
        (["recovery"], 3.9, False),
        ([], 9.2, False),
    ],
)
def test_a_busy_machine_is_named_if_all_that_is_wrong_is_that_something_took_too_long(
    violated: list[str], load: float, named: bool
) -> None:
    facts = {"expect": {"verdict": "PASS"}, "machine": {"cores": 2, "load": load}}
    verdict = "VIOLATION" if violated else "PASS"
    words = "the machine was busy, which may be the cause: 9 processes ran or waited for 2 cores"
    expected = ["the scenario expects PASS"] * bool(violated) + [words] * named
    assert remark(facts, verdict, violated, []) == ("; ".join(expected) or None)


@pytest.mark.parametrize(
    ("outcome", "uncertain", "named"),
    [
        ("finished", [], True),
        ("finished", ["progress", "fault took effect"], True),
        ("finished", ["trace integrity"], False),
        ("finished", ["recovery", "durability"], False),
        ("interrupted", [], False),
    ],
)
def test_a_busy_machine_is_named_if_a_finished_run_is_unknown_because_of_times(
    outcome: str, uncertain: list[str], named: bool
) -> None:
    facts = {"expect": {"verdict": "PASS"}, "outcome": outcome, "machine": {"cores": 2, "load": 15.1}}
    words = "the machine was busy, which may be the cause: 15 processes ran or waited for 2 cores"
    assert remark(facts, "UNKNOWN", [], uncertain) == "; ".join(["the scenario expects PASS"] + [words] * named)


def test_a_busy_machine_does_not_explain_that_nobody_wrote_to_a_standing_ensemble() -> None:
    facts = {"expect": {"min_acked": 0}, "outcome": "finished", "machine": {"cores": 2, "load": 15.1}}
    assert remark(facts, "UNKNOWN", [], []) is None
