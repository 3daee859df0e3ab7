"""Many seeds of one scenario in the simulated world, on all cores.

Answers come in the order of the seeds, so the first failure that is heard of has the smallest seed. Workers are forked: they
share what is imported already, nobody kills them, and so their logs may go through `multiprocessing-logging` to the parent's.
"""

import logging
import multiprocessing
import signal
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace

from faults.scenario import Scenario
from harness.exits import HarnessError
from harness.sim import plan_of, simulate
from harness.swarm import draw_swarm
from model.coverage import Book, Combination, covering
from model.verdict import Judgement

AHEAD = 4  # seeds handed out per worker: enough that none waits, few enough that a failure is heard of soon
LOG = logging.getLogger("zab.explore")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What every seed is run with. `defect` as NodeConfig.defect has it."""

    scenario: Scenario
    defect: str | None = None
    swarm: bool = False
    coverage: bool = False

    def scenario_of(self, seed: int) -> Scenario:
        return draw_swarm(self.scenario, seed) if self.swarm else self.scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Explored:
    """One seed's answer. `exit` as the run's; `expected`: the scenario's. `seconds`: of virtual time. `faults`: how many of
    each kind were injected; `operations`: of the clients, by outcome."""

    seed: int
    verdict: str
    exit: int
    expected: int
    violated: list[str]
    reasons: list[str]
    seconds: float
    faults: Counter[str]
    operations: dict[str, int]
    reached: set[Combination] = field(default_factory=set)

    @property
    def failed(self) -> bool:
        """Something is wrong: not what the scenario says, and not only too little to tell."""
        return self.exit not in (self.expected, 2)


def explore_seed(task: Task, seed: int) -> Explored:
    """Run one seed."""
    scenario = task.scenario_of(seed)
    book, plan = Book(), None
    if task.coverage:
        replica, points = covering(book)
        plan = replace(plan_of(scenario, task.defect), replica_type=replica, crash_type=points)
    done = simulate(scenario, seed, task.defect, plan, book)
    verdict = done.verdict
    found = Explored(
        seed=seed,
        verdict=str(verdict.verdict),
        exit=verdict.exit,
        expected=scenario.expect.exit,
        violated=[item.name for item in verdict.properties if item.verdict is Judgement.VIOLATION],
        reasons=verdict.reasons[:5],
        seconds=done.seconds,
        faults=Counter(fault["do"] for fault in verdict.metrics["faults"]),
        operations={name: verdict.metrics[name] for name in ("acked", "failed", "unknown")},
        reached=book.reached,
    )
    if found.failed:
        LOG.error("seed %d: %s\n%s", seed, found.verdict, "\n".join([*found.reasons, done.trouble]))
    return found


def explore(task: Task, seeds: Sequence[int], jobs: int, asked: Callable[[], bool]) -> Iterator[Explored]:
    """All seeds' answers, in their order. `asked`: whether the user wants it to end. Raises HarnessError."""
    if jobs == 1:
        for seed in seeds:
            if asked():
                return
            yield explore_seed(task, seed)
        return
    with warnings.catch_warnings():
        # The parent's only other thread takes log records, and holds no lock that a child needs.
        warnings.simplefilter("ignore", DeprecationWarning)
        pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("fork"), _prepare)
        try:
            yield from _in_order(pool, task, seeds, jobs * AHEAD, asked)
        except BrokenProcessPool:
            raise HarnessError("a worker process of the exploration died; is there enough memory?") from None
        finally:
            pool.shutdown(cancel_futures=True)


def _in_order(
    pool: ProcessPoolExecutor, task: Task, seeds: Sequence[int], ahead: int, asked: Callable[[], bool]
) -> Iterator[Explored]:
    waiting: list[Future[Explored]] = []
    for seed in seeds:
        waiting.append(pool.submit(explore_seed, task, seed))
        if len(waiting) >= ahead:
            yield waiting.pop(0).result()
        if asked():
            return
    for future in waiting:
        yield future.result()


def _prepare() -> None:
    """A worker ends when its parent says so, not when the terminal's Ctrl-C does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
