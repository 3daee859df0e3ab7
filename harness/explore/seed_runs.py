"""Runs of single seeds of an exploration that leave a run folder.

A simulated seed that is to be kept is run a second time, with all its files, as `zab run --on sim` does. On any other backend
every seed leaves its folder.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.errors import BadInput
from zab_chaos.harness.machine import files
from zab_chaos.harness.results import run_folder
from zab_chaos.harness.runs.options import RunOptions, options_for
from zab_chaos.harness.runs.run import FinishedRun, Run, execute, run_quietly

ALL, FAILED = "all", "failed"
SIM = "sim"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedRuns:
    """How an exploration makes the runs of single seeds that leave a folder.

    `name` and `nodes`: the scenario and the number of nodes as the user gave them. `keep_below`: in the simulator the seeds
    below it leave a folder, and all that fail; None: none of them. On any other backend all do, because none can be repeated
    exactly. `terminal`: shows each run's progress.
    """

    name: str
    results: Path
    nodes: int | None = None
    on: str = SIM
    release: str | None = None
    to: str | None = None  # the release that upgrades lead to
    keep_below: int | None = None
    terminal: Console | None = None

    def keeps(self, seed: int, *, failed: bool) -> bool:
        """Return whether a simulated seed is to leave a folder."""
        return self.keep_below is not None and (failed or seed < self.keep_below)

    def options(self, scenario: Scenario, seed: int, *, drawn: bool) -> RunOptions:
        """Return the options for the run of a seed. `drawn`: the scenario was drawn from this seed.

        A drawn scenario is written to a file, which the repeating command then names.
        """
        name, nodes = self.name, self.nodes
        if drawn:
            name, nodes = str(scenario_file(scenario, seed, self.results)), None
        return options_for(
            name, scenario, seed=seed, results=self.results, nodes=nodes, on=self.on, release=self.release, to=self.to
        )

    def run(self, scenario: Scenario, seed: int, *, drawn: bool) -> FinishedRun:
        """Run one seed. Raises BadInput, HarnessError, Interrupted."""
        return run_quietly(scenario, self.options(scenario, seed, drawn=drawn), self.terminal)

    def run_in_worker(self, scenario: Scenario, seed: int, *, drawn: bool) -> Path:
        """Run a seed in the simulator with all its files, judge it and return the run's folder.

        It installs no signal handlers. Raises HarnessError, or OSError if the folder can't be written.
        """
        one = Run(scenario, self.options(scenario, seed, drawn=drawn))
        with run_folder.private():
            one.record_outcome(*execute(scenario, seed, one.deployment, one.backend.abilities))
            one.store(one.judge(), keep=True)
        return one.folder.path


def read_keep(text: str, seeds: range) -> int:
    """Parse --keep: `all`, `failed`, or N for the first N seeds and all that fail. Return `SeedRuns.keep_below`.

    Raises BadInput.
    """
    if text not in (ALL, FAILED) and not re.fullmatch(r"0*[1-9][0-9]{0,17}", text):
        raise BadInput(f"--keep is {text!r}; it needs all, failed, or a number of runs, such as 20")
    return seeds.stop if text == ALL else seeds.start if text == FAILED else seeds.start + int(text)


def scenario_file(scenario: Scenario, seed: int, results: Path) -> Path:
    """Write the scenario that a seed drew to a file below `results`. Return its path.

    A file with another scenario stays: with other weights, or another version, the seed drew it for an earlier run.
    """
    return files.write_new(results / "swarm" / f"{scenario.name.replace('/', '-')}-{seed}.toml", scenario.source)
