"""Measures the time and memory of `zab analyze`.

Two things are measured, each as users call it, with the start of Spark, on two cores (`local[2]`): growing numbers of events
in synthetic runs (`synthetic` defines what one event is), and a campaign of short simulated runs. Memory is
the most that all processes of the call held together, and processor time the sum of what they used. Both are sampled: no
process waits for Spark's JVM, so its time would be missing from the times of children. The Java heap is limited to `HEAP`.
"""

import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import psutil

from benchmarks import synthetic
from benchmarks.figures import Figure, Scale
from zab_chaos.harness.errors import HarnessError

HEAP = "2500m"
LARGE = 1_000_000  # most events in one run
BATCH = 100
SAMPLE = 0.2  # seconds between two samples

SCENARIO = """
[scenario]
name = "bench/short"
about = "A crash under a light load, as short as can be."
nodes = 3
duration = 2
record = false

[workload]
rate = 20
keys = 4

[[fault]]
at = 0.5
do = "crash"
target = "leader"
for = 0.5
"""


@dataclass(frozen=True, slots=True)
class CallCost:
    """The cost of one call. `processor`: seconds of all its processes together. `memory`: the most that they held, in MiB."""

    seconds: float
    processor: float
    memory: float


def analyze(place: Path, out: Path) -> CallCost:
    """Analyze all runs below `place`. Raises HarnessError if they are not judged PASS."""
    return cost_of("analyze", str(place), "--out", str(out), "--master", "local[2]", "--memory", HEAP)


def cost_of(*arguments: str) -> CallCost:
    """Call `zab` with these arguments. Raises HarnessError if it does not exit with 0."""
    command = [sys.executable, "-m", "zab_chaos.harness", *arguments]
    begin, memory = time.monotonic(), 0
    spent: dict[psutil.Process, float] = {}
    root = Path(__file__).resolve().parents[1]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        while True:
            memory = max(memory, _sample(process.pid, spent))
            try:
                words, _ = process.communicate(timeout=SAMPLE)
                break
            except subprocess.TimeoutExpired:
                continue
    seconds = time.monotonic() - begin
    if process.returncode != 0:
        raise HarnessError(f"{' '.join(command)} ended with {process.returncode}, so this measures nothing:\n{words}")
    return CallCost(seconds, sum(spent.values()), memory / 2**20)


def _sample(pid: int, spent: dict[psutil.Process, float]) -> int:
    """Return the resident bytes of a process and its descendants. Enter the processor seconds of each so far into `spent`.

    A process that has just ended counts as nothing.
    """
    held = 0
    with suppress(psutil.Error):
        parent = psutil.Process(pid)
        for each in (parent, *parent.children(recursive=True)):
            with suppress(psutil.Error):
                held += each.memory_info().rss
                times = each.cpu_times()
                spent[each] = times.user + times.system
    return held


def pipeline(folder: Path, scale: Scale) -> list[Figure]:
    """Measure each once: they take long, and vary little."""
    figures = []
    with tempfile.TemporaryDirectory(dir=folder, prefix=".bench-") as name:
        place = Path(name)
        for events in scale.events:
            runs, transactions = shape(events)
            synthetic.campaign(place / f"{events}", runs, transactions, BATCH)
            figures += _figures(f"{events:,} events", analyze(place / f"{events}", place / f"{events}-out"))
        simulate(place / "simulated", scale.campaign)
        figures += _figures(f"{scale.campaign:,} simulated runs", analyze(place / "simulated", place / "simulated-out"))
    return figures


def shape(events: int) -> tuple[int, int]:
    """Return (runs, transactions in each) for so many events."""
    runs = -(-events // LARGE)
    return runs, max(1, events // runs // synthetic.EVENTS)


def _figures(name: str, took: CallCost) -> list[Figure]:
    return [
        Figure(name=name, value=took.seconds, unit="s"),
        Figure(name=f"{name}: processor", value=took.processor, unit="s"),
        Figure(name=f"{name}: memory at most", value=took.memory, unit="MiB"),
    ]


def simulate(out: Path, runs: int) -> None:
    """Make short simulated runs below `out`, one for each seed."""
    out.mkdir()
    file = out / "short.toml"
    file.write_text(SCENARIO, encoding="utf-8")
    tasks = [(str(file), str(out / "runs"), seed) for seed in range(1, runs + 1)]
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        failed = [
            task[2] for task, code in zip(tasks, pool.map(_simulated, tasks, chunksize=10), strict=True) if code != 0
        ]
    if failed:
        raise HarnessError(f"simulated runs failed, so this measures nothing: seeds {failed[:10]}")


def _simulated(task: tuple[str, str, int]) -> int:
    """Execute one run. Return its exit code."""
    from zab_chaos.harness.cli.app import main

    file, results, seed = task
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
        return main(["run", file, "--on", "sim", "--seed", str(seed), "--results", results])
