"""The checker of phase 2: how a node takes over the initial history of an epoch (DSN 2011, steps f.2.1 and f.2.2)."""

from zab_chaos.model.events import (
    Accept,
    AcceptedEpoch,
    Boot,
    Confirmed,
    CurrentEpoch,
    Established,
    Phase,
    Role,
    Snapshot,
    TraceEvent,
    Truncate,
    packed,
)
from zab_chaos.model.oracle.delivered_history import Delivery
from zab_chaos.model.oracle.evidence import show
from zab_chaos.model.oracle.facts import BY_NODES, Facts
from zab_chaos.model.oracle.properties.checker import Checker


class Synchronization(Checker):
    """DSN 2011, phase 2: a follower sets f.a and takes over the initial history in one step, and delivers it once committed.

    Verifies by each node's own trace:

    - A truncation, an installed snapshot, and what is accepted under an epoch not yet joined, are followed by joining the
      epoch, and by no other step of the protocol (f.2.1). A life may end in between: both become durable together.
    - A log is truncated only for a later epoch than the one joined: within an epoch a history only grows.
    - Who joins an epoch has all of its initial history: that of the established leader. If nobody was established, nothing
      was broadcast, and all who joined have the same.
    - A tree is restored from the snapshot that was installed last.
    - Nothing is delivered in phase 2 (f.2.2). A node that looks for a leader may deliver: it has got a COMMIT before.

    Does not verify that the epoch was promised (epochs does), which history is chosen (promises does), nor its contents
    (integrity and agreement do).
    """

    name = "synchronization"
    source = "DSN 2011"
    statement = (
        "A node joins an epoch and takes over its whole initial history in one step, truncates its log for nothing else, and "
        "delivers nothing before the epoch is established."
    )
    judged_from = BY_NODES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._installed: dict[int, Snapshot] = {}  # by node: the last snapshot that this life has installed
        self._begun: dict[int, TraceEvent] = {}  # by node: the event that began to replace its history

    def on_boot(self, event: Boot) -> None:
        self._begun.pop(event.node, None)
        self._installed.pop(event.node, None)

    def on_accepted_epoch(self, event: AcceptedEpoch) -> None:
        self._check_joined(event, f"promised epoch {event.epoch}")

    def on_confirmed(self, event: Confirmed) -> None:
        self._check_joined(event, f"confirmed that it follows node {event.leader}")

    def on_role(self, event: Role) -> None:
        self._check_joined(event, f"became {event.role}")

    def on_phase(self, event: Phase) -> None:
        self._check_joined(event, f"entered {event.phase}")

    def on_truncate(self, event: Truncate) -> None:
        disk = self.facts.nodes[event.node].disk
        if disk.accepted_epoch <= disk.current_epoch:
            words = f"node {event.node} truncated its log to {show(event.keep)} for no later epoch than {disk.current_epoch}"
            self.findings.add(f"{words}, which it had joined", [event], {event.node})
        self._begun.setdefault(event.node, event)

    def on_accept(self, event: Accept) -> None:
        if event.in_epoch != self.facts.nodes[event.node].disk.current_epoch:
            self._begun.setdefault(event.node, event)

    def on_snapshot(self, event: Snapshot) -> None:
        if event.kind == "installed":
            self._begun.setdefault(event.node, event)
            self._installed[event.node] = event
        elif event.kind == "restored":
            installed = self._installed.get(event.node)
            if installed is None or (installed.zxid, installed.digest) != (event.zxid, event.digest):
                words = f"node {event.node} restored a state up to {show(event.zxid)}, not the snapshot that it had installed"
                self.findings.add(words, [installed, event], {event.node})
            self._check_phase(event, f"delivered everything up to {show(event.zxid)}")

    def on_deliver(self, delivery: Delivery) -> None:
        node = delivery.event.node
        if node in self._begun or self.facts.nodes[node].phase == "SYNCHRONIZATION":
            self._check_phase(delivery.event, f"delivered {show(delivery.first)}")

    def on_current_epoch(self, event: CurrentEpoch) -> None:
        self.checked += 1
        self._begun.pop(event.node, None)

    def at_end(self) -> None:
        joined = [event for _, life in sorted(self.facts.lives.items()) for event in life.joined]
        # By epoch: the event that shows the end of its initial history.
        whole: dict[int, CurrentEpoch | Established] = {
            event.epoch: event for event in reversed(self.facts.established)
        }
        for event in sorted(joined, key=lambda event: -packed(event.last_zxid)):
            whole.setdefault(event.epoch, event)
        for event in joined:
            initial = whole[event.epoch]
            if packed(event.last_zxid) < packed(initial.last_zxid):
                self.findings.add(
                    f"node {event.node} joined epoch {event.epoch} with a history up to {show(event.last_zxid)}, but its "
                    f"initial history goes up to {show(initial.last_zxid)}",
                    [initial, event],
                )

    def _check_phase(self, event: TraceEvent, did: str) -> None:
        """Check that a node does not deliver in phase 2."""
        if self.facts.nodes[event.node].phase == "SYNCHRONIZATION":
            words = f"node {event.node} {did} in phase 2, before it knew that the epoch was established"
            self.findings.add(words, [event], {event.node})
        self._check_joined(event, did)

    def _check_joined(self, event: TraceEvent, did: str) -> None:
        """Check that a node is not in the midst of taking over an initial history when it takes another step."""
        begun = self._begun.pop(event.node, None)
        if begun is not None:
            words = f"node {event.node} {did}, although it had begun to take over an initial history and not joined its epoch"
            self.findings.add(words, [begun, event], {event.node})
