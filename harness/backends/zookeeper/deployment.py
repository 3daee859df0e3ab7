"""The deployment of a run on ZooKeeper's servers: ports, toxiproxy with its proxies, disks, servers and clients.

While it is entered, everything but the servers is up. When it is left, everything has ended, and the traces made of the
servers' and clients' evidence are in the run's folder.
"""

import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import zmq

from zab_chaos.faults.cluster import Status
from zab_chaos.faults.scenario import Scenario
from zab_chaos.faults.two_way_network import TwoWayNetwork
from zab_chaos.harness.backends import ensemble_state
from zab_chaos.harness.backends.processes.deployment import ProcessDeployment
from zab_chaos.harness.backends.processes.stale_files import locked
from zab_chaos.harness.backends.run_releases import RunReleases
from zab_chaos.harness.backends.zookeeper import membership, server_log, session_load, tree
from zab_chaos.harness.backends.zookeeper.client import ZooKeeperClient
from zab_chaos.harness.backends.zookeeper.ensemble import ZooKeeperCluster
from zab_chaos.harness.backends.zookeeper.evidence import (
    RunEvidence,
    ServerLife,
    WrongAnswer,
    clock_offset,
)
from zab_chaos.harness.backends.zookeeper.links import ways
from zab_chaos.harness.backends.zookeeper.releases import find_java, locate
from zab_chaos.harness.backends.zookeeper.salvage import progress_file
from zab_chaos.harness.backends.zookeeper.sampler import RoleSampler
from zab_chaos.harness.backends.zookeeper.server import Plan, Ports
from zab_chaos.harness.backends.zookeeper.written_evidence import write_evidence
from zab_chaos.harness.client.transport import SocketLine
from zab_chaos.harness.machine.clocks import read_clocks
from zab_chaos.harness.machine.interrupt import Interrupt, Stopped
from zab_chaos.harness.report.progress import Display, Quiet
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.harness.workload.open_loop import Counters
from zab_chaos.harness.workload.operations import load_parameters
from zab_chaos.harness.workload.thread import LoadThread, WorkloadError
from zab_chaos.model.events import Complete, Invoke
from zab_chaos.model.garbage import seldom_collected
from zab_chaos.model.oracle.oracle import SETTLED
from zab_chaos.node.core.zxid import Zxid, show

READING = "reading what the servers' disks hold (Ctrl-C: leave that to `zab verify`)"


