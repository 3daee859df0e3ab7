"""The search of shrinking: tries candidates and keeps one that fails in the same way.

The search is greedy and deterministic: the first candidate that still fails is taken, in an order that does not depend on how
many workers try them. `harness/shrink/candidates.py` says what is tried.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from zab_chaos.faults.scenario import Scenario, ScenarioError, parse
from zab_chaos.harness.explore.exploration import Explored, Task, try_seed
from zab_chaos.harness.explore.workers import Crew, Workers
from zab_chaos.model.verdict import Outcome

WITNESSES = 2  # further seeds with which a candidate must fail, if the unshrunk scenario does
LOOKED_AT = 4  # further seeds that are tried for it


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The failure to preserve: a verdict and, for a violation, one property."""

    verdict: str
    property: str | None

    def shows_in(self, found: Explored) -> bool:
        return found.verdict == self.verdict and (self.property is None or self.property in found.violated)

    def __str__(self) -> str:
        return f"{self.property} is violated" if self.property is not None else f"the verdict is {self.verdict}"


def failure_of(found: Explored, preferred: Sequence[str]) -> Failure | None:
    """The failure of a run to preserve: the first violated property of `preferred`, else the first violated one.

    None if nothing failed.
    """
    if not found.failed:
        return None
    if found.verdict != Outcome.VIOLATION:
        return Failure(verdict=found.verdict, property=None)
    kept = next((name for name in preferred if name in found.violated), found.violated[0])
    return Failure(verdict=found.verdict, property=kept)


@dataclass(frozen=True, slots=True)
class Budget:
    """When to stop: after a number of tries, or of seconds (then a slower machine finds less)."""

    tries: int | None
    seconds: float | None


class Search:
    """Tries candidates with the workers. `fails`: whether one still does; `on_try` is called after every try."""

    def __init__(
        self, workers: Crew, fails: Callable[[Scenario], bool], budget: Budget, on_try: Callable[["Search"], None]
    ) -> None:
        self.tries = 0
        self._workers = workers
        self._fails = fails
        self._budget = budget
        self._begun = time.monotonic()
        self._on_try = on_try
        self.best: Scenario | None = None  # of those that were tried and still fail, the latest: the smallest
        self._known: dict[str, bool] = {}  # by the file's text

    @property
    def over(self) -> bool:
        """Whether the budget is used up."""
        tries, seconds = self._budget.tries, self._budget.seconds
        spent = tries is not None and self.tries >= tries
        return spent or (seconds is not None and time.monotonic() - self._begun > seconds)

    def first(self, candidates: Sequence[Scenario]) -> int | None:
        """The index of the first valid candidate that still fails; None if there is none, or the budget is used up."""
        handed: list[tuple[int, str]] = []
        known: list[int] = []

        def fresh() -> Iterator[Scenario]:
            for index, candidate in enumerate(candidates):
                if self.over:
                    return
                text = candidate.to_toml()
                if self._known.get(text):
                    known.append(index)
                    return
                if text not in self._known and (read := checked(candidate, text)) is not None:
                    handed.append((index, text))
                    yield read

        answers = self._workers.answers(self._fails, fresh())
        for number, fails in enumerate(answers):
            index, text = handed[number]
            self.tries += 1
            self._known[text] = fails
            self._on_try(self)
            if fails:
                self.best = candidates[index]
            if fails or self.over:
                return index if fails else None
        return next(iter(known), None)


def checked(candidate: Scenario, text: str | None = None) -> Scenario | None:
    """The candidate as read from its own file; None if such a file would be invalid."""
    try:
        return parse(candidate.to_toml() if text is None else text)
    except ScenarioError:
        return None


def still_fails(defect: str | None, failure: Failure, seeds: Sequence[int], scenario: Scenario) -> bool:
    """Whether the scenario fails in the same way with every seed."""
    task = Task(scenario=scenario, defect=defect)
    return all(failure.shows_in(try_seed(task, seed)[0]) for seed in seeds)


def witnesses(workers: Workers, defect: str | None, failure: Failure, scenario: Scenario, seed: int) -> list[int]:
    """The seed and a few others with which the scenario fails: a result that fails with all of them depends less on a single
    interleaving."""
    others = [seed + number for number in range(1, LOOKED_AT + 1)]
    failing = failing_seeds(workers, defect, failure, scenario, others)
    return [seed, *failing[:WITNESSES]]


def failing_seeds(
    workers: Workers, defect: str | None, failure: Failure, scenario: Scenario, seeds: Sequence[int]
) -> list[int]:
    """The seeds with which the scenario fails in the same way."""
    cases = [replace(scenario, seed=seed) for seed in seeds]
    answers = workers.answers(partial(_fails_with_its_seed, defect, failure), cases)
    return [seed for seed, fails in zip(seeds, answers, strict=True) if fails]


def _fails_with_its_seed(defect: str | None, failure: Failure, scenario: Scenario) -> bool:
    return still_fails(defect, failure, [scenario.seed], scenario)
