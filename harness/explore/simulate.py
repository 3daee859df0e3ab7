"""Runs in the simulator that leave no folder, only a verdict: the fast way to run many seeds."""

from dataclasses import dataclass
from functools import partial

from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.backends.simulator.backend import SimBackend, SimDeployment
from zab_chaos.harness.runs.run import execute
from zab_chaos.model.coverage import CoverageRecorder
from zab_chaos.model.garbage import seldom_collected
from zab_chaos.model.verdict import Verdict
from zab_chaos.model.world.world import SimPlan


@dataclass(frozen=True, slots=True)
class Simulated:
    """The result of a simulated run without a folder.

    `trouble`: the traceback, if the harness failed. `seconds`: virtual time, without the end of the run during which the nodes
    were left alone, because that costs little. `invoked`: the number of the clients' operations; `events`: the number of lines
    in the nodes' traces. `zero`: when the load began, in nanoseconds (0 if it did not).
    """

    verdict: Verdict
    outcome: str
    trouble: str
    seconds: float
    invoked: int
    events: int
    zero: int


def simulate(
    scenario: Scenario,
    seed: int,
    defect: str | None,
    plan: SimPlan | None = None,
    recorder: CoverageRecorder | None = None,
) -> Simulated:
    """Run and judge one seed without a folder.

    `defect` has the form of NodeConfig.defect. `plan` overrides the simulator's plan; `recorder` records the coverage
    (`zab_chaos.model.coverage`).
    """
    deployment = SimDeployment(scenario, seed, defect, None, record=False, plan=plan)
    if recorder is not None:
        recorder.faults = partial(_active_faults, deployment)
    with seldom_collected():
        outcome, trouble = execute(scenario, seed, deployment, SimBackend.abilities)
        verdict = deployment.judge(outcome)
    records = deployment.records
    milestones = records.oracle.facts.milestones
    left_alone, load = "left-alone" in milestones, milestones.get("workload-started")
    seconds_alone = deployment.settle_seconds + deployment.quiet_seconds if left_alone else 0.0
    seconds, zero = deployment.seconds - seconds_alone, load.t if load is not None else 0
    return Simulated(verdict, outcome, trouble, seconds, records.invoked, records.events, zero)


def _active_faults(deployment: SimDeployment) -> list[str]:
    """Return the kinds of the faults that are active now."""
    scheduler = deployment.monitor.scheduler
    return sorted({run.step.do for run in scheduler.active}) if scheduler is not None else []
