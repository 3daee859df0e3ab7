"""Explores one tree, the one in PYTHONPATH, until the first seed that fails. It may contain a mutant.

Prints one line of JSON: `seed`, `outcome` (VIOLATION, HARNESS-ERROR, HANG, BROKEN; null: nothing was found), `violated`,
`why`. BROKEN: the tree can't even be imported.
"""

import json
import resource
import signal
import sys
from types import FrameType
from typing import Any

HANG_SECONDS = 60  # of CPU time for one seed; without a mutant a seed takes well under one second
MEMORY_BYTES = 3 * 2**30


class Hang(BaseException):
    """A seed takes too long."""


def explore(scenario: str, seeds: int) -> dict[str, Any]:
    """Explore the seeds from 1 to `seeds`, and return the result of the first one that fails."""
    from zab_chaos.harness.explore.exploration import Task, simulate_seed
    from zab_chaos.harness.runs.options import read_scenario

    task = Task(scenario=read_scenario(scenario, on="sim", nodes=None, defect=None), swarm=True)
    for seed in range(1, seeds + 1):
        signal.setitimer(signal.ITIMER_PROF, HANG_SECONDS)
        try:
            found, trouble = simulate_seed(task, seed)
        except Hang:
            return {"seed": seed, "outcome": "HANG", "violated": [], "why": f"more than {HANG_SECONDS} s"}
        if found.failed:
            why = (found.reasons or trouble.splitlines()[-1:] or [""])[0]
            return {"seed": seed, "outcome": found.verdict, "violated": found.violated, "why": why}
    return {"seed": None, "outcome": None, "violated": [], "why": ""}


def main() -> None:
    def hang(_number: int, _frame: FrameType | None) -> None:
        raise Hang

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    signal.signal(signal.SIGPROF, hang)
    try:
        answer = explore(sys.argv[1], int(sys.argv[2]))
    except Exception as error:
        answer = {"seed": None, "outcome": "BROKEN", "violated": [], "why": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
