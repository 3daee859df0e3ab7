"""Runs many seeds of one scenario: in the simulator, on all cores of this machine or of a Spark cluster; or on another backend,
one after the other.

Answers come in the order of the seeds, so the first failure that is heard of has the smallest seed.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.backends import registry
from zab_chaos.harness.backends.fitting import without_unsupported_faults
from zab_chaos.harness.backends.simulator.backend import plan_of
from zab_chaos.harness.errors import Exit
from zab_chaos.harness.explore.kept import Elsewhere, Keep, keep_run
from zab_chaos.harness.explore.simulate import simulate
from zab_chaos.harness.explore.swarm import EVEN, Weights, draw_swarm
from zab_chaos.harness.explore.workers import Crew, Workers
from zab_chaos.harness.runs.run import FinishedRun
from zab_chaos.model.coverage import Book, Combination, covering
from zab_chaos.model.verdict import Verdict

AHEAD = 4  # seeds handed out per worker: enough that none waits, few enough that a failure is heard of soon
OUTCOMES = ("acked", "failed", "unknown")
LOG = logging.getLogger("zab.explore")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What every seed is run with. `defect` as in NodeConfig.defect; `keep`: which simulated seeds leave a run folder, if any;
    `elsewhere`: where seeds are run that are not simulated."""

    scenario: Scenario
    defect: str | None = None
    swarm: bool = False
    coverage: bool = False
    weights: Weights = EVEN
    keep: Keep | None = None
    elsewhere: Elsewhere | None = None

    def scenario_of(self, seed: int) -> Scenario:
        if not self.swarm:
            return self.scenario
        drawn = draw_swarm(self.scenario, seed, self.weights)
        return drawn if self.elsewhere is None else without_unsupported_faults(registry.find(self.elsewhere.on), drawn)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explored:
    """The result of one seed. `exit`: the run's; `expected`: the scenario's; `met`: all expectations of the scenario hold.
    `seconds`: of virtual time, or for how long it was to run. `faults`: how many of each kind were injected; `operations`:
    of the clients, by outcome; `invoked`: all of them; `events`: lines of the nodes' traces, where somebody has counted these
    two; `folder`: of the run, if it was kept."""

    seed: int
    verdict: str
    exit: int
    expected: int
    violated: list[str]
    reasons: list[str]
    seconds: float
    faults: Counter[str]
    operations: dict[str, int]
    invoked: int = 0
    events: int = 0
    reached: set[Combination] = field(default_factory=set)
    met: bool = True
    trouble: str = ""  # where the harness failed, if it did
    folder: Path | None = None

    @classmethod
    def judged(cls, scenario: Scenario, seed: int, verdict: Verdict, **measured: Any) -> Self:
        """What a verdict says of a seed. `measured`: the other fields."""
        return cls(
            seed=seed,
            verdict=str(verdict.verdict),
            exit=verdict.exit,
            expected=scenario.expect.exit,
            violated=verdict.violated,
            met=scenario.expect.met(verdict.exit, verdict.violated),
            reasons=verdict.reasons[:5],
            **measured,
        )

    @classmethod
    def stored(cls, scenario: Scenario, seed: int, ran: FinishedRun) -> Self:
        """What a run with a folder says of its seed."""
        metrics = ran.verdict.metrics
        return cls.judged(
            scenario,
            seed,
            ran.verdict,
            seconds=scenario.duration,
            faults=Counter(fault["do"] for fault in metrics.get("faults", ())),
            operations={name: metrics[name] for name in OUTCOMES if name in metrics},
            folder=ran.folder.path,
        )

    @property
    def failed(self) -> bool:
        """Whether the result is not the expected one, and not just UNKNOWN."""
        return not self.met and self.exit != Exit.UNKNOWN


def explore_seed(task: Task, seed: int) -> Explored:
    """Run one seed, and keep its run if that is wanted. Raises as `Elsewhere.run`."""
    if task.elsewhere is not None:
        scenario = task.scenario_of(seed)
        return Explored.stored(scenario, seed, task.elsewhere.run(scenario, seed, drawn=task.swarm))
    found, trouble = try_seed(task, seed)
    folder = None
    if task.keep is not None and task.keep.wants(seed, failed=found.failed):
        folder = keep_run(task.keep, task.scenario_of(seed), seed, drawn=task.swarm)
    return replace(found, trouble=trouble, folder=folder)


def try_seed(task: Task, seed: int) -> tuple[Explored, str]:
    """Run one seed. Return its result and, if the harness failed, the traceback."""
    scenario = task.scenario_of(seed)
    book, plan = Book(), None
    if task.coverage:
        replica, points = covering(book)
        plan = replace(plan_of(scenario, task.defect), replica_type=replica, crash_type=points)
    done = simulate(scenario, seed, task.defect, plan, book)
    verdict = done.verdict
    found = Explored.judged(
        scenario,
        seed,
        verdict,
        seconds=done.seconds,
        faults=Counter(fault["do"] for fault in verdict.metrics["faults"]),
        operations={name: verdict.metrics[name] for name in OUTCOMES},
        invoked=done.invoked,
        events=done.events,
        reached=book.reached,
    )
    return found, done.trouble


def explore(task: Task, seeds: Sequence[int], jobs: int) -> Iterator[Explored]:
    """Run the seeds in `jobs` processes and yield their results in order."""
    with Workers(jobs, AHEAD) as workers:
        yield from explore_with(workers, task, seeds)


def explore_with(crew: Crew, task: Task, seeds: Sequence[int]) -> Iterator[Explored]:
    """Run the seeds with a crew and yield their results in order. Failures are logged here, since workers may be killed."""
    for found in crew.answers(partial(explore_seed, task), seeds):
        if found.failed:
            LOG.error("seed %d: %s\n%s", found.seed, found.verdict, "\n".join([*found.reasons, found.trouble]))
        yield found
