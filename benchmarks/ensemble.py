"""An ensemble to measure: real processes without proxies, with settings as in production.

That is: fsync on, trace on, recording off (unless the recording is measured), and the ordinary disk, where a written byte is in
the kernel's page cache.
"""

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Self

import psutil

from benchmarks.load import SETTLE_SECONDS, ClosedLoop, Writer
from zab_chaos.harness.backends.ensemble_state import disagreement, statuses
from zab_chaos.harness.backends.processes.ensemble import ClusterPlan, NodeAddresses, Processes
from zab_chaos.harness.backends.processes.process_cluster import ProcessCluster
from zab_chaos.harness.client.client import Client
from zab_chaos.harness.errors import HarnessError
from zab_chaos.harness.machine.ports import free_ports, release_ports
from zab_chaos.harness.machine.waiting import wait_until
from zab_chaos.harness.results import run_folder
from zab_chaos.node.net import keys
from zab_chaos.node.tree.outcomes import Ok

HOST = "127.0.0.1"


class Ensemble(ABC):
    """`size` nodes with their disks in a temporary folder below `folder`. Entering it reserves ports; `start` starts the
    nodes."""

    name: str
    cluster: ProcessCluster
    folder: run_folder.RunFolder

    def __init__(self, folder: Path, size: int) -> None:
        self.size = size
        self._folder = folder
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            root = stack.enter_context(tempfile.TemporaryDirectory(dir=self._folder, prefix=".bench-"))
            self.folder = run_folder.create(Path(root), "bench", 0)
            ports = free_ports(3 * self.size)
            stack.callback(release_ports, ports)
            self.cluster = self._build({i + 1: ports[3 * i : 3 * i + 3] for i in range(self.size)})
            stack.callback(self.cluster.close)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @abstractmethod
    def _build(self, ports: dict[int, list[int]]) -> ProcessCluster:
        """Return the cluster, not started. `ports`: three for each node."""

    @abstractmethod
    def first_write(self) -> bool:
        """Write with a new client. Return whether the write was acknowledged."""

    @abstractmethod
    def writer(self, node: int, outstanding: int) -> AbstractContextManager[Writer]:
        """Return a client at this node that keeps so many writes outstanding. Raises HarnessError."""

    def start(self) -> int:
        """Start all nodes, and wait until all of them serve. Return the leader. Raises HarnessError."""
        self.cluster.start_all(self.cluster.nodes)
        return self.settle()

    def settle(self) -> int:
        """Wait until all nodes serve. Return the leader. Raises HarnessError."""
        return settle(self.cluster)

    def memory(self) -> dict[int, int]:
        """Return the resident bytes of each node that is up."""
        return {node: process.memory_info().rss for node, process in self._processes().items()}

    def processor_seconds(self) -> float:
        """Return the seconds of processor time that all nodes have used."""
        times = [process.cpu_times() for process in self._processes().values()]
        return float(sum(one.user + one.system for one in times))

    def _processes(self) -> dict[int, psutil.Process]:
        return {i: psutil.Process(pid) for i in self.cluster.nodes if (pid := self.cluster.pid(i)) is not None}


class BenchmarkEnsemble(Ensemble):
    """An ensemble of our nodes."""

    name = "zab-chaos"

    def __init__(self, folder: Path, size: int, *, record: bool = False) -> None:
        super().__init__(folder, size)
        self._record = record

    def _build(self, ports: dict[int, list[int]]) -> Processes:
        files = keys.create_files(self.folder.file("config"))
        self._keys = keys.load(files.clients)
        addresses = {i: NodeAddresses(*(f"{HOST}:{port}" for port in own)) for i, own in ports.items()}
        self._clients = {i: own.client for i, own in addresses.items()}
        links = {(i, j): addresses[j].listen for i in addresses for j in addresses if i != j}
        plan = ClusterPlan(
            cluster="bench", addresses=addresses, links=links, keys=files, faithful=False, record=self._record
        )
        return Processes(self.folder, plan)

    def client(self, node: int) -> Client:
        """Return a client that is connected to this node. The caller closes it. Raises HarnessError."""
        client = Client(self._clients, self._keys, node, timeout=SETTLE_SECONDS)
        if not client.connect(SETTLE_SECONDS) or client.node != node:
            client.close()
            raise HarnessError(f"no client could connect to node {node}: {client.last_trouble}")
        return client

    def first_write(self) -> bool:
        with Client(self._clients, self._keys, timeout=SETTLE_SECONDS) as client:
            return isinstance(client.create("/first", b"1"), Ok)

    @contextmanager
    def writer(self, node: int, outstanding: int) -> Iterator[ClosedLoop]:
        with self.client(node) as client:
            yield ClosedLoop(client, outstanding)


def _apart(cluster: ProcessCluster) -> str | None:
    return disagreement(statuses(cluster), cluster.nodes)


def settle(cluster: ProcessCluster, apart: Callable[[ProcessCluster], str | None] = _apart) -> int:
    """Wait until all nodes lead or follow the same established leader and have delivered everything. Return the leader.

    `apart`: returns why that is not so yet, in words. Raises HarnessError.
    """
    if not wait_until(lambda: apart(cluster) is None, SETTLE_SECONDS, step=0.05):
        raise HarnessError(f"the ensemble did not come together within {SETTLE_SECONDS:.0f} s: {apart(cluster)}")
    leader = cluster.leader()
    if leader is None:
        raise HarnessError("the ensemble lost its leader while nothing happened; is the machine overloaded?")
    return leader


def follower(cluster: ProcessCluster, leader: int) -> int:
    return next(node for node in cluster.nodes if node != leader)
