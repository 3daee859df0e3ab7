"""A thread that observes a run on real processes: it updates the display and records nodes that end unexpectedly."""

import time

from zab_chaos.faults.cluster import Status
from zab_chaos.faults.scenario import FaultStep
from zab_chaos.harness.backends.backend import Monitor
from zab_chaos.harness.backends.ensemble_state import leader_of, state_word, statuses
from zab_chaos.harness.backends.processes.process_cluster import ProcessCluster, UnexpectedEnd
from zab_chaos.harness.machine.background import BackgroundThread
from zab_chaos.harness.report.progress import Display, RunStatus
from zab_chaos.harness.results.run_folder import RunFolder

LOOK_SECONDS = 0.1  # between two looks at the processes: about as late is the end of one recorded
ANSWER_SECONDS = 0.3  # a node that takes longer to answer is shown as silent


class RunMonitor(BackgroundThread, Monitor):
    """A thread that observes the run."""

    in_words = "the thread that watches the nodes"

    def __init__(self, cluster: ProcessCluster, folder: RunFolder, display: Display, duration: float) -> None:
        super().__init__("watch")
        self._cluster = cluster
        self._folder = folder
        self._display = display
        self._duration = duration

    def _run(self) -> None:
        stopping, due = False, time.monotonic() + self._display.period
        while not stopping:
            stopping = self._stop.wait(LOOK_SECONDS)  # the nodes are checked once more after the stop
            for ended in self._cluster.take_unexpected_ends():
                self._report(ended)
            if self._display.wants_updates and not stopping and time.monotonic() >= due:
                self._display.update(self._now())
                due = time.monotonic() + self._display.period

    def _report(self, ended: UnexpectedEnd) -> None:
        self._folder.milestone("ended", node=ended.node, life=ended.life, code=ended.code, armed=ended.armed)
        self._display.say(f"{ended}{' (a crash point was armed)' if ended.armed else ''}")

    def _now(self) -> RunStatus:
        answers = statuses(self._cluster, ANSWER_SECONDS)
        leader = leader_of(answers, len(self._cluster.voters))
        counters = self.workload.counters if self.workload else None
        scheduler = self.scheduler
        upcoming = scheduler.next_step if scheduler else None
        return RunStatus(
            phase=self.phase,
            elapsed=min(self._duration, time.monotonic() - self.begun) if self.begun is not None else 0.0,
            duration=self._duration,
            has_leaders=not answers or any(answer.role for answer in answers.values()),
            leader=leader,
            epoch=answers[leader].epoch if leader is not None else None,
            ok=counters.ok if counters else 0,
            failed=counters.failed if counters else 0,
            unknown=counters.unknown if counters else 0,
            rate=counters.rate if counters else 0.0,
            latency_ms=counters.p50_ms if counters else None,
            nodes={node: self._state(node, answers.get(node)) for node in self._cluster.nodes},
            faults=[run.describe() for run in scheduler.active] if scheduler else [],
            upcoming=in_words(upcoming) if upcoming else None,
        )

    def _state(self, node: int, answer: Status | None) -> str:
        return state_word(answer, alive=self._cluster.alive(node), paused=self._cluster.paused(node))


def in_words(step: FaultStep) -> str:
    """Return a step of the schedule in words, such as `crash leader at 12 s`."""
    target = step.target if isinstance(step.target, str) else ", ".join(step.target or ())
    return f"{step.do} {target} at {step.at:g} s".replace("  ", " ")
