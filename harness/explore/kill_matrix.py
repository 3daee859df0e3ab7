"""The kill matrix: checks that every known bug is caught by its scenario, and that the scenario passes without the bug.

Each bug is tried in the simulator with many seeds, on real processes with some runs, and by swarm testing, which knows nothing
of the bug, until a seed finds it.
"""

import dataclasses
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from zab_chaos.faults.defects import Defect
from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.errors import Exit
from zab_chaos.harness.explore.exploration import Task, explore
from zab_chaos.harness.explore.trials import Trial
from zab_chaos.harness.explore.workers import run_workers
from zab_chaos.harness.machine import environment
from zab_chaos.harness.runs.options import options_for, read_scenario
from zab_chaos.harness.runs.run import FinishedRun, run_quietly

SWARM = "long-mix"  # the scenario for swarm testing
PROBABILISTIC_FACTOR = (
    5  # a bug that shows only by chance gets this many times the runs on processes, until it is caught
)


class DefectRuns:
    """The runs of one defect's scenario on one backend, with the defect, which must be caught, and without it.

    It is caught if the property is violated that it must break. A probabilistic defect must be caught at least once.
    """

    def __init__(self, defect: Defect) -> None:
        self._property = defect.property
        caught_once = defect.probabilistic is not None
        self.broken = Trial(defect.name, lambda run: defect.property in run.violated, once=caught_once)
        self.honest = Trial(f"without {defect.name}", lambda run: run.exit == Exit.PASS)

    def facts(self) -> dict[str, Any]:
        """Return the counts for JSON. `also`: the violated properties other than the one that the defect must break."""
        broken, honest = self.broken, self.honest
        also = {name for one in broken.endings for name in one.violated} - {self._property}
        return {
            "runs": broken.runs, "caught": broken.good, "first": broken.first, "honest_runs": honest.runs,
            "honest_passes": honest.good, "also": sorted(also),
        }  # fmt: skip


@dataclass(slots=True)
class SwarmResult:
    """The result of swarm testing: the smallest failing seed of the scenario SWARM, from 1 to `seeds`, and what it violated."""

    seeds: int
    first: int | None = None
    violated: list[str] = field(default_factory=list)


@dataclass(slots=True)
class DefectResult:
    """One defect's row of the kill matrix. Parts that were not tried are None."""

    defect: Defect
    sim: DefectRuns | None = None
    processes: DefectRuns | None = None
    swarm: SwarmResult | None = None

    @property
    def name(self) -> str:
        return self.defect.name

    @property
    def tried(self) -> list[DefectRuns]:
        return [one for one in (self.sim, self.processes) if one]

    @property
    def holds(self) -> bool:
        """True if the defect was caught, and the runs without it passed."""
        return all(one.broken.holds and one.honest.holds for one in self.tried)

    @property
    def unexpected(self) -> list[str]:
        return [place for one in self.tried for place in one.broken.unexpected + one.honest.unexpected]

    def facts(self) -> dict[str, Any]:
        """Return the row for JSON."""
        names = ("name", "ticket", "scenario", "property", "probabilistic")
        return {name: getattr(self.defect, name) for name in names} | {
            "sim": self.sim.facts() if self.sim else None,
            "processes": self.processes.facts() if self.processes else None,
            "swarm": dataclasses.asdict(self.swarm) if self.swarm else None,
            "survives": not self.holds,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much to try: `seeds` in the simulator, `times` runs on processes, at most `swarm` swarm seeds; 0 skips that part.

    `jobs`: runs at a time. None: as many as there are cores in the simulator, and one on processes.
    """

    seeds: int
    times: int
    swarm: int
    jobs: int | None
    results: Path

    @property
    def cores(self) -> int:
        """The number of seeds that are simulated at a time."""
        return self.jobs or environment.cores()


def try_defect(defect: Defect, effort: Effort) -> DefectResult:
    """Run a defect's scenario with and without it. Raises BadInput, HarnessError, Interrupted."""
    row = DefectResult(defect)
    if effort.seeds:
        row.sim = _in_simulation(defect, read_scenario(defect.scenario, on="sim", nodes=None, defect=None), effort)
    if effort.times:
        scenario = read_scenario(defect.scenario, on="processes", nodes=None, defect=None)
        row.processes = _on_processes(defect, scenario, effort)
    if effort.swarm:
        row.swarm = _by_swarm(defect, effort)
    return row


def _in_simulation(defect: Defect, scenario: Scenario, effort: Effort) -> DefectRuns:
    tried, command = DefectRuns(defect), f"zab run {defect.scenario} --on sim --seed "
    for trial, path, option in ((tried.broken, defect.path, f" --defect {defect.name}"), (tried.honest, None, "")):
        for one in explore(Task(scenario=scenario, defect=path), range(1, effort.seeds + 1), effort.cores):
            trial.add(one, f"{command}{one.seed}{option}")
    return tried


def _on_processes(defect: Defect, scenario: Scenario, effort: Effort) -> DefectRuns:
    tried = DefectRuns(defect)
    times = effort.times * (PROBABILISTIC_FACTOR if defect.probabilistic else 1)
    kinds = [dataclasses.replace(scenario, defect=built_with) for built_with in (defect.name, None)]
    plan = [(built, seed) for seed in range(scenario.seed, scenario.seed + times) for built in kinds]
    with run_workers(effort.jobs or 1) as workers:
        for (built, _), ran in zip(plan, workers.results(partial(_run, defect, effort.results), plan), strict=True):
            (tried.broken if built.defect else tried.honest).add(ran.verdict, ran.folder.path)
            if tried.honest.runs == tried.broken.runs >= effort.times and tried.broken.good:
                break
    return tried


def _run(defect: Defect, results: Path, planned: tuple[Scenario, int]) -> FinishedRun:
    built, seed = planned
    return run_quietly(built, options_for(defect.scenario, built, seed=seed, results=results))


def _by_swarm(defect: Defect, effort: Effort) -> SwarmResult:
    task = Task(scenario=read_scenario(SWARM, on="sim", nodes=None, defect=None), defect=defect.path, swarm=True)
    for one in explore(task, range(1, effort.swarm + 1), effort.cores):
        if one.violated:
            return SwarmResult(effort.swarm, one.seed, one.violated)
    return SwarmResult(effort.swarm)
