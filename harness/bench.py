"""The list of measurements of `zab bench`, and the report that it writes to results/summaries/.

The measurements themselves are in `benchmarks`, which is in a checkout but not in a wheel. Machines differ, and other programs
disturb a measurement, so a report records the machine, its load, and the value of every round.
"""

import contextlib
import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import against, growth
from benchmarks.containers import containers
from benchmarks.curve import frames
from benchmarks.failover import failover
from benchmarks.figures import Figure, MissingRequirement, Scale
from benchmarks.fixture import fixture
from benchmarks.memory import memory
from benchmarks.oracle import judging
from benchmarks.pipeline import pipeline
from benchmarks.replay import replaying
from benchmarks.startup import startup
from benchmarks.sweep import payloads, sizes
from benchmarks.throughput import latency, throughput
from benchmarks.world import world
from zab_chaos.faults.cluster import ClusterError
from zab_chaos.harness.errors import HarnessError
from zab_chaos.harness.machine import environment
from zab_chaos.harness.machine.files import writing
from zab_chaos.harness.machine.interrupt import Stopped
from zab_chaos.harness.results.run_folder import write_atomically

ATTEMPTS_MAX = 2  # of one measurement


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One measurement. `measure` is called with a folder, on the disk to measure, and a scale."""

    name: str
    about: str
    measure: Callable[[Path, Scale], list[Figure]]
    full: bool = False  # measured only with --full, or if it is named


MEASUREMENTS: dict[str, Measurement] = {
    one.name: one
    for one in (
        Measurement(
            name="throughput",
            about="writes of a client at the leader and at a follower, 1000 outstanding",
            measure=throughput,
        ),
        Measurement(
            name="latency",
            about="a single outstanding write of a client at the leader and at a follower",
            measure=latency,
        ),
        Measurement(
            name="start", about="from the start of the first process to the first acknowledged write", measure=startup
        ),
        Measurement(
            name="fixture",
            about="from the start of a test's fixture to the first acknowledged write, on processes and in the simulator",
            measure=fixture,
        ),
        Measurement(
            name="failover",
            about="from SIGKILL of the leader under load to the first commit of the next epoch",
            measure=failover,
        ),
        Measurement(name="memory", about="resident memory after a long history", measure=memory),
        Measurement(name="oracle", about="transaction events judged per second", measure=judging),
        Measurement(name="replay", about="inputs of a recorded run re-executed per second", measure=replaying),
        Measurement(name="world", about="simulated seconds per second of a core", measure=world),
        Measurement(name="curve", about="cost of encryption on a link", measure=frames),
        Measurement(
            name="containers",
            about="writes of a client at the leader, in containers and on processes, with toxiproxy between the nodes",
            measure=containers,
        ),
        Measurement(
            name="against",
            about="our nodes and Apache ZooKeeper's, alternating, each through its own client",
            measure=against.against,
            full=True,
        ),
        Measurement(
            name="pipeline",
            about="`zab analyze` on two cores: one run, growing numbers of events, a campaign",
            measure=pipeline,
            full=True,
        ),
        Measurement(name="sizes", about="throughput by ensemble size", measure=sizes, full=True),
        Measurement(name="payloads", about="throughput by payload size", measure=payloads, full=True),
    )
}


def measure(
    names: Sequence[str], scale: Scale, results: Path, command: str, announce: Callable[[str], None]
) -> dict[str, Any]:
    """Run the measurements one after the other, on the disk of `results`, and return the report. Raises HarnessError.

    `announce` is called with a text when a measurement begins. A measurement that failed has no figures, and its errors are in
    `failed`. What this machine lacks for a measurement is in `lacking`. A report is `complete` unless the user stopped it.
    """
    with writing(results, "--results"):
        results.mkdir(parents=True, exist_ok=True)
        report = {"command": command, "started": _utc(), "commit": environment.commit(), **surroundings(results)}
    report["settings"] = {**asdict(scale), "fsync": True, "trace": True, "record": False, "faithful": False}
    measured: dict[str, Any] = {}
    report["measurements"] = measured
    report["complete"] = False
    with contextlib.suppress(Stopped):
        for name in names:
            measured[name] = _measure_one(MEASUREMENTS[name], scale, results.resolve(), announce)
        report["complete"] = True
    report["load_after"] = os.getloadavg()
    report["ended"] = _utc()
    return report


def _measure_one(one: Measurement, scale: Scale, results: Path, announce: Callable[[str], None]) -> dict[str, Any]:
    """Run one measurement, and repeat it once if it fails: on a busy machine an ensemble may lose its leader."""
    figures: list[Figure] = []
    failed: list[str] = []
    lacking = None
    load = os.getloadavg()[0]
    begin = time.monotonic()
    while not figures and lacking is None and len(failed) < ATTEMPTS_MAX:
        announce(f"{one.name}: {one.about}")
        begin = time.monotonic()
        try:
            figures = one.measure(results, scale)
            if not figures:
                failed.append("it gave no figures")
        except MissingRequirement as error:
            lacking = str(error)
        except (HarnessError, ClusterError, OSError) as error:
            failed.append(str(error))
    return {
        "about": one.about,
        "load_before": load,
        "seconds": time.monotonic() - begin,
        "figures": [asdict(each) for each in figures],
        "failed": failed,
        "lacking": lacking,
    }


def surroundings(results: Path) -> dict[str, Any]:
    """Return what the numbers depend on: the machine, its disk, its load, and the versions of the software."""
    syncs = [environment.sync_latency(results, 100)[0] for _ in range(3)]
    return {
        "machine": {
            **environment.facts(),
            "processor": environment.processor(),
            "fdatasync_ms": statistics.median(syncs),
        },
        "versions": environment.versions(),
        "load_before": os.getloadavg(),
    }


def store(report: dict[str, Any], results: Path) -> Path:
    """Write the report to `results/summaries/bench-<utc-time>.json`. Raises HarnessError.

    A picture (`.svg`) is written beside it if there is something to draw: how the pipeline scales, or our nodes and ZooKeeper's
    side by side.
    """
    folder = results / "summaries"
    path = folder / f"bench-{datetime.now(UTC).strftime('%Y%m%dT%H%M%SZ')}.json"
    with writing(path, "--results"):
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(report, indent=2, ensure_ascii=False) + "\n")
        drawn = growth.picture(report) or against.picture(report)
        if drawn is not None:
            write_atomically(path.with_suffix(".svg"), drawn)
    return path


def _utc() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
