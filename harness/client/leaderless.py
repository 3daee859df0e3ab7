"""Decides when a client should leave a node without a leader: the node may be cut off from the leader of the others."""

from zab_chaos.node.tree.outcomes import Failed, Outcome
from zab_chaos.node.tree.refusal import NO_LEADER
from zab_chaos.node.tree.requests import READS, Request

LEADERLESS_NS = 1_000_000_000  # longer than an election takes, so that a node is not left because of an election


class Leaderless:
    """Follows the answers of one node. `given_up`: it has reported for LEADERLESS_NS that it has no leader."""

    def __init__(self) -> None:
        self.given_up = False
        self._since_ns: int | None = None

    def note_answer(self, request: Request, outcome: Outcome, now_ns: int) -> None:
        """Take an answer into account. An answered read says nothing, because a node answers reads without a leader, too."""
        if type(outcome) is not Failed or outcome.error != NO_LEADER:
            if type(request) not in READS:
                self._since_ns = None
        elif self._since_ns is None:
            self._since_ns = now_ns
        elif now_ns - self._since_ns >= LEADERLESS_NS:
            self.given_up = True
