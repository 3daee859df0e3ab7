"""Measures how long an ensemble takes to start: from spawning the processes to the first acknowledged write."""

import threading
import time
from pathlib import Path

from benchmarks.ensemble import BenchmarkEnsemble, Ensemble
from benchmarks.figures import Figure, Scale, median
from benchmarks.load import SETTLE_SECONDS
from zab_chaos.harness.errors import HarnessError


def startup(folder: Path, scale: Scale) -> list[Figure]:
    """Return the median seconds from the first spawn to the acknowledgement. Raises HarnessError."""
    rounds = [until_first_write(BenchmarkEnsemble(folder, scale.nodes)) for _ in range(scale.starts)]
    return [median("first acknowledged write", "s", rounds)]


def until_first_write(ensemble: Ensemble) -> float:
    """Start the ensemble, and end it again. Return the seconds from its start to the first write that is acknowledged.

    Raises HarnessError.
    """
    acknowledged: list[float] = []

    def ask() -> None:
        """Write until it is acknowledged. Runs in its own thread, because the main one must spawn the nodes."""
        while time.monotonic() < deadline:
            if ensemble.first_write():
                acknowledged.append(time.monotonic())
                return

    with ensemble:
        begin = time.monotonic()
        deadline = begin + SETTLE_SECONDS
        writer = threading.Thread(target=ask)
        writer.start()
        try:
            ensemble.start()
        finally:
            writer.join()
    if not acknowledged:
        raise HarnessError(f"no write was acknowledged within {SETTLE_SECONDS:.0f} s of the start")
    return acknowledged[0] - begin
