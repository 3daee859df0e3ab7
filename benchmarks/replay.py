"""Measures how fast a recorded run is re-executed.

Three real nodes are recorded while one client writes with a few writes outstanding, so that most inputs are single
messages, as they are in runs with faults. An input is a message, a tick, a sync or a submission. The result is the median of
several rounds.
"""

import time
from pathlib import Path

from benchmarks.ensemble import BenchmarkEnsemble
from benchmarks.figures import Figure, Scale, median
from zab_chaos.harness.errors import HarnessError
from zab_chaos.model.replay.replay import replay
from zab_chaos.node.core.peer import Peer

OUTSTANDING = 5


def replaying(folder: Path, scale: Scale) -> list[Figure]:
    """Record an ensemble under load, then measure its replay, with all comparisons, on one core. Raises HarnessError."""
    with BenchmarkEnsemble(folder, scale.nodes, record=True) as ensemble:
        with ensemble.writer(ensemble.start(), OUTSTANDING) as loop:
            loop.create_keys(scale.keys)
            loop.writes(scale.writes, scale.keys, scale.payload)
        ensemble.cluster.close()
        rates = [measure_round(ensemble.folder.path) for _ in range(scale.rounds)]
    return [median("one core", "inputs/s", rates)]


def measure_round(run: Path) -> float:
    """Return the inputs per second of this process's processor time, so that other load does not matter.

    Raises HarnessError if the replay finds a difference, because it stops there.
    """
    begin, inputs = time.process_time(), 0
    for life in replay(run, Peer):
        if life.difference is not None:
            raise HarnessError(f"the replay differs, so this measures nothing: {life.difference}")
        inputs += life.inputs
    return inputs / (time.process_time() - begin)
