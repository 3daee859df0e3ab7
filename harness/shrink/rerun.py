"""Shrinking where the simulator does not help: each candidate is run again, on the backend that the failing run was on."""

from dataclasses import dataclass, replace
from pathlib import Path

from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.backends import registry
from zab_chaos.harness.backends.fitting import fitted, mistakes
from zab_chaos.harness.explore.exploration import Explored
from zab_chaos.harness.runs.options import options_for
from zab_chaos.harness.runs.run import run_quietly
from zab_chaos.harness.shrink.failure import Culprit, Start, written
from zab_chaos.harness.shrink.search import Failure, failure_of


@dataclass(slots=True, kw_only=True)
class Rerun:
    """How candidates are run: on the culprit's backend and release, each up to so many `times`, for no seed fixes what
    happens there. `results`: where the runs' folders go; `failing`: what the latest run was that failed in the same way."""

    culprit: Culprit
    results: Path
    times: int
    failing: Explored | None = None

    def start(self) -> Start | None:
        """The culprit with a fixed schedule, as one that has failed again. Raises BadInput, HarnessError, Interrupted."""
        for scenario in map(self._fitted, written(self.culprit)):
            for _ in range(self.times):
                found = self._result(scenario)
                failure = failure_of(found, self.culprit.preferred) if found is not None else None
                if found is not None and failure is not None and failure.property in (None, *self.culprit.preferred):
                    return Start(scenario=scenario, failure=failure, before=found)
        return None

    def fails(self, failure: Failure, scenario: Scenario) -> bool:
        """Whether one of the runs fails in the same way. Raises BadInput, HarnessError, Interrupted."""
        for _ in range(self.times):
            found = self._result(scenario)
            if found is None:
                return False
            if failure.shows_in(found):
                self.failing = found
                return True
        return False

    def _result(self, scenario: Scenario) -> Explored | None:
        """Of one run; None if the backend can't do what the scenario asks for."""
        if mistakes(registry.find(self.culprit.on), scenario):
            return None
        scenario = replace(scenario, defect=self.culprit.scenario.defect)
        on, release = self.culprit.on, self.culprit.release
        options = options_for(scenario.name, scenario, seed=scenario.seed, results=self.results, on=on, release=release)
        ran = run_quietly(scenario, options)
        invoked = sum(line["type"] == "invoke" for line in ran.folder.lines("ops.jsonl"))
        events = sum(map(_lines, ran.folder.path.glob("trace/*.jsonl")))
        return replace(Explored.stored(scenario, scenario.seed, ran), invoked=invoked, events=events)

    def _fitted(self, scenario: Scenario) -> Scenario:
        """Without the defaults of its file. A defect of another system has no place in a file, so it is put in for each run."""
        return replace(fitted(registry.find(self.culprit.on), scenario), source="", defect=None)


def _lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for _ in file)
