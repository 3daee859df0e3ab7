"""The properties of a running ensemble that only read its state."""

from zab_chaos.faults.cluster import Status
from zab_chaos.harness.backends.backend import Deployment
from zab_chaos.harness.backends.ensemble_state import statuses
from zab_chaos.harness.runs.options import RunOptions
from zab_chaos.harness.workload.open_loop import Counters


class EnsembleView:
    """The read-only part of `zab_chaos.harness.live.ensemble.Ensemble`. Nothing here lets time pass."""

    _options: RunOptions
    _deployment: Deployment
    _begun: float  # when the load began, on the deployment's clock

    @property
    def seed(self) -> int:
        return self._options.seed

    @property
    def on(self) -> str:
        """The name of the backend."""
        return self._options.on

    @property
    def nodes(self) -> list[int]:
        """The ids of all nodes."""
        return list(self._deployment.cluster.nodes)

    @property
    def addresses(self) -> dict[int, str]:
        """The client address of each node, `host:port`; empty in the simulated world."""
        return self._deployment.addresses

    def is_paused(self, node: int) -> bool:
        """Return whether the node's process is paused."""
        return self._deployment.cluster.paused(node)

    @property
    def leader(self) -> int | None:
        """The current established leader of the highest epoch; None if there is none."""
        return self._deployment.cluster.leader()

    @property
    def now(self) -> float:
        """Seconds since the ensemble was ready, on the backend's clock."""
        return self._deployment.host.now() - self._begun

    @property
    def counters(self) -> Counters:
        """The numbers of operations of all clients so far, by outcome."""
        return self._deployment.outcomes.counters

    def alive(self, node: int) -> bool:
        """Return whether the node's process exists, paused or not."""
        return self._deployment.cluster.alive(node)

    def status(self) -> dict[int, Status]:
        """Return the current status of each node; nodes that are down, paused or silent are left out."""
        return statuses(self._deployment.cluster)
