"""The deployment of a run on ZooKeeper's servers: ports, toxiproxy with two proxies for each ordered pair, the servers.

Entered, everything but the servers is up; left, nothing is, and what the servers and their clients showed is in the run's
folder as traces.
"""

import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import zmq

from zab_chaos.faults.cluster import Status
from zab_chaos.faults.network import NetworkError
from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.backends import ensemble_state
from zab_chaos.harness.backends.processes.deployment import ProcessDeployment
from zab_chaos.harness.backends.processes.stale_files import locked
from zab_chaos.harness.backends.zookeeper import sessions, tree
from zab_chaos.harness.backends.zookeeper.client import Client
from zab_chaos.harness.backends.zookeeper.ensemble import Servers
from zab_chaos.harness.backends.zookeeper.links import Meter, QuorumNetwork
from zab_chaos.harness.backends.zookeeper.records import Evidence, Life, write_traces
from zab_chaos.harness.backends.zookeeper.releases import find_java, locate
from zab_chaos.harness.backends.zookeeper.salvage import progress_file
from zab_chaos.harness.backends.zookeeper.sampler import Sampler
from zab_chaos.harness.backends.zookeeper.server import Plan, Ports
from zab_chaos.harness.backends.zookeeper.txnlog import show
from zab_chaos.harness.client.transport import SocketLine
from zab_chaos.harness.errors import HarnessError
from zab_chaos.harness.report.progress import Display, Quiet
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.harness.workload.open_loop import Counters
from zab_chaos.harness.workload.operations import load_parameters
from zab_chaos.harness.workload.thread import LoadThread, WorkloadError
from zab_chaos.model.events import operation_from_json


