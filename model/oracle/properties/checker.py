"""The base class of all checkers."""

from typing import ClassVar

import msgspec

from zab_chaos.model.oracle.evidence import Findings
from zab_chaos.model.oracle.facts import BY_NODES, RECORDS, Facts
from zab_chaos.model.oracle.measures import seconds
from zab_chaos.model.verdict import Judgement, Property


class Checker:
    """Checks one property: it counts what it checks, and collects violations.

    A subclass defines `on_<event>` for each event that it needs, and `at_end` for what can only be checked at the end. The
    facts are updated before `on_<event>` is called, so they include the event. Most handlers get the event itself. The
    exceptions:

    - `on_broadcast` gets a `PrimaryBroadcast`, and `on_deliver` a `Delivery`.
    - `on_complete` also gets the request.

    Most deliveries only repeat, in order, what the delivered history has. For all others there are three more handlers,
    which get the `Delivery`: `on_new_delivery` (the history did not have all of it yet), `on_nonconsecutive_delivery` (it
    does not begin with the zxid after the node's last one) and `on_delivery_conflict` (it differs from the history), which
    also gets the `Conflict`.
    Likewise `on_nonconsecutive_accept` gets an `accept` that does not continue the log, and the last zxid of that log.

    Class attributes:

    - `rests_on_absence`: a violation means that something is missing from the records. If these are damaged, this proves
      nothing, and the judgement is UNKNOWN. If no node has left a trace, nothing is listed: all would be missing.
    - `judged_from`: the files and folders of the run from which something may be missing then.
    - `liveness`: the property says that something happens in time. Safety holds under any faults, but liveness is only
      owed if nothing is in the way. If something outside the run changed the links, or the nodes' limits do not leave room
      for what they have to send, a violation is UNKNOWN.
    - `if_broken`: the judgement after a violation. It is UNKNOWN if a violation shows that the experiment failed, not
      the protocol.
    """

    name: ClassVar[str]
    source: ClassVar[str]
    statement: ClassVar[str]
    rests_on_absence: ClassVar[bool] = True
    judged_from: ClassVar[frozenset[str]] = RECORDS
    liveness: ClassVar[bool] = False
    if_broken: ClassVar[Judgement] = Judgement.VIOLATION

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.checked = 0
        self.findings = Findings()
        self.unknown: list[str] = []  # reasons why the property can't be judged
        self.not_applicable: str | None = None  # reason why the property does not have to hold

    def at_end(self) -> None:
        """Check what can only be checked when all events have been seen. `facts.run` is set by then."""

    def expected(self, name: str) -> float | None:
        """Return a time from `expect` in run.json, in seconds; None if it is not given. An unreadable one makes the property
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
            doubtful = (self.rests_on_absence and all(map(self._may_be_explained, self.findings.shown_by))) or (
                self.liveness and self.facts.liveness_hindered
            )
            return Judgement.UNKNOWN if doubtful else self.if_broken
        if self.unknown:
            return Judgement.UNKNOWN
        return Judgement.PASS if self.checked else Judgement.NOT_APPLICABLE

    def _may_be_explained(self, nodes: frozenset[int] | None) -> bool:
        """Return whether something that is missing from the records may explain a violation. `nodes`: as for `Findings.add`."""
        return self.facts.damaged(self.judged_from, nodes)

    def property(self) -> Property:
        judgement = self.judgement()
        untraced = self.facts.untraced and self.rests_on_absence and judgement is Judgement.UNKNOWN
        listed = [] if untraced or self.not_applicable is not None else self.findings.listed
        return Property(
            name=self.name,
            source=self.source,
            verdict=judgement,
            statement=self.statement,
            checked=self.checked,
            violations=listed,
            more=self.findings.more if listed else 0,
            why=self.not_applicable if self.not_applicable is not None else msgspec.UNSET,
        )


class DeliveryChecker(Checker):
    """Base of the checkers that check every delivered transaction."""

    judged_from = BY_NODES

    def at_end(self) -> None:
        self.checked = self.facts.deliveries
