"""Measures how fast the simulator runs.

Three nodes with heartbeats and timeouts as on processes, the nemesis at work and every event judged, on one core. What is
counted is the core's time, not the clock on the wall: `zab explore` uses each core alone.
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
    """Long-mix for three nodes, with a load of writes only; snapshots keep restarts short."""
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
    """Simulated seconds in a second of a core. Raises HarnessError if the run was no good."""
    begin = time.process_time()
    done = simulate(scenario(rate, seconds), seed, None)
    took = time.process_time() - begin
    if done.verdict.exit not in (0, 2):
        raise HarnessError(f"the simulated run of seed {seed} failed, so this measures nothing: {done.verdict.reasons}")
    return done.seconds / took


def world(folder: Path, scale: Scale) -> list[Figure]:
    """Median over the rounds, each another seed."""
    speed(RATES[0], 5.0, 0)  # the first run compiles what it needs
    figures = []
    for rate in RATES:
        seconds = max(LEAST_SECONDS, scale.simulated * RATES[0] / rate)  # about the same work
        rates = [speed(rate, seconds, seed) for seed in range(1, scale.rounds + 1)]
        figures.append(median(f"{rate:g} writes/s", "simulated s/s", rates))
    return figures