class Stage(ProcessDeployment):
    """`release`: a version, or a distribution's folder. `settings`: lines of the servers' configuration."""

    patience = 60.0  # a JVM on a busy machine takes its time
    cluster: Servers
    network: QuorumNetwork
    meter: Meter

    def __init__(
        self, folder: RunFolder, scenario: Scenario, release: str, display: Display | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(folder, scenario, display or Quiet())
        self._release_named = release
        self._settings = {**scenario.zookeeper.settings, **(settings or {})}
        self._version: str | None = None
        self._clients: list[Client] = []
        self._lives: list[Life] | None = None  # as they were when all servers were equally far
        self._tree: tree.Tree | None = None  # that they all showed then

    def _build(self, stack: ExitStack) -> None:
        release = locate(self._release_named, lambda jar: self._display.say(f"fetching {jar}"))
        self._version = release.version
        nodes = range(1, self._scenario.nodes + 1)
        ports = self._ports(4 * len(nodes), stack)
        own = {node: Ports(*ports[4 * node - 4 : 4 * node]) for node in nodes}
        properties = dict(self._scenario.zookeeper.java)
        plan = Plan(release=release, java=find_java(), ports=own, settings=self._settings, properties=properties)
        server = self._toxiproxy(stack, counting=True)
        self.meter = Meter(plan, server.address, server.key)
        self.network = QuorumNetwork(server.address, server.key)
        try:
            self.network.create(plan)
        except NetworkError as error:
            raise HarnessError(f"the links between the servers could not be made: {error}") from error
        self._disks = self._own_disks(self._scenario.zookeeper.names, stack, with_process=False)
        self.cluster = Servers(self.folder, plan, self.meter, self._disks)
        stack.enter_context(locked(progress_file(self.folder)))
        stack.callback(self._write_traces)
        self._sampler = stack.enter_context(Sampler(self.cluster))

    @property
    def addresses(self) -> dict[int, str]:
        return {node: self.cluster.client_address(node) for node in self.cluster.nodes}

    @property
    def hosts(self) -> str:
        return ",".join(self.addresses.values())

    @property
    def versions(self) -> dict[str, str | None]:
        return {**super().versions, "zookeeper": self._version}

    def check(self) -> None:
        super().check()
        self._sampler.check()

    def complete(self) -> bool:
        """All servers serve, under one leader. Who comes later, when something was written already, takes a snapshot instead
        of the log, and will itself give others snapshots: a run would depend on how fast each JVM starts."""
        nodes, answers = self.cluster.nodes, ensemble_state.statuses(self.cluster)
        leader = ensemble_state.leader_of(answers, len(nodes))
        serving = [it for it in answers.values() if it.established and it.leader in (leader, None)]
        return leader is not None and len(serving) == len(nodes)

    def on_established(self) -> None:
        """A server syncs neither its first, empty snapshot nor, without one, starts again (docs/zookeeper.md). An ensemble
        that has stood for half a minute has it durable, whoever has written it down; so has this one, unless the scenario
        wants a new one."""
        if self._disks is not None and self._scenario.zookeeper.synced:
            self._disks.sync()

    # ---- clients ----

    def client(
        self, addresses: dict[int, str], node: int, number: int | None, timeout: float,
        poller: zmq.Poller | None = None,
    ) -> Client:  # fmt: skip
        """A new client, whose sessions will be known as its own."""
        client = Client(addresses, node, number=number, timeout=timeout, poller=poller)
        self._clients.append(client)
        return client

    def line(self, number: int, node: int, timeout: float) -> SocketLine:
        return SocketLine(self.client(self.addresses, node, number, timeout), self._book)

    def workload(self, seed: int) -> LoadThread:
        return _Workload(self, seed)

    # ---- the end ----

    def disagreement(self) -> str | None:
        """The servers serve under one leader and are equally far; then their trees and the ends of their logs are equal."""
        why = ensemble_state.disagreement(reached(ensemble_state.statuses(self.cluster)), self.cluster.nodes)
        if why is not None:
            return why
        try:
            trees = {node: tree.read(address) for node, address in self.addresses.items()}
        except tree.Unreadable as error:
            return str(error)
        lives = self.cluster.past({node: found.digest for node, found in trees.items()})
        self._lives = lives
        different = tree.differences(trees)
        if different:
            return f"{len(different)} znodes differ, the first is {different[0]}"
        ends = {life.node: life.after.last for life in lives}  # of each server's latest life
        if len(set(ends.values())) > 1:
            return "different ends of logs: " + ", ".join(f"node-{node} {show(end)}" for node, end in ends.items())
        self._tree = max(trees.values(), key=lambda shown: shown.zxid)
        return None

    def on_not_converged(self) -> None:
        """At the trees of those that serve, which nobody else has asked for them."""
        trees = {}
        for node, address in self.addresses.items():
            status = self.cluster.role(node)
            if status is not None and status.established:
                with suppress(tree.Unreadable):
                    trees[node] = tree.read(address).digest
        self._lives = self.cluster.past(trees)

    def _write_traces(self) -> None:
        """Once nothing happens any more: what was shown, as the documented events."""
        ops = self.folder.file("ops.jsonl")
        lives = self._lives if self._lives is not None else self.cluster.past({})
        evidence = Evidence(
            nodes=self._scenario.nodes,
            lives=lives,
            operations=[operation_from_json(line) for line in ops.read_bytes().splitlines()] if ops.exists() else [],
            sessions=self._sessions(),
            seen=self._sampler.seen,
            led=[led for life in lives for led in self.cluster.led(life)],
            differs=[differs for life in lives for differs in self.cluster.differs(life)],
            clock=time.monotonic_ns() - time.time_ns(),
        )
        write_traces(evidence, self.folder)
        sessions.write_ended(self.sessions_file, evidence)
        if self._tree is not None:
            tree.write(self._tree, self.folder.file("tree.jsonl"))

    @property
    def sessions_file(self) -> Path:
        return self.folder.file("sessions.jsonl")

    def _sessions(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for client in self._clients:
            found.setdefault(client.number, []).extend(client.sessions)
        return found


def reached(answers: Mapping[int, Status]) -> dict[int, Status]:
    """How far servers are. A leader that has made no transaction yet says e:0 where its followers still say where the epochs
    before have ended; so it is put there, too."""
    made = [status.delivered for status in answers.values() if status.delivered[1]]
    found = {}
    for node, status in answers.items():
        zxid = (
            status.delivered
            if status.delivered[1]
            else max([at for at in made if at < status.delivered], default=(0, 0))
        )
        found[node] = replace(status, delivered=zxid, last_zxid=zxid)
    return found


class _Workload(LoadThread):
    """The scenario's load, against the servers themselves."""

    def __init__(self, stage: Stage, seed: int) -> None:
        ops, load = stage.folder.file("ops.jsonl"), load_parameters(stage._scenario)
        super().__init__(stage.addresses, ops, load, seed)
        self._stage = stage
        self._guests = (
            sessions.Guests(stage.addresses, stage.sessions_file, load.sessions, seed) if load.sessions else None
        )

    def start(self) -> None:
        super().start()
        if self._guests is not None:
            self._guests.__enter__()

    def wait_begun(self, timeout: float) -> bool:
        return super().wait_begun(timeout) and (self._guests is None or self._guests.begun.wait(timeout))

    def stop(self, grace: float = 5.0) -> Counters:
        try:
            return super().stop(grace)
        finally:
            if self._guests is not None:
                self._guests.stop()
                self._stage.folder.milestone("sessions-stopped", told=self._guests.told)

    def _raise(self) -> None:
        super()._raise()
        if self._guests is not None and self._guests.error is not None:
            raise WorkloadError(f"the clients with sessions broke off: {self._guests.error!r}") from self._guests.error

    def _client(
        self, addresses: dict[int, str], node: int, number: int | None = None, poller: zmq.Poller | None = None
    ) -> Client:
        return self._stage.client(addresses, node, number, self._load.timeout, poller)
