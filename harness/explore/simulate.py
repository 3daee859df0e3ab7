"""A run in the simulated world of which only the judgement is kept: for many seeds."""

from dataclasses import dataclass
from functools import partial

from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.backends.simulator.backend import SimDeployment
from zab_chaos.harness.runs.run import execute
from zab_chaos.model.coverage import Book
from zab_chaos.model.garbage import seldom_collected
from zab_chaos.model.verdict import Verdict
from zab_chaos.model.world.world import SimPlan


@dataclass(frozen=True, slots=True)
class Simulated:
    """A run of which only the judgement is kept. `trouble`: where the harness failed; `seconds`: of virtual time, without
    those at the end in which the nodes were left alone, which cost little; `invoked`: operations of the clients;
    `events`: lines of the nodes' traces."""

    verdict: Verdict
    outcome: str
    trouble: str
    seconds: float
    invoked: int
    events: int


def simulate(
    scenario: Scenario, seed: int, defect: str | None, plan: SimPlan | None = None, book: Book | None = None
) -> Simulated:
    """One run without a folder. `defect` as NodeConfig.defect has it; `plan` and `book`: see coverage."""
    deployment = SimDeployment(scenario, seed, defect, None, record=False, plan=plan)
    if book is not None:
        book.faults = partial(_active, deployment)
    with seldom_collected():
        outcome, trouble = execute(scenario, seed, deployment)
        verdict = deployment.judge(outcome)
    records = deployment.records
    alone = records.oracle.facts.milestones.get("left-alone")
    quiet = deployment.settle_seconds + deployment.quiet_seconds if alone is not None else 0.0
    return Simulated(verdict, outcome, trouble, deployment.seconds - quiet, records.invoked, records.events)


def _active(deployment: SimDeployment) -> list[str]:
    """The kinds of fault that are there now."""
    scheduler = deployment.monitor.scheduler
    return sorted({run.step.do for run in scheduler.active}) if scheduler is not None else []
