"""What all checkers have in common: a name, a source, a statement, and a count of what was checked."""

from typing import ClassVar

import msgspec

from zab_chaos.model.oracle.evidence import Findings
from zab_chaos.model.oracle.facts import Facts
from zab_chaos.model.oracle.measures import seconds
from zab_chaos.model.verdict import Judgement, Property


class Checker:
    """One property. A subclass defines `on_<event>` for what it wants to see, and `at_end` for what it sums up.

    The facts are up to date when `on_<event>` is called: the event is already part of them. `on_broadcast` gets a
    `broadcasts.PrimaryBroadcast`, `on_deliver` a `history.Delivery`; all others get the event itself, and `on_snapshot` and
    `on_boot` also whether their state is a point of the history. Most deliveries only repeat, in order, what the history
    has. So there are three more names for the others, with the same argument: `on_new_delivery` (not all of it was in the
    history), `on_nonconsecutive_delivery` (it does not begin with the zxid after the node's last one) and
    `on_delivery_conflict`.

    `rests_on_absence`: a violation means that something is missing from the trace. In a damaged trace that proves nothing,
    and the judgement is UNKNOWN instead. `if_broken`: what a finding makes of the property; UNKNOWN where it is the
    experiment that failed, not the protocol.

    `liveness`: it says what must come about in time. Safety holds under any faults; what must come about is owed only if
    nothing but the known faults was in the way. So where somebody else changed the links, a violation is UNKNOWN.
    """

    name: ClassVar[str]
    source: ClassVar[str]
    statement: ClassVar[str]
    rests_on_absence: ClassVar[bool] = True
    liveness: ClassVar[bool] = False
    if_broken: ClassVar[Judgement] = Judgement.VIOLATION

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.checked = 0
        self.findings = Findings()
        self.unknown: list[str] = []  # why the property can't be judged
        self.not_applicable: str | None = None  # why it does not have to hold

    def at_end(self) -> None:
        """Everything was seen; `facts.run` is known."""

    def expected(self, name: str) -> float | None:
        """A time that run.json gives in `expect`, in seconds; None if it gives none. One that can't be read leaves the property
        UNKNOWN."""
        value = self.facts.run.expect.get(name)
        if value is None:
            return None
        try:
            return seconds(value)
        except ValueError as error:
            self.unknown.append(f"run.json, expect.{name}: {error}")
            return None

    def judgement(self) -> Judgement:
        if self.not_applicable is not None:
            return Judgement.NOT_APPLICABLE
        if self.findings:
            doubtful = (self.rests_on_absence and self.facts.damages) or (self.liveness and self.facts.links_tampered)
            return Judgement.UNKNOWN if doubtful else self.if_broken
        if self.unknown:
            return Judgement.UNKNOWN
        return Judgement.PASS if self.checked else Judgement.NOT_APPLICABLE

    def property(self) -> Property:
        listed = [] if self.not_applicable is not None else self.findings.listed
        return Property(
            name=self.name,
            source=self.source,
            verdict=self.judgement(),
            statement=self.statement,
            checked=self.checked,
            violations=listed,
            more=self.findings.more if listed else 0,
            why=self.not_applicable if self.not_applicable is not None else msgspec.UNSET,
        )


class DeliveryChecker(Checker):
    """Base of properties that each delivered transaction is held against."""

    def at_end(self) -> None:
        self.checked = self.facts.deliveries
