"""Which explored seeds leave a run folder, and how: the seed is run again with all its files, as `zab run --on sim` does."""

from dataclasses import dataclass
from pathlib import Path

from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.errors import BadInput
from zab_chaos.harness.results import run_folder
from zab_chaos.harness.runs.options import options_for
from zab_chaos.harness.runs.run import Run, live

ALL, FAILED = "all", "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """`before`: the seeds below this one are kept, and all that fail. `name`: the scenario's, as the user gave it."""

    before: int
    name: str
    nodes: int | None
    results: Path

    def wants(self, seed: int, *, failed: bool) -> bool:
        return failed or seed < self.before


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
    name = str(scenario_file(scenario, seed, keep.results)) if drawn else keep.name
    nodes = None if drawn else keep.nodes
    options = options_for(name, scenario, seed=seed, results=keep.results, nodes=nodes, on="sim")
    one = Run(scenario, options)
    with run_folder.private():
        one.ended(*live(scenario, seed, one.deployment, backend=one.backend))
        one.store(one.judge(), keep=True)
    return one.folder.path
