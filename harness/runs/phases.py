"""The parts of a run that has its stage: birth, safety part, liveness part."""

import dataclasses
from collections.abc import Callable, Collection
from pathlib import Path

from zab_chaos.faults.abilities import Ability
from zab_chaos.faults.registry import reduced_to
from zab_chaos.faults.scenario import Scenario
from zab_chaos.faults.scheduler import LEADER_SECONDS, FaultRecord, Scheduler
from zab_chaos.harness.backends.backend import Deployment, Load
from zab_chaos.harness.backends.ensemble_state import node_names, statuses
from zab_chaos.harness.errors import HarnessError
from zab_chaos.harness.machine.interrupt import Interrupt
from zab_chaos.harness.report.progress import Display
from zab_chaos.harness.results.final_state import MILESTONE
from zab_chaos.harness.runs.initial_disks import MILESTONE as DISK
from zab_chaos.harness.runs.initial_disks import write_disk

FINISHED, INTERRUPTED = "finished", "interrupted"  # outcomes, see results/README.md, run.json
BIRTH_SECONDS = 30.0  # for the first leader
SETUP_SECONDS = 60.0  # for creating the workload's keys
GRACE_SECONDS = 5.0  # for the operations that are outstanding when the load stops
STEP = 0.05


class Unfinished(Exception):
    """The run cannot go on, which is nobody's mistake. The text is the outcome."""


