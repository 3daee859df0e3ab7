"""Measures how long an ensemble takes to start: from spawning the processes to the first acknowledged write."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.ensemble import SETTLE_SECONDS, BenchmarkEnsemble
from benchmarks.figures import Figure, Scale, median
from zab_chaos.harness.errors import HarnessError
from zab_chaos.node.tree.outcomes import Ok


def startup(folder: Path, scale: Scale) -> list[Figure]:
    """Return the median seconds from the first spawn to the acknowledgement. Raises HarnessError."""
    return [median("first acknowledged write", "s", [_one(folder, scale) for _ in range(scale.starts)])]


def _one(folder: Path, scale: Scale) -> float:
    with BenchmarkEnsemble(folder, scale.nodes) as ensemble, ensemble.unbound_client() as client:
        return until_first_write(ensemble.start, lambda: isinstance(client.create("/first", b"1"), Ok))


def until_first_write(start: Callable[[], None], write: Callable[[], bool]) -> float:
    """Return the seconds from the call of `start` to the first `write` that is acknowledged. Raises HarnessError."""
    acknowledged: list[float] = []

    def ask() -> None:
        """Write until it is acknowledged. Runs in its own thread, because the main one must spawn the nodes."""
        while time.monotonic() < deadline:
            if write():
                acknowledged.append(time.monotonic())
                return

    begin = time.monotonic()
    deadline = begin + SETTLE_SECONDS
    writer = threading.Thread(target=ask)
    writer.start()
    try:
        start()
    finally:
        writer.join()
    if not acknowledged:
        raise HarnessError(f"no write was acknowledged within {SETTLE_SECONDS:.0f} s of the start")
    return acknowledged[0] - begin
