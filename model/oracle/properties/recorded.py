"""The checkers for foreign systems whose nodes record what they broadcast and deliver. They may record only a part of that."""

from zab_chaos.model.events import Accept, Batch, Established, Truncate
from zab_chaos.model.oracle.delivered_history import Delivery
from zab_chaos.model.oracle.facts import Facts
from zab_chaos.model.oracle.properties.abcast import Integrity, TotalOrder
from zab_chaos.model.oracle.properties.durability import CommittedStays
from zab_chaos.model.oracle.properties.primary import PrimaryIntegrity
from zab_chaos.model.oracle.properties.quorum import QuorumDurability
from zab_chaos.model.oracle.properties.state import StateEquality
from zab_chaos.node.core import digest as dg

NO_STATE = dg.show(0)  # stands for the digest of a state that a node has not recorded


class RecordedIntegrity(Integrity):
    """Integrity (DSN 2011, III-A), if the nodes record what they broadcast.

    What nobody has broadcast in an epoch without any record of a primary may be what a life has that has recorded nothing at
    all. Then the property is UNKNOWN.
    """

    def at_end(self) -> None:
        super().at_end()
        if not self.facts.broadcasts.epochs:
            self.not_applicable = "no node has recorded a `broadcast`"
        elif None in self.findings.shown_by and (silent := self._silent_lives()):
            self.unknown.append(
                f"{self.findings.listed[0].words}; but {', '.join(silent)} recorded nothing at all, and may have broadcast it"
            )

    def _whose_traces(self, event: Batch) -> set[int] | None:
        """Return the nodes that have recorded broadcasts of the epoch, and the event's own: nobody else was its primary."""
        primaries = {primary.node for primary in self.facts.broadcasts.epochs.get(event.epoch, ())}
        return primaries | {event.node} if primaries else None

    def _may_be_explained(self, nodes: frozenset[int] | None) -> bool:
        return super()._may_be_explained(nodes) or (nodes is None and bool(self._silent_lives()))

    def _silent_lives(self) -> list[str]:
        return [f"node {node} (life {life})" for (node, life), it in self.facts.lives.items() if it.is_silent]


class RecordedTotalOrder(TotalOrder):
    """Total order (DSN 2011, III-A), with a remark for a life that begins in the middle."""

    def remark(self, delivery: Delivery) -> str:
        if delivery.before:
            return ""
        return f" (node {delivery.event.node} had recorded no `restore` in this life, so it began with the empty state)"


class RecordedPrimaryIntegrity(PrimaryIntegrity):
    """Primary integrity (DSN 2011, III-A), if the nodes record when a leader is established."""

    def at_end(self) -> None:
        super().at_end()
        if not self.facts.established:
            self.not_applicable = "no node has recorded that it was `established`"


class RaftCommittedStays(CommittedStays):
    """Leader completeness and durability, as in Raft: a new leader's log has all that was committed before.

    A leader may lack what had no majority when it was elected, and a later leader that has it may still commit it (Ongaro and
    Ousterhout 2014, figure 8). So only what was delivered before a leader was established must be in its log, and only if no
    later one had been established by then. A truncation must not remove what the log held and somebody had delivered.
    """

    def on_truncate(self, event: Truncate) -> None:
        self.checked += 1
        for first, last in self.facts.nodes[event.node].disk.truncated:
            self._check_removed(event, first, last)

    def on_established(self, event: Established) -> None:
        if event.epoch == self.facts.highest_established:
            super().on_established(event)

    def on_new_delivery(self, delivery: Delivery) -> None:
        self.checked += 1


class RecordedQuorumDurability(QuorumDurability):
    """DSN 2011, l.3.2: a leader commits what a quorum of followers has accepted, if the nodes record what they accept.

    Verifies, when a transaction is delivered for the first time by any node, that exactly this one is on the disks of a quorum.
    Does not verify that it is on the disk of the node that delivers it: with a quorum of others, that may come later.
    """

    statement = "When a transaction is first delivered, a quorum holds it durably."

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._recorded = False  # some node has recorded what it accepts

    def on_accept(self, _: Accept) -> None:
        self._recorded = True

    def on_deliver(self, delivery: Delivery) -> None:
        if delivery.appended:
            self._count_holders(delivery, None)

    def at_end(self) -> None:
        super().at_end()
        if not self._recorded:
            self.not_applicable = "no node has recorded an `accept`"


class RecordedStates(StateEquality):
    """LADIS 2008: replicas that have delivered the same messages are in the same state.

    Verifies that the state at a zxid is the same wherever it is recorded, and that a state that a node has taken over is that
    after a delivered transaction. Does not compare states at zxids at which only one node recorded one.
    """

    statement = "Nodes that have delivered up to the same zxid record the same state."
    what = "state"

    def on_deliver(self, delivery: Delivery) -> None:
        if delivery.event.tree != NO_STATE:
            self._check_tree(delivery.last, delivery.event)
