"""One run, from the seed to the verdict, on any backend (docs/architecture.md, "A run, step by step").

`run` executes a scenario. An ensemble that is used by hand (`zab_chaos.harness.live`) goes through the same steps with `Run`.
"""

import traceback
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from rich.console import Console

from zab_chaos.faults.abilities import Ability
from zab_chaos.faults.cluster import ClusterError
from zab_chaos.faults.network import NetworkError
from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.backends import registry
from zab_chaos.harness.backends.backend import Backend, Deployment
from zab_chaos.harness.backends.run_releases import facts_about
from zab_chaos.harness.errors import BadInput, HarnessError, Interrupted
from zab_chaos.harness.machine import environment
from zab_chaos.harness.machine.interrupt import GRACE, Forced, Interrupt, Stopped
from zab_chaos.harness.report.progress import UNSHOWN, Display, Quiet, Steps, display
from zab_chaos.harness.results import run_folder as results
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.harness.runs.judgement import unknown, with_replay
from zab_chaos.harness.runs.options import RunOptions
from zab_chaos.harness.runs.phases import INTERRUPTED, RunPhases
from zab_chaos.harness.workload.thread import WorkloadError
from zab_chaos.model.events import TRACES
from zab_chaos.model.verdict import Outcome, Verdict
from zab_chaos.pipeline.naming import plural

UNFINISHED = "unfinished"  # the outcome while a run is in progress, and for good if its harness is killed


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A run that is over and judged."""

    folder: RunFolder
    verdict: Verdict
    interrupted: bool


class Run:
    """A run's folder, its deployment and the content of run.json.

    Enter `deployment` to execute the run; then call `record_outcome`, `judge` and `store`, in this order. The constructor
    raises HarnessError if the results folder cannot be created or this machine lacks what the backend needs, and BadInput if
    what the options name does not exist. Whatever fails later is in the verdict.
    """

    def __init__(self, scenario: Scenario, options: RunOptions, screen: Display | None = None) -> None:
        self.backend = registry.find(options.on)
        self.backend.check()
        self.backend.prepare(scenario, options, screen or Quiet())
        self._options = options
        self.folder = results.create(options.results, scenario.name, options.seed)
        with results.private():
            self.folder.file("scenario.toml").write_text(scenario.source, encoding="utf-8")
            self.facts = initial_facts(scenario, options, self.folder, self.backend)
            self.folder.write_run(self.facts)
            self.deployment = self.backend.open(scenario, options, self.folder, screen or Quiet())

    def record_outcome(self, outcome: str, trouble: str = "") -> None:
        """Write to run.json how the run ended. `trouble`: the traceback if the harness failed, for log/harness.log."""
        self.facts["outcome"] = outcome
        if not self.backend.exact:
            self.facts["ended"] = utc()
            self.facts["machine"]["load"] = round(environment.load(), 2)
        self.facts["versions"] |= self.deployment.versions
        self.folder.write_run(self.facts)
        if trouble:
            self.folder.file("log", "harness.log").write_text(trouble, encoding="utf-8")

    def judge(self, steps: Steps = UNSHOWN) -> Verdict:
        """Return the verdict. An interrupted run is judged without the replay, and so is one whose replay is interrupted."""
        self.deployment.steps = steps
        verdict = self.deployment.judge(self.facts["outcome"])
        if self.facts["outcome"] == INTERRUPTED:
            return verdict
        try:
            return with_replay(verdict, self.folder.path, steps)
        except Stopped:
            return verdict.including(unknown(), ["interrupted before the nodes were replayed; `zab verify` does that"])

    def store(self, verdict: Verdict, *, keep: bool) -> None:
        """Write the verdict and complete the folder: nothing is written after this.

        `keep`: also write what a simulated run leaves only on request (the disks and the canonical dump).
        """
        if keep:
            self.facts |= self.deployment.keep_artifacts()
        self.folder.write_run(self.facts)
        self.folder.store(verdict, keep_data=self._options.keep_data)


@contextmanager
def running(deployment: Deployment, seed: int) -> Iterator[None]:
    """Enter the deployment, between the milestones `started` and `stopped`, and finish its records afterwards."""
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
    scenario: Scenario, seed: int, deployment: Deployment, abilities: Collection[Ability], screen: Display | None = None,
    interrupt: Interrupt | None = None,
) -> tuple[str, str]:  # fmt: skip
    """Execute the scenario on the deployment. `abilities`: those of its backend.

    Returns the run's outcome (results/README.md, run.json) and, if the harness failed, its traceback, else "".
    """
    try:
        with running(deployment, seed):
            phases = RunPhases(scenario, seed, deployment, abilities, screen or Quiet(), interrupt or Interrupt())
            outcome = phases.run_to_end()
        deployment.check()
        return outcome, ""
    except Exception as error:
        return f"harness-error: {reason(error)}", traceback.format_exc()


def end_and_judge(
    interrupt: Interrupt,
    end: Callable[[], tuple[str, str]],
    record: Callable[[str, str], None],
    judged: Callable[[], Verdict],
) -> Verdict:
    """Bring a run to its end, record its outcome and the harness's traceback, also if a signal interrupts that, and return the
    verdict of `judged`, or UNKNOWN if the interruption leaves no time for it."""
    try:
        _record_end(end, record)
        interrupt.restart_grace()
        return judged()
    except Stopped:
        why = "interrupted before it was judged; `zab verify` judges what was recorded"
        unknown = Outcome.UNKNOWN
        return Verdict(verdict=unknown, exit=unknown.exit_code, properties=[], reasons=[why], metrics={})
    finally:
        interrupt.cancel_grace()


def _record_end(end: Callable[[], tuple[str, str]], record: Callable[[str, str], None]) -> None:
    try:
        record(*end())
    except Stopped:
        try:
            record(INTERRUPTED, "")
        except (
            Stopped
        ):  # the interrupt had ended the run's waiting, and now the grace period is over, which happens once
            record(INTERRUPTED, "")
    except Forced:
        record(INTERRUPTED, "")
        raise


def run(scenario: Scenario, options: RunOptions, screen: Display) -> FinishedRun:
    """Run the scenario and judge it. Call it from the main thread: nodes die with the thread that spawned them.

    Raises HarnessError and BadInput, as `Run` does.
    """
    this_run = Run(scenario, options, screen)
    with results.private():
        with Interrupt(GRACE) as interrupt:
            deployment, abilities = this_run.deployment, this_run.backend.abilities
            verdict = end_and_judge(
                interrupt,
                lambda: execute(scenario, options.seed, deployment, abilities, screen, interrupt),
                this_run.record_outcome,
                partial(this_run.judge, Steps(screen)),
            )
        interrupted = interrupt.requested.is_set()
        this_run.store(verdict, keep=not interrupted)
    return FinishedRun(this_run.folder, verdict, interrupted)


def run_shown(scenario: Scenario, options: RunOptions, console: Console, *, quiet: bool) -> FinishedRun:
    """Run the scenario and show its progress. The seed is shown first, so that the run can be repeated whatever happens."""
    with display(console, quiet=quiet) as screen:
        defect = f", defect {scenario.defect}" if scenario.defect else ""
        screen.say(f"seed {options.seed}: {scenario.name}, {plural(scenario.nodes, 'node')}{defect}")
        return run(scenario, options, screen)


def run_quietly(scenario: Scenario, options: RunOptions, terminal: Console | None = None) -> FinishedRun:
    """Run the scenario as one of many runs, without output, or with its progress on `terminal`.

    Raises Interrupted when the user interrupts it, so that the caller does not begin the next one.
    """
    return uninterrupted(run_shown(scenario, options, terminal or Console(quiet=True), quiet=terminal is None))


def uninterrupted(ran: FinishedRun) -> FinishedRun:
    """Return the run. Raises Interrupted if the user interrupted it."""
    if ran.interrupted:
        raise Interrupted(f"interrupted; the last run is {ran.folder.path}")
    return ran


def reason(error: Exception) -> str:
    """Return an error's text for people. Errors that are not our own also get their type and the place of the traceback."""
    if isinstance(error, BadInput | HarnessError | ClusterError | NetworkError):
        return str(error)
    words = str(error) if isinstance(error, WorkloadError) else f"{type(error).__name__}: {error}"
    return f"{words} (the trace is in log/harness.log)"


