"""The kill matrix: checks that every known bug is caught by its scenario, and that the scenario passes without the bug.

Each bug is tried in the simulator with many seeds, on real processes with some runs, and by swarm testing, which knows nothing
of the bug, until a seed finds it.
"""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zab_chaos.faults.defects import Defect
from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.errors import Exit
from zab_chaos.harness.explore.exploration import Task, explore
from zab_chaos.harness.runs.options import options_for, read_scenario
from zab_chaos.harness.runs.run import run_quietly

SWARM = "long-mix"  # the scenario for swarm testing
PROBABILISTIC_FACTOR = (
    5  # a bug that shows only by chance gets this many times the runs on processes, until it is caught
)


@dataclass(slots=True)
class DefectRuns:
    """The runs of one defect's scenario on one backend, with the defect and without it.

    `violated`: for each run with the defect, the violated properties. `honest`: for each run without it, the verdict.
    `unexpected`: the folders of the runs that missed the defect or failed without it, or the commands that repeat them.
    """

    must_break: str
    violated: list[list[str]] = field(default_factory=list)
    honest: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)

    @property
    def runs(self) -> int:
        return len(self.violated)

    @property
    def caught(self) -> int:
        """The number of runs in which the property was violated that the defect must break."""
        return sum(self.must_break in names for names in self.violated)

    @property
    def first(self) -> int | None:
        """The number, from 1, of the first run that caught the defect; None if none did."""
        return next((number for number, names in enumerate(self.violated, 1) if self.must_break in names), None)

    @property
    def passed(self) -> int:
        return self.honest.count("PASS")

    def also_violated(self) -> set[str]:
        """Return the violated properties other than the one that the defect must break."""
        return {name for names in self.violated for name in names} - {self.must_break}

    def holds(self, probabilistic: bool) -> bool:
        """Return True if every run (with `probabilistic`: any run) caught the defect and every run without it passed."""
        enough = self.caught > 0 if probabilistic else self.caught == self.runs
        return enough and self.passed == len(self.honest)

    def facts(self) -> dict[str, Any]:
        """Return the counts for JSON."""
        counts = {"runs": self.runs, "caught": self.caught, "first": self.first}
        return counts | {
            "honest_runs": len(self.honest),
            "honest_passes": self.passed,
            "also": sorted(self.also_violated()),
        }


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
    def survives(self) -> bool:
        """True if the defect was missed, or if a run without it failed."""
        probabilistic = self.defect.probabilistic is not None
        return not all(tried.holds(probabilistic) for tried in self.tried())

    def tried(self) -> list[DefectRuns]:
        return [tried for tried in (self.sim, self.processes) if tried is not None]

    def facts(self) -> dict[str, Any]:
        """Return the row for JSON."""
        names = ("name", "ticket", "scenario", "property", "probabilistic")
        return {name: getattr(self.defect, name) for name in names} | {
            "sim": self.sim.facts() if self.sim else None,
            "processes": self.processes.facts() if self.processes else None,
            "swarm": dataclasses.asdict(self.swarm) if self.swarm else None,
            "survives": self.survives,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much to try: `seeds` in the simulator, `times` runs on processes, at most `swarm` swarm seeds; 0 skips that part."""

    seeds: int
    times: int
    swarm: int
    jobs: int
    results: Path


def try_defect(defect: Defect, effort: Effort) -> DefectResult:
    """Run a defect's scenario with and without it. Raises BadInput, HarnessError, Interrupted."""
    row, name = DefectResult(defect), f"defects/{defect.scenario}"
    if effort.seeds:
        row.sim = _in_simulation(defect, read_scenario(name, on="sim", nodes=None, defect=None), effort)
    if effort.times:
        row.processes = _on_processes(defect, read_scenario(name, on="processes", nodes=None, defect=None), effort)
    if effort.swarm:
        row.swarm = _by_swarm(defect, effort)
    return row


def _in_simulation(defect: Defect, scenario: Scenario, effort: Effort) -> DefectRuns:
    tried = DefectRuns(defect.property)
    command = f"zab run defects/{defect.scenario} --on sim --seed "
    seeds = range(1, effort.seeds + 1)
    for one in explore(Task(scenario=scenario, defect=defect.path), seeds, effort.jobs):
        tried.violated.append(one.violated)
        if defect.property not in one.violated:
            tried.unexpected.append(f"{command}{one.seed} --defect {defect.name}")
    for one in explore(Task(scenario=scenario, defect=None), seeds, effort.jobs):
        tried.honest.append(one.verdict)
        if one.exit != Exit.PASS:
            tried.unexpected.append(f"{command}{one.seed}")
    return tried


def _on_processes(defect: Defect, scenario: Scenario, effort: Effort) -> DefectRuns:
    tried = DefectRuns(defect.property)
    times = effort.times * (PROBABILISTIC_FACTOR if defect.probabilistic else 1)
    for seed in range(scenario.seed, scenario.seed + times):
        if tried.runs >= effort.times and tried.caught:
            break
        for built in (dataclasses.replace(scenario, defect=defect.name), scenario):
            ran = run_quietly(
                built, options_for(f"defects/{defect.scenario}", built, seed=seed, results=effort.results)
            )
            violated = ran.verdict.violated
            if built.defect is not None:
                tried.violated.append(violated)
            else:
                tried.honest.append(str(ran.verdict.verdict))
            if defect.property not in violated if built.defect is not None else ran.verdict.exit != Exit.PASS:
                tried.unexpected.append(str(ran.folder.path))
    return tried


def _by_swarm(defect: Defect, effort: Effort) -> SwarmResult:
    task = Task(scenario=read_scenario(SWARM, on="sim", nodes=None, defect=None), defect=defect.path, swarm=True)
    swarmed = SwarmResult(effort.swarm)
    found: Iterator[Any] = explore(task, range(1, effort.swarm + 1), effort.jobs)
    for one in found:
        if one.violated:
            swarmed.first, swarmed.violated = one.seed, one.violated
            break
    return swarmed
