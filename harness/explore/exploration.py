"""Run many seeds of one scenario.

Simulated seeds run on all cores of this machine or of a Spark cluster. On any other backend seeds run one after the other, or
as many at a time as the user asks for.
Results are yielded in the order of the seeds, so the first reported failure has the smallest seed.
"""

import logging
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

from zab_chaos.faults.abilities import Ability
from zab_chaos.faults.filesystem.mount import missing_requirement
from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.backends import registry
from zab_chaos.harness.backends.fitting import without_unsupported
from zab_chaos.harness.backends.simulator.backend import plan_of
from zab_chaos.harness.errors import Exit
from zab_chaos.harness.explore.seed_runs import SIM, SeedRuns
from zab_chaos.harness.explore.simulate import simulate
from zab_chaos.harness.explore.swarm import EVEN, Weights, draw_swarm, with_mounted_disks
from zab_chaos.harness.explore.workers import AHEAD, LocalWorkers, WorkerPool
from zab_chaos.harness.report.headline import last_time, ranked_violations
from zab_chaos.harness.runs.run import FinishedRun
from zab_chaos.model.coverage import Combination, CoverageRecorder, recording_types
from zab_chaos.model.verdict import Verdict, ended_as_expected

OUTCOMES = ("acked", "failed", "unknown")
LOG = logging.getLogger("zab.explore")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What all seeds of an exploration have in common.

    `defect` has the form of NodeConfig.defect. `swarm`: draw the scenario of each seed. `weights_file`: where the
    `weights` are stored, unless they are even. `runs`: how seeds leave run folders; None: in the simulator, without any.
    """

    scenario: Scenario
    defect: str | None = None
    swarm: bool = False
    coverage: bool = False
    weights: Weights = EVEN
    weights_file: Path | None = None
    runs: SeedRuns | None = None

    @property
    def on(self) -> str:
        """The backend on which the seeds run."""
        return self.runs.on if self.runs is not None else SIM

    def scenario_of(self, seed: int) -> Scenario:
        """Return the scenario that the seed runs: the drawn one for a swarm, without what the backend can't do."""
        if not self.swarm:
            return self.scenario
        drawn = draw_swarm(self.scenario, seed, self.weights)
        if self.on == SIM:
            return drawn
        backend = registry.find(self.on)
        if Ability.FILE_SYSTEM in backend.abilities and missing_requirement() is None:
            drawn = with_mounted_disks(drawn)
        return without_unsupported(backend, drawn)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A violation that a run has shown.

    `at`: when it was complete, in seconds since the load began (infinite without evidence). `milestones`:
    the milestones of the run among its evidence, which tell different violations of one property apart.
    """

    property: str
    words: str
    at: float
    milestones: frozenset[str]


def violations_in(verdict: Verdict, zero: int) -> tuple[Shown, ...]:
    """Return the violations of a verdict, that of the headline first. `zero`: when the load began, in nanoseconds."""
    return tuple(
        Shown(
            property=item.name,
            words=violation.words,
            at=(last_time(violation) - zero) / 1e9,
            milestones=frozenset(
                str(line.event.get("event")) for line in violation.evidence if line.file == "harness.jsonl"
            ),
        )
        for item, violation in ranked_violations(verdict)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedResult:
    """The result of one seed.

    `exit`: the exit code of the run. `met`: the run ended as the scenario expects. `seconds`: virtual time or, on
    another backend than the simulator, the scenario's duration. `faults`: the number of injected faults by kind.
    `operations`: the number of the clients' operations by outcome; `invoked`: of all of them; `events`: of lines in the
    nodes' traces (these two are 0 if nobody counted). `shown`: the violations, that of the headline first, if the caller has
    listed them. `folder`: the run's, if it was kept. `wall_seconds`: how long it took with its judgement; 0 if nobody
    measured it.
    """

    seed: int
    verdict: str
    exit: int
    violated: list[str]
    reasons: list[str]
    seconds: float
    faults: Counter[str]
    operations: dict[str, int]
    invoked: int = 0
    events: int = 0
    shown: tuple[Shown, ...] = ()
    reached: set[Combination] = field(default_factory=set)
    met: bool = True
    trouble: str = ""  # the traceback, if the harness failed
    folder: Path | None = None
    wall_seconds: float = field(default=0.0, compare=False)

    @classmethod
    def judged(cls, scenario: Scenario, seed: int, verdict: Verdict, **measured: Any) -> Self:
        """Return the result that a verdict gives. `measured`: the fields that are not in a verdict."""
        return cls(
            seed=seed,
            verdict=str(verdict.verdict),
            exit=verdict.exit,
            violated=verdict.violated,
            met=ended_as_expected(scenario.expected(exact=True), verdict.verdict, verdict.violated),
            reasons=verdict.reasons[:5],
            **measured,
        )

    @classmethod
    def stored(cls, scenario: Scenario, seed: int, ran: FinishedRun) -> Self:
        """Return the result of a run that has a folder."""
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
        """True if the result is not the expected one. UNKNOWN is not a failure."""
        return not self.met and self.exit != Exit.UNKNOWN


def explore_seed(task: Task, seed: int) -> SeedResult:
    """Run one seed, keep the run's folder if the task says so, and measure the time. Raises what `SeedRuns.run` raises."""
    begun = time.monotonic()
    found = _run_seed(task, seed)
    return replace(found, wall_seconds=time.monotonic() - begun)


def _run_seed(task: Task, seed: int) -> SeedResult:
    runs = task.runs
    if runs is not None and runs.on != SIM:
        scenario = task.scenario_of(seed)
        return SeedResult.stored(scenario, seed, runs.run(scenario, seed, drawn=task.swarm))
    found = simulate_seed(task, seed)
    if runs is not None and runs.keeps(seed, failed=found.failed):
        return replace(found, folder=runs.run_in_worker(task.scenario_of(seed), seed, drawn=task.swarm))
    return found


def simulate_seed(task: Task, seed: int) -> SeedResult:
    """Run one seed in the simulator."""
    scenario = task.scenario_of(seed)
    recorder, plan = CoverageRecorder(), None
    if task.coverage:
        replica, points = recording_types(recorder)
        plan = replace(plan_of(scenario, task.defect), replica_type=replica, crash_type=points)
    done = simulate(scenario, seed, task.defect, plan, recorder)
    verdict = done.verdict
    return SeedResult.judged(
        scenario,
        seed,
        verdict,
        seconds=done.seconds,
        faults=Counter(fault["do"] for fault in verdict.metrics["faults"]),
        operations={name: verdict.metrics[name] for name in OUTCOMES},
        invoked=done.invoked,
        events=done.events,
        shown=violations_in(verdict, done.zero),
        reached=recorder.reached,
        trouble=done.trouble,
    )


def explore(task: Task, seeds: Sequence[int], jobs: int) -> Iterator[SeedResult]:
    """Run the seeds in `jobs` processes and yield their results in order."""
    with LocalWorkers(jobs, AHEAD) as workers:
        yield from explore_with(workers, task, seeds)


def explore_with(workers: WorkerPool, task: Task, seeds: Sequence[int]) -> Iterator[SeedResult]:
    """Run the seeds on a pool of workers and yield their results in order.

    Failures are logged here and not by the workers, which may be killed before they have logged.
    """
    for found in workers.results(partial(explore_seed, task), seeds):
        if found.failed:
            LOG.error("seed %d: %s\n%s", found.seed, found.verdict, "\n".join([*found.reasons, found.trouble]))
        yield found
