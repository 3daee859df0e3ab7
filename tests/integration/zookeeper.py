"""Ensembles of real ZooKeeper servers for the tests, which are skipped where none can be had."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.backends.zookeeper import releases, traces, tree
from zab_chaos.harness.backends.zookeeper.client import Client
from zab_chaos.harness.backends.zookeeper.evidence import Evidence
from zab_chaos.harness.backends.zookeeper.stage import Stage
from zab_chaos.harness.client.core import Operation
from zab_chaos.harness.client.log import OpsFile
from zab_chaos.harness.errors import HarnessError
from zab_chaos.harness.machine.waiting import wait_until
from zab_chaos.harness.results import run_folder
from zab_chaos.model.events import LOGS, Run, operation_from_json
from zab_chaos.model.oracle.oracle import Oracle
from zab_chaos.model.verdict import Verdict
from zab_chaos.node.tree.outcomes import Ok, Outcome
from zab_chaos.node.tree.requests import Request

PATIENCE = 60.0  # for what must come about; a black-holed connection alone takes several seconds


def release(version: str) -> releases.Release:
    """The release, fetched if need be; without Java, or out of a registry's reach, the test is skipped."""
    try:
        releases.find_java()
        return releases.locate(version)
    except HarnessError as error:
        pytest.skip(str(error))


@contextmanager
def stage(results: Path, version: str = "3.9.4", nodes: int = 3, **settings: str) -> Iterator[Stage]:
    """No server is started yet; in the end none is left, whatever has happened."""
    release(version)
    scenario = Scenario(name="zookeeper", about="-", nodes=nodes, duration=1.0)
    with Stage(run_folder.create(results, "zookeeper", 1), scenario, version, settings=settings) as standing:
        yield standing


def eventually(condition: Callable[[], object], seconds: float = PATIENCE) -> None:
    assert wait_until(lambda: bool(condition()), seconds, 0.05), "it did not come about in time"


def formed(standing: Stage) -> int:
    """Start all servers; the leader, when all serve."""
    standing.cluster.start_all(standing.cluster.nodes)
    return led(standing)


def led(standing: Stage) -> int:
    """The leader, when all servers serve under one."""
    eventually(standing.complete)
    leader = standing.cluster.leader()
    assert leader is not None
    return leader


class Recorded:
    """A client whose operations are on record, one at a time."""

    def __init__(self, standing: Stage, path: Path, node: int, number: int = 1) -> None:
        addresses = {each: standing.cluster.client_address(each) for each in standing.cluster.nodes}
        self.client = Client(addresses, node, number=number)
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
        """Done through the server that it is told to use; it waits for that server."""
        outcome = self.client.wait(self.submit(request))
        assert isinstance(outcome, Ok), outcome
        return outcome

    def at(self, node: int) -> "Recorded":
        """Go to that server, and wait until it takes the session."""
        end = time.monotonic() + PATIENCE
        while self.client.node != node or not self.client.connected:
            assert time.monotonic() < end, f"server {node} takes no session"
            if self.client.node != node:
                self.client.move(node)
            self.client.poll(0.05)
        return self

    def close(self) -> None:
        self.client.close()
        self.ops.close()


def judged(standing: Stage, clients: dict[int, list[int]], ops: Path, began: int) -> Verdict:
    """All servers are up and serve: what the oracle says of the run, from their evidence. `clients`: their sessions."""
    servers = standing.cluster
    trees = {node: tree.read(servers.client_address(node)).digest for node in servers.nodes}
    eventually(lambda: len({told.zxid for node in servers.nodes if (told := servers.srvr(node))}) == 1)
    operations = [operation_from_json(line) for line in ops.read_bytes().splitlines()]
    evidence = Evidence(
        nodes=len(servers.nodes), lives=servers.recorded_lives(trees), operations=operations, sessions=clients,
        clock_offset=time.monotonic_ns() - time.time_ns(),
    )  # fmt: skip
    oracle = Oracle(LOGS)
    for event in sorted(
        (one for trace in traces.traces(evidence).values() for one in trace),
        key=lambda one: (one["t"], one["node"], one["life"]),
    ):
        oracle.feed(event)
    for operation in operations:
        oracle.add_operation(operation)
    now = time.monotonic_ns()
    for name, t in (("started", began), ("safety-ended", now), ("converged", now)):
        oracle.feed_milestone({"t": t, "event": name, "seconds": 0.0})
    return oracle.finish(Run(nodes=len(servers.nodes), evidence=LOGS))
