"""An ensemble to measure: real processes without proxies, with settings as in production.

That is: fsync on, trace on, recording off (unless the recording is measured), and the ordinary disk, where a written byte is in
the kernel's page cache.
"""

import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from zab_chaos.harness.backends.ensemble_state import disagreement, statuses
from zab_chaos.harness.backends.processes.ensemble import ClusterPlan, NodeAddresses, Processes
from zab_chaos.harness.backends.processes.process_cluster import ProcessCluster
from zab_chaos.harness.client.client import Client
from zab_chaos.harness.errors import HarnessError
from zab_chaos.harness.machine.ports import free_ports, release_ports
from zab_chaos.harness.machine.waiting import wait_until
from zab_chaos.harness.results import run_folder
from zab_chaos.node.net import keys

HOST = "127.0.0.1"
SETTLE_SECONDS = 60.0  # for a leader, or for a restarted node to be synchronized, on a busy machine


class BenchmarkEnsemble:
    """`size` nodes with their disks in a temporary folder below `folder`. Entering it reserves ports and makes keys; `start`
    starts the nodes."""

    cluster: Processes
    folder: run_folder.RunFolder

    def __init__(self, folder: Path, size: int, *, record: bool = False) -> None:
        self.size = size
        self._record = record
        self._folder = folder
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._build(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    def _build(self, stack: ExitStack) -> None:
        root = stack.enter_context(tempfile.TemporaryDirectory(dir=self._folder, prefix=".bench-"))
        self.folder = run_folder.create(Path(root), "bench", 0)
        files = keys.create_files(self.folder.file("config"))
        self._keys = keys.load(files.clients)
        ports = free_ports(3 * self.size)
        stack.callback(release_ports, ports)
        nodes = range(1, self.size + 1)
        self.addresses = {i: NodeAddresses(*(f"{HOST}:{port}" for port in ports[3 * i - 3 : 3 * i])) for i in nodes}
        links = {(i, j): self.addresses[j].listen for i in nodes for j in nodes if i != j}
        plan = ClusterPlan(
            cluster="bench",
            addresses=self.addresses,
            links=links,
            keys=files,
            faithful=False,
            record=self._record,
        )
        self.cluster = Processes(self.folder, plan)
        stack.callback(self.cluster.close)

    def start(self) -> None:
        """Start all nodes, and wait until all of them are in the broadcast phase. Raises HarnessError."""
        self.cluster.start_all(self.cluster.nodes)
        self.settle()

    def settle(self) -> int:
        """Wait until all nodes are in the broadcast phase. Return the leader. Raises HarnessError."""
        return settle(self.cluster)

    def client(self, node: int) -> Client:
        """Return a client that is connected to this node. The caller closes it. Raises HarnessError."""
        client = Client({i: own.client for i, own in self.addresses.items()}, self._keys, node, timeout=60.0)
        if not client.connect(SETTLE_SECONDS) or client.node != node:
            client.close()
            raise HarnessError(f"no client could connect to node {node}: {client.last_trouble}")
        return client

    def unbound_client(self) -> Client:
        """Return a client that is not connected yet, and connects to the first node that answers."""
        return Client({i: own.client for i, own in self.addresses.items()}, self._keys, timeout=60.0)

    def memory(self) -> dict[int, int]:
        """Return the resident bytes of each node."""
        return resident_bytes(self.cluster)

    def cpu(self) -> float:
        """Return the seconds of processor time that all nodes and this process have used."""
        return time.process_time() + processor_seconds(self.cluster)


def settle(cluster: ProcessCluster) -> int:
    """Wait until all nodes lead or follow the same established leader and have delivered everything. Return the leader.

    Raises HarnessError.
    """

    def apart() -> str | None:
        return disagreement(statuses(cluster), cluster.nodes)

    if not wait_until(lambda: apart() is None, SETTLE_SECONDS):
        raise HarnessError(f"the ensemble did not come together within {SETTLE_SECONDS:.0f} s: {apart()}")
    leader = cluster.leader()
    if leader is None:
        raise HarnessError("the ensemble lost its leader while nothing happened; is the machine overloaded?")
    return leader


def follower(cluster: ProcessCluster, leader: int) -> int:
    return next(node for node in cluster.nodes if node != leader)


def resident_bytes(nodes: ProcessCluster) -> dict[int, int]:
    """Return the resident bytes of each node that is up."""
    return {node: psutil.Process(pid).memory_info().rss for node, pid in _pids(nodes).items()}


def processor_seconds(nodes: ProcessCluster) -> float:
    """Return the seconds of processor time that all nodes have used."""
    times = [psutil.Process(pid).cpu_times() for pid in _pids(nodes).values()]
    return float(sum(one.user + one.system for one in times))


def _pids(nodes: ProcessCluster) -> dict[int, int]:
    return {node: pid for node in nodes.nodes if (pid := nodes.pid(node)) is not None}
