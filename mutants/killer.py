"""Explores one tree, the one in PYTHONPATH, until the first seed that fails. It may contain a mutant.

    python killer.py SCENARIO SEEDS sim|processes

Prints one line of JSON: `seed`, `outcome` (VIOLATION, HARNESS-ERROR, HANG, BROKEN, UNKNOWN; null: nothing was found),
`violated`, `why`. BROKEN: the tree can't even be imported, or its nodes end with an error of the patch (`PATCH_ERROR`).
UNKNOWN: on processes, no run fails, and this one is UNKNOWN twice. `seed` is the name of the scenario if that is a shipped one.
"""

import json
import re
import resource
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zab_chaos.harness.explore.exploration import SeedResult

MEMORY_BYTES = 3 * 2**30
SIM = "sim"
# The scenarios that are run on processes, before any seed, and the disk of each, if it is not the scenario's own.
SHIPPED = dict.fromkeys(("power-outage-pages", "failed-sync"), "fuse") | dict.fromkeys(
    ("power-outage", "answer-and-die", "queued-requests", "rolling-restart", "disk-full", "killed-between-syncs"), ""
)
# How long one run may take: in the simulator of CPU time, where it takes well under one second without a mutant; on processes
# it takes up to 40.
LIMITS = {SIM: (signal.ITIMER_PROF, 60), "processes": (signal.ITIMER_REAL, 180)}
# An error of a node that says that a name is wrong, or a call: that is no bug that somebody could have planted, or missed.
PATCH_ERROR = re.compile(
    r"stopped itself: (NameError|UnboundLocalError|ImportError|AttributeError: (?!'NoneType')|"
    r"TypeError: .*(unexpected keyword argument|required positional argument|positional arguments? but|not callable))"
)


class Hang(BaseException):
    """A seed takes too long."""


def runs_of(scenario: str, seeds: int, on: str) -> Iterator[tuple[int | str, Callable[[], "SeedResult"]]]:
    """Yield the runs of a backend, each with its seed or the name of its shipped scenario."""

    from zab_chaos.harness.explore.exploration import Task, explore_seed
    from zab_chaos.harness.explore.seed_runs import SeedRuns
    from zab_chaos.harness.runs.options import load_scenario, scenario_for

    def runner(name: str, *, disk: str = "", seed: int | None = None) -> Callable[[], "SeedResult"]:
        read = scenario_for(name, load_scenario(name, nodes=None, disk=disk or None), on=on, defect=None)
        results = Path(tempfile.gettempdir())
        task = Task(scenario=read, swarm=seed is not None, runs=SeedRuns(name=name, results=results, on=on))
        number = read.seed if seed is None else seed
        return lambda: explore_seed(task, number)

    for name, disk in SHIPPED.items() if on != SIM and seeds else ():
        yield name, runner(name, disk=disk)
    for seed in range(1, seeds + 1):
        yield seed, runner(scenario, seed=seed)


def explore(scenario: str, seeds: int, on: str) -> dict[str, Any]:
    """Return the result of the first run that fails: of the seeds from 1 to `seeds`, on processes after the shipped
    scenarios."""
    unknown: dict[str, Any] | None = None
    for seed, run in runs_of(scenario, seeds, on):
        try:
            found = _timed(run, on)
            if on != SIM and found.verdict == "UNKNOWN" and unknown is None:
                found = _timed(run, on)
        except Hang as hang:
            return {"seed": seed, "outcome": "HANG", "violated": [], "why": str(hang)}
        why = (found.reasons or found.trouble.splitlines()[-1:] or [""])[0]
        outcome = "BROKEN" if any(map(PATCH_ERROR.search, found.reasons)) else found.verdict
        answer = {"seed": seed, "outcome": outcome, "violated": found.violated, "why": why}
        if found.failed:
            return answer
        if on != SIM and found.verdict == "UNKNOWN":
            unknown = unknown or answer
    return unknown or {"seed": None, "outcome": None, "violated": [], "why": ""}


def _timed(run: Callable[[], "SeedResult"], on: str) -> "SeedResult":
    """Run, and raise Hang if that takes too long."""
    timer, limit = LIMITS[on]
    try:
        signal.setitimer(timer, limit)
        return run()
    except Hang:
        raise Hang(f"more than {limit} s") from None
    finally:
        signal.setitimer(timer, 0)


def main() -> None:
    def hang(_number: int, _frame: FrameType | None) -> None:
        raise Hang

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    signal.signal(signal.SIGPROF, hang)
    signal.signal(signal.SIGALRM, hang)
    try:
        answer = explore(sys.argv[1], int(sys.argv[2]), sys.argv[3])
    except Exception as error:
        answer = {"seed": None, "outcome": "BROKEN", "violated": [], "why": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