def initial_facts(scenario: Scenario, options: RunOptions, folder: RunFolder, backend: Backend) -> dict[str, Any]:
    """Return the content of run.json while the run is in progress. It stays so if the harness is killed.

    On an exact backend, times and the machine are left out, because nothing depends on them.
    """
    exact = backend.exact
    return {
        "run": f"{scenario.name}-{options.seed}" if exact else folder.name,
        "scenario": scenario.name,
        "seed": options.seed,
        "nodes": scenario.nodes,
        **({"observers": scenario.observers} if scenario.observers else {}),
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
        "expect": {
            **scenario.expected(exact=exact),
            **({"serves_with_majority": True} if backend.serves_with_majority else {}),
            **({"opaque_versions": True} if backend.opaque_versions else {}),
            **({"blind_deletes": True} if backend.blind_deletes else {}),
            **({"stale_reads": True} if backend.stale_reads else {}),
            **({"isolation": level} if (level := backend.judged_isolation(scenario)) is not None else {}),
        },
        **({"schedule": planned} if (planned := scenario.planned) else {}),
        **({"ticket": ticket.id, "ticket_violates": ticket.violates} if (ticket := scenario.ticket) else {}),
        **({"dump": None} if exact else {}),
        **(
            {"releases": facts_about(scenario, it)}
            if (it := backend.run_releases(scenario, options)) is not None
            else {}
        ),
        **({"evidence": backend.evidence} if backend.evidence != TRACES else {}),
    }


def utc() -> str:
    """Return the current time in UTC, in ISO 8601 with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
