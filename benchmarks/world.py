"""Measures how fast the simulator runs.

Three nodes have heartbeats and timeouts as on processes, the nemesis injects faults, and every event is judged, on one core.
Processor time is measured, not elapsed time, because `zab explore` uses each core alone.
"""

import time
from pathlib import Path

from benchmarks.figures import Figure, Scale, median
from zab_chaos.faults.scenario import Nemesis, Scenario, Workload
from zab_chaos.harness.errors import HarnessError
from zab_chaos.harness.explore.simulate import simulate
from zab_chaos.node.config import Limits

RATES = (10.0, 100.0)
LEAST_SECONDS = 10.0
FAULTS = {
    "crash": 6.0, "power-cut": 4.0, "pause": 4.0, "stop": 1.0, "partition": 6.0, "flap": 2.0, "stall": 2.0, "latency": 2.0,
    "bandwidth": 1.0, "reset": 1.0, "slow-disk": 2.0, "disk-full": 1.0, "disk-error": 1.0, "wipe": 2.0, "clock-rate": 1.0,
    "clock-jump": 1.0,
}  # fmt: skip


def scenario(rate: float, seconds: float) -> Scenario:
    """Return a scenario like long-mix, for three nodes and only writes. Snapshots keep restarts short."""
    return Scenario(
        name="bench/world",
        about="a benchmark",
        duration=seconds,
        record=False,
        workload=Workload(clients=3, rate=rate, mix={"set": 1.0}),
        limits=Limits(snapshot_bytes=2**16),
        nemesis=Nemesis(every=(2.0, 6.0), heal_after=(1.0, 5.0), faults=FAULTS),
    )


def speed(rate: float, seconds: float, seed: int) -> float:
    """Return the simulated seconds per second of processor time. Raises HarnessError if the run failed."""
    begin = time.process_time()
    done = simulate(scenario(rate, seconds), seed, None)
    took = time.process_time() - begin
    if done.verdict.exit not in (0, 2):
        raise HarnessError(f"the simulated run of seed {seed} failed, so this measures nothing: {done.verdict.reasons}")
    return done.seconds / took


def world(folder: Path, scale: Scale) -> list[Figure]:
    """Return the median of several rounds, each with another seed."""
    speed(RATES[0], 5.0, 0)  # the first run imports what it needs
    figures = []
    for rate in RATES:
        seconds = max(LEAST_SECONDS, scale.simulated * RATES[0] / rate)  # so that all rates take about as long
        rates = [speed(rate, seconds, seed) for seed in range(1, scale.rounds + 1)]
        figures.append(median(f"{rate:g} writes/s", "simulated s/s", rates))
    return figures
