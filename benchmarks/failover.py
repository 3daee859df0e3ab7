"""Measures fail-over: from SIGKILL of the leader under load to the first commit of the next epoch in the nodes' traces."""

import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from benchmarks.ensemble import SETTLE_SECONDS, BenchmarkEnsemble, follower
from benchmarks.figures import Figure, Scale, median
from benchmarks.load import create_keys, path
from zab_chaos.harness.client.client import Client
from zab_chaos.harness.client.core import Operation
from zab_chaos.harness.errors import HarnessError
from zab_chaos.node.core import zxid as zx
from zab_chaos.node.tree.outcomes import Ok, Outcome
from zab_chaos.node.tree.requests import ANY, Set

OUTSTANDING = 100
WRITES_BEFORE_KILL = 2000  # acknowledged ones


def failover(folder: Path, scale: Scale) -> list[Figure]:
    """Return median and maximum of the trials, in ms, with a client at a follower. Raises HarnessError."""
    commits, answers = [], []
    with BenchmarkEnsemble(folder, scale.nodes) as ensemble:
        ensemble.start()
        for number in range(scale.failovers):
            commit, answer = _trial(ensemble, scale, number)
            commits.append(commit)
            answers.append(answer)
    return [
        median("first commit p50", "ms", commits),
        Figure(name="first commit max", value=max(commits), unit="ms"),
        median("client's answer p50", "ms", answers),
        Figure(name="client's answer max", value=max(answers), unit="ms"),
    ]


def _trial(ensemble: BenchmarkEnsemble, scale: Scale, number: int) -> tuple[float, float]:
    leader = ensemble.settle()
    status = ensemble.cluster.status(leader)
    if status is None:
        raise HarnessError(f"node {leader}, the leader, does not answer")
    with ensemble.client(follower(ensemble.cluster, leader)) as client:
        if number == 0:
            create_keys(client, scale.keys)
        load = SteadyLoad(client, scale)
        load.until(lambda: load.answered >= WRITES_BEFORE_KILL)
        killed = time.monotonic_ns()
        ensemble.cluster.kill(leader)
        load.until(lambda: load.epoch > status.epoch)
    commit = _first_commit(ensemble.folder.file("trace"), status.epoch)
    ensemble.cluster.start(leader)
    ensemble.settle()
    return (commit - killed) / 1e6, (load.reached_ns - killed) / 1e6


class SteadyLoad:
    """Keeps writes outstanding, whatever their outcome: when the leader is killed, some have an unknown outcome."""

    def __init__(self, client: Client, scale: Scale) -> None:
        self._client = client
        self._scale = scale
        self._data = b"x" * scale.payload
        self._sent = 0
        self.answered = 0
        self.epoch = 0  # of the last acknowledged write
        self.reached_ns = 0  # when the first write of this epoch was acknowledged

    def until(self, over: Callable[[], bool]) -> None:
        """Write until `over` returns true. Raises HarnessError if it does not in time."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while not over():
            if time.monotonic() > deadline:
                raise HarnessError(f"no write was acknowledged in a new epoch within {SETTLE_SECONDS:.0f} s")
            while self._client.outstanding < OUTSTANDING:
                self._client.submit(Set(path(self._sent % self._scale.keys), self._data, ANY), self._done)
                self._sent += 1
            self._client.poll(0.01)

    def _done(self, operation: Operation, outcome: Outcome) -> None:
        self.answered += 1
        if isinstance(outcome, Ok) and zx.epoch_of(outcome.zxid) > self.epoch:
            self.epoch = zx.epoch_of(outcome.zxid)
            self.reached_ns = operation.completed_ns


def _first_commit(traces: Path, epoch: int) -> int:
    """Return when (in monotonic nanoseconds) a node first delivered a transaction of an epoch after this one."""
    times = []
    for trace in traces.iterdir():
        for line in trace.read_bytes().splitlines(keepends=True):
            if b'"deliver"' in line and line.endswith(b"\n"):
                event = msgspec.json.decode(line)
                if event["event"] == "deliver" and event["epoch"] > epoch:
                    times.append(int(event["t"]))
                    break
    if not times:
        raise HarnessError(f"no trace shows a commit after epoch {epoch}, although a client was answered")
    return min(times)
