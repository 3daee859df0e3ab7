"""The base of deployments whose nodes are processes of this machine, whatever program they run."""

from abc import abstractmethod
from collections.abc import Mapping
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from zab_chaos.faults.filesystem.volume import Names
from zab_chaos.faults.network import Network, NetworkError, Pair
from zab_chaos.faults.scenario import Scenario
from zab_chaos.faults.two_way_network import TwoWayNetwork, Way
from zab_chaos.harness.backends.backend import Deployment
from zab_chaos.harness.backends.outcome_counts import OutcomeCounts
from zab_chaos.harness.backends.processes.disks import Disks
from zab_chaos.harness.backends.processes.monitor import RunMonitor
from zab_chaos.harness.backends.processes.process_cluster import ProcessCluster
from zab_chaos.harness.backends.toxiproxy import server as toxiproxy
from zab_chaos.harness.backends.toxiproxy.byte_meter import ByteMeter
from zab_chaos.harness.client.log import SharedOpsFile
from zab_chaos.harness.errors import HarnessError
from zab_chaos.harness.machine import file_descriptors
from zab_chaos.harness.machine.connections import Address, between
from zab_chaos.harness.machine.interrupt import Forced, Stopped
from zab_chaos.harness.machine.ports import free_ports, release_ports
from zab_chaos.harness.report.progress import Display
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.model.oracle import oracle
from zab_chaos.model.verdict import Verdict

HOST = "127.0.0.1"
Link = tuple[int, int]  # (from, to)


class RunningToxiproxy(Protocol):
    """A toxiproxy, as a process or in a container, that may end during the run. `code`: its exit code; None while it runs."""

    @property
    def code(self) -> int | None: ...


