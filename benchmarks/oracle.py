"""How fast the oracle judges: `python benchmarks/oracle.py [transactions] [batch]`.

A good run of three nodes is made in memory, as the bytes that the nodes would have written, then read and judged. A
transaction event is one transaction in one event: with three nodes each transaction has seven (a broadcast, three
accepts, three deliveries). Machines are noisy: the median of five rounds is what counts.
"""

import json
import statistics
import sys
import time
from collections.abc import Iterator
from heapq import merge
from pathlib import Path
from zlib import crc32

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from model.events import Event, Run, event_from_json
from model.oracle import Oracle
from model.verdict import Judgement
from node.core import digest as dg

NODES = 3
ROUNDS = 5


def traces(transactions: int, batch: int) -> list[list[bytes]]:
    """Each node's trace of one epoch, line by line."""
    lines: list[list[bytes]] = [[] for _ in range(NODES)]
    t = 0

    def write(node: int, event: str, **fields: object) -> None:
        nonlocal t
        t += 1
        trace = lines[node - 1]
        line = {"t": t, "node": node, "life": 1, "n": len(trace) + 1, "event": event, **fields}
        trace.append(json.dumps(line).encode() + b"\n")

    for node in range(1, NODES + 1):
        write(node, "boot", disk="fresh", accepted_epoch=0, current_epoch=0, last_zxid=[0, 0], snapshot_zxid=[0, 0])
        write(node, "accepted_epoch", epoch=1, leader=1)
        write(node, "current_epoch", epoch=1, last_zxid=[0, 0])
    write(1, "established", epoch=1, last_zxid=[0, 0], quorum=[1, 2])
    running = dg.EMPTY
    for first in range(1, transactions + 1, batch):
        digests = [crc32(counter.to_bytes(8, "big")) for counter in range(first, min(first + batch, transactions + 1))]
        common = {"epoch": 1, "first": first, "digests": digests}
        write(1, "broadcast", delivered=[1, first - 1] if first > 1 else [0, 0], **common)
        for node in range(1, NODES + 1):
            write(node, "accept", in_epoch=1, **common)
        for counter, digest in enumerate(digests, first):
            running = dg.fold(running, 1 << 32 | counter, digest)
        for node in range(1, NODES + 1):
            write(node, "deliver", digest=dg.show(running), tree=dg.show(running), **common)
    return lines


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
    lines = traces(transactions, batch)
    took = statistics.median(round_of(lines) for _ in range(ROUNDS))
    events = transactions * (1 + 2 * NODES)
    size = sum(len(line) for trace in lines for line in trace) / 1e6
    sys.stdout.write(
        f"{transactions} transactions in batches of {batch}, {size:.0f} MB: {took:.2f} s, "
        f"{transactions / took:,.0f} transactions/s, {events / took:,.0f} transaction events/s\n"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
