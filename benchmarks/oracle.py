"""Measures how fast the oracle judges: `python benchmarks/oracle.py [transactions] [batch]`.

A good run of three nodes is made in memory, as the bytes that nodes and clients would have written, then read and judged
to the verdict. A transaction event is one transaction in one event: with three nodes each transaction has nine (a
broadcast, three accepts, three deliveries, and what its client asked and was told). Machines are noisy: the median of
five rounds is what counts.
"""

import statistics
import sys
import time
from collections.abc import Iterator
from heapq import merge
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.synthetic import EVENTS, NODES
from benchmarks.synthetic import Run as Traces
from zab_chaos.model.events import Event, Run, event_from_json, operation_from_json
from zab_chaos.model.garbage import seldom_collected
from zab_chaos.model.oracle.oracle import Oracle
from zab_chaos.model.verdict import Judgement

ROUNDS = 5


@seldom_collected()
def round_of(run: Traces) -> tuple[float, float]:
    """Seconds to decode, merge and judge: the nodes' traces as they come, and everything, to the verdict."""
    oracle = Oracle()
    begin = time.perf_counter()
    streams: list[Iterator[Event]] = [map(event_from_json, trace) for trace in run.traces]
    for event in merge(*streams, key=lambda event: (event.t, event.node, event.life)):
        oracle.take(event)
    traces = time.perf_counter() - begin
    for line in run.operations:
        oracle.take_operation(operation_from_json(line))
    verdict = oracle.finish(Run(nodes=NODES))
    whole = time.perf_counter() - begin
    assert not any(item.verdict is Judgement.VIOLATION for item in verdict.properties), verdict.reasons
    assert verdict.property("values and versions").checked == verdict.metrics["delivered"] > 0
    return traces, whole


def main(arguments: list[str]) -> None:
    transactions = int(arguments[0]) if arguments else 200_000
    batch = int(arguments[1]) if len(arguments) > 1 else 100
    run = Traces(transactions, batch, epochs=1)
    took = statistics.median(round_of(run)[1] for _ in range(ROUNDS))
    size = sum(len(line) for lines in (*run.traces, run.operations) for line in lines) / 1e6
    sys.stdout.write(
        f"{transactions} transactions in batches of {batch}, {size:.0f} MB: {took:.2f} s, "
        f"{transactions / took:,.0f} transactions/s, {transactions * EVENTS / took:,.0f} transaction events/s\n"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
