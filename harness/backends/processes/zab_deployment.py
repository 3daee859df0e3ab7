"""The deployment of our own nodes: key files, ports, toxiproxy with a proxy for each link, and the cluster.

Here the nodes are processes of this machine; `zab_chaos.harness.backends.containers.deployment` derives the deployment in
containers from it.
"""

from contextlib import ExitStack

from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.backends.processes.deployment import ProcessDeployment
from zab_chaos.harness.backends.processes.ensemble import ClusterPlan, NodeAddresses, Processes, ZabCluster
from zab_chaos.harness.backends.processes.stale_files import locked
from zab_chaos.harness.client.client import Client
from zab_chaos.harness.client.transport import SocketLine
from zab_chaos.harness.report.progress import Display, Quiet
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.harness.workload.operations import load_parameters
from zab_chaos.harness.workload.thread import ZabLoad
from zab_chaos.node.net import keys


class ZabDeployment(ProcessDeployment):
    """The deployment of our own nodes as processes. After `__exit__` its key files are removed, too.

    `client_keys`: the clients' key pair, available once the deployment is entered.
    """

    cluster: ZabCluster
    client_keys: keys.Keys

    def __init__(
        self, folder: RunFolder, scenario: Scenario, defect: str | None, record: bool, display: Display | None = None
    ) -> None:
        """`defect`: the value of NodeConfig.defect. `record`: whether the nodes record their inputs."""
        super().__init__(folder, scenario, display or Quiet())
        self._defect = defect
        self._record = record
        self._keys = keys.files_in(folder.file("config"))

    @property
    def addresses(self) -> dict[int, str]:
        return {node: self.cluster.client_address(node) for node in self.cluster.nodes}

    def line(self, number: int, node: int, timeout: float) -> SocketLine:
        client = Client(self.addresses, self.client_keys, node, number=number, timeout=timeout)
        return SocketLine(client, self._interactive_ops)

    def workload(self, seed: int) -> ZabLoad:
        """Return the scenario's load. Its clients connect to the nodes without a proxy."""
        return ZabLoad(
            self.addresses, self.client_keys, self.folder.file("ops.jsonl"), load_parameters(self._scenario), seed
        )

    def _build(self, stack: ExitStack) -> None:
        for path in keys.create_files(self.folder.file("config")):
            stack.enter_context(locked(path))
            stack.callback(path.unlink, missing_ok=True)  # a secret that is of no use after the run
        self.client_keys = keys.load(self._keys.clients)
        self._populate(stack)

    def _populate(self, stack: ExitStack) -> None:
        """Set `cluster`, `network` and `toxiproxy_version`."""
        nodes = range(1, self._scenario.nodes + 1)
        addresses = {node: NodeAddresses(*self._addresses(3, stack)) for node in nodes}
        links = self._proxies({node: own.listen for node, own in addresses.items()}, stack)
        self.cluster = Processes(self.folder, self._plan(addresses, links), self._own_disks("folder", stack))

    def _plan(self, addresses: dict[int, NodeAddresses], links: dict[tuple[int, int], str]) -> ClusterPlan:
        scenario = self._scenario
        return ClusterPlan(
            cluster=self.folder.name,
            addresses=addresses,
            links=links,
            keys=self._keys,
            faithful=scenario.faithful,
            record=self._record,
            defect=self._defect,
            timing=scenario.timing,
            limits=scenario.limits,
        )
