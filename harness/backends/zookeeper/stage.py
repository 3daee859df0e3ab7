"""What an ensemble of ZooKeeper's servers stands on: ports, toxiproxy with two proxies for each ordered pair, the servers.

Entered, everything but the servers is up; left, nothing is.
"""

import sys
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from zab_chaos.faults.network import NetworkError
from zab_chaos.harness.backends.toxiproxy import server as toxiproxy
from zab_chaos.harness.backends.zookeeper.ensemble import Servers
from zab_chaos.harness.backends.zookeeper.links import Meter, QuorumNetwork
from zab_chaos.harness.backends.zookeeper.releases import Release, find_java
from zab_chaos.harness.backends.zookeeper.server import LARGEST, Plan, Ports
from zab_chaos.harness.errors import BadInput, HarnessError
from zab_chaos.harness.machine.interrupt import Forced, Stopped
from zab_chaos.harness.machine.ports import NoFreePortError, free_ports, release_ports
from zab_chaos.harness.results.run_folder import RunFolder


class Stage:
    """`servers`, `network` and `meter` are there once it is entered. Raises HarnessError."""

    servers: Servers
    network: QuorumNetwork
    meter: Meter
    toxiproxy_version: str

    def __init__(self, folder: RunFolder, release: Release, nodes: int, settings: dict[str, str] | None = None) -> None:
        """`settings`: lines of the servers' configuration. Raises BadInput."""
        if not 1 <= nodes <= LARGEST:
            raise BadInput(f"{nodes} ZooKeeper servers are asked for; an ensemble has 1 to {LARGEST}")
        self._folder = folder
        self._release = release
        self._nodes = range(1, nodes + 1)
        self._settings = settings or {}
        self._hurry = False
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        if sys.platform != "linux":
            raise HarnessError("ZooKeeper's servers are run on Linux only: it answers at every address of 127.0.0.0/8")
        with ExitStack() as stack:
            self._build(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hurry = kind is not None and issubclass(kind, Forced | Stopped)
        self._stack.close()

    def _build(self, stack: ExitStack) -> None:
        plan = Plan(release=self._release, java=find_java(), ports=self._ports(stack), settings=self._settings)
        log = self._folder.file("log", "toxiproxy.log")
        server = stack.enter_context(toxiproxy.ToxiproxyServer(toxiproxy.locate(), log, counting=True))
        self.toxiproxy_version = server.version
        self.meter = Meter(plan, server.address, server.key)
        self.network = QuorumNetwork(server.address, server.key)
        try:
            self.network.create(plan)
        except NetworkError as error:
            raise HarnessError(f"the links between the servers could not be made: {error}") from error
        self.servers = Servers(self._folder, plan, self.meter.passed)
        stack.callback(self._end)

    def _ports(self, stack: ExitStack) -> dict[int, Ports]:
        try:
            ports = free_ports(3 * len(self._nodes))
        except NoFreePortError as error:
            raise HarnessError(str(error)) from error
        stack.callback(release_ports, ports)
        return {node: Ports(*ports[3 * node - 3 : 3 * node]) for node in self._nodes}

    def _end(self) -> None:
        """Servers are asked to end, unless the user is past asking; who does not is killed, and that is on record."""
        try:
            forced = self.servers.close(ask=not self._hurry)
        except Stopped:
            self.servers.close(ask=False)
            raise
        if forced:
            self._folder.milestone("leftovers", nodes=forced)
