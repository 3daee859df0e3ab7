"""The state of a running ensemble, as its nodes say now."""

from zab_chaos.faults.cluster import Status
from zab_chaos.harness.backends.backend import Deployment
from zab_chaos.harness.backends.ensemble_state import statuses
from zab_chaos.harness.runs.options import RunOptions
from zab_chaos.harness.workload.open_loop import Counters


class EnsembleView:
    """Base of `zab_chaos.harness.live.ensemble.Ensemble`: what can be seen of it. Nothing here lets time pass."""

    _options: RunOptions
    _deployment: Deployment
    _begun: float  # of the deployment's own clock

    @property
    def seed(self) -> int:
        return self._options.seed

    @property
    def on(self) -> str:
        """The world that it stands in."""
        return self._options.on

    @property
    def nodes(self) -> list[int]:
        """The ids of all nodes."""
        return list(self._deployment.cluster.nodes)

    @property
    def addresses(self) -> dict[int, str]:
        """Where each node takes clients, `host:port`; empty in the simulated world."""
        return self._deployment.addresses

    def is_paused(self, node: int) -> bool:
        """Whether the node's process is there but stands still."""
        return self._deployment.cluster.paused(node)

    @property
    def leader(self) -> int | None:
        """The established leader of the highest epoch, as the nodes say now; None while there is none."""
        return self._deployment.cluster.leader()

    @property
    def now(self) -> float:
        """Seconds since it was there, of the world's own clock."""
        return self._deployment.host.now() - self._begun

    @property
    def counters(self) -> Counters:
        """The operations of all clients so far."""
        return self._deployment.outcomes.counters

    def alive(self, node: int) -> bool:
        """Whether the node's process is there, paused or not."""
        return self._deployment.cluster.alive(node)

    def status(self) -> dict[int, Status]:
        """What each node says of itself now; who is down, paused or silent is left out."""
        return statuses(self._deployment.cluster)
