"""How fast the oracle judges: `python benchmarks/oracle.py [transactions] [batch]`.

A good run of three nodes is made in memory, as the bytes that the nodes would have written, then read and judged. A
transaction event is one transaction in one event: with three nodes each transaction has seven (a broadcast, three
accepts, three deliveries). Machines are noisy: the median of five rounds is what counts.
"""

import statistics
import sys
import time
from collections.abc import Iterator
from heapq import merge
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.synthetic import NODES
from benchmarks.synthetic import Run as Traces
from model.events import Event, Run, event_from_json
from model.oracle import Oracle
from model.verdict import Judgement

ROUNDS = 5


def round_of(lines: list[list[bytes]]) -> float:
    """Seconds to decode, merge and judge."""
    oracle = Oracle()
    begin = time.perf_counter()
    streams: list[Iterator[Event]] = [map(event_from_json, trace) for trace in lines]
    for event in merge(*streams, key=lambda event: (event.t, event.node, event.life)):
        oracle.take(event)
    took = time.perf_counter() - begin
    verdict = oracle.finish(Run(nodes=NODES))
    assert not any(item.verdict is Judgement.VIOLATION for item in verdict.properties), verdict.reasons
    assert verdict.metrics["delivered"] > 0
    return took


def main(arguments: list[str]) -> None:
    transactions = int(arguments[0]) if arguments else 200_000
    batch = int(arguments[1]) if len(arguments) > 1 else 100
    lines = Traces(transactions, batch, epochs=1).traces
    took = statistics.median(round_of(lines) for _ in range(ROUNDS))
    events = transactions * (1 + 2 * NODES)
    size = sum(len(line) for trace in lines for line in trace) / 1e6
    sys.stdout.write(
        f"{transactions} transactions in batches of {batch}, {size:.0f} MB: {took:.2f} s, "
        f"{transactions / took:,.0f} transactions/s, {events / took:,.0f} transaction events/s\n"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
