"""One run, from the seed to the verdict, on any backend (docs: architecture, "The walk of a run").

A scenario is walked by `run`; whoever holds an ensemble (`zab_chaos.harness.live`) takes the same steps by hand.
"""

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from rich.console import Console

from zab_chaos.faults.abilities import Ability
from zab_chaos.faults.cluster import ClusterError
from zab_chaos.faults.network import NetworkError
from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.backends import registry
from zab_chaos.harness.backends.backend import Backend, Deployment
from zab_chaos.harness.errors import BadInput, HarnessError, Interrupted
from zab_chaos.harness.machine import environment
from zab_chaos.harness.machine.interrupt import GRACE, Forced, Interrupt, Stopped
from zab_chaos.harness.report.progress import Display, Quiet, display
from zab_chaos.harness.results import run_folder as results
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.harness.runs.judgement import with_replay
from zab_chaos.harness.runs.options import RunOptions
from zab_chaos.harness.runs.phases import INTERRUPTED, RunPhases
from zab_chaos.harness.workload.thread import WorkloadError
from zab_chaos.model.events import TRACES
from zab_chaos.model.verdict import Outcome, Verdict

UNFINISHED = "unfinished"  # the outcome while a run is in progress, and for good if its harness is killed


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A run that is over: its folder, and what its judges say."""

    folder: RunFolder
    verdict: Verdict
    interrupted: bool


class Run:
    """A run's folder, its deployment and run.json: made, lived through, closed with `ended`, judged, stored.

    Raises HarnessError if not even a results folder could be made, or the backend can't be had; whatever fails later is in
    the verdict.
    """

    def __init__(self, scenario: Scenario, options: RunOptions, screen: Display | None = None) -> None:
        self.backend = registry.find(options.on)
        self.backend.check()
        self._options = options
        self._faults_due = scenario.faults_due
        self.folder = results.create(options.results, scenario.name, options.seed)
        with results.private():
            self.folder.file("scenario.toml").write_text(scenario.source, encoding="utf-8")
            self.facts = initial_facts(scenario, options, self.folder, self.backend)
            self.folder.write_run(self.facts)
            self.deployment = self.backend.open(scenario, options, self.folder, screen or Quiet())

    def record_outcome(self, outcome: str, trouble: str = "") -> None:
        """The part with an ensemble is over; how it ended. `trouble`: where the harness failed."""
        self.facts["outcome"] = outcome
        self.facts["ended"] = None if self.backend.exact else utc()
        self.facts["versions"] |= self.deployment.versions
        self.folder.write_run(self.facts)
        if trouble:
            self.folder.file("log", "harness.log").write_text(trouble, encoding="utf-8")

    def judge(self) -> Verdict:
        """Of an interrupted run, what can be said without the replay."""
        verdict = self.deployment.judge(self.facts["outcome"])
        return verdict if self.facts["outcome"] == INTERRUPTED else with_replay(verdict, self.folder.path)

    def store(self, verdict: Verdict, *, keep: bool) -> None:
        """Nothing is written after this. `keep`: also what is made of a run whose nodes were simulated."""
        if keep:
            self.facts |= self.deployment.keep_artifacts()
        self.folder.write_run(self.facts)
        self.folder.store(verdict, keep_data=self._options.keep_data, faults_due=self._faults_due)


@contextmanager
def running(deployment: Deployment, seed: int) -> Iterator[None]:
    """The time in which the ensemble is there, between the first milestone and the last."""
    deployment.records.milestone("started", seed=seed)
    try:
        with deployment:
            yield
    except Stopped:
        deployment.records.milestone("interrupted")
        raise
    finally:
        deployment.records.milestone("stopped")
        deployment.finish()


def execute(
    scenario: Scenario, seed: int, deployment: Deployment, screen: Display | None = None, interrupt: Interrupt | None = None,
    backend: Backend | None = None,
) -> tuple[str, str]:  # fmt: skip
    """Walk the scenario: the run's outcome (results/README.md, run.json) and, if the harness failed, where."""
    abilities = backend.abilities if backend is not None else frozenset(Ability)
    try:
        with running(deployment, seed):
            phases = RunPhases(
                scenario, seed, deployment, screen or Quiet(), interrupt or Interrupt(), abilities=abilities
            )
            outcome = phases.run_to_end()
        deployment.check()
        return outcome, ""
    except Exception as error:
        return f"harness-error: {reason(error)}", traceback.format_exc()


