"""Measures throughput by number of nodes and by payload size, and the processor time that it takes."""

import dataclasses
import time
from pathlib import Path

from benchmarks.ensemble import BenchmarkEnsemble
from benchmarks.figures import Figure, Scale, median

ROUND_BYTES = 50_000_000  # limits the writes of large payloads, so that all rounds take about as long


def sizes(folder: Path, scale: Scale) -> list[Figure]:
    """Return the writes per second at the leader for each number of nodes. Raises HarnessError."""
    return [
        figure
        for size in scale.sizes
        for figure in _one(folder, dataclasses.replace(scale, nodes=size), f"{size} nodes")
    ]


def payloads(folder: Path, scale: Scale) -> list[Figure]:
    """Return the writes per second at the leader for each payload size. Raises HarnessError."""
    return [
        figure
        for payload in scale.payloads
        for figure in _one(folder, dataclasses.replace(scale, payload=payload), f"{payload} bytes")
    ]


def _one(folder: Path, scale: Scale, name: str) -> list[Figure]:
    writes = max(1, min(scale.writes, ROUND_BYTES // scale.payload))
    rates, busy = [], []
    with (
        BenchmarkEnsemble(folder, scale.nodes) as ensemble,
        ensemble.writer(ensemble.start(), scale.outstanding) as loop,
    ):
        loop.create_keys(scale.keys)
        loop.writes(min(scale.warm_up, writes), scale.keys, scale.payload)
        for _ in range(scale.rounds):
            cpu, begin = time.process_time() + ensemble.processor_seconds(), time.perf_counter()
            rates.append(loop.writes(writes, scale.keys, scale.payload).rate)
            spent = time.process_time() + ensemble.processor_seconds() - cpu
            busy.append(spent / (time.perf_counter() - begin))
    return [median(name, "writes/s", rates), median(f"{name}: busy", "cores", busy)]
