"""The search of shrinking: try candidates and keep one that fails in the same way.

The search is greedy and deterministic. It takes the first candidate that still fails, in an order that does not depend on the
number of workers. The candidates come from `harness/shrink/candidates.py`.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from zab_chaos.faults.scenario import Scenario, ScenarioError, parse
from zab_chaos.harness.explore.exploration import SeedResult, Shown, Task, simulate_seed
from zab_chaos.harness.explore.workers import LocalWorkers, WorkerPool
from zab_chaos.model.verdict import Outcome

WITNESSES_MAX = 2  # further seeds with which a candidate must fail, if the original scenario fails with so many
WITNESSES_TRIED = 4  # further seeds that are tried with the original scenario
Tell = Callable[[str], None]  # tells the user about the progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The failure that shrinking preserves: a verdict and, for a violation, one property.

    `milestones`: those that the evidence of the violation must contain, because a property can be violated in several ways:
    after the healing, for example, or before. None: any.
    """

    verdict: str
    property: str | None
    milestones: frozenset[str] | None = None

    def shows_in(self, found: SeedResult) -> bool:
        """Return True if this result has the same failure."""
        if found.verdict != self.verdict or self.property not in (None, *found.violated):
            return False
        return self.milestones is None or any(self._matches(one) for one in found.shown)

    def seen_at(self, found: SeedResult) -> float | None:
        """Return when this result shows the failure, as `FailsAt` does."""
        if not self.shows_in(found):
            return None
        return min((one.at for one in found.shown if self._matches(one)), default=math.inf)

    def words_in(self, found: SeedResult) -> str | None:
        """Return the sentence on the violation; None if there is none in the result."""
        return next((one.words for one in found.shown if self._matches(one)), None)

    def _matches(self, one: Shown) -> bool:
        return one.property == self.property and self.milestones in (None, one.milestones)

    def __str__(self) -> str:
        return f"{self.property} is violated" if self.property is not None else f"the verdict is {self.verdict}"


@dataclass(frozen=True, slots=True)
class Failed:
    """A candidate that has failed: when, in seconds since the load began (infinite if the verdict does not say), and how."""

    at: float
    found: SeedResult


Try = Callable[[Scenario], Failed | None]  # runs a candidate; None: it did not fail in the same way


def failure_of(found: SeedResult, preferred: Sequence[str]) -> Failure | None:
    """Return the failure of a result that is to be preserved, or None if the seed did not fail.

    For a violation that is the first property of `preferred` that is violated, else the one of the headline.
    """
    if not found.failed:
        return None
    if found.verdict != Outcome.VIOLATION:
        return Failure(verdict=found.verdict, property=None)
    names = [*preferred, *(one.property for one in found.shown), *found.violated]
    kept = next(name for name in names if name in found.violated)
    milestones = next((one.milestones for one in found.shown if one.property == kept), None)
    return Failure(verdict=found.verdict, property=kept, milestones=milestones)


@dataclass(slots=True)
class Budget:
    """How much may be run: a number of tries, or seconds (on a slower machine the result is then larger).

    A try is one candidate, or one seed that is tried for another reason. The seconds count from when this object is created.
    """

    tries: int | None
    seconds: float | None
    used: int = 0  # tries
    _begun: float = field(default_factory=time.monotonic)

    @property
    def deadline(self) -> float:
        """The time at which the seconds are over, on the monotonic clock that all processes of a machine share."""
        return math.inf if self.seconds is None else self._begun + self.seconds

    @property
    def used_up(self) -> bool:
        """True if nothing more may be run."""
        return (self.tries is not None and self.used >= self.tries) or time.monotonic() > self.deadline


