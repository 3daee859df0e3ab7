"""Where shrinking begins: find the failed run or failing seed, and a fixed schedule for it that fails in the simulator."""

import shlex
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
from zab_chaos.harness.explore.exploration import SeedResult, Task, simulate_seed
from zab_chaos.harness.explore.swarm import draw_swarm
from zab_chaos.harness.explore.workers import LocalWorkers
from zab_chaos.harness.report.headline import ranked_violations
from zab_chaos.harness.report.progress import Quiet
from zab_chaos.harness.results import run_folder as stored
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.harness.runs import catalogue
from zab_chaos.harness.runs.options import options_for, read_scenario
from zab_chaos.harness.runs.run import run
from zab_chaos.harness.shrink.fixed_schedule import as_drawn, as_it_happened
from zab_chaos.harness.shrink.search import Budget, Failure, Tell, failure_of, reparsed, try_seeds
from zab_chaos.model.events import TRACES
from zab_chaos.model.verdict import Outcome, ended_as_expected

FURTHER_SEEDS = 20  # tried if a run on processes does not fail in the simulator with its own seed


@dataclass(frozen=True, slots=True, kw_only=True)
class FailingCase:
    """A scenario and a seed that fail, to be shrunk.

    `folder`: the failed run, if there is one. `preferred`: the properties whose violation is to be preserved, best first.
    `on`: the backend that tries candidates. `release`: the release of the tested system, if it is not ours and has releases.
    """

    scenario: Scenario
    seed: int
    folder: RunFolder | None
    preferred: tuple[str, ...]
    on: str = "sim"
    release: str | None = None
    to: str | None = None
    explore: str = ""  # the command that explores other seeds of a scenario, up to the seeds

    @property
    def defect(self) -> str | None:
        """The scenario's defect in the form of NodeConfig.defect."""
        return DEFECTS[self.scenario.defect].path if self.scenario.defect is not None else None

    @property
    def not_simulated(self) -> bool:
        """True if the run was not in the simulator, so that no seed fixes its interleaving."""
        return self.folder is not None and self.folder.read_run().get("backend") != "sim"

    def simulate(self) -> SeedResult:
        """Run the scenario with the seed in the simulator, and return the result."""
        return simulate_seed(Task(scenario=self.scenario, defect=self.defect), self.seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartingPoint:
    """A scenario with a fixed schedule that fails with its own seed.

    `at`: when it fails, in seconds since the load began. `before`: the result before shrinking.
    """

    scenario: Scenario
    failure: Failure
    at: float
    before: SeedResult


def find_failing_case(
    what: str,
    *,
    results: Path,
    seed: int | None,
    defect: str | None,
    swarmed: bool,
    nodes: int | None,
    rerun: bool = False,
) -> FailingCase:
    """Find the run folder, or the scenario with its seed, that the user has named.

    `rerun`: try the candidates on the run's own backend instead of the simulator. Raises BadInput, also for a run that passed.
    """
    folders = [path for path in (Path(what), results / what) if path.joinpath("run.json").is_file()]
    if not folders:
        if rerun:
            raise BadInput(f"--rerun is for the folder of a failed run; there is none called {what}")
        return _case_of_scenario(what, seed, defect, swarmed, nodes)
    given = {"--seed": seed, "--defect": defect, "--swarm": swarmed or None, "--nodes": nodes}
    excluded = [name for name, value in given.items() if value is not None]
    if excluded:
        raise BadInput(f"{what} is a run, which has its own seed, nodes and defect: leave out {', '.join(excluded)}")
    return _case_of_run(stored.find(results, what), rerun)


def _case_of_scenario(what: str, seed: int | None, defect: str | None, swarmed: bool, nodes: int | None) -> FailingCase:
    try:
        scenario = read_scenario(what, on="sim", nodes=nodes, defect=defect)
    except BadInput as error:
        known = what in catalogue.shipped() or Path(what).is_file()
        raise error if known else BadInput(f"{error}\nThere is no run folder {what} either.") from None
    seed = scenario.seed if seed is None else seed
    scenario = draw_swarm(scenario, seed) if swarmed else scenario
    explore = ["zab", "explore", what, *(["--swarm"] if swarmed else [])]
    explore += [*(["--defect", defect] if defect else []), *(["--nodes", str(nodes)] if nodes is not None else [])]
    preferred = _preferred_properties(scenario, [])
    return FailingCase(scenario=scenario, seed=seed, folder=None, preferred=preferred, explore=shlex.join(explore))


def _case_of_run(folder: RunFolder, rerun: bool) -> FailingCase:
    facts = folder.read_run()
    backend, foreign = facts.get("backend", "processes"), is_foreign(facts)
    on = backend if rerun or foreign else "sim"
    try:
        scenario = load(folder.file("scenario.toml"), facts.get("nodes"), None if foreign else facts.get("disk"))
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
    as_expected = ended_as_expected(scenario.expected(exact=True), verdict.verdict, verdict.violated)
    if as_expected or verdict.exit == 2:
        ending = "ended as its scenario expects" if as_expected else "did not fail"
        raise BadInput(f"{folder.path} {ending} ({verdict.verdict}): there is nothing to shrink")
    in_headline = [item.name for item, _ in ranked_violations(verdict)]
    preferred = _preferred_properties(scenario, [*dict.fromkeys((*in_headline, *verdict.violated))])
    releases = facts.get("releases") or ({"old": facts["versions"].get(backend)} if foreign else {})
    release, to = releases.get("old"), releases.get("new")
    return FailingCase(scenario=scenario, seed=seed, folder=folder, preferred=preferred, on=on, release=release, to=to)


def is_foreign(facts: dict[str, Any]) -> bool:
    """Return whether a run, given its run.json, was of other nodes than ours, which the simulator can't run."""
    return facts.get("backend", "processes") not in OURS or facts.get("evidence", TRACES) != TRACES


def _preferred_properties(scenario: Scenario, violated: Sequence[str]) -> tuple[str, ...]:
    """Return the property that the defect is known to break, if any, then `violated`, those that the run violated."""
    known = [DEFECTS[scenario.defect].property] if scenario.defect in DEFECTS else []
    return (*known, *violated)


def find_starting_point(case: FailingCase, workers: LocalWorkers, budget: Budget, tell: Tell) -> StartingPoint | None:
    """Find a fixed schedule that fails in the simulator; None if there is none, or none was found within the budget.

    It fails with the case's seed or, if that is not known to fail in the simulator, with one of the next seeds.
    Raises BadInput if a scenario was named whose seed does not fail at all.
    """
    found = case.simulate()
    budget.used += 1
    failure = failure_of(found, case.preferred)
    if failure is None and not case.not_simulated:
        if case.folder is not None:
            return None  # the run was made by another version
        raise BadInput(
            f"{case.scenario.name} with seed {case.seed} ends as expected in the simulator ({found.verdict}): there is nothing "
            f"to shrink.\n`{case.explore} --seeds 1..1000` looks for a seed that fails."
        )
    if failure is not None and case.folder is not None and failure.property not in (None, *case.preferred):
        failure = None  # it is another bug than that of the run
    schedules: list[Scenario] = []
    for scenario in fixed_schedules(case):
        schedules.append(scenario)
        for seed in [case.seed] if failure is not None else range(case.seed, case.seed + FURTHER_SEEDS):
            if budget.used_up:
                return None
            tell(f"simulating a fixed schedule with seed {seed}")
            start = _try_schedule(case, replace(scenario, seed=seed), failure, budget)
            if start is not None:
                return start if failure is None else replace(start, before=found)
    return None if failure is None else _with_another_seed(case, schedules, failure, found, workers, budget, tell)


def _try_schedule(
    case: FailingCase, scenario: Scenario, failure: Failure | None, budget: Budget
) -> StartingPoint | None:
    """Simulate the scenario. Return it if it has the failure or, if that is None, violates a preferred property."""
    found = simulate_seed(Task(scenario=scenario, defect=case.defect), scenario.seed)
    budget.used += 1
    wanted = failure_of(found, case.preferred if failure is None else [failure.property or ""])
    if failure is not None and failure.shows_in(found):
        wanted = failure
    same = (failure.verdict, [failure.property]) if failure is not None else (Outcome.VIOLATION, case.preferred)
    at = wanted.seen_at(found) if wanted is not None else None
    if wanted is None or at is None or wanted.verdict != same[0] or wanted.property not in same[1]:
        return None
    return StartingPoint(scenario=scenario, failure=wanted, at=at, before=found)


def _with_another_seed(
    case: FailingCase, schedules: Sequence[Scenario], failure: Failure, found: SeedResult, workers: LocalWorkers,
    budget: Budget, tell: Tell,
) -> StartingPoint | None:  # fmt: skip
    """Look for a later seed that fails. The case's own may pass with a fixed schedule if the nemesis had postponed faults."""
    seeds = range(case.seed + 1, case.seed + FURTHER_SEEDS)
    for scenario in schedules:
        failing = try_seeds(workers, case.defect, failure, scenario, seeds, budget, tell, enough=1).failing
        for seed, at in failing.items():
            return StartingPoint(scenario=replace(scenario, seed=seed), failure=failure, at=at, before=found)
    return None


def fixed_schedules(case: FailingCase) -> Iterator[Scenario]:
    """Yield the schedules to begin with: as drawn (or as the file has it), as in the run, as in a simulated run of the seed."""
    yield from _valid(as_drawn(case.scenario, case.seed))
    if case.folder is not None:
        yield from _valid(as_it_happened(case.scenario, case.folder, case.seed))
    if case.scenario.nemesis is not None and case.on == "sim":
        with tempfile.TemporaryDirectory(prefix="zab-shrink-") as results:
            options = options_for(
                case.scenario.name, case.scenario, seed=case.seed, results=Path(results), record=False, on="sim"
            )
            folder = run(case.scenario, options, Quiet()).folder
            fixed = as_it_happened(case.scenario, folder, case.seed)
        yield from _valid(fixed)


def _valid(scenario: Scenario) -> Iterator[Scenario]:
    """Yield the scenario as it is read from its own file, or nothing if that file would be invalid: drawn faults may contradict
    each other. The defect of another system has no place in a file."""
    read_again = reparsed(replace(scenario, defect=None))
    if read_again is not None:
        yield replace(read_again, defect=scenario.defect)


def facts_of(scenario: Scenario, found: SeedResult) -> dict[str, Any]:
    """Return the size of a scenario and of its run, as shown in the table of results."""
    return {
        "nodes": scenario.nodes,
        "faults": len(scenario.schedule()),
        "operations": found.invoked,
        "seconds": scenario.duration,
        "events": found.events,
    }
