"""When a client should leave a node that has no leader: it may be cut off from a leader whom the other nodes have."""

from zab_chaos.node.tree.outcomes import Failed, Outcome
from zab_chaos.node.tree.refusal import NO_LEADER
from zab_chaos.node.tree.requests import READS, Request

LEADERLESS_NS = 1_000_000_000  # longer than an election takes: who only waits for one is not left


class Leaderless:
    """Follows what one node answers. `given_up`: it has gone on saying that it has no leader."""

    def __init__(self) -> None:
        self.given_up = False
        self._since_ns: int | None = None

    def heard(self, request: Request, outcome: Outcome, now_ns: int) -> None:
        """An answer came. A read that is answered says nothing: a node answers reads without a leader too."""
        if type(outcome) is not Failed or outcome.error != NO_LEADER:
            if type(request) not in READS:
                self._since_ns = None
        elif self._since_ns is None:
            self._since_ns = now_ns
        elif now_ns - self._since_ns >= LEADERLESS_NS:
            self.given_up = True
