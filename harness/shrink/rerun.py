"""Shrinking without the simulator: each candidate is run on the backend of the failed run."""

import shutil
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path

from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.backends import registry
from zab_chaos.harness.backends.fitting import fitted, mistakes
from zab_chaos.harness.errors import Interrupted
from zab_chaos.harness.explore.exploration import SeedResult, violations_in
from zab_chaos.harness.explore.workers import WorkerPool
from zab_chaos.harness.runs.options import options_for
from zab_chaos.harness.runs.run import run_quietly
from zab_chaos.harness.shrink.failure import FailingCase, StartingPoint, fixed_schedules
from zab_chaos.harness.shrink.search import Failed, Failure, failure_of


@dataclass(slots=True, kw_only=True)
class CandidateRuns:
    """Runs candidates on the case's backend and release, each up to `times` times, because no seed fixes what happens there.

    `results`: the folder for the run folders.
    """

    case: FailingCase
    results: Path
    times: int

    def start(self, workers: WorkerPool) -> StartingPoint | None:
        """Return a fixed schedule of the case that has failed again; None if none did.

        Raises BadInput, HarnessError, Interrupted.
        """
        tried = [one for fixed in fixed_schedules(self.case) for one in repeat(self._fit(fixed), self.times)]
        for scenario, found in zip(tried, workers.results(self._run, tried), strict=True):
            failure = failure_of(found, self.case.preferred) if found is not None else None
            if found is not None and failure is not None and failure.property in (None, *self.case.preferred):
                at = failure.seen_at(found)
                assert at is not None
                return StartingPoint(scenario=scenario, failure=failure, at=at, before=found)
        return None

    def try_candidate(self, failure: Failure, scenario: Scenario) -> Failed | None:
        """Return the first of up to `times` runs that has failed in the same way; None if none did.

        Raises BadInput, HarnessError, Interrupted.
        """
        for _ in range(self.times):
            found = self._run(scenario)
            if found is None:
                return None
            if (at := failure.seen_at(found)) is not None:
                return Failed(at, found)
        return None

    def _run(self, scenario: Scenario) -> SeedResult | None:
        """Run the scenario once and return the result; None if the backend can't do what the scenario asks for."""
        if mistakes(registry.find(self.case.on), scenario):
            return None
        scenario = replace(scenario, defect=self.case.scenario.defect)
        on, release, to = self.case.on, self.case.release, self.case.to
        options = options_for(
            scenario.name, scenario, seed=scenario.seed, results=self.results, on=on, release=release, to=to
        )
        try:
            ran = run_quietly(scenario, options)
        except Interrupted:
            raise Interrupted("interrupted; no smaller scenario was found, and the runs are not kept") from None
        invoked = sum(line["type"] == "invoke" for line in ran.folder.lines("ops.jsonl"))
        events = sum(map(_count_lines, ran.folder.path.glob("trace/*.jsonl")))
        shown = violations_in(ran.verdict, ran.folder.origin())
        shutil.rmtree(ran.folder.path, ignore_errors=True)  # a search may take thousands of runs
        found = SeedResult.stored(scenario, scenario.seed, ran)
        return replace(found, invoked=invoked, events=events, shown=shown, folder=None)

    def _fit(self, scenario: Scenario) -> Scenario:
        """Adapt the scenario to the backend. A defect of another system has no place in a file, so each run sets it instead."""
        return replace(fitted(registry.find(self.case.on), scenario), source="", defect=None)


def _count_lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for _ in file)
