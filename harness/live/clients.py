"""The load of a run whose clients are used by hand."""

from collections.abc import Mapping, Sequence

from zab_chaos.harness.backends.outcome_counts import OutcomeCounts
from zab_chaos.harness.client.session import Session
from zab_chaos.harness.results.final_state import StateByNode
from zab_chaos.harness.workload.open_loop import Counters


class InteractiveLoad:
    """Implements `zab_chaos.harness.backends.backend.Load` for clients that the user opens and closes.

    `sessions`: a list to which the ensemble adds each new session.
    """

    def __init__(self, outcomes: OutcomeCounts, sessions: Sequence[Session]) -> None:
        self._outcomes = outcomes
        self._sessions = sessions

    @property
    def counters(self) -> Counters:
        return self._outcomes.counters

    def start(self) -> None:
        """Do nothing: the user opens the clients."""

    def wait_begun(self, timeout: float) -> bool:
        return True

    @property
    def answered(self) -> frozenset[str]:
        """Empty: operations of these clients have no names."""
        return frozenset()

    def took_effect(self, faults: Mapping[str, Sequence[int]]) -> None:
        """Do nothing: no operation awaits a fault."""

    def read_state(self, paths: Sequence[str]) -> StateByNode:
        """Return nothing: there is no expected final state."""
        return {}

    def stop(self, grace: float = 0.0) -> Counters:
        """Close all sessions. Operations that are still outstanding become unknown; `grace` has no effect."""
        for session in self._sessions:
            session.close()
        return self.counters
