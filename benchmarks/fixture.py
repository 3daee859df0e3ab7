"""Measures an ensemble as a test uses it: from the start of the fixture to the first acknowledged write, on each backend.

As for the fixture `zab_cluster`, recording and the faithful disk are on, and on processes toxiproxy is between the nodes.
"""

import time
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.figures import Figure, Scale, median
from zab_chaos.harness.client.session import Failed, Unknown
from zab_chaos.harness.errors import HarnessError
from zab_chaos.harness.live import Ensemble
from zab_chaos.harness.runs.phases import Unfinished

BACKENDS = ("processes", "sim")


def fixture(folder: Path, scale: Scale) -> list[Figure]:
    """Return the median seconds on each backend. A first round, which also imports the backend, does not count.

    Raises HarnessError.
    """
    return [
        median(f"{on} first acknowledged write", "s", [_one(folder, scale, on) for _ in range(1 + scale.starts)][1:])
        for on in BACKENDS
    ]


def _one(folder: Path, scale: Scale, on: str) -> float:
    with TemporaryDirectory(dir=folder, prefix=".bench-") as results:
        begin = time.monotonic()
        try:
            with Ensemble(on=on, nodes=scale.nodes, results=results) as cluster, cluster.client() as client:
                client.create("/first", b"1")
                return time.monotonic() - begin
        except (Failed, Unknown, Unfinished) as error:
            raise HarnessError(f"an ensemble on {on} did not acknowledge its first write: {error}") from error
