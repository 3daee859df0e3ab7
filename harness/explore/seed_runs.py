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
class KeepRule:
    """Which simulated seeds leave a run folder: those below `before`, and all that fail.

    `name` and `nodes`: the scenario and the number of nodes as the user gave them.
    """

    before: int
    name: str
    nodes: int | None
    results: Path

    def keeps(self, seed: int, *, failed: bool) -> bool:
        return failed or seed < self.before


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherBackend:
    """A backend other than the simulator, on which seeds run.

    Every run leaves its folder, because none can be repeated exactly.

    `name` and `nodes`: the scenario and the number of nodes as the user gave them. `terminal`: shows each run's progress.
    """

    on: str
    release: str | None
    name: str
    nodes: int | None
    results: Path
    terminal: Console | None = None

    def run(self, scenario: Scenario, seed: int, *, drawn: bool) -> FinishedRun:
        """Run one seed. `drawn`: the scenario was drawn from this seed. Raises BadInput, HarnessError, Interrupted."""
        options = options_of_seed(
            self.name, scenario, seed, self.results, self.nodes, drawn=drawn, on=self.on, release=self.release
        )
        return run_quietly(scenario, options, self.terminal)


def read_keep(text: str, seeds: range, name: str, nodes: int | None, results: Path) -> KeepRule:
    """Parse --keep: `all`, `failed`, or N for the first N seeds and all that fail. Raises BadInput."""
    if text not in (ALL, FAILED) and not re.fullmatch(r"0*[1-9][0-9]{0,17}", text):
        raise BadInput(f"--keep is {text!r}; it needs all, failed, or a number of runs, such as 20")
    before = seeds.stop if text == ALL else seeds.start if text == FAILED else seeds.start + int(text)
    return KeepRule(before=before, name=name, nodes=nodes, results=results.absolute())


def scenario_file(scenario: Scenario, seed: int, results: Path) -> Path:
    """Write the scenario that a seed drew to a file below `results`. Return its path.

    A file with another scenario stays: with other weights, or another version, the seed drew it for an earlier run.
    """
    return files.write_new(results / "swarm" / f"{scenario.name.replace('/', '-')}-{seed}.toml", scenario.source)


def keep_run(keep: KeepRule, scenario: Scenario, seed: int, *, drawn: bool) -> Path:
    """Run a seed in the simulator with all its files, judge it and return the run's folder. `drawn`: see `OtherBackend.run`.

    Runs in a worker process, so it installs no signal handlers. Raises HarnessError, or OSError if the folder can't be written.
    """
    options = options_of_seed(keep.name, scenario, seed, keep.results, keep.nodes, drawn=drawn)
    one = Run(scenario, options)
    with run_folder.private():
        one.record_outcome(*execute(scenario, seed, one.deployment, backend=one.backend))
        one.store(one.judge(), keep=True)
    return one.folder.path


def options_of_seed(
    name: str, scenario: Scenario, seed: int, results: Path, nodes: int | None, *, drawn: bool, on: str = SIM,
    release: str | None = None,
) -> RunOptions:  # fmt: skip
    """Return the options for the run of a seed.

    A drawn scenario is written to a file, which the repeating command then names.
    """
    if drawn:
        name, nodes = str(scenario_file(scenario, seed, results)), None
    return options_for(name, scenario, seed=seed, results=results, nodes=nodes, on=on, release=release)
