"""The verdict on a run: the content of `verdict.json`, the outcomes and their exit codes.

Every judge (the oracle, the replay) returns these structs, so that their results can be combined with `including` and compared.
results/README.md documents the format.
"""

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import Any

import msgspec


class Outcome(StrEnum):
    """The judgement of a whole run. `exit_code` is the exit code of `zab`."""

    PASS = "PASS"  # all properties hold
    VIOLATION = "VIOLATION"  # a property is violated
    UNKNOWN = "UNKNOWN"  # too little happened to judge, or the records do not show what happened
    HARNESS_ERROR = "HARNESS-ERROR"  # the harness itself failed
    BEYOND_FAULT_MODEL = "BEYOND-FAULT-MODEL"  # a quorum of disks was lost, and the nodes refused to invent history

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self]


class Judgement(StrEnum):
    """The judgement of one property."""

    PASS = "PASS"
    VIOLATION = "VIOLATION"
    UNKNOWN = "UNKNOWN"
    NOT_APPLICABLE = "NOT-APPLICABLE"  # nothing in the run concerns the property


EXIT_CODES = {
    Outcome.PASS: 0,
    Outcome.VIOLATION: 1,
    Outcome.UNKNOWN: 2,
    Outcome.HARNESS_ERROR: 3,
    Outcome.BEYOND_FAULT_MODEL: 5,
}

WORST_FIRST = (
    Outcome.HARNESS_ERROR,
    Outcome.VIOLATION,
    Outcome.UNKNOWN,
    Outcome.BEYOND_FAULT_MODEL,
    Outcome.PASS,
)


class Evidence(msgspec.Struct, frozen=True):
    """A cited line of a run's folder. `file` is relative to the folder, `line` counts from 1, `event` is the content of the
    line."""

    file: str
    line: int
    event: dict[str, Any]


class Dependency(msgspec.Struct, frozen=True):
    """Why one transaction comes before another. `before` and `after`: the client and the seq of each. `kind`: `ww`, `wr` or
    `rw` after what the two did to a list, else `session` or `real-time`. `words`: what shows it."""

    before: tuple[int, int]
    after: tuple[int, int]
    kind: str
    words: str


class Violation(msgspec.Struct, frozen=True, omit_defaults=True):
    """A violation: a sentence on what happened, and the smallest set of lines that shows it. `dependencies`: if transactions
    would have to come before themselves, the cycle."""

    words: str
    evidence: list[Evidence]
    dependencies: list[Dependency] = []


class Property(msgspec.Struct, frozen=True, kw_only=True):
    """The judgement of one property.

    `checked` is the number of facts that were checked, `more` the number of violations beyond those that are listed. `why`
    is the reason why the property is not applicable, if it is known.
    """

    name: str
    source: str
    verdict: Judgement
    statement: str
    checked: int
    violations: list[Violation] = []
    more: int = 0
    why: str | msgspec.UnsetType = msgspec.UNSET


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The judgement of a run: `verdict.json`."""

    verdict: Outcome
    exit: int
    properties: list[Property]
    reasons: list[str]
    metrics: dict[str, Any]

    @property
    def violated(self) -> list[str]:
        """Return the names of the violated properties."""
        return [item.name for item in self.properties if item.verdict is Judgement.VIOLATION]

    @property
    def uncertain(self) -> list[str]:
        """Return the names of the properties of which it is not known whether they are violated."""
        return [item.name for item in self.properties if item.verdict is Judgement.UNKNOWN]

    def including(self, other: Property, reasons: Iterable[str] = ()) -> "Verdict":
        """Return this verdict with one more property, for example that of the replay."""
        outcome = worst([self.verdict, outcome_of(other)])
        return Verdict(
            verdict=outcome,
            exit=outcome.exit_code,
            properties=[*self.properties, other],
            reasons=[*self.reasons, *reasons],
            metrics=self.metrics,
        )

    def property(self, name: str) -> Property:
        """Return the property of that name. Raises KeyError."""
        for item in self.properties:
            if item.name == name:
                return item
        raise KeyError(name)

    def to_json(self) -> bytes:
        """Return the content of `verdict.json`."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"


def outcome_of(item: Property) -> Outcome:
    """Return the outcome of a run with this judgement of one property."""
    if item.verdict is Judgement.VIOLATION:
        return Outcome.VIOLATION
    return Outcome.UNKNOWN if item.verdict is Judgement.UNKNOWN else Outcome.PASS


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """Return the worst of several outcomes, PASS if there are none."""
    given = set(outcomes)
    return next((outcome for outcome in WORST_FIRST if outcome in given), Outcome.PASS)


def expected_ending(expect: Mapping[str, Any], verdict: str, violated: Collection[str]) -> str:
    """Return how a run should have ended: a verdict or, if the run has it, a violation of the property that is missing.

    `expect`: the fields of `zab_chaos.faults.scenario.Expect`, as in run.json. With `may_lose_quorum` the drawn faults may have
    taken a quorum of the disks, and then the nodes were right to serve nothing any more.
    """
    if expect.get("may_lose_quorum") and verdict == Outcome.BEYOND_FAULT_MODEL:
        return verdict
    expected, wanted = str(expect.get("verdict", Outcome.PASS)), expect.get("violates")
    return expected if wanted is None or expected != verdict or wanted in violated else f"a violation of {wanted}"


def ended_as_expected(expect: Mapping[str, Any], verdict: str, violated: Collection[str]) -> bool:
    """Return whether a run with this verdict ended as it should have. `expect`: as for `expected_ending`."""
    return verdict == expected_ending(expect, verdict, violated)
