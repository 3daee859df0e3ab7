"""Measures fail-over: from SIGKILL of the leader under load to the first commit of the next epoch in the nodes' traces."""

from pathlib import Path

import msgspec

from benchmarks.ensemble import BenchmarkEnsemble, follower
from benchmarks.figures import Figure, Scale, median
from benchmarks.load import OUTSTANDING
from zab_chaos.harness.errors import HarnessError


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
    with ensemble.writer(follower(ensemble.cluster, leader), OUTSTANDING) as writer:
        if number == 0:
            writer.create_keys(scale.keys)
        load = writer.steady_load(scale)
        epoch, killed = load.fail_over(lambda: ensemble.cluster.kill(leader))
    commit = _first_commit(ensemble.folder.file("trace"), epoch)
    ensemble.cluster.start(leader)
    ensemble.settle()
    return (commit - killed) / 1e6, (load.reached_ns - killed) / 1e6


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