class ZooKeeperDeployment(ProcessDeployment):
    """The deployment. A release is a version or a distribution's folder; `releases`: those of the run, or the only one.
    `settings` are lines of the servers' configuration."""

    patience = 60.0  # a JVM starts slowly on a busy machine
    cluster: ZooKeeperCluster
    network: TwoWayNetwork

    def __init__(
        self, folder: RunFolder, scenario: Scenario, releases: RunReleases | str, display: Display | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(folder, scenario, display or Quiet())
        self._releases = RunReleases(releases, releases) if isinstance(releases, str) else releases
        self._settings = {**scenario.zookeeper.settings, **(settings or {})}
        self._version: str | None = None
        self._clients: list[ZooKeeperClient] = []
        self._load: _ZooKeeperLoad | None = None
        self._wrong_answers: list[WrongAnswer] = []
        self._lives: list[ServerLife] | None = None  # as of the last reading of the servers' trees
        self._tree: tree.ServerTree | None = None  # the tree of all servers that showed theirs, if those agree
        self._all_shown = False  # whether the last look for a disagreement has read the trees of all servers

    def _build(self, stack: ExitStack) -> None:
        self.records.milestone("clocks", **read_clocks())
        release = locate(self._releases.old)
        self._version = release.version
        nodes = range(1, self._scenario.nodes + 1)
        ports = self._ports(4 * len(nodes), stack)
        own = {node: Ports(*ports[4 * node - 4 : 4 * node]) for node in nodes}
        dynamic = membership.is_asked_for(self._scenario)
        plan = Plan(
            release=release, java=find_java(), ports=own, observers=self._scenario.observers, dynamic=dynamic,
            settings={**self._settings, **(membership.SETTINGS if dynamic else {})},
            properties=dict(self._scenario.zookeeper.java),
        )  # fmt: skip
        self._two_way_proxies(ways(plan), stack)
        self._disks = self._own_disks(self._scenario.zookeeper.names, stack, with_process=False)
        self.cluster = ZooKeeperCluster(self.folder, plan, self._disks, self._releases)
        stack.enter_context(locked(progress_file(self.folder)))
        stack.callback(self._write_traces)
        self._sampler = stack.enter_context(RoleSampler(self.cluster))

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
        self.cluster.check_memory()

    def complete(self) -> bool:
        """Return whether all servers serve under one leader.

        A server that joins after the first write is sent a snapshot instead of the log, and will itself send others snapshots.
        So a run that did not wait for all would depend on how fast each JVM starts.
        """
        nodes, answers = self.cluster.nodes, ensemble_state.statuses(self.cluster)
        leader = ensemble_state.leader_of(answers, len(self.cluster.voters))
        serving = [it for it in answers.values() if it.established and it.leader in (leader, None)]
        return leader is not None and len(serving) == len(nodes)

    def missing(self) -> str:
        """Say also where the servers' logs are, and the last error in one of them."""
        errors = {node: server_log.last_error(self.cluster.log(node, 1)) for node in self.cluster.nodes}
        last = next((f"; node-{node}: {error}" for node, error in errors.items() if error is not None), "")
        return f"{super().missing()} (the servers' logs are log/node-*.log in the run's folder{last})"

    def on_established(self) -> None:
        """Sync the disks of the new ensemble, unless the scenario wants them unsynced.

        A server does not sync its first, empty snapshot, and does not start again without it (docs/zookeeper.md). The operating
        system makes it durable within half a minute, and most ensembles are older than that.
        """
        if self._disks is not None and self._scenario.zookeeper.synced:
            self._disks.sync()

    # ---- clients ----

    def client(
        self, addresses: dict[int, str], node: int, number: int | None, timeout: float,
        poller: zmq.Poller | None = None,
    ) -> ZooKeeperClient:  # fmt: skip
        """Return a new client. Its sessions become part of the evidence, under its number."""
        client = ZooKeeperClient(
            addresses, node, number=number, timeout=timeout, poller=poller, on_wrong_answer=self.on_wrong_answer
        )
        self._clients.append(client)
        return client

    def on_wrong_answer(self, address: str, session: int, what: str) -> None:
        """Keep a wrong answer as evidence. Called in the threads of clients."""
        node = next((node for node, its in self.addresses.items() if its == address), None)
        if node is not None:
            self._wrong_answers.append(WrongAnswer(time.monotonic_ns(), node, session, what))

    def line(self, number: int, node: int, timeout: float) -> SocketLine:
        return SocketLine(self.client(self.addresses, node, number, timeout), self._interactive_ops)

    def workload(self, seed: int) -> LoadThread:
        self._load = _ZooKeeperLoad(self, seed)
        return self._load

    # ---- the end ----

    def on_interrupted(self) -> None:
        super().on_interrupted()
        for client in self._clients:
            client.give_up()  # all at once, before they are closed one after the other

    def disagreement(self) -> str | None:
        """Return in words what the servers still disagree on; None if they serve under one leader, have reached the same zxid,
        and have equal trees and logs that end alike."""
        self._all_shown = False
        statuses = with_comparable_zxids(ensemble_state.statuses(self.cluster))
        why = ensemble_state.disagreement(statuses, self.cluster.nodes)
        if why is not None:
            return why
        try:
            trees = {node: tree.read(address) for node, address in self.addresses.items()}
        except tree.TreeUnreadable as error:
            return str(error)
        lives = self.cluster.recorded_lives({node: found.digest for node, found in trees.items()})
        self._lives, self._tree, self._all_shown = lives, tree.common(trees), True
        different = tree.differences(trees)
        if different:
            return f"{len(different)} znodes differ, the first is {different[0]}"
        ends = {life.node: life.disk_after.last for life in lives}  # of each server's latest life
        if len(set(ends.values())) > 1:
            return "different ends of logs: " + ", ".join(
                f"node-{node} {show(Zxid(end))}" for node, end in ends.items()
            )
        return None

    def on_not_converged(self) -> None:
        """Read the trees of the servers that serve, if no agreement was reached, and the last look has not read all: they may
        still be alike."""
        if self._all_shown:
            return
        trees = {}
        for node, address in self.addresses.items():
            status = self.cluster.role_status(node)
            if status is not None and status.established:
                with suppress(tree.TreeUnreadable):
                    trees[node] = tree.read(address)
        self._lives = self.cluster.recorded_lives({node: found.digest for node, found in trees.items()})
        self._tree = tree.common(trees)

    def _write_traces(self) -> None:
        """Write the traces, the ends of sessions and the tree into the run's folder; the servers have ended by now.

        The first interrupt does not end this. It may have left the load unfinished.
        """
        if self._forced:
            return
        with Interrupt.deferred_grace(), seldom_collected():
            if self._hurry:
                self._display.say(READING)
                if self._load is not None and not self._load.ended:
                    with suppress(WorkloadError):
                        self._load.stop(0.0)
            write_evidence(self._evidence(), self.folder, self._tree)

    def _evidence(self) -> RunEvidence:
        if not any(line.get("event") in SETTLED for line in self.folder.lines("harness.jsonl")):
            self._lives = self._tree = None  # a look at servers that were used after it
        lives = self._lives if self._lives is not None else self.cluster.recorded_lives({})
        logs = [(self.cluster.log(life.node, life.life), life.node, life.life) for life in lives]
        return RunEvidence(
            nodes=self._scenario.nodes,
            lives=lives,
            operations=list(self.folder.lines("ops.jsonl", Invoke | Complete)),
            sessions=self._sessions(),
            role_samples=self._sampler.samples,
            established=[led for one in logs for led in server_log.read_established(*one)],
            mismatches=[mismatch for one in logs for mismatch in server_log.read_tree_mismatches(*one)],
            versions={(node, life): server_log.read_version(file) for file, node, life in logs},
            points=[point for one in logs for point in server_log.read_points(*one)],
            wrong_answers=self._wrong_answers,
            trees_equal=self._tree is not None and self._tree.since == self._tree.zxid,
            clock_offset=clock_offset(self.folder.lines("harness.jsonl")),
        )

    @property
    def sessions_file(self) -> Path:
        return self.folder.file("sessions.jsonl")

    def _sessions(self) -> dict[int, list[int]]:
        """Return the sessions of each client, by its number."""
        found: dict[int, list[int]] = {}
        for client in self._clients:
            found.setdefault(client.number, []).extend(client.sessions)
        return found


def with_comparable_zxids(statuses: Mapping[int, Status]) -> dict[int, Status]:
    """Return the statuses with zxids that can be compared.

    A leader without a transaction of its own epoch e shows e:0, while its followers still show the last zxid of the epochs
    before. So that one replaces e:0.
    """
    zxids = [status.delivered for status in statuses.values() if status.delivered[1]]
    found = {}
    for node, status in statuses.items():
        zxid = status.delivered
        if zxid[1] == 0:
            zxid = max([earlier for earlier in zxids if earlier < zxid], default=(0, 0))
        found[node] = replace(status, delivered=zxid, last_zxid=zxid)
    return found


class _ZooKeeperLoad(LoadThread):
    """The scenario's load: the open loop and, if the scenario asks for them, clients with sessions.

    `ended`: whether both have ended.
    """

    def __init__(self, deployment: ZooKeeperDeployment, seed: int) -> None:
        ops, load = deployment.folder.file("ops.jsonl"), load_parameters(deployment._scenario)
        super().__init__(deployment.addresses, ops, load, seed)
        self.ended = False
        self._deployment = deployment
        self._session_load: session_load.SessionLoad | None = None
        if load.sessions:
            self._session_load = session_load.SessionLoad(
                deployment.addresses, deployment.sessions_file, load.sessions, seed, deployment.on_wrong_answer
            )

    def start(self) -> None:
        super().start()
        if self._session_load is not None:
            self._session_load.__enter__()

    def wait_begun(self, timeout: float) -> bool:
        return super().wait_begun(timeout) and (self._session_load is None or self._session_load.begun.wait(timeout))

    def stop(self, grace: float = 5.0) -> Counters:
        try:
            return super().stop(grace)
        except Stopped:
            self._deployment.on_interrupted()
            raise
        finally:
            if self._session_load is not None:
                self._session_load.stop(final_reads=not self._deployment._hurry)
                self._deployment.folder.milestone("sessions-stopped", told=self._session_load.lines_written)
            self.ended = True

    def _raise(self) -> None:
        super()._raise()
        if self._session_load is not None and self._session_load.error is not None:
            raise WorkloadError(
                f"the clients with sessions broke off: {self._session_load.error!r}"
            ) from self._session_load.error

    def _client(
        self, addresses: dict[int, str], node: int, number: int | None = None, poller: zmq.Poller | None = None
    ) -> ZooKeeperClient:
        return self._deployment.client(addresses, node, number, self._load.timeout, poller)
