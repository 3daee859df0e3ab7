"""Measures how fast the oracle judges.

A legal run of three nodes is made in memory, as the bytes that nodes and clients would have written. It is then read and judged
up to the verdict. A transaction event is one transaction in one event: with three nodes each transaction has nine (a broadcast,
three accepts, three deliveries, and the request and answer of its client).
"""

import time
from collections.abc import Iterator
from heapq import merge
from pathlib import Path

from benchmarks.figures import Figure, Scale, median
from benchmarks.synthetic import EVENTS, NODES, SyntheticRun
from zab_chaos.model.events import Event, Run, event_from_json, operation_from_json
from zab_chaos.model.garbage import seldom_collected
from zab_chaos.model.oracle.oracle import Oracle
from zab_chaos.model.verdict import Judgement

BATCH = 100  # transactions in one trace event


def judging(folder: Path, scale: Scale) -> list[Figure]:
    """Return the transaction events that the oracle judges per second.

    In the traces each transaction has 1 + 2 * 3 events. For whole runs the two lines of its client count too, and the time
    includes everything that is judged at the end.
    """
    run = SyntheticRun(scale.judged, BATCH, epochs=1)
    took = [measure_round(run) for _ in range(scale.rounds)]
    traces = [scale.judged * (1 + 2 * NODES) / seconds for seconds, _ in took]
    whole = [scale.judged * EVENTS / seconds for _, seconds in took]
    return [median("one core", "events/s", traces), median("one core, whole runs", "events/s", whole)]


@seldom_collected()
def measure_round(run: SyntheticRun) -> tuple[float, float]:
    """Return the seconds to decode, merge and judge the nodes' traces, and those for everything up to the verdict."""
    oracle = Oracle()
    begin = time.perf_counter()
    streams: list[Iterator[Event]] = [map(event_from_json, trace) for trace in run.traces]
    for event in merge(*streams, key=lambda event: (event.t, event.node, event.life)):
        oracle.add_event(event)
    traces = time.perf_counter() - begin
    for line in run.operations:
        oracle.add_operation(operation_from_json(line))
    verdict = oracle.finish(Run(nodes=NODES))
    whole = time.perf_counter() - begin
    assert not any(item.verdict is Judgement.VIOLATION for item in verdict.properties), verdict.reasons
    assert verdict.property("values and versions").checked == verdict.metrics["delivered"] > 0
    return traces, whole
