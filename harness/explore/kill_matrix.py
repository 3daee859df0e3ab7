"""The kill matrix: proves that every known bug is caught by its scenario, and that the scenario passes without it.

In the simulated world for many seeds, on real processes for some runs, and by swarm testing, which knows nothing of the
bug, for as many seeds as it takes.
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

SWARM = "long-mix"
CHANCES = 5  # a bug in which chance has a part gets so many times the runs on processes, until it is caught


@dataclass(slots=True)
class Tried:
    """Runs of one defect's scenario on one backend. `violated`: the violated properties of each run with the defect."""

    must_break: str
    violated: list[list[str]] = field(default_factory=list)
    honest: list[str] = field(default_factory=list)  # the verdict of each run without it
    strange: list[str] = field(default_factory=list)  # a missed or failed run: its folder, or the command

    @property
    def runs(self) -> int:
        return len(self.violated)

    @property
    def caught(self) -> int:
        """The number of runs that found the property violated that the defect must break."""
        return sum(self.must_break in names for names in self.violated)

    @property
    def first(self) -> int | None:
        """The number of runs until the first of them."""
        return next((number for number, names in enumerate(self.violated, 1) if self.must_break in names), None)

    @property
    def passed(self) -> int:
        return self.honest.count("PASS")

    def also(self) -> set[str]:
        """The other properties that were found violated."""
        return {name for names in self.violated for name in names} - {self.must_break}

    def holds(self, probabilistic: bool) -> bool:
        """Whether the defect was caught (every time, unless `probabilistic`) and every run without it passed."""
        enough = self.caught > 0 if probabilistic else self.caught == self.runs
        return enough and self.passed == len(self.honest)

    def facts(self) -> dict[str, Any]:
        counts = {"runs": self.runs, "caught": self.caught, "first": self.first}
        return counts | {"honest_runs": len(self.honest), "honest_passes": self.passed, "also": sorted(self.also())}


@dataclass(slots=True)
class Swarmed:
    """The result of swarm testing: the smallest seed of `SWARM` up to `seeds` that fails, and what it violated."""

    seeds: int
    first: int | None = None
    violated: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Row:
    """One defect's row of the kill matrix. Parts that were not tried are None."""

    defect: Defect
    sim: Tried | None = None
    processes: Tried | None = None
    swarm: Swarmed | None = None

    @property
    def survives(self) -> bool:
        chance = self.defect.probabilistic is not None
        return not all(tried.holds(chance) for tried in self.tried())

    def tried(self) -> list[Tried]:
        return [tried for tried in (self.sim, self.processes) if tried is not None]

    def facts(self) -> dict[str, Any]:
        """The row for JSON."""
        names = ("name", "ticket", "scenario", "property", "probabilistic")
        return {name: getattr(self.defect, name) for name in names} | {
            "sim": self.sim.facts() if self.sim else None,
            "processes": self.processes.facts() if self.processes else None,
            "swarm": dataclasses.asdict(self.swarm) if self.swarm else None,
            "survives": self.survives,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much to try: `seeds` in the simulator, `times` on processes, at most `swarm` swarm seeds; 0 skips a part."""

    seeds: int
    times: int
    swarm: int
    jobs: int
    results: Path


def try_defect(defect: Defect, effort: Effort) -> Row:
    """Run a defect's scenario with and without it. Raises BadInput, HarnessError, Interrupted."""
    row, name = Row(defect), f"defects/{defect.scenario}"
    if effort.seeds:
        row.sim = _in_simulation(defect, read_scenario(name, on="sim", nodes=None, defect=None), effort)
    if effort.times:
        row.processes = _on_processes(defect, read_scenario(name, on="processes", nodes=None, defect=None), effort)
    if effort.swarm:
        row.swarm = _by_swarm(defect, effort)
    return row


def _in_simulation(defect: Defect, scenario: Scenario, effort: Effort) -> Tried:
    tried = Tried(defect.property)
    command = f"zab run defects/{defect.scenario} --on sim --seed "
    seeds = range(1, effort.seeds + 1)
    for one in explore(Task(scenario=scenario, defect=defect.path), seeds, effort.jobs):
        tried.violated.append(one.violated)
        if defect.property not in one.violated:
            tried.strange.append(f"{command}{one.seed} --defect {defect.name}")
    for one in explore(Task(scenario=scenario, defect=None), seeds, effort.jobs):
        tried.honest.append(one.verdict)
        if one.exit != Exit.PASS:
            tried.strange.append(f"{command}{one.seed}")
    return tried


def _on_processes(defect: Defect, scenario: Scenario, effort: Effort) -> Tried:
    tried = Tried(defect.property)
    times = effort.times * (CHANCES if defect.probabilistic else 1)
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
                tried.strange.append(str(ran.folder.path))
    return tried


def _by_swarm(defect: Defect, effort: Effort) -> Swarmed:
    task = Task(scenario=read_scenario(SWARM, on="sim", nodes=None, defect=None), defect=defect.path, swarm=True)
    swarmed = Swarmed(effort.swarm)
    found: Iterator[Any] = explore(task, range(1, effort.swarm + 1), effort.jobs)
    for one in found:
        if one.violated:
            swarmed.first, swarmed.violated = one.seed, one.violated
            break
    return swarmed
