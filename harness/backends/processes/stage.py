"""What a real run stands on: ports, the keys, toxiproxy with a proxy for each link, and the nodes.

Here they are processes of this machine; `zab_chaos.harness.backends.containers.stage` has them in containers.

Entered, everything but the nodes is up; left, nothing is: no process, no port, no key file.
"""

from contextlib import ExitStack
from types import TracebackType
from typing import Self

from zab_chaos.faults.network import Network
from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.backends.backend import FolderGround
from zab_chaos.harness.backends.processes.ensemble import Addresses, Nodes, Plan, Processes
from zab_chaos.harness.backends.processes.monitor import Watch
from zab_chaos.harness.backends.processes.stale_files import held
from zab_chaos.harness.backends.toxiproxy import server as toxiproxy
from zab_chaos.harness.client.core import Client
from zab_chaos.harness.client.log import Book
from zab_chaos.harness.client.transport import SocketLine
from zab_chaos.harness.errors import HarnessError
from zab_chaos.harness.machine import file_descriptors
from zab_chaos.harness.machine.interrupt import Forced, Stopped
from zab_chaos.harness.machine.ports import NoFreePortError, free_ports, release_ports
from zab_chaos.harness.report.progress import Display, Quiet
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.harness.workload.open_loop import Workload
from zab_chaos.harness.workload.operations import load_of
from zab_chaos.node.net import keys

HOST = "127.0.0.1"


class Stage(FolderGround):
    """`client_keys` and `toxiproxy_version` are there once it is entered. Raises HarnessError."""

    cluster: Nodes
    network: Network
    onlooker: Watch
    client_keys: keys.Keys
    toxiproxy_version: str | None = None

    def __init__(
        self, folder: RunFolder, scenario: Scenario, defect: str | None, record: bool, display: Display | None = None
    ) -> None:
        """`defect`: what NodeConfig.defect takes, or None."""
        super().__init__(folder)
        self._folder = folder
        self._display = display or Quiet()
        self._scenario = scenario
        self._defect = defect
        self._record = record
        self._keys = keys.files_in(folder.file("config"))
        self._hurry = False
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        file_descriptors.require(file_descriptors.needed(self._scenario.nodes, self._scenario.workload.clients))
        with ExitStack() as stack:
            self._build(stack)
            self._book = Book(self._folder.file("ops.jsonl"), self.tally.add)
            stack.callback(self._book.close)
            watch = Watch(self.cluster, self._folder, self._display, self._scenario.duration)
            self.onlooker = stack.enter_context(watch)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hurry = kind is not None and issubclass(kind, Forced | Stopped)
        self._stack.close()

    @property
    def addresses(self) -> dict[int, str]:
        return {node: self.cluster.client_address(node) for node in self.cluster.nodes}

    @property
    def versions(self) -> dict[str, str | None]:
        return {"toxiproxy": self.toxiproxy_version}

    def check(self) -> None:
        if self.onlooker.error is not None:
            raise HarnessError(f"the nodes' watch broke off: {self.onlooker.error!r}") from self.onlooker.error

    def line(self, number: int, node: int, timeout: float) -> SocketLine:
        client = Client(self.addresses, self.client_keys, node, number=number, timeout=timeout)
        return SocketLine(client, self._book)

    def workload(self, seed: int) -> Workload:
        """The scenario's load, against the nodes themselves."""
        return Workload(
            self.addresses,
            self.client_keys,
            self._folder.file("ops.jsonl"),
            load_of(self._scenario),
            seed,
        )

    def _build(self, stack: ExitStack) -> None:
        for path in keys.create_files(self._folder.file("config")):
            stack.enter_context(held(path))
            stack.callback(path.unlink, missing_ok=True)  # nobody needs it any more, and it is a secret
        self.client_keys = keys.load(self._keys.clients)
        self._populate(stack)
        stack.callback(self._end_nodes)

    def _populate(self, stack: ExitStack) -> None:
        """Everything but the keys: `cluster`, `network`, `host`, `toxiproxy_version`."""
        nodes = range(1, self._scenario.nodes + 1)
        pairs = self._pairs()
        ports = take_ports(3 * len(nodes) + len(pairs), stack)
        addresses = {node: Addresses(*(f"{HOST}:{port}" for port in ports[3 * node - 3 : 3 * node])) for node in nodes}
        links = {pair: f"{HOST}:{port}" for pair, port in zip(pairs, ports[3 * len(nodes) :], strict=True)}
        log = self._folder.file("log", "toxiproxy.log")
        server = stack.enter_context(toxiproxy.ToxiproxyServer(toxiproxy.locate(), log))
        self.toxiproxy_version = server.version
        self.network = Network(server.address, server.key)
        self.network.create_links({pair: (listen, addresses[pair[1]].listen) for pair, listen in links.items()})
        self.cluster = Processes(self._folder, self._plan(addresses, links))

    def _pairs(self) -> list[tuple[int, int]]:
        """All links, (from, to)."""
        nodes = range(1, self._scenario.nodes + 1)
        return [(source, target) for source in nodes for target in nodes if source != target]

    def _plan(self, addresses: dict[int, Addresses], links: dict[tuple[int, int], str]) -> Plan:
        scenario = self._scenario
        return Plan(
            cluster=self._folder.name,
            addresses=addresses,
            links=links,
            keys=self._keys,
            faithful=scenario.faithful,
            record=self._record,
            defect=self._defect,
            timing=scenario.timing,
            limits=scenario.limits,
        )

    def _end_nodes(self) -> None:
        """Nodes are asked to end, unless the user is past asking; who does not is killed, and that is on record."""
        try:
            forced = self.cluster.close(ask=not self._hurry)
        except Stopped:
            self.cluster.close(ask=False)
            raise
        if forced:
            self._folder.milestone("leftovers", nodes=forced)


def take_ports(count: int, stack: ExitStack) -> list[int]:
    """So many free ports, given back with `stack`. Raises HarnessError."""
    try:
        ports = free_ports(count)
    except NoFreePortError as error:
        raise HarnessError(str(error)) from error
    stack.callback(release_ports, ports)
    return ports
