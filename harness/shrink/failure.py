"""The failure to shrink: a failed run or seed, turned into a scenario with a fixed schedule that fails in the simulator."""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from zab_chaos.faults.defects import DEFECTS
from zab_chaos.faults.scenario import Scenario, ScenarioError, load
from zab_chaos.harness.backends import registry
from zab_chaos.harness.backends.registry import OURS
from zab_chaos.harness.errors import BadInput
from zab_chaos.harness.explore.exploration import Explored, Task, try_seed
from zab_chaos.harness.explore.swarm import draw_swarm
from zab_chaos.harness.explore.workers import Workers
from zab_chaos.harness.report.progress import Quiet
from zab_chaos.harness.results import run_folder as stored
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.harness.runs import catalogue
from zab_chaos.harness.runs.options import options_for, read_scenario
from zab_chaos.harness.runs.run import run
from zab_chaos.harness.shrink.fixed_schedule import as_drawn, as_it_happened
from zab_chaos.harness.shrink.search import Failure, checked, failing_seeds, failure_of
from zab_chaos.model.events import TRACES

FURTHER_SEEDS = 20  # tried if a run on processes does not fail in the simulator with its own seed


@dataclass(frozen=True, slots=True, kw_only=True)
class Culprit:
    """The failure to shrink: `scenario` with `seed`. `folder`: its run, if any; `preferred`: properties to keep, best first.
    `on`: where candidates are tried; `release`: of what is not ours, if it has any."""

    scenario: Scenario
    seed: int
    folder: RunFolder | None
    preferred: tuple[str, ...]
    on: str = "sim"
    release: str | None = None

    @property
    def defect(self) -> str | None:
        """The defect in the form of NodeConfig.defect."""
        return DEFECTS[self.scenario.defect].path if self.scenario.defect is not None else None

    @property
    def real(self) -> bool:
        """Whether it failed on real processes, whose interleaving no seed fixes."""
        return self.folder is not None and self.folder.read_run().get("backend") != "sim"

    def simulated(self) -> Explored:
        """Its result in the simulator."""
        return try_seed(Task(scenario=self.scenario, defect=self.defect), self.seed)[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A scenario with a fixed schedule that fails with its seed. `before`: its result."""

    scenario: Scenario
    failure: Failure
    before: Explored


def find_culprit(
    what: str,
    *,
    results: Path,
    seed: int | None,
    defect: str | None,
    swarmed: bool,
    nodes: int | None,
    real: bool = False,
) -> Culprit:
    """Find the failure that a run folder or a scenario with a seed names. `real`: a run's candidates are tried where it was.
    Raises BadInput, also for a run that passed."""
    places = [path for path in (Path(what), results / what) if path.joinpath("run.json").is_file()]
    if not places:
        if real:
            raise BadInput(f"--rerun is for the folder of a failed run; there is none called {what}")
        return _of_scenario(what, seed, defect, swarmed, nodes)
    given = {"--seed": seed, "--defect": defect, "--swarm": swarmed or None, "--nodes": nodes}
    wrong = [name for name, value in given.items() if value is not None]
    if wrong:
        raise BadInput(f"{what} is a run, which has its own seed, nodes and defect: leave out {', '.join(wrong)}")
    return _of_run(stored.find(results, what), real)


def _of_scenario(what: str, seed: int | None, defect: str | None, swarmed: bool, nodes: int | None) -> Culprit:
    try:
        scenario = read_scenario(what, on="sim", nodes=nodes, defect=defect)
    except BadInput as error:
        known = what in catalogue.shipped() or Path(what).is_file()
        raise error if known else BadInput(f"{error}\nThere is no run folder {what} either.") from None
    seed = scenario.seed if seed is None else seed
    scenario = draw_swarm(scenario, seed) if swarmed else scenario
    return Culprit(scenario=scenario, seed=seed, folder=None, preferred=_preferred(scenario, []))


def _of_run(folder: RunFolder, real: bool) -> Culprit:
    facts = folder.read_run()
    backend = facts.get("backend", "processes")
    others = backend not in OURS or facts.get("evidence", TRACES) != TRACES  # the simulator has our nodes only
    on = backend if real or others else "sim"
    try:
        scenario = load(folder.file("scenario.toml"), facts.get("nodes"))
    except ScenarioError as error:
        raise BadInput(str(error)) from None
    if facts.get("defect") is not None and facts["defect"] not in registry.find(on).defects:
        raise BadInput(
            f"{folder.path}: its nodes were built with the defect {facts['defect']!r}, which this version does not have"
        )
    verdict, seed = folder.read_verdict(), facts.get("seed")
    if verdict is None:
        raise BadInput(f"{folder.path} has no readable verdict.json; `zab verify {folder.path}` writes one")
    if seed is None:
        raise BadInput(f"{folder.path}: run.json has no seed, so the run can't be repeated")
    scenario = replace(scenario, defect=facts.get("defect"))
    if verdict.exit in (scenario.expect.exit, 2):
        words = "ended as its scenario expects" if verdict.exit == scenario.expect.exit else "did not fail"
        raise BadInput(f"{folder.path} {words} ({verdict.verdict}): there is nothing to shrink")
    preferred = _preferred(scenario, verdict.violated)
    release = facts["versions"].get(backend) if others else None
    return Culprit(scenario=scenario, seed=seed, folder=folder, preferred=preferred, on=on, release=release)


def _preferred(scenario: Scenario, violated: Sequence[str]) -> tuple[str, ...]:
    """The properties to keep violated: first the one that the defect is known to break, then those that the run violated."""
    known = [DEFECTS[scenario.defect].property] if scenario.defect in DEFECTS else []
    return (*known, *violated)


def find_start(culprit: Culprit, workers: Workers) -> Start | None:
    """Find a fixed schedule that fails in the simulator. Raises BadInput if a scenario's seed does not fail at all.

    It fails with the culprit's seed or, if that is not known to fail in the simulator, with one of the next. None if there
    is no such schedule.
    """
    found = culprit.simulated()
    failure = failure_of(found, culprit.preferred)
    if failure is None and not culprit.real:
        name, seed = culprit.scenario.name, culprit.seed
        if culprit.folder is not None:
            return None  # a run of another version
        raise BadInput(
            f"{name} with seed {seed} ends as expected in the simulator ({found.verdict}): there is nothing to shrink.\n"
            f"`zab explore {name} --seeds 1..1000` looks for a seed that fails."
        )
    if failure is not None and culprit.folder is not None and failure.property not in (None, *culprit.preferred):
        failure = None  # another bug than the run's
    for scenario in written(culprit):
        for seed in [culprit.seed] if failure is not None else range(culprit.seed, culprit.seed + FURTHER_SEEDS):
            start = _try(culprit, replace(scenario, seed=seed), failure)
            if start is not None:
                return start if failure is None else replace(start, before=found)
    return None if failure is None else _with_another_seed(culprit, failure, found, workers)


def _try(culprit: Culprit, scenario: Scenario, failure: Failure | None) -> Start | None:
    found, _ = try_seed(Task(scenario=scenario, defect=culprit.defect), scenario.seed)
    wanted = failure if failure is not None else failure_of(found, culprit.preferred)
    if wanted is None or not wanted.shows_in(found) or (failure is None and wanted.property not in culprit.preferred):
        return None
    return Start(scenario=scenario, failure=wanted, before=found)


def _with_another_seed(culprit: Culprit, failure: Failure, found: Explored, workers: Workers) -> Start | None:
    """Look for a later seed that fails: faults that a nemesis put off may leave a schedule that this seed passes."""
    seeds = range(culprit.seed + 1, culprit.seed + FURTHER_SEEDS)
    for scenario in written(culprit):
        failing = failing_seeds(workers, culprit.defect, failure, scenario, seeds)
        if failing:
            return Start(scenario=replace(scenario, seed=failing[0]), failure=failure, before=found)
    return None


def written(culprit: Culprit) -> Iterator[Scenario]:
    """The fixed schedules to begin with: as drawn (or written), as the run had it, as the simulated run has it."""
    yield as_drawn(culprit.scenario, culprit.seed)
    if culprit.folder is not None:
        yield from _valid(as_it_happened(culprit.scenario, culprit.folder, culprit.seed))
    if culprit.scenario.nemesis is not None and culprit.on == "sim":
        with tempfile.TemporaryDirectory(prefix="zab-shrink-") as place:
            options = options_for(
                culprit.scenario.name, culprit.scenario, seed=culprit.seed, results=Path(place), record=False, on="sim"
            )
            folder = run(culprit.scenario, options, Quiet()).folder
            fixed = as_it_happened(culprit.scenario, folder, culprit.seed)
        yield from _valid(fixed)


def _valid(scenario: Scenario) -> Iterator[Scenario]:
    read_again = checked(scenario)
    if read_again is not None:
        yield read_again


def facts_of(scenario: Scenario, found: Explored) -> dict[str, Any]:
    """The size of a scenario and of its run."""
    return {
        "nodes": scenario.nodes,
        "faults": len(scenario.schedule()),
        "operations": found.invoked,
        "seconds": scenario.duration,
        "events": found.events,
    }
