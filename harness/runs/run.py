"""One run, from the seed to the verdict (docs: architecture, "The walk of one run")."""

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from zab_chaos.faults.cluster import ClusterError
from zab_chaos.faults.network import NetworkError
from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.backends.registry import stage_on
from zab_chaos.harness.errors import HarnessError
from zab_chaos.harness.machine import environment
from zab_chaos.harness.machine.interrupt import GRACE, Forced, Interrupt, Stopped
from zab_chaos.harness.report.progress import Display
from zab_chaos.harness.results import run_folder as results
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.harness.runs.judgement import judge
from zab_chaos.harness.runs.monitor import Watch
from zab_chaos.harness.runs.options import RunOptions
from zab_chaos.harness.runs.walk import INTERRUPTED, Walk
from zab_chaos.harness.workload.thread import WorkloadError
from zab_chaos.model.oracle import oracle
from zab_chaos.model.verdict import Outcome, Verdict


@dataclass(frozen=True, slots=True)
class Ran:
    """A run that is over: its folder, and what its judges say."""

    folder: RunFolder
    verdict: Verdict
    interrupted: bool


def run(scenario: Scenario, wish: RunOptions, display: Display) -> Ran:
    """Run the scenario and judge it. From the main thread only: nodes die with the thread that spawned them.

    Raises HarnessError if not even a results folder could be made, or the backend can't be had; whatever fails later is
    in the verdict.
    """
    stage_on(wish.on).check()
    folder = results.create(wish.results, scenario.name, wish.seed)
    with results.private():
        return _run(scenario, wish, display, folder)


def _run(scenario: Scenario, wish: RunOptions, display: Display, folder: RunFolder) -> Ran:
    folder.file("scenario.toml").write_text(scenario.source, encoding="utf-8")
    facts = facts_of(scenario, wish, folder)
    folder.write_run(facts)
    with Interrupt(GRACE) as interrupt:
        _live(scenario, wish, folder, display, interrupt, facts)
        verdict = judge_within(interrupt, lambda: _judged(folder, facts))
    folder.store(verdict, keep_data=wish.keep_data, faults_due=scenario.faults_due)
    return Ran(folder, verdict, interrupt.asked.is_set())


def _live(
    scenario: Scenario,
    wish: RunOptions,
    folder: RunFolder,
    display: Display,
    interrupt: Interrupt,
    facts: dict[str, Any],
) -> None:
    """The part with processes. How it ended is in `facts` and run.json, whatever happens."""
    folder.milestone("started", seed=wish.seed)
    try:
        facts["outcome"] = _walk(scenario, wish, folder, display, interrupt, facts)
    except Stopped:
        facts["outcome"] = INTERRUPTED
        folder.milestone("interrupted")
    except Forced:
        facts["outcome"] = INTERRUPTED
        raise
    except Exception as error:
        facts["outcome"] = f"harness-error: {reason(error)}"
        folder.file("log", "harness.log").write_text(traceback.format_exc(), encoding="utf-8")
    finally:
        facts["ended"] = utc()
        folder.write_run(facts)
        folder.milestone("stopped")


def _walk(
    scenario: Scenario,
    wish: RunOptions,
    folder: RunFolder,
    display: Display,
    interrupt: Interrupt,
    facts: dict[str, Any],
) -> str:
    display.say("starting toxiproxy and the nodes")
    with stage_on(wish.on)(folder, scenario, wish.defect[1] if wish.defect else None, wish.record) as stage:
        facts["versions"]["toxiproxy"] = stage.toxiproxy_version
        with Watch(stage.cluster, folder, display, scenario.duration) as watch:
            outcome = Walk(scenario, wish.seed, folder, display, stage, watch, interrupt).whole()
        if watch.error is not None:
            raise watch.error
        return outcome


def _judged(folder: RunFolder, facts: dict[str, Any]) -> Verdict:
    """Of an interrupted run, what can be said without the replay."""
    if facts["outcome"] == INTERRUPTED:
        return oracle.judge(folder.path, stored=False)
    return judge(folder.path, stored=False)


def judge_within(interrupt: Interrupt, judged: Callable[[], Verdict]) -> Verdict:
    """What `judged` says, if an interruption leaves the time for it."""
    interrupt.insist()
    try:
        return judged()
    except Stopped:
        why = "interrupted before it was judged; `zab verify` judges what was recorded"
        unknown = Outcome.UNKNOWN
        return Verdict(verdict=unknown, exit=unknown.exit_code, properties=[], reasons=[why], metrics={})
    finally:
        interrupt.calm()


def reason(error: Exception) -> str:
    """What people are told: our own errors speak for themselves, the operating system's and bugs need a place."""
    if isinstance(error, HarnessError | ClusterError | NetworkError | WorkloadError):
        return str(error)
    return f"{type(error).__name__}: {error} (the trace is in log/harness.log)"


def facts_of(scenario: Scenario, wish: RunOptions, folder: RunFolder) -> dict[str, Any]:
    """run.json as it is while the run goes on: a harness that is killed leaves it so."""
    return {
        "run": folder.name,
        "scenario": scenario.name,
        "seed": wish.seed,
        "nodes": scenario.nodes,
        "backend": wish.on,
        "defect": wish.defect[0] if wish.defect else None,
        "disk": scenario.disk,
        "record": wish.record,
        "versions": environment.versions(None),
        "commit": environment.commit(),
        "machine": environment.facts(),
        "command": wish.command,
        "started": utc(),
        "ended": None,
        "outcome": "unfinished",
        "expect": scenario.expected(exact=False),
    }


def utc() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
