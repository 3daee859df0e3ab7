"""The phases of a run: start the ensemble, start the load, inject the faults, heal and converge.

`zab_chaos.harness.runs.run` executes them in order; `zab_chaos.harness.live` calls them one by one for an ensemble that is
used by hand.
"""

import dataclasses
from collections.abc import Callable, Collection
from pathlib import Path

from zab_chaos.faults.abilities import Ability
from zab_chaos.faults.registry import reduced_to
from zab_chaos.faults.scenario import FaultStep, Scenario
from zab_chaos.faults.scheduler import LEADER_SECONDS, FaultRecord, Scheduler
from zab_chaos.harness.backends.backend import Deployment, Load
from zab_chaos.harness.backends.ensemble_state import leftovers, statuses
from zab_chaos.harness.errors import HarnessError
from zab_chaos.harness.machine.interrupt import Interrupt, Stopped
from zab_chaos.harness.report.progress import Display
from zab_chaos.harness.runs.initial_disks import MILESTONE as DISK_MILESTONE
from zab_chaos.harness.runs.initial_disks import write_disk
from zab_chaos.model.oracle.evidence import exit_words

FINISHED, INTERRUPTED = "finished", "interrupted"  # outcomes, see results/README.md, run.json
START_SECONDS = 30.0  # limit for the first leader to be established
SETUP_SECONDS = 60.0  # limit for the creation of the workload's keys
RELEASE_SECONDS = 10.0  # nodes look once a second for clients that are gone
LOOK_SECONDS = 6.0  # for a look at whether the nodes agree; one of a foreign system waits so long for an answer
LONG_LOOKS = 4  # so many looks of any length are as much as the time in which the nodes must converge
GRACE_SECONDS = 5.0  # limit for the operations that are outstanding when the load stops
STEP = 0.05  # seconds between two looks at a condition


class Unfinished(Exception):
    """The run ends early, although the harness did not fail. The text is the outcome in run.json."""


