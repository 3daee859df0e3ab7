"""The deployment of a run on containers: its resources on the engine, toxiproxy in a container, and a proxy for each link."""

import contextlib
from contextlib import ExitStack

from zab_chaos.faults.network import Network
from zab_chaos.faults.toxiproxy_client import ToxiproxyClient
from zab_chaos.harness.backends.containers import engine, image, leftovers
from zab_chaos.harness.backends.containers.container import ContainerEnd
from zab_chaos.harness.backends.containers.ensemble import LISTEN, ContainerHost, Containers
from zab_chaos.harness.backends.containers.heartbeat import Heartbeat
from zab_chaos.harness.backends.containers.resources import EngineResources
from zab_chaos.harness.backends.processes.deployment import HOST
from zab_chaos.harness.backends.processes.ensemble import NodeAddresses
from zab_chaos.harness.backends.processes.zab_deployment import ZabDeployment
from zab_chaos.harness.backends.toxiproxy import server
from zab_chaos.harness.backends.toxiproxy.server import ToxiproxyError
from zab_chaos.node.net import keys

API, FIRST_LINK = 8474, 9001  # toxiproxy's ports inside: its HTTP interface, then one for each link
PROXY = "toxiproxy"
# toxiproxy has no timeout for its connection attempts. While a proxy is connecting, a change of that proxy blocks all others.
# To a container that has just vanished the kernel would retry for two minutes; with this setting it gives up after three
# seconds.
SYSCTLS = {"net.ipv4.tcp_syn_retries": "1"}


class ContainerDeployment(ZabDeployment):
    """The deployment of a run on containers. Entering it raises HarnessError if something can't be created."""

    @staticmethod
    def check_machine() -> None:
        """Raise HarnessError if there is no engine with the image of this code. Nothing is created."""
        with contextlib.closing(engine.connect()) as client:
            image.find(client)

    def _populate(self, stack: ExitStack) -> None:
        client = stack.enter_context(contextlib.closing(engine.connect()))
        leftovers.remove_over(client)
        resources = EngineResources(client, image.find(client).tags[0], self.folder)
        stack.callback(resources.remove)
        resources.prepare()
        nodes = range(1, self._scenario.nodes + 1)
        ports = self._ports(2 * len(nodes) + 1, stack)
        addresses = {
            n: NodeAddresses(
                f"{resources.address(f'node-{n}')}:{LISTEN}", *(f"{HOST}:{p}" for p in ports[2 * n - 2 : 2 * n])
            )
            for n in nodes
        }
        links = {pair: FIRST_LINK + number for number, pair in enumerate(self._pairs)}
        proxies = self._server = self._proxy_server(resources, ports[-1])
        self.network = Network(ToxiproxyClient(f"{HOST}:{ports[-1]}", gone=proxies.gone))
        own = resources.address(PROXY)
        self.network.create_links({pair: (f"{own}:{port}", addresses[pair[1]].listen) for pair, port in links.items()})
        plan = self._plan(addresses, {pair: f"{own}:{port}" for pair, port in links.items()})
        cluster = self.cluster = Containers(self.folder, plan, resources)
        self.host = ContainerHost(cluster)
        pair = keys.load(plan.keys.control)
        heartbeat = Heartbeat({n: own.control for n, own in addresses.items()}, pair, cluster.alive)
        self._heartbeat = stack.enter_context(heartbeat)

    def check(self) -> None:
        super().check()
        self._heartbeat.check()

    def _proxy_server(self, resources: EngineResources, port: int) -> ContainerEnd:
        """Start toxiproxy. Its proxies will listen on the run's network `links`, its HTTP interface on this machine only."""
        log = self.folder.file("log", "toxiproxy.log")
        command = ["toxiproxy-server", "-host", "0.0.0.0", "-port", str(API)]
        container = resources.create(PROXY, command, log, {API: port}, sysctls=SYSCTLS)
        resources.connect(container, PROXY)
        resources.start(container, PROXY)
        running = ContainerEnd(container, PROXY)
        version = server.await_version(f"{HOST}:{port}", running.gone)
        if version is None:
            tail = log.read_text(errors="replace")[-500:].strip() if log.exists() else ""
            raise ToxiproxyError(f"toxiproxy did not answer in its container. It wrote: {tail or '(nothing)'}")
        self.toxiproxy_version = version
        return running
