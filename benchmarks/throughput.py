"""Measures writes per second with many outstanding, and latency with one, at the leader and at a follower."""

from contextlib import ExitStack
from pathlib import Path

from benchmarks.ensemble import BenchmarkEnsemble, follower
from benchmarks.figures import Figure, Scale, median, percentile
from zab_chaos.harness.machine.environment import sync_latency

DISK_SYNCS = 200  # syncs of the bare disk, before and after


def throughput(folder: Path, scale: Scale) -> list[Figure]:
    """Return the median of rounds that alternate between a client at the leader and one at a follower. Raises HarnessError."""
    rates: dict[str, list[float]] = {"leader": [], "follower": []}
    delays: dict[str, list[float]] = {"leader": [], "follower": []}
    with BenchmarkEnsemble(folder, scale.nodes) as ensemble, ExitStack() as stack:
        leader = ensemble.start()
        places = {"leader": leader, "follower": follower(ensemble.cluster, leader)}
        loops = {place: stack.enter_context(ensemble.writer(node, scale.outstanding)) for place, node in places.items()}
        loops["leader"].create_keys(scale.keys)
        for loop in loops.values():
            loop.writes(scale.warm_up, scale.keys, scale.payload)
        for _ in range(scale.rounds):
            for place, loop in loops.items():
                driven = loop.writes(scale.writes, scale.keys, scale.payload)
                rates[place].append(driven.rate)
                delays[place].append(percentile(driven.latencies_ms, 50))
    return [
        figure
        for place in places
        for figure in (
            median(place, "writes/s", rates[place]),
            median(f"{place} p50", "ms", delays[place]),
        )
    ]


def latency(folder: Path, scale: Scale) -> list[Figure]:
    """Return p50 and p99 with one write outstanding, and the time of a sync of the bare disk. Raises HarnessError."""
    figures: list[Figure] = []
    with BenchmarkEnsemble(folder, scale.nodes) as ensemble:
        leader = ensemble.start()
        with ensemble.writer(leader, 1) as loop:
            loop.create_keys(scale.keys)
        before = sync_latency(ensemble.folder.path, DISK_SYNCS)[0]
        for place, node in (("leader", leader), ("follower", follower(ensemble.cluster, leader))):
            with ensemble.writer(node, 1) as loop:
                loop.writes(scale.single // 5, scale.keys, scale.payload)  # warm-up
                delays = loop.writes(scale.single, scale.keys, scale.payload).latencies_ms
            figures += [
                Figure(name=f"{place} p{percent}", value=percentile(delays, percent), unit="ms") for percent in (50, 99)
            ]
        after = sync_latency(ensemble.folder.path, DISK_SYNCS)[0]
    return [*figures, median("disk fdatasync p50", "ms", [before, after])]