class RunPhases:
    """Executes the phases of one run on an entered deployment. Use it from the main thread.

    A scenario's run calls `run_to_end` once. An ensemble that is used by hand (`zab_chaos.harness.live`) calls
    `start_ensemble` and `start_load`, drives the returned scheduler itself, then calls `converge`, and `close` in any case.
    """

    _scheduler: Scheduler  # set by `start_load`

    def __init__(
        self,
        scenario: Scenario,
        seed: int,
        deployment: Deployment,
        abilities: Collection[Ability],
        display: Display,
        interrupt: Interrupt,
        load: Load | None = None,
    ) -> None:
        """Prepare the run. `load` replaces the scenario's load; `abilities` are those of the backend."""
        self._scenario = scenario
        self._records = deployment.records
        self._display = display
        self._deployment = deployment
        self._cluster = deployment.cluster
        self._monitor = deployment.monitor
        self._interrupt = interrupt
        self._host = deployment.host
        self._load = deployment.workload(seed) if load is None else load
        self._load_running = False
        self._seed = seed
        self._abilities = abilities
        self._operations_need_faults = any(one.needs for one in scenario.operations)
        self._effective_faults: dict[str, tuple[int, ...]] = {}

    def run_to_end(self) -> str:
        """Execute all phases and return the outcome: finished, or the reason why the run ended early.

        On return all faults are healed and the load has stopped. Raises Stopped when the user interrupts.
        """
        try:
            self.start_ensemble()
            self.start_load()
            self._run_schedule()
            self.converge(alone=True)
            return FINISHED
        except Unfinished as error:
            return str(error)
        finally:
            if not self._interrupt.forced:
                self.close()

    def close(self) -> None:
        """Stop the load, and heal all faults. After an interrupt nothing is healed, and nodes may be ended first."""
        self._phase("stopping")
        interrupted = self._interrupt.requested.is_set()
        if interrupted:
            self._deployment.on_interrupted()
        self._stop_load(0.0)
        if self._monitor.scheduler is not None:
            self._monitor.scheduler.close(heal=not interrupted)

    def start_ensemble(self) -> None:
        """Write the scenario's initial disks, start all nodes, and wait until the deployment says that it is complete.

        Raises HarnessError if a node ends during the start, Unfinished if the ensemble is not complete in time.
        """
        for disk in self._scenario.disks:
            folder = Path(self._cluster.disk_folder(disk.node))
            contents = write_disk(folder, disk, self._scenario.limits.segment_bytes)
            self._records.milestone(DISK_MILESTONE, **contents)
        self._cluster.start_all(self._cluster.nodes)
        if dead := self._dead():
            last_words = dict.fromkeys(self._cluster.last_words(node) for node in dead)  # without duplicates
            ended = ", ".join(f"node-{node} ({exit_words(self._cluster.wait_exit(node, 0.0))})" for node in dead)
            raise HarnessError("\n".join([f"{ended} ended during the start:", *last_words]))
        self._phase("electing")
        if not self._wait_until(self._deployment.complete, START_SECONDS):
            ended = "".join(f"; node-{node} ended, its last line: {self._last_line(node)}" for node in self._dead())
            raise Unfinished(f"{self._deployment.missing()} within {START_SECONDS:.0f} s of the start{ended}")
        self._deployment.on_established()
        leader = self._cluster.leader()
        status = self._cluster.status(leader) if leader is not None else None
        self._records.milestone("established", leader=leader, epoch=status.epoch if status else None)

    def start_load(self) -> Scheduler:
        """Start the load, wait until the workload's keys exist, and return the scheduler, whose time zero is now.

        Raises Unfinished if the keys cannot be created in time.
        """
        self._phase("creating keys")
        self._load.start()
        self._load_running = True
        self._monitor.workload = self._load
        if not self._wait_until(lambda: self._load.wait_begun(0.0), SETUP_SECONDS):
            trouble = self._load.counters.trouble
            last = f"; the last answer was: {trouble}" if trouble else ""
            raise Unfinished(f"the workload's keys could not be created within {SETUP_SECONDS:.0f} s{last}")
        self._records.milestone("workload-started")
        self._scheduler = self._monitor.scheduler = self._make_scheduler()
        self._phase("faults" if self._scheduler.next_step else "load")
        if self._scenario.nemesis is not None and self._scheduler.next_step is None:
            self._display.say("the nemesis has drawn no fault for this seed")
        begun = self._monitor.begun = self._host.now()
        self._scheduler.unanswered = {one.name for one in self._scenario.operations if one.name is not None}
        self._scheduler.begin(begun)
        return self._scheduler

    def _run_schedule(self) -> None:
        """Inject the scheduled faults until the scenario's duration has passed and nothing of the schedule is pending, and each
        fault of a written schedule has lasted as planned.

        Raises HarnessError if the schedule is much too late.
        """
        assert self._monitor.begun is not None
        end = self._monitor.begun + self._scenario.duration
        while (now := self._host.now()) < max(end, self._faults_last_until()) or (
            now < self._schedule_deadline(end) and (self._missing_step() is not None or self._fault_pending())
        ):
            next_due = self._inject_due(now)
            times = [now + STEP, *([end] if now < end else []), *([next_due] if next_due is not None else [])]
            self._sleep(min(times) - self._host.now())
        step = self._missing_step()
        if step is not None:
            late = f"the schedule is {2 * LEADER_SECONDS:.0f} s late"
            raise HarnessError(f"{late}: `{step.do}` was due at {step.at:g} s, and has not begun")

    def _schedule_deadline(self, end: float) -> float:
        """Return the time by which the whole schedule must have been injected; `end` is the planned end of the faults."""
        return max(end, self._scheduler.progress_deadline) + 2 * LEADER_SECONDS

    def _faults_last_until(self) -> float:
        return self._scheduler.lasts_until(self._scenario.duration) if self._scenario.nemesis is None else 0.0

    def _fault_pending(self) -> bool:
        """Return whether a fault has yet to take effect: on a slow machine an armed crash point may not be reached yet."""
        return bool(self._scheduler.awaiting_effect)

    def _make_scheduler(self) -> Scheduler:
        nemesis, steps = self._scenario.nemesis, self._scenario.schedule(self._seed)
        return Scheduler(
            self._cluster,
            self._deployment.network,
            [reduced_to(step, self._abilities) for step in steps] if nemesis is not None else steps,
            self._seed,
            self._deployment.fault_log,
            keep_quorum=nemesis is not None and nemesis.keep_quorum,
            patience=self._deployment.patience,
            host=self._host,
            drawn=nemesis is not None,
        )

    def _missing_step(self) -> FaultStep | None:
        """Return the next step of a written schedule, None if all were injected. Those drawn by a nemesis may be left out."""
        return self._scheduler.next_step if self._scenario.nemesis is None else None

    def _inject_due(self, now: float) -> float | None:
        """Let the scheduler inject and heal what is due, and show that. Return when it wants to be called next, if known."""
        self._scheduler.unanswered -= self._load.answered
        known, active = len(self._scheduler.records), self._scheduler.active
        next_due = self._scheduler.due(now)
        effective = self._scheduler.effects if self._operations_need_faults else {}
        if effective != self._effective_faults:
            self._effective_faults = effective
            self._load.took_effect(effective)
        for record in active:
            self._report_end(record)
        for record in self._scheduler.records[known:]:
            self._report(record, record.step.do, record.injected.confirmed)
        return next_due

    def _report_end(self, record: FaultRecord) -> None:
        if record.recovered is not None:
            over = "healed" if record.kind.heals else "is over"
            self._report(record, f"{record.step.do} {over}", record.recovered.confirmed)

    def _report(self, record: FaultRecord, what: str, confirmed: bool) -> None:
        assert self._monitor.begun is not None
        at = self._host.now() - self._monitor.begun
        self._display.say(f"{at:6.2f} s  {what}: {record.describe()}{'' if confirmed else ' (NOT CONFIRMED)'}")

    def converge(self, *, alone: bool = False) -> None:
        """Heal all faults, and wait until the nodes converge: first under load, then, with the load stopped, completely.

        `alone`: whether there are no other clients than those of the load.

        Writes the milestone `converged`, with the final state if the scenario expects one, or `not-converged`.
        """
        self._phase("healing")
        for record in self._scheduler.heal_all():
            self._report_end(record)
        self._records.milestone("safety-ended")
        self._deployment.on_healed()
        self._phase("converging")
        begun, bound = self._host.now(), self._scenario.expect.converges_within
        if self._wait_until(self._deployment.formed, bound, self._node_ended):
            self._deployment.on_recovered()
        stopping = self._host.now()
        grace = min(GRACE_SECONDS, max(1.0, (begun + bound - stopping) / 2))
        self._stop_load(grace)
        begun += max(0.0, self._host.now() - stopping - grace)  # abandoned sessions have to expire, which may take long
        took, why = self._await_agreement(begun, bound)
        answers = statuses(self._cluster)
        if took is not None and answers:
            zxid = next(iter(answers.values())).delivered
            self._records.milestone("converged", zxid=zxid, seconds=took)
            if self._scenario.expect.state:
                self._records.milestone("state", held=self._load.read_state(sorted(self._scenario.expect.state)))
            self._observe_quietly(alone=alone)
            return
        self._display.say(f"the nodes did not converge within {bound:g} s: {why}")
        self._deployment.on_not_converged()
        zxids = {node: answer.last_zxid for node, answer in answers.items()}
        self._records.milestone("not-converged", nodes=zxids, why=why)

    def _await_agreement(self, begun: float, bound: float) -> tuple[float | None, str]:
        """Wait until the nodes have converged, and return how long that took, or None if it took longer than `bound`. Return
        also what is wrong if they do not agree, or do not answer any more.

        They had converged when the look began that found it so. What a look takes longer than LOOK_SECONDS, because it reads
        many keys, is not the nodes' time either; but after LONG_LOOKS looks no more is to be expected.
        """
        reading, counted = 0.0, max(LOOK_SECONDS, bound / LONG_LOOKS)
        while True:
            looked = self._host.now()
            why = self._deployment.disagreement()
            if why is None:
                return looked - begun - reading, "no node answers any more"
            reading += max(0.0, self._host.now() - looked - counted)
            if self._host.now() - begun - reading >= bound or self._node_ended():
                return None, why
            self._sleep(STEP)

    def _observe_quietly(self, *, alone: bool) -> None:
        """Leave the converged nodes alone for a while.

        Without a cause they must not leave their leader, and of the clients, which are closed, they must hold nothing.
        Without a time for that, they only get the time that they need to notice that all clients are gone.
        """
        seconds = self._deployment.quiet_seconds
        if seconds:
            self._sleep(self._deployment.settle_seconds + seconds)
        elif alone:
            self._wait_until(lambda: leftovers(statuses(self._cluster)) is None, RELEASE_SECONDS)
        why = leftovers(statuses(self._cluster)) if seconds or alone else None
        if seconds or why:
            self._records.milestone("left-alone", seconds=seconds, **({"why": why} if why else {}))

    def _node_ended(self) -> bool:
        """Return whether a node has ended. After healing nobody starts it again, so the nodes can't converge any more."""
        return bool(self._dead())

    def _dead(self) -> list[int]:
        return [node for node in self._cluster.nodes if not self._cluster.alive(node)]

    def _last_line(self, node: int) -> str:
        return (self._cluster.last_words(node).splitlines() or ["it logged nothing"])[-1]

    def _stop_load(self, grace: float) -> None:
        if self._load_running:
            self._load_running = False
            self._load.stop(grace)
            self._records.milestone("workload-stopped", **dataclasses.asdict(self._load.counters))

    def _phase(self, words: str) -> None:
        self._monitor.phase = words

    def _wait_until(
        self, condition: Callable[[], bool], seconds: float, give_up: Callable[[], bool] = lambda: False
    ) -> bool:
        """Wait at most `seconds` for `condition`, and return whether it holds. Stop early once `give_up` returns True.

        Raises Stopped when the user interrupts.
        """
        deadline = self._host.now() + seconds
        while not condition():
            if self._host.now() >= deadline or give_up():
                return False
            self._sleep(STEP)
        return True

    def _sleep(self, seconds: float) -> None:
        if self._host.sleep(seconds, until=self._interrupt.requested):
            raise Stopped
        self._deployment.check()
