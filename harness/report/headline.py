"""The headline of every report: one sentence on what happened in the run, made from its verdict."""

import math
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from zab_chaos.model.oracle.evidence import ending
from zab_chaos.model.verdict import Judgement, Outcome, Property, Verdict, Violation, expected_ending

FULFILLED = (Judgement.PASS, Judgement.NOT_APPLICABLE)
SHORTEST_PAUSE_S = (
    0.1  # shorter pauses of the writes are not mentioned; the report's table of outages has the same limit
)
ALSO_NAMED = 3  # other violated properties that the headline names
# Properties that are uncertain when something took too long; such as: a fault came when nobody led.
TIMELY = frozenset({"recovery", "progress", "reliable delivery", "fault took effect"})
BUSY = 2.0  # processes that run or wait, for each core: on such a machine everything takes twice as long
# Violations that follow from others, or show only at the end of a run, are named after the others. The default rank is 0.
RANK = {
    "durability": 1,
    "linearizable keys": 2,  # a write that is lost explains the answers that no order explains
    "recovery": 3,
    "progress": 3,
    "reliable delivery": 4,  # nodes that do not converge have not delivered everything
    "replay equality": 5,
    "trace integrity": 5,
    "fault took effect": 5,
}


def headline(verdict: Verdict) -> str:
    """Return the headline of a verdict: one sentence without a full stop."""
    if verdict.verdict is Outcome.PASS:
        return _passed(verdict)
    broken = first_violation(verdict) if verdict.verdict is Outcome.VIOLATION else None
    if broken is not None:
        return _violated(verdict, *broken)
    return verdict.reasons[0] if verdict.reasons else "there is no information on this run"


def capital(sentence: str) -> str:
    """Return the sentence with its first letter in upper case, unless it begins with the name of a file."""
    return sentence if "." in sentence.split(" ", 1)[0] else sentence[:1].upper() + sentence[1:]


def remark(
    facts: Mapping[str, Any], verdict: str | None, violated: Collection[str], uncertain: Collection[str]
) -> str | None:
    """Return whether the run showed the bug that it was to show or, without a bug, how it should have ended instead, and
    whether the machine may be the cause.

    `facts`: the content of run.json. `verdict`: None if there is none yet. None is returned if there is nothing to say: the run
    ended as its scenario expects, or the harness failed before anything was violated.
    """
    parts = _unlike_expected(facts, verdict, violated), _busy(facts, verdict, violated, uncertain)
    return "; ".join(filter(None, parts)) or None


def _busy(
    facts: Mapping[str, Any], verdict: str | None, violated: Collection[str], uncertain: Collection[str]
) -> str | None:
    """Return that the machine was busy, if all that is wrong is that something took too long, or is not known."""
    machine = facts.get("machine")
    load, cores = (machine.get(name) if isinstance(machine, dict) else None for name in ("load", "cores"))
    if not isinstance(load, int | float) or not isinstance(cores, int):
        return None  # an older run, or a changed one
    late = violated and {"recovery", "progress"}.issuperset(violated)
    unsure = verdict == Outcome.UNKNOWN and facts.get("outcome") == "finished" and TIMELY.issuperset(uncertain)
    too_few = (facts.get("expect") or {}).get("min_acked", 1) > 0  # nobody has to write to a standing ensemble
    if (late or (unsure and (uncertain or too_few))) and load >= BUSY * cores:
        return f"the machine was busy, which may be the cause: {load:.0f} processes ran or waited for {cores} cores"
    return None


