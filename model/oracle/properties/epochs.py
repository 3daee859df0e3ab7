"""The checker of the epochs that a node promises and joins (DSN 2011, Table 1 and the invariants of section VI)."""

from dataclasses import dataclass

from zab_chaos.model.events import Accept, AcceptedEpoch, Boot, CurrentEpoch, Line
from zab_chaos.model.oracle.facts import Facts
from zab_chaos.model.oracle.properties.checker import Checker


@dataclass(slots=True)
class _DiskEpochs:
    """The epochs on a node's disk, according to its trace, and the lines that show them."""

    accepted: int  # f.p
    current: int  # f.a
    accepted_in: Line
    current_in: Line


class Epochs(Checker):
    """DSN 2011, Table 1: f.p is the last epoch promised, f.a the last one joined.

    Verifies that f.a <= f.p, that neither ever decreases within a life, and that a follower in its broadcast phase accepts
    only in the epoch that it promised last (invariants 1 and 3). Does not verify that they survive a restart (disk does),
    nor promises that were made and never traced.
    """

    name = "epochs"
    source = "DSN 2011"
    statement = "A node's f.a (current epoch) is at most its f.p (accepted epoch), and neither ever decreases."
    rests_on_absence = False

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._held: dict[int, _DiskEpochs] = {}

    def on_boot(self, event: Boot, _known: bool) -> None:
        self.checked += 1
        if event.current_epoch > event.accepted_epoch:
            self.findings.add(
                f"node {event.node} started with f.a = {event.current_epoch}, above f.p = {event.accepted_epoch}",
                [event],
            )
        self._held[event.node] = _DiskEpochs(event.accepted_epoch, event.current_epoch, event, event)

    def on_accepted_epoch(self, event: AcceptedEpoch) -> None:
        held = self._held.get(event.node)
        if held is None:
            return
        self.checked += 1
        if event.epoch < held.accepted:
            self.findings.add(
                f"node {event.node} promised epoch {event.epoch} after it had promised {held.accepted}",
                [held.accepted_in, event],
            )
        held.accepted, held.accepted_in = event.epoch, event

    def on_current_epoch(self, event: CurrentEpoch) -> None:
        held = self._held.get(event.node)
        if held is None:
            return
        self.checked += 1
        if event.epoch < held.current:
            self.findings.add(
                f"node {event.node} joined epoch {event.epoch} after it had joined {held.current}",
                [held.current_in, event],
            )
        if event.epoch > held.accepted:
            self.findings.add(
                f"node {event.node} joined epoch {event.epoch}, but had promised {held.accepted} only",
                [held.accepted_in, event],
            )
        held.current, held.current_in = event.epoch, event

    def on_accept(self, event: Accept) -> None:
        held = self._held.get(event.node)
        if held is None or self.facts.nodes[event.node].phase != "BROADCAST":
            return  # an initial history is older: it becomes durable together with NEWLEADER's epoch
        self.checked += 1
        if event.in_epoch != held.accepted:
            self.findings.add(
                f"node {event.node} accepted {event.epoch}:{event.first} under epoch {event.in_epoch}, although it had "
                f"promised epoch {held.accepted}",
                [held.accepted_in, event],
            )
