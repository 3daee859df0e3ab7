"""The checkers for foreign systems whose nodes record what they broadcast and deliver. They may record only a part of that."""

from zab_chaos.model.oracle.delivered_history import Delivery
from zab_chaos.model.oracle.properties.abcast import Integrity
from zab_chaos.model.oracle.properties.primary import PrimaryIntegrity
from zab_chaos.model.oracle.properties.state import StateEquality

NO_STATE = "0" * 16  # stands for the digest of a state that a node has not recorded


class RecordedIntegrity(Integrity):
    """Integrity (DSN 2011, III-A), if the nodes record what they broadcast."""

    def at_end(self) -> None:
        super().at_end()
        if not self.facts.broadcasts.epochs:
            self.not_applicable = "no node has recorded a `broadcast`"


class RecordedPrimaryIntegrity(PrimaryIntegrity):
    """Primary integrity (DSN 2011, III-A), if the nodes record when a leader is established."""

    def at_end(self) -> None:
        super().at_end()
        if not self.facts.established:
            self.not_applicable = "no node has recorded that it was `established`"


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