def _unlike_expected(facts: Mapping[str, Any], verdict: str | None, violated: Collection[str]) -> str | None:
    defect, expect = facts.get("defect"), facts.get("expect") or {}
    if verdict is None:
        return f"the nodes were built with the defect {defect}" if defect else None
    if verdict == Outcome.HARNESS_ERROR:
        return f"what was recorded until then violates {', '.join(violated)}" if violated else None
    if defect and verdict != Outcome.VIOLATION:
        return f"the defect {defect} was not caught"
    if defect:
        from zab_chaos.faults.defects import DEFECTS  # all of the node's code, which few reports need

        named = DEFECTS[defect].property if defect in DEFECTS else None
        missed = f", by other properties than {named}" if named is not None and named not in violated else ""
        return f"the defect {defect} was caught{missed}"
    if facts.get("ticket"):
        shown = any(name in violated for name in facts.get("ticket_violates", ()))
        return f"the bug was {'' if shown else 'not '}shown: {facts['ticket']}"
    expected = expected_ending(expect, verdict, violated) if "verdict" in expect else verdict
    return f"the scenario expects {expected}" if expected != verdict else None


def first_violation(verdict: Verdict) -> tuple[Property, Violation] | None:
    """Return the violation to name first, with its property; None if nothing is violated.

    It is the one with the lowest `RANK`, and among those the one whose last line of evidence is the earliest. One without any
    line comes last.
    """
    return next(iter(ranked_violations(verdict)), None)


def ranked_violations(verdict: Verdict) -> list[tuple[Property, Violation]]:
    """Return all listed violations with their properties, that of `first_violation` first, and the others in the same order."""
    found = [
        (item, violation)
        for item in verdict.properties
        if item.verdict is Judgement.VIOLATION
        for violation in item.violations
    ]
    return sorted(found, key=lambda one: (RANK.get(one[0].name, 0), last_time(one[1])))


def last_time(violation: Violation) -> float:
    """Return the time of a violation's last line of evidence, in monotonic nanoseconds; infinite without evidence."""
    return max((one.event.get("t", 0) for one in violation.evidence), default=math.inf)


def violated_or_uncertain(verdict: Verdict) -> list[Property]:
    """Return the properties that are not fulfilled. That of the headline, and its violation in the headline, come first."""
    found = [item for item in verdict.properties if item.verdict not in FULFILLED]
    broken = first_violation(verdict)
    if broken is None:
        return found
    item, violation = broken
    others = [one for one in item.violations if one is not violation]
    return [msgspec.structs.replace(item, violations=[violation, *others]), *(one for one in found if one is not item)]


def _violated(verdict: Verdict, item: Property, violation: Violation) -> str:
    others = [name for name in verdict.violated if name != item.name]
    listed = [*others[:ALSO_NAMED], *([f"{len(others) - ALSO_NAMED} more"] if len(others) > ALSO_NAMED else [])]
    also = f"; also violated: {', '.join(listed)}" if others else ""
    return f"{item.name} violated: {violation.words}{also}"


def _passed(verdict: Verdict) -> str:
    """`7,245 writes acknowledged, none lost; 542 of unknown outcome, 3 of them took effect; longest pause 2.8 s`."""
    known = verdict.metrics
    lost = ", none lost" if _holds(verdict, "durability") else ""
    acked = known.get("writes_acked", 0)
    parts = [f"{acked:,} {'write' if acked == 1 else 'writes'} acknowledged{lost}"]
    if known.get("writes_unknown"):
        effect = known.get("unknown_with_effect")
        parts.append(f"{known['writes_unknown']:,} of unknown outcome" + _took_effect(effect))
    pause = known.get("longest_unavailability_s")
    if pause and pause >= SHORTEST_PAUSE_S:
        fault = known.get("longest_unavailability_fault")
        parts.append(f"longest pause {_seconds(pause)}" + (f", after {fault}" if fault else ""))
    if "ended" in known and known.get("epochs"):  # of another system: in one epoch no election shows what it does
        parts.append("1 epoch" if known["epochs"] == 1 else f"{known['epochs']:,} epochs")
    codes = {one["node"]: one["code"] for one in known.get("ended") or ()}
    parts += [ending(node, code) for node, code in codes.items()]
    return "; ".join(parts)


def _took_effect(count: int | None) -> str:
    if count is None:
        return ""
    return f", {count:,} of them took effect" if count else ", none of them took effect"


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if value >= 1 else f"{value * 1000:.0f} ms"


def _holds(verdict: Verdict, name: str) -> bool:
    return any(item.name == name and item.verdict is Judgement.PASS for item in verdict.properties)
