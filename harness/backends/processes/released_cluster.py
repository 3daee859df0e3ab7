"""The base of clusters whose nodes may be of different releases of one system."""

from collections.abc import Sequence

from zab_chaos.faults.cluster import ClusterError
from zab_chaos.harness.backends.processes.disks import Disks
from zab_chaos.harness.backends.processes.process_cluster import ProcessCluster
from zab_chaos.harness.backends.run_releases import RunReleases
from zab_chaos.harness.results.run_folder import RunFolder


class ReleasedCluster(ProcessCluster):
    """A cluster whose nodes each have a release: that of the run at first, then the one that was installed last.

    The release of each life is a line of harness.jsonl.
    """

    def __init__(
        self, folder: RunFolder, nodes: Sequence[int], disks: Disks | None, releases: RunReleases | None
    ) -> None:
        """`releases`: those of the run; None if the system has no releases to choose from."""
        super().__init__(folder, nodes, faithful=False, disks=disks)
        self._releases = releases
        self._installed = dict.fromkeys(self.nodes, releases.old) if releases is not None else {}

    def install(self, node: int, release: str) -> str:
        """See `Upgradable.install`."""
        if self.alive(node):
            raise ClusterError(f"node {node} is up; another release can be installed when it is down")
        if self._releases is None:
            raise ClusterError(f"the system of node {node} has no releases to choose from; {release} was asked for")
        self._installed[node] = self._releases.named(release)
        return self._installed[node]

    def _spawn(self, node: int, crash_at: str | None) -> None:
        super()._spawn(node, crash_at)
        if node in self._installed:
            life = self._lives[node].life
            self._folder.milestone("release", node=node, life=life, release=self._installed[node])