class RunPhases:
    """One run: `whole` is called once, from the main thread.

    Whoever holds the ensemble in their own hands (`zab_chaos.harness.live`) calls the parts instead: `birth`, `begin`, then
    as long as they like what `carry_out` does, `converge`, and `close` in any case.
    """

    _scheduler: Scheduler  # from the safety part on

    def __init__(
        self,
        scenario: Scenario,
        seed: int,
        deployment: Deployment,
        display: Display,
        interrupt: Interrupt,
        load: Load | None = None,
        abilities: Collection[Ability] = frozenset(Ability),
    ) -> None:
        """`load`: instead of the scenario's; `abilities`: the backend's."""
        self._scenario = scenario
        self._folder = deployment.records
        self._display = display
        self._deployment = deployment
        self._cluster = deployment.cluster
        self._watch = deployment.monitor
        self._interrupt = interrupt
        self._host = deployment.host
        self._workload = deployment.workload(seed) if load is None else load
        self._loaded = False
        self._seed = seed
        self._abilities = abilities
        self._awaiting = any(one.needs for one in scenario.operations)
        self._taken: dict[str, tuple[int, ...]] = {}

    def run_to_end(self) -> str:
        """The outcome: finished, interrupted, or why it could not go on. Nothing stays broken, and no load runs on."""
        try:
            self.start_ensemble()
            self.start_load()
            self._safety()
            self.converge()
            return FINISHED
        except Unfinished as error:
            return str(error)
        finally:
            if not self._interrupt.forced:
                self.close()

    def close(self) -> None:
        """Nothing stays broken, and no load runs on. Whom the user has interrupted heals nothing: the nodes end now."""
        self._phase("stopping")
        self._stop_load(0.0)
        if self._watch.scheduler is not None:
            self._watch.scheduler.close(heal=not self._interrupt.asked.is_set())

    def start_ensemble(self) -> None:
        """A new ensemble: all nodes up, a leader established, and with it whom the backend wants there."""
        for disk in self._scenario.disks:
            folder = Path(self._cluster.disk_folder(disk.node))
            held = write_disk(folder, disk, self._scenario.limits.segment_bytes)
            self._folder.milestone(DISK, **held)
        self._cluster.start_all(self._cluster.nodes)
        dead = [node for node in self._cluster.nodes if not self._cluster.alive(node)]
        if dead:
            words = dict.fromkeys(self._cluster.last_words(node) for node in dead)  # each once
            raise HarnessError("\n".join([f"{node_names(dead)} ended during the start:", *words]))
        self._phase("electing")
        if not self._until(self._deployment.complete, BIRTH_SECONDS):
            missing = "not every node served" if self._deployment.formed() else "no leader was established"
            raise Unfinished(f"{missing} within {BIRTH_SECONDS:.0f} s of the start")
        self._deployment.on_established()
        leader = self._cluster.leader()
        status = self._cluster.status(leader) if leader is not None else None
        self._folder.milestone("established", leader=leader, epoch=status.epoch if status else None)

    def start_load(self) -> Scheduler:
        """The load runs; from now on faults may come, and this is who carries them out."""
        self._phase("creating keys")
        self._workload.start()
        self._loaded = True
        self._watch.workload = self._workload
        if not self._until(lambda: self._workload.wait_begun(0.0), SETUP_SECONDS):
            raise Unfinished(f"the workload's keys could not be created within {SETUP_SECONDS:.0f} s")
        self._folder.milestone("workload-started")
        self._scheduler = self._watch.scheduler = self._direct()
        self._phase("faults" if self._scheduler.next_step else "load")
        begun = self._watch.begun = self._host.now()
        self._scheduler.unanswered = {one.name for one in self._scenario.operations if one.name is not None}
        self._scheduler.begin(begun)
        return self._scheduler

    def _safety(self) -> None:
        """The schedule is carried out."""
        assert self._watch.begun is not None
        end = self._watch.begun + self._scenario.duration
        while (now := self._host.now()) < end or (
            now < self._latest(end) and (self._unfinished_schedule() or self._awaited())
        ):
            next_look = self._carry_out(now)
            times = [now + STEP, *([end] if now < end else []), *([next_look] if next_look is not None else [])]
            self._sleep(min(times) - self._host.now())
        if self._unfinished_schedule():
            raise HarnessError(f"the schedule is {2 * LEADER_SECONDS:.0f} s late; this machine is too slow for it")

    def _latest(self, end: float) -> float:
        """Until when the schedule must have been carried out."""
        return max(end, self._scheduler.progress_deadline) + 2 * LEADER_SECONDS

    def _awaited(self) -> bool:
        """Whether a fault is still to take effect: a crash point is armed, and on a slow machine not reached yet."""
        return self._scheduler is not None and bool(self._scheduler.awaiting_effect)

    def _direct(self) -> Scheduler:
        """The one who carries out the schedule. Before there is one, nothing is broken and nothing has to be healed."""
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

    def _unfinished_schedule(self) -> bool:
        """A written schedule must be carried out; what a nemesis has drawn may be put off until the end."""
        return self._scenario.nemesis is None and self._scheduler.next_step is not None

    def _carry_out(self, now: float) -> float | None:
        """Let the scheduler do what is due, and say what it did."""
        self._scheduler.unanswered -= self._workload.answered
        known, broken = len(self._scheduler.records), self._scheduler.active
        next_look = self._scheduler.due(now)
        taken = self._scheduler.effects if self._awaiting else {}
        if taken != self._taken:
            self._taken = taken
            self._workload.took_effect(taken)
        for run in broken:
            if run.recovered is not None:
                self._say(run, f"healed: {run.describe()}", run.recovered.confirmed)
        for run in self._scheduler.records[known:]:
            self._say(run, run.describe(), run.injected.confirmed)
        return next_look

    def _say(self, run: FaultRecord, words: str, confirmed: bool) -> None:
        assert self._watch.begun is not None
        at = self._host.now() - self._watch.begun
        self._display.say(f"{at:6.2f} s  {run.step.do}: {words}{'' if confirmed else ' (NOT CONFIRMED)'}")

    def converge(self) -> None:
        """Everything is healed; now the nodes have to come together: first under load, then for good without."""
        self._phase("healing")
        for run in self._scheduler.heal_all():
            if run.recovered is not None:
                self._say(run, f"healed: {run.describe()}", run.recovered.confirmed)
        self._folder.milestone("safety-ended")
        self._phase("converging")
        begun, bound = self._host.now(), self._scenario.expect.converges_within
        self._until(self._deployment.formed, bound, self._gone)
        self._stop_load(min(GRACE_SECONDS, max(1.0, (begun + bound - self._host.now()) / 2)))
        left = begun + bound - self._host.now()
        converged = self._until(lambda: self._deployment.disagreement() is None, left, self._gone)
        answers = statuses(self._cluster)
        if converged and answers:
            zxid = next(iter(answers.values())).delivered
            self._folder.milestone("converged", zxid=zxid, seconds=self._host.now() - begun)
            if self._scenario.expect.state:
                self._folder.milestone(MILESTONE, held=self._workload.read_state(sorted(self._scenario.expect.state)))
            self._leave_alone()
            return
        why = self._deployment.disagreement() or "they did too late"
        self._display.say(f"the nodes did not converge within {bound:g} s: {why}")
        self._deployment.on_not_converged()
        zxids = {node: answer.last_zxid for node, answer in answers.items()}
        self._folder.milestone("not-converged", nodes=zxids, why=why)

    def _leave_alone(self) -> None:
        """Nothing happens to the nodes any more, so nothing makes them leave their leader."""
        seconds = self._deployment.quiet_seconds
        if seconds:
            self._sleep(self._deployment.settle_seconds + seconds)
            self._folder.milestone("left-alone", seconds=seconds)

    def _gone(self) -> bool:
        """Whether a node has ended although everything is healed: nobody will start it again, so they can't come together."""
        return not all(self._cluster.alive(node) for node in self._cluster.nodes)

    def _stop_load(self, grace: float) -> None:
        if self._loaded:
            self._loaded = False
            self._workload.stop(grace)
            self._folder.milestone("workload-stopped", **dataclasses.asdict(self._workload.counters))

    def _phase(self, words: str) -> None:
        self._watch.phase = words

    def _until(
        self, condition: Callable[[], bool], seconds: float, hopeless: Callable[[], bool] = lambda: False
    ) -> bool:
        """Wait for a condition, for at most so long, and no longer once it is `hopeless`. Raises Unfinished when the user
        interrupts."""
        deadline = self._host.now() + seconds
        while not condition():
            if self._host.now() >= deadline or hopeless():
                return False
            self._sleep(STEP)
        return True

    def _sleep(self, seconds: float) -> None:
        if self._host.sleep(seconds, until=self._interrupt.asked):
            self._folder.milestone("interrupted")
            raise Unfinished(INTERRUPTED)
