"""Explores one tree, the one in PYTHONPATH, until the first seed that fails. It may contain a mutant.

    python killer.py SCENARIO SEEDS sim|processes

Prints one line of JSON: `seed`, `outcome` (VIOLATION, HARNESS-ERROR, HANG, BROKEN, UNKNOWN; null: nothing was found),
`violated`, `why`. BROKEN: the tree can't even be imported. UNKNOWN: on processes, no seed fails, and this one is UNKNOWN
twice.
"""

import json
import resource
import signal
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

HANG_SECONDS = 60  # of CPU time for one seed; without a mutant a seed takes well under one second
HANG_SECONDS_ON_PROCESSES = 180  # for one seed; without a mutant a seed takes at most 40
MEMORY_BYTES = 3 * 2**30
SIM = "sim"


class Hang(BaseException):
    """A seed takes too long."""


def explore(scenario: str, seeds: int, on: str) -> dict[str, Any]:
    """Explore the seeds from 1 to `seeds` on a backend, and return the result of the first one that fails."""
    from zab_chaos.harness.explore.exploration import SeedResult, Task, explore_seed, simulate_seed
    from zab_chaos.harness.explore.seed_runs import OtherBackend
    from zab_chaos.harness.runs.options import read_scenario

    results = Path(tempfile.gettempdir())
    other = OtherBackend(on=on, release=None, name=scenario, nodes=None, results=results) if on != SIM else None
    read = read_scenario(scenario, on=on, nodes=None, defect=None)
    task = Task(scenario=read, swarm=True, other_backend=other)
    timer, limit = (signal.ITIMER_PROF, HANG_SECONDS) if on == SIM else (signal.ITIMER_REAL, HANG_SECONDS_ON_PROCESSES)

    def run(seed: int) -> tuple[SeedResult, str]:
        signal.setitimer(timer, limit)
        return simulate_seed(task, seed) if on == SIM else (explore_seed(task, seed), "")

    unknown: dict[str, Any] | None = None
    for seed in range(1, seeds + 1):
        try:
            found, trouble = run(seed)
            if on != SIM and found.verdict == "UNKNOWN" and unknown is None:
                found, trouble = run(seed)
        except Hang:
            return {"seed": seed, "outcome": "HANG", "violated": [], "why": f"more than {limit} s"}
        why = (found.reasons or trouble.splitlines()[-1:] or [""])[0]
        answer = {"seed": seed, "outcome": found.verdict, "violated": found.violated, "why": why}
        if found.failed:
            return answer
        if on != SIM and found.verdict == "UNKNOWN":
            unknown = unknown or answer
    return unknown or {"seed": None, "outcome": None, "violated": [], "why": ""}


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
