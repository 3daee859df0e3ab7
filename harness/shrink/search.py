"""The search of shrinking: try candidates and keep one that fails in the same way.

The search is greedy and deterministic. It takes the first candidate that still fails, in an order that does not depend on the
number of workers. The candidates come from `harness/shrink/candidates.py`.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from zab_chaos.faults.scenario import Scenario, ScenarioError, parse
from zab_chaos.harness.explore.exploration import SeedResult, Task, simulate_seed
from zab_chaos.harness.explore.workers import LocalWorkers, WorkerPool
from zab_chaos.model.verdict import Outcome

WITNESSES_MAX = 2  # further seeds with which a candidate must fail, if the original scenario fails with so many
WITNESSES_TRIED = 4  # further seeds that are tried with the original scenario
Tell = Callable[[str], None]  # tells the user about the progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The failure that shrinking preserves: a verdict and, for a violation, one property."""

    verdict: str
    property: str | None

    def shows_in(self, found: SeedResult) -> bool:
        """Return True if this result has the same failure."""
        return found.verdict == self.verdict and (self.property is None or self.property in found.violated)

    def __str__(self) -> str:
        return f"{self.property} is violated" if self.property is not None else f"the verdict is {self.verdict}"


def failure_of(found: SeedResult, preferred: Sequence[str]) -> Failure | None:
    """Return the failure of a result that is to be preserved, or None if the seed did not fail.

    For a violation that is the first property of `preferred` that is violated, else the first violated one.
    """
    if not found.failed:
        return None
    if found.verdict != Outcome.VIOLATION:
        return Failure(verdict=found.verdict, property=None)
    kept = next((name for name in preferred if name in found.violated), found.violated[0])
    return Failure(verdict=found.verdict, property=kept)


@dataclass(frozen=True, slots=True)
class Budget:
    """When to stop the search: after a number of tries, or of seconds (on a slower machine the result is then larger)."""

    tries: int | None
    seconds: float | None


class Search:
    """Tries candidates on the workers.

    `fails` returns True if a candidate still fails. `on_try` is called with this object after every try.
    """

    def __init__(
        self, workers: WorkerPool, fails: Callable[[Scenario], bool], budget: Budget, on_try: Callable[["Search"], None]
    ) -> None:
        self.tries = 0
        self._workers = workers
        self._fails = fails
        self._budget = budget
        self._begun = time.monotonic()
        self._on_try = on_try
        self.best: Scenario | None = None  # the latest candidate that still fails, which is the smallest
        self._known: dict[str, bool] = {}  # by the text of a candidate's file: whether it fails

    @property
    def out_of_budget(self) -> bool:
        """True if the budget is used up."""
        tries, seconds = self._budget.tries, self._budget.seconds
        spent = tries is not None and self.tries >= tries
        return spent or (seconds is not None and time.monotonic() - self._begun > seconds)

    def first_failing(self, candidates: Sequence[Scenario]) -> int | None:
        """Return the index of the first valid candidate that still fails; None if there is none, or if the budget is used up.

        A candidate that was tried before is not tried again.
        """
        submitted: list[tuple[int, str]] = []  # the index and the text of each candidate that is tried
        known: list[int] = []  # the first candidate that is known to fail from an earlier try

        def untried() -> Iterator[Scenario]:
            for index, candidate in enumerate(candidates):
                if self.out_of_budget:
                    return
                text = candidate.to_toml()
                if self._known.get(text):
                    known.append(index)
                    return
                if text not in self._known and (read := reparsed(candidate, text)) is not None:
                    submitted.append((index, text))
                    yield read

        results = self._workers.results(self._fails, untried())
        for number, fails in enumerate(results):
            index, text = submitted[number]
            self.tries += 1
            self._known[text] = fails
            self._on_try(self)
            if fails:
                self.best = candidates[index]
            if fails or self.out_of_budget:
                return index if fails else None
        return next(iter(known), None)


def reparsed(candidate: Scenario, text: str | None = None) -> Scenario | None:
    """Return the candidate as it is read from its own file (`text`); None if that file would be invalid."""
    try:
        return parse(candidate.to_toml() if text is None else text)
    except ScenarioError:
        return None


def still_fails(defect: str | None, failure: Failure, seeds: Sequence[int], scenario: Scenario) -> bool:
    """Return True if the scenario fails in the same way with every seed."""
    task = Task(scenario=scenario, defect=defect)
    return all(failure.shows_in(simulate_seed(task, seed)[0]) for seed in seeds)


def witness_seeds(
    workers: LocalWorkers, defect: str | None, failure: Failure, scenario: Scenario, seed: int, tell: Tell
) -> list[int]:
    """Return `seed` and a few others with which the scenario fails.

    A candidate that fails with all of them depends less on a single interleaving.
    """
    others = [seed + number for number in range(1, WITNESSES_TRIED + 1)]
    failing = seeds_that_fail(workers, defect, failure, scenario, others, tell)
    return [seed, *failing[:WITNESSES_MAX]]


def seeds_that_fail(
    workers: LocalWorkers, defect: str | None, failure: Failure, scenario: Scenario, seeds: Sequence[int], tell: Tell
) -> list[int]:
    """Return the seeds with which the scenario fails in the same way."""
    cases = [replace(scenario, seed=seed) for seed in seeds]
    results = workers.results(partial(_fails_with_its_seed, defect, failure), cases)
    failing: list[int] = []
    for number, (seed, fails) in enumerate(zip(seeds, results, strict=True), 1):
        failing += [seed] if fails else []
        tell(f"{number} of {len(seeds)} other seeds tried, {len(failing)} fail as well")
    return failing


def _fails_with_its_seed(defect: str | None, failure: Failure, scenario: Scenario) -> bool:
    return still_fails(defect, failure, [scenario.seed], scenario)
