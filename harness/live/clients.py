"""The clients of whoever holds the ensemble, as a run's load."""

from collections.abc import Mapping, Sequence

from zab_chaos.harness.backends.outcome_counts import OutcomeCounts
from zab_chaos.harness.client.session import Session
from zab_chaos.harness.results.final_state import StateByNode
from zab_chaos.harness.workload.open_loop import Counters


class InteractiveLoad:
    """Implements `zab_chaos.harness.backends.backend.Load` for clients that begin and end as they like.

    `sessions`: those there are by then.
    """

    def __init__(self, outcomes: OutcomeCounts, sessions: Sequence[Session]) -> None:
        self._outcomes = outcomes
        self._sessions = sessions

    @property
    def counters(self) -> Counters:
        return self._outcomes.counters

    def start(self) -> None:
        """They begin when they like."""

    def wait_begun(self, timeout: float) -> bool:
        return True

    @property
    def answered(self) -> frozenset[str]:
        """No operation has a name."""
        return frozenset()

    def took_effect(self, faults: Mapping[str, Sequence[int]]) -> None:
        """Nobody waits for a fault."""

    def read_state(self, paths: Sequence[str]) -> StateByNode:
        """Nobody expects anything of the state."""
        return {}

    def stop(self, grace: float = 0.0) -> Counters:
        """What is still outstanding is nobody's any more: unknown."""
        for session in self._sessions:
            session.close()
        return self.counters
