"""Seeds that leave a run folder. A simulated one is run again with all its files, as `zab run --on sim` does; on any other
backend each seed is such a run."""

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.errors import BadInput
from zab_chaos.harness.results import run_folder
from zab_chaos.harness.runs.options import RunOptions, options_for
from zab_chaos.harness.runs.run import FinishedRun, Run, execute, run_quietly

ALL, FAILED = "all", "failed"
SIM = "sim"


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """`before`: the seeds below this one are kept, and all that fail. `name`: the scenario's, as the user gave it."""

    before: int
    name: str
    nodes: int | None
    results: Path

    def wants(self, seed: int, *, failed: bool) -> bool:
        return failed or seed < self.before


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """Another backend than the simulator, on which seeds are run; each leaves its folder, for none can be repeated exactly.
    `name`, `nodes`: as the user gave them; `terminal`: where each run is shown while it goes on."""

    on: str
    release: str | None
    name: str
    nodes: int | None
    results: Path
    terminal: Console | None = None

    def run(self, scenario: Scenario, seed: int, *, drawn: bool) -> FinishedRun:
        """Run the seed. `drawn`: the scenario is the seed's own. Raises BadInput, HarnessError, Interrupted."""
        options = options_of_seed(
            self.name, scenario, seed, self.results, self.nodes, drawn=drawn, on=self.on, release=self.release
        )
        return run_quietly(scenario, options, self.terminal)


def read_keep(words: str, seeds: range, name: str, nodes: int | None, results: Path) -> Keep:
    """`all`, `failed`, or a number: the first so many seeds, and all that fail. Raises BadInput."""
    if words not in (ALL, FAILED) and not (words.isdecimal() and int(words) > 0):
        raise BadInput(f"--keep is {words!r}; it needs all, failed, or a number of runs, such as 20")
    before = seeds.stop if words == ALL else seeds.start if words == FAILED else seeds.start + int(words)
    return Keep(before=before, name=name, nodes=nodes, results=results.absolute())


def scenario_file(scenario: Scenario, seed: int, results: Path) -> Path:
    """Write what the seed drew as a scenario file, and return its path."""
    path = results / "swarm" / f"{scenario.name.replace('/', '-')}-{seed}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(scenario.source, encoding="utf-8")
    return path


def keep_run(keep: Keep, scenario: Scenario, seed: int, *, drawn: bool) -> Path:
    """Run the seed with its files and judge it; the run's folder. `drawn`: the scenario is the seed's own.

    For a worker process: it leaves the signals alone. Raises HarnessError, OSError if the folder can't be written.
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
    """What was drawn becomes a file, which the command that repeats the run names."""
    if drawn:
        name, nodes = str(scenario_file(scenario, seed, results)), None
    return options_for(name, scenario, seed=seed, results=results, nodes=nodes, on=on, release=release)