class Search:
    """Tries candidates on the workers.

    `try_candidate` runs one. `on_try` is called with this object after every try.
    """

    def __init__(
        self, workers: WorkerPool, try_candidate: Try, budget: Budget, on_try: Callable[["Search"], None]
    ) -> None:
        self.budget = budget
        self._workers = workers
        self._try_candidate = try_candidate
        self._on_try = on_try
        self.best: Scenario | None = None  # the latest candidate that still fails, which is the smallest
        self.best_result: SeedResult | None = None
        self._known: dict[str, float | None] = {}  # by the text of a candidate's file: when it fails; None: it does not

    def remember(self, scenario: Scenario, at: float) -> None:
        """Record that a scenario fails, and when, which is known without a try."""
        self._known[scenario.to_toml()] = at

    def require(self, try_candidate: Try) -> None:
        """Ask for more than before: try the candidates that failed anew, with this function."""
        self._try_candidate = try_candidate
        self._known = {text: at for text, at in self._known.items() if at is None}

    def failed_at(self, scenario: Scenario) -> float:
        """Return when a scenario that was tried has failed, in seconds since the load began; infinite if that is not known."""
        at = self._known.get(scenario.to_toml())
        return math.inf if at is None else at

    def first_failing(self, candidates: Sequence[Scenario]) -> int | None:
        """Return the index of the first valid candidate that still fails; None if there is none, or if the budget is used up.

        A candidate that was tried before is not tried again.
        """
        submitted: list[tuple[int, str]] = []  # the index and the text of each candidate that is tried
        known: list[int] = []  # the first candidate that is known to fail from an earlier try
        texts: set[str] = set()

        def untried() -> Iterator[Scenario]:
            for index, candidate in enumerate(candidates):
                if self.budget.used_up:
                    return
                text = candidate.to_toml()
                if self._known.get(text) is not None:
                    known.append(index)
                    return
                if text in self._known or text in texts:
                    continue
                texts.add(text)
                if (read := reparsed(candidate, text)) is not None:
                    submitted.append((index, text))
                    yield read

        results = self._workers.results(self._try_candidate, untried())
        for number, failed in enumerate(results):
            index, text = submitted[number]
            self.budget.used += 1
            self._known[text] = failed.at if failed is not None else None
            self._on_try(self)
            if failed is not None:
                self.best, self.best_result = candidates[index], failed.found
                return index
            if self.budget.used_up:
                return None
        return next(iter(known), None)


def reparsed(candidate: Scenario, text: str | None = None) -> Scenario | None:
    """Return the candidate as it is read from its own file (`text`); None if that file would be invalid."""
    try:
        return parse(candidate.to_toml() if text is None else text)
    except ScenarioError:
        return None


def fails_with_all(
    defect: str | None, failure: Failure, seeds: Sequence[int], deadline: float, scenario: Scenario
) -> Failed | None:
    """Return the latest failure of all seeds; None if the scenario passes with one, or if the deadline comes first."""
    task, failed = Task(scenario=scenario, defect=defect), []
    for seed in seeds:
        if time.monotonic() > deadline:
            return None
        found = simulate_seed(task, seed)
        at = failure.seen_at(found)
        if at is None:
            return None
        failed.append(Failed(at, found))
    return max(failed, key=lambda one: one.at)


@dataclass(frozen=True, slots=True)
class OtherSeeds:
    """Other seeds that were tried with a scenario: how many, and when those failed that did."""

    tried: int
    failing: dict[int, float]


def witness_seeds(
    workers: LocalWorkers, defect: str | None, failure: Failure, scenario: Scenario, budget: Budget, tell: Tell
) -> dict[int, float]:
    """Return a few seeds after the scenario's with which it fails, and when.

    A candidate that fails with all of them depends less on a single interleaving.
    """
    seeds = range(scenario.seed + 1, scenario.seed + 1 + WITNESSES_TRIED)
    return try_seeds(workers, defect, failure, scenario, seeds, budget, tell, enough=WITNESSES_MAX).failing


def try_seeds(
    workers: LocalWorkers, defect: str | None, failure: Failure, scenario: Scenario, seeds: Sequence[int],
    budget: Budget, tell: Tell, enough: int | None = None,
) -> OtherSeeds:  # fmt: skip
    """Try the seeds, as far as the budget allows or until `enough` fail, and return which of them fail in the same way."""
    cases = (replace(scenario, seed=seed) for seed in seeds if not budget.used_up)
    results = workers.results(partial(_fails_with_its_seed, defect, failure), cases)
    failing: dict[int, float] = {}
    tried = 0
    for seed, failed in zip(seeds, results, strict=False):
        tried += 1
        budget.used += 1
        failing |= {seed: failed.at} if failed is not None else {}
        tell(f"{tried} of {len(seeds)} other seeds tried, {len(failing)} fail as well")
        if budget.used_up or len(failing) == enough:
            break
    return OtherSeeds(tried, failing)


def _fails_with_its_seed(defect: str | None, failure: Failure, scenario: Scenario) -> Failed | None:
    return fails_with_all(defect, failure, [scenario.seed], math.inf, scenario)
