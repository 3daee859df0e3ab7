"""A run in the simulated world of which only the judgement is kept: for many seeds."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.backends.simulator.backend import SimDeployment
from zab_chaos.harness.runs.run import live
from zab_chaos.model.coverage import Book
from zab_chaos.model.verdict import Verdict
from zab_chaos.model.world.world import Plan

COLLECT_AFTER = 50_000  # objects: some megabytes


@dataclass(frozen=True, slots=True)
class Simulated:
    """A run of which only the judgement is kept. `trouble`: where the harness failed; `seconds`: of virtual time;
    `invoked`: operations of the clients; `events`: lines of the nodes' traces."""

    verdict: Verdict
    outcome: str
    trouble: str
    seconds: float
    invoked: int
    events: int


@contextmanager
def _seldom_collecting() -> Iterator[None]:
    """A run keeps most of what it makes, for the judge, and makes few cycles: to look for garbage after every 700 objects,
    as Python does, is a tenth of all work and finds next to nothing."""
    usual = gc.get_threshold()
    gc.set_threshold(COLLECT_AFTER, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def simulate(
    scenario: Scenario, seed: int, defect: str | None, plan: Plan | None = None, book: Book | None = None
) -> Simulated:
    """One run without a folder. `defect` as NodeConfig.defect has it; `plan` and `book`: see coverage."""
    deployment = SimDeployment(scenario, seed, defect, None, record=False, plan=plan)
    if book is not None:
        book.faults = partial(_active, deployment)
    with _seldom_collecting():
        outcome, trouble = live(scenario, seed, deployment)
    invoked, events = deployment.records.invoked, deployment.records.events
    return Simulated(deployment.judge(outcome), outcome, trouble, deployment.seconds, invoked, events)


def _active(deployment: SimDeployment) -> list[str]:
    """The kinds of fault that are there now."""
    scheduler = deployment.monitor.scheduler
    return sorted({run.step.do for run in scheduler.active}) if scheduler is not None else []
