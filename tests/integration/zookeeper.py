"""Ensembles of real ZooKeeper servers for the tests; a test is skipped if there is no Java or the release can't be fetched."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.backends.zookeeper import releases, traces, tree
from zab_chaos.harness.backends.zookeeper.client import ZooKeeperClient
from zab_chaos.harness.backends.zookeeper.deployment import ZooKeeperDeployment
from zab_chaos.harness.backends.zookeeper.evidence import RunEvidence
from zab_chaos.harness.client.core import Operation
from zab_chaos.harness.client.log import OpsFile
from zab_chaos.harness.errors import HarnessError
from zab_chaos.harness.machine.waiting import wait_until
from zab_chaos.harness.results import run_folder
from zab_chaos.model.events import LOGS, Milestone, Run, event_from_dict, operation_from_json
from zab_chaos.model.oracle.oracle import Oracle
from zab_chaos.model.verdict import Verdict
from zab_chaos.node.tree.outcomes import Ok, Outcome
from zab_chaos.node.tree.requests import Request

PATIENCE = 60.0  # for an expected event; a black-holed connection alone takes several seconds


def release(version: str) -> releases.Release:
    """Return a release, fetched if need be; skip the test if there is no Java or the release can't be fetched."""
    try:
        releases.find_java()
        return releases.locate(version)
    except HarnessError as error:
        pytest.skip(str(error))


@contextmanager
def deployed(results: Path, version: str = "3.9.4", nodes: int = 3, **settings: str) -> Iterator[ZooKeeperDeployment]:
    """Enter the deployment of an ensemble. No server is started yet; at the end all have ended, whatever has happened."""
    release(version)
    scenario = Scenario(name="zookeeper", about="-", nodes=nodes, duration=1.0)
    with ZooKeeperDeployment(
        run_folder.create(results, "zookeeper", 1), scenario, version, settings=settings
    ) as deployment:
        yield deployment


def eventually(condition: Callable[[], object], seconds: float = PATIENCE) -> None:
    assert wait_until(lambda: bool(condition()), seconds, 0.05), "the condition did not become true in time"


def start_ensemble(deployment: ZooKeeperDeployment) -> int:
    """Start all servers, and return the leader when all serve."""
    deployment.cluster.start_all(deployment.cluster.nodes)
    return await_leader(deployment)


def await_leader(deployment: ZooKeeperDeployment) -> int:
    """Wait until all servers serve under one leader, and return it."""
    eventually(deployment.complete)
    leader = deployment.cluster.leader()
    assert leader is not None
    return leader


class RecordedClient:
    """A client that records its operations in a file like ops.jsonl."""

    def __init__(self, deployment: ZooKeeperDeployment, path: Path, node: int, number: int = 1) -> None:
        addresses = {each: deployment.cluster.client_address(each) for each in deployment.cluster.nodes}
        self.client = ZooKeeperClient(addresses, node, number=number)
        self.ops = OpsFile(path)

    def submit(self, request: Request, then: Callable[[Outcome], None] = lambda outcome: None) -> Operation:
        def known(operation: Operation, outcome: Outcome) -> None:
            self.ops.complete(self.client.core, operation, outcome)
            then(outcome)

        operation = self.client.submit(request, known)
        self.ops.invoke(self.client.core, operation, operation.submitted_ns)
        self.ops.flush()
        return operation

    def do(self, request: Request) -> Ok:
        """Do a request through the server that the client is connected to, and return the result; the request must succeed."""
        outcome = self.client.wait(self.submit(request))
        assert isinstance(outcome, Ok), outcome
        return outcome

    def at(self, node: int) -> "RecordedClient":
        """Connect to another server, and wait until it has accepted the session."""
        end = time.monotonic() + PATIENCE
        while self.client.node != node or not self.client.connected:
            assert time.monotonic() < end, f"server {node} does not accept the session"
            if self.client.node != node:
                self.client.move(node)
            self.client.poll(0.05)
        return self

    def close(self) -> None:
        self.client.close()
        self.ops.close()


def judge(deployment: ZooKeeperDeployment, clients: dict[int, list[int]], ops: Path, began: int) -> Verdict:
    """Return the oracle's verdict on a run whose servers all serve. `clients` are the sessions of each client, by its
    number."""
    servers = deployment.cluster
    trees = {node: tree.read(servers.client_address(node)).digest for node in servers.nodes}
    eventually(lambda: len({told.zxid for node in servers.nodes if (told := servers.srvr(node))}) == 1)
    operations = [operation_from_json(line) for line in ops.read_bytes().splitlines()]
    evidence = RunEvidence(
        nodes=len(servers.nodes), lives=servers.recorded_lives(trees), operations=operations, sessions=clients,
        clock_offset=time.monotonic_ns() - time.time_ns(),
    )  # fmt: skip
    oracle = Oracle(LOGS)
    for event in sorted(
        (one for trace in traces.traces(evidence).values() for one in trace),
        key=lambda one: (one["t"], one["node"], one["life"]),
    ):
        oracle.add_event(event_from_dict(event))
    for operation in operations:
        oracle.add_operation(operation)
    now = time.monotonic_ns()
    for name, t in (("started", began), ("safety-ended", now), ("converged", now)):
        oracle.add_milestone(Milestone(t=t, event=name, seconds=0.0))
    return oracle.finish(Run(nodes=len(servers.nodes), evidence=LOGS))