class ProcessDeployment(Deployment):
    """A deployment on processes of this machine, with toxiproxy between them and a thread that watches the nodes. It writes its
    records to the files of the run's folder as things happen.

    After `__enter__`, which raises HarnessError, everything but the nodes is up. After `__exit__` no process runs and no
    port is taken. A subclass builds its cluster in `_build`.
    """

    cluster: ProcessCluster
    monitor: RunMonitor
    toxiproxy_version: str | None = None
    _server: RunningToxiproxy | None = None

    def __init__(self, folder: RunFolder, scenario: Scenario, display: Display) -> None:
        self.folder = folder
        self.records = folder
        self.outcomes = OutcomeCounts()
        self._scenario = scenario
        self._display = display
        self._hurry = self._forced = False
        self._stack = ExitStack()

    @abstractmethod
    def _build(self, stack: ExitStack) -> None:
        """Build everything but the nodes, and set `cluster`. What is put on `stack` is undone after the nodes have ended."""

    def __enter__(self) -> Self:
        file_descriptors.require(file_descriptors.needed(self._scenario.nodes, self._scenario.workload.clients))
        with ExitStack() as stack:
            self._build(stack)
            stack.callback(self._end_nodes)
            monitor = RunMonitor(self.cluster, self.folder, self._display, self._scenario.duration)
            self.monitor = stack.enter_context(monitor)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._hurry = self._hurry or (kind is not None and issubclass(kind, Forced | Stopped))
        self._forced = kind is not None and issubclass(kind, Forced)
        self._server = None  # which now ends
        self._stack.close()

    def on_interrupted(self) -> None:
        self._hurry = True
        self.cluster.close(ask=False)

    def _end_nodes(self) -> None:
        """End the nodes: ask them to, or kill them at once after an interrupt. Record which had to be killed."""
        try:
            forced = self.cluster.close(ask=not self._hurry)
        except Stopped:
            self.cluster.close(ask=False)
            raise
        if forced:
            self.folder.milestone("leftovers", nodes=forced)

    @property
    def fault_log(self) -> Path:
        return self.folder.file("faults.jsonl")

    def judge(self, outcome: str) -> Verdict:
        return oracle.judge(self.folder.path, stored=False, on_read=self.steps.judging(self.folder.path))

    @property
    def versions(self) -> dict[str, str | None]:
        return {"toxiproxy": self.toxiproxy_version}

    def check(self) -> None:
        self.monitor.check()
        log = self.folder.file("log", "toxiproxy.log")
        code = self._server.code if self._server is not None else None
        if code is not None:
            words = toxiproxy.last_words(code, log)
            raise HarnessError(f"toxiproxy ended during the run, and all links with it: {words}")
        if self.network is not None and self.network.hangs:
            raise HarnessError(
                f"toxiproxy hangs, so links can't be cut or healed any more; run the seed again. Its log is {log}"
            )

    @cached_property
    def _interactive_ops(self) -> SharedOpsFile:
        """The ops.jsonl of the clients that are used by hand."""
        ops = SharedOpsFile(self.folder.file("ops.jsonl"), self.outcomes.add)
        self._stack.callback(ops.close)
        return ops

    # ---- for `_build` ----

    @property
    def _pairs(self) -> list[Link]:
        """All links, as ordered pairs of nodes."""
        nodes = range(1, self._scenario.nodes + 1)
        return [(source, target) for source in nodes for target in nodes if source != target]

    def _ports(self, count: int, stack: ExitStack) -> list[int]:
        """Reserve free ports until `stack` is closed."""
        ports = free_ports(count)
        stack.callback(release_ports, ports)
        return ports

    def _addresses(self, count: int, stack: ExitStack) -> list[str]:
        """Reserve free ports until `stack` is closed, and return them as host:port."""
        return [f"{HOST}:{port}" for port in self._ports(count, stack)]

    def _own_disks(self, names: Names, stack: ExitStack, *, with_process: bool = True) -> Disks | None:
        """Mount the file systems under the nodes' data folders, if the scenario's disk is "fuse". Arguments: as of `Disks`."""
        if self._scenario.disk != "fuse":
            return None
        nodes = range(1, self._scenario.nodes + 1)
        return stack.enter_context(Disks(self.folder, nodes, names=names, with_process=with_process))

    def _toxiproxy(self, stack: ExitStack, *, counting: bool = False) -> toxiproxy.ToxiproxyServer:
        """Start toxiproxy. `counting`: it can report how many bytes have passed."""
        log = self.folder.file("log", "toxiproxy.log")
        server = stack.enter_context(toxiproxy.ToxiproxyServer(toxiproxy.locate(), log, counting=counting))
        self.toxiproxy_version, self._server = server.version, server
        return server

    def _proxies(self, listen: Mapping[int, str], stack: ExitStack) -> dict[Link, str]:
        """Start toxiproxy with a proxy for each link, set `network`, and return the address of each proxy.

        `listen`: the address at which each node takes the links of the others.
        """
        links = dict(zip(self._pairs, self._addresses(len(self._pairs), stack), strict=True))
        server = self._toxiproxy(stack)
        self.network = Network(server.client)
        self.network.create_links({pair: (address, listen[pair[1]]) for pair, address in links.items()})
        return links

    def _two_way_proxies(self, ways: Mapping[Pair, Way], stack: ExitStack) -> None:
        """Start toxiproxy with a proxy and a relay for each way, and set `network`, whose traffic is measured."""
        server = self._toxiproxy(stack, counting=True)
        made = TwoWayNetwork(server.client)
        made.measure = ByteMeter(ways, server.address, server.key).traffic
        made.find_detours = self._detours
        try:
            made.create_ways(ways)
        except NetworkError as error:
            raise HarnessError(f"the links between the nodes could not be made: {error}") from error
        self.network = made

    def _detours(self) -> dict[Pair, str]:
        """Return the links that a connection between two nodes' processes avoids. Raises NetworkError."""
        pids = {node: pid for node in self.cluster.nodes if (pid := self.cluster.pid(node)) is not None}
        try:
            return {
                (source, target): f"node {source} and node {target} have a connection past the proxies: "
                f"{self._text(found.local)} to {self._text(found.remote)}"
                for source, target, found in between(pids)
            }
        except OSError as error:
            raise NetworkError(f"the connections of the nodes can't be listed: {error}") from error

    def _text(self, address: Address) -> str:
        """Return an address in words, for messages."""
        host, port = address
        return f"{host}:{port}"
