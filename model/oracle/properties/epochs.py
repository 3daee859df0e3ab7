"""The checker of the epochs that a node promises and joins (DSN 2011, Table 1 and the invariants of section VI)."""

from dataclasses import dataclass

from zab_chaos.model.events import (
    Accept,
    AcceptedEpoch,
    Boot,
    Confirmed,
    CurrentEpoch,
    Established,
    Line,
    Phase,
    TraceEvent,
)
from zab_chaos.model.oracle.broadcasts import PrimaryBroadcast
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

    Verifies that f.a <= f.p, that neither ever decreases within a life, and that a node takes part in no epoch but the one
    that it promised last (invariants 1 and 3): it joins no other one, is established for no other one, and broadcasts,
    accepts and confirms in no other one. It begins phase 3 of no epoch but the one that it has joined (step f.2.1). Does not
    verify that they survive a restart (disk does), nor promises that were made and never traced.
    """

    name = "epochs"
    source = "DSN 2011"
    statement = (
        "A node's f.a (current epoch) is at most its f.p (accepted epoch), and neither ever decreases. It takes part in no "
        "epoch but the one that it promised last."
    )
    rests_on_absence = False

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._held: dict[int, _DiskEpochs] = {}

    def on_boot(self, event: Boot) -> None:
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
        if not self._had_promised(event.node, event.epoch):
            self._report(event, f"joined epoch {event.epoch}")
        held.current, held.current_in = event.epoch, event

    def on_phase(self, event: Phase) -> None:
        held = self._held.get(event.node)
        if held is not None and event.phase == "BROADCAST":
            self.checked += 1
            if event.epoch != held.current:
                words = f"node {event.node} began phase 3 of epoch {event.epoch}, although it had joined epoch {held.current}"
                self.findings.add(words, [held.current_in, event])

    def on_accept(self, event: Accept) -> None:
        if not self._had_promised(event.node, event.in_epoch):
            self._report(event, f"accepted {event.epoch}:{event.first} under epoch {event.in_epoch}")

    def on_broadcast(self, broadcast: PrimaryBroadcast) -> None:
        event = broadcast.event
        if not self._had_promised(event.node, event.epoch):
            self._report(event, f"broadcast {event.epoch}:{event.first}")

    def on_confirmed(self, event: Confirmed) -> None:
        if not self._had_promised(event.node, event.epoch):
            self._report(event, f"confirmed that it follows node {event.leader} in epoch {event.epoch}")

    def on_established(self, event: Established) -> None:
        if not self._had_promised(event.node, event.epoch):
            self._report(event, f"was established for epoch {event.epoch}")

    def _had_promised(self, node: int, epoch: int) -> bool:
        """Return whether an epoch in which a node takes part is the one that it promised last, or that is not known."""
        held = self._held.get(node)
        if held is None:
            return True
        self.checked += 1
        return epoch == held.accepted

    def _report(self, event: TraceEvent, did: str) -> None:
        held = self._held[event.node]
        words = f"node {event.node} {did}, although it had promised epoch {held.accepted}"
        self.findings.add(words, [held.accepted_in, event])