def run(scenario: Scenario, options: RunOptions, screen: Display) -> FinishedRun:
    """Run the scenario and judge it. From the main thread only: nodes die with the thread that spawned them.

    Raises as `Run`.
    """
    one = Run(scenario, options, screen)
    with results.private():
        with Interrupt(GRACE) as interrupt:
            try:
                one.record_outcome(*execute(scenario, options.seed, one.deployment, screen, interrupt, one.backend))
            except Stopped:
                one.record_outcome(INTERRUPTED)
            except Forced:
                one.record_outcome(INTERRUPTED)
                raise
            verdict = judge_unless_interrupted(interrupt, one.judge)
        interrupted = interrupt.asked.is_set()
        one.store(verdict, keep=not interrupted)
    return FinishedRun(one.folder, verdict, interrupted)


def run_shown(scenario: Scenario, options: RunOptions, console: Console, *, quiet: bool) -> FinishedRun:
    """One run, shown while it goes on. The seed comes first: whatever happens then, it is known how to repeat it."""
    with display(console, quiet=quiet) as screen:
        defect = f", defect {scenario.defect}" if scenario.defect else ""
        screen.say(f"seed {options.seed}: {scenario.name}, {scenario.nodes} nodes{defect}")
        return run(scenario, options, screen)


def run_quietly(scenario: Scenario, options: RunOptions, terminal: Console | None = None) -> FinishedRun:
    """One run of many, shown by whoever wants it, or on a terminal while it goes on. Raises Interrupted when the user ends it:
    the rest is not begun."""
    ran = run_shown(scenario, options, terminal or Console(quiet=True), quiet=terminal is None)
    if ran.interrupted:
        raise Interrupted(f"interrupted; the last run is {ran.folder.path}")
    return ran


def judge_unless_interrupted(interrupt: Interrupt, judged: Callable[[], Verdict]) -> Verdict:
    """What `judged` says, if an interruption leaves the time for it."""
    interrupt.restart_grace()
    try:
        return judged()
    except Stopped:
        why = "interrupted before it was judged; `zab verify` judges what was recorded"
        unknown = Outcome.UNKNOWN
        return Verdict(verdict=unknown, exit=unknown.exit_code, properties=[], reasons=[why], metrics={})
    finally:
        interrupt.cancel_grace()


def reason(error: Exception) -> str:
    """What people are told: our own errors speak for themselves, the operating system's and bugs need a place."""
    if isinstance(error, BadInput | HarnessError | ClusterError | NetworkError | WorkloadError):
        return str(error)
    return f"{type(error).__name__}: {error} (the trace is in log/harness.log)"


def initial_facts(scenario: Scenario, options: RunOptions, folder: RunFolder, backend: Backend) -> dict[str, Any]:
    """run.json as it is while the run goes on: a harness that is killed leaves it so.

    Of an exact backend it says neither when nor on which machine: nothing depends on either.
    """
    exact = backend.exact
    return {
        "run": f"{scenario.name}-{options.seed}" if exact else folder.name,
        "scenario": scenario.name,
        "seed": options.seed,
        "nodes": scenario.nodes,
        "backend": options.on,
        "defect": options.defect[0] if options.defect else None,
        "disk": scenario.disk,
        "record": options.record,
        "versions": environment.versions(),
        "commit": environment.commit(),
        "machine": None if exact else environment.facts(),
        "command": options.command or None,
        "started": None if exact else utc(),
        "ended": None,
        "outcome": UNFINISHED,
        "expect": scenario.expected(exact=exact),
        **({"dump": None} if exact else {}),
        **({"evidence": backend.evidence} if backend.evidence != TRACES else {}),
    }


def utc() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
