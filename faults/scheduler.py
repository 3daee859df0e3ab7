"""The scheduler: injects and heals faults at their times, and writes the fault log (results/README.md, faults.jsonl).

It has no thread of its own. Its caller calls `due(now)` as often as it can, at the latest at the time that the last call
returned. Whatever goes wrong, a fault whose injection was begun stays on the list of faults to be healed.
"""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from signal import SIGKILL
from typing import Any

from zab_chaos.faults.cluster import Cluster, ClusterError, is_paused
from zab_chaos.faults.host import THIS_HOST, Host
from zab_chaos.faults.kind import Confirmation, Fault, FaultContext, FaultError, HealOrder, Kind, TargetState
from zab_chaos.faults.nemesis import LOSSES, cost, is_exclusive
from zab_chaos.faults.network import Network, NetworkError
from zab_chaos.faults.registry import KINDS
from zab_chaos.faults.scenario import SETTLE_SECONDS, FaultStep
from zab_chaos.faults.targets import NoTargetError, resolve
from zab_chaos.node.append_file import AppendFile

LEADER_SECONDS = 10.0  # how long a fault waits for its target: a leader, a node that is down or paused
OMITTED_SECONDS = 1.0  # how long a drawn fault waits for a target before it is left out
SOON = 0.02  # seconds until the next try

_ERRORS = (ClusterError, NetworkError, FaultError)


@dataclass(slots=True)
class FaultRecord:
    """One fault of the run, from its injection on."""

    id: int
    step: FaultStep
    nodes: list[int]
    injected: Confirmation
    fault: Fault | None = None  # None: no node fitted the target
    injected_at: float = 0.0  # seconds, by the host's clock
    heals_at: float | None = None  # None: healed by another fault, or at the end
    recovered: Confirmation | None = None  # None: still active
    concurrent: list["FaultRecord"] = field(default_factory=list)  # the faults that were active when it was injected
    # Seconds until `Scheduler.heal` or `heal_all` healed it; None: healed otherwise, or not yet.
    lasted: float | None = None

    @property
    def kind(self) -> Kind:
        return KINDS[self.step.do]

    def describe(self) -> str:
        """Return the fault in words."""
        return self.fault.describe() if self.fault else f"{self.step.do} of {self.step.target}: no node was hit"


class Scheduler:
    """Carries out one schedule. Use it as a context manager, or call `heal_all`, so that no fault stays active."""

    def __init__(
        self,
        cluster: Cluster,
        network: Network | None,
        steps: Sequence[FaultStep],
        seed: int,
        log: Path | Callable[[dict[str, Any]], None],
        keep_quorum: bool = False,
        patience: float = 10.0,
        host: Host = THIS_HOST,
        drawn: bool = False,
    ) -> None:
        """Create a scheduler.

        `log`: the path of faults.jsonl, or a function that takes its lines. `keep_quorum`: put a fault off while the
        ensemble has not recovered enough for it. `drawn`: whether the schedule is drawn; then a fault without a possible
        target, or that would cost a second disk, is left out. `patience`: seconds that a fault may take to show its effect.
        """
        self.cluster = cluster
        self.network = network
        self.seed = seed
        self.keep_quorum = keep_quorum
        self.drawn = drawn
        self.patience = patience
        self.records: list[FaultRecord] = []
        self._active: list[FaultRecord] = []  # those of `records` that are active; a long run has many records
        self._named: dict[str, list[int]] = {}  # nodes by the name (`as`) of the fault that hit them
        self._lost_disk: set[int] = set()  # nodes that lost their disks, and have not been seen as members since
        self.unanswered: set[str] = set()  # names of operations that have no answer yet, which faults may await
        self._steps = sorted(steps, key=lambda step: step.at)
        self._started_at: float | None = None  # when the load started
        self._now = 0.0  # of the latest call of `due`
        self._advanced_at = 0.0  # when the schedule last advanced
        self.host = host
        self._closed = False
        self._log = _JsonLines(log) if isinstance(log, Path) else log

    def __enter__(self) -> "Scheduler":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def active(self) -> list[FaultRecord]:
        """The active faults, oldest first."""
        return list(self._active)

    @property
    def awaiting_effect(self) -> list[FaultRecord]:
        """The active faults that have not taken effect yet: crash points that were not reached, waits."""
        return [record for record in self.active if record.fault is not None and not record.fault.took_effect()]

    @property
    def effects(self) -> dict[str, tuple[int, ...]]:
        """The nodes that were hit, by the names of the faults that have taken effect or are not waited for any more."""
        waiting = {
            record.step.name
            for record in self.awaiting_effect
            if record.kind.blocks_schedule or self._now < record.injected_at + SETTLE_SECONDS
        }
        names = dict.fromkeys(
            record.step.name for record in self.records if record.step.name and record.step.name not in waiting
        )
        return {name: tuple(self._named.get(name, ())) for name in names if name is not None}

    @property
    def next_step(self) -> FaultStep | None:
        """The next step; None at the end of the schedule."""
        return next(iter(self._steps), None)  # at once: a thread that shows it may ask while the last step is begun

    @property
    def progress_deadline(self) -> float:
        """The time by which the schedule must have advanced: whatever a step waits for, it waits for a limited time."""
        bounds: list[float] = [record.injected_at + record.step.params["within"] for record in self._blocking]
        if self.next_step is not None:
            bounds.append(self._waits_since(self.next_step) + max(SETTLE_SECONDS, self._target_seconds(self.next_step)))
        return max(bounds, default=0.0)

    def _target_seconds(self, step: FaultStep) -> float:
        """Return how long a step waits for its target: on nodes that take long for everything, as long as for any effect."""
        return float(step.params.get("within", max(LEADER_SECONDS, self.patience)))

    def _waits_since(self, step: FaultStep) -> float:
        """Return the time at which the step is, or was, the next one and due."""
        assert self._started_at is not None
        return max(self._started_at + step.at, self._advanced_at)

    def lasts_until(self, duration: float) -> float:
        """Return until when the active faults of a written schedule of this duration, in seconds, last as planned: those that
        began late as long as if they had not. 0.0 without such a fault."""
        planned = [
            record.heals_at - record.step.lasts + min(record.step.lasts, duration - record.step.at)
            for record in self._active
            if record.heals_at is not None and record.step.lasts is not None
        ]
        return max(planned, default=0.0)

    @property
    def _blocking(self) -> list[FaultRecord]:
        return [record for record in self.awaiting_effect if record.kind.blocks_schedule]

    def begin(self, now: float) -> None:
        """Start the schedule: the steps' times `at` count from `now`, in seconds of the host's clock."""
        self._started_at = self._advanced_at = now

    def due(self, now: float) -> float | None:
        """Do what is due at `now`, by the host's clock. Return when to call again at the latest; None if nothing more is
        scheduled. Raises RuntimeError before `begin`."""
        if self._started_at is None:
            raise RuntimeError("begin(now) must be called first")
        self._now = now
        self._record_exits()
        times = [self._tend(record, now) for record in self.active]
        while self._steps and self._started_at + self._steps[0].at <= now:
            if self._blocking or not self._start(self._steps[0], now):
                times.append(now + SOON)  # put off
                break
            self._steps.pop(0)
            self._advanced_at = now
        else:
            times += [self._started_at + step.at for step in self._steps[:1]]
        times += [record.heals_at for record in self.active if record.heals_at is not None and record.heals_at > now]
        return min([time for time in times if time is not None], default=None)

    def inject(self, step: FaultStep) -> FaultRecord:
        """Inject a fault that is not in the schedule. Like a scheduled one it may first wait, for a leader for example."""
        while not self._start(step, self.host.now()):
            self.due(self.host.now())
            self.host.sleep(SOON)
        return next(record for record in self.records if record.step is step)

    def heal(self, record: FaultRecord) -> None:
        """Heal one fault now, if it is still active."""
        if record.fault is not None and record.recovered is None:
            self._heal(record)
            record.lasted = self.host.now() - record.injected_at

    def heal_all(self) -> list[FaultRecord]:
        """Heal all active faults, then start every node that is still down. Drop the rest of the schedule.

        The order is safe: network, pauses, disks and clocks, nodes that are down. A failure does not stop the others.
        Return the faults that were healed now.
        """
        self._steps.clear()
        healed = []
        while self.active:  # a healing may inject the loss of a disk
            record = min(self.active, key=lambda record: (record.kind.heal_order, record.id))
            self.heal(record)
            healed.append(record)
        self._wake_and_start()
        return healed

    def close(self, heal: bool = True) -> None:
        """Heal all faults, unless `heal` is false, and close the log. May be called more than once."""
        if not self._closed:
            self._closed = True
            try:
                if heal:
                    self.heal_all()
            finally:
                if isinstance(self._log, _JsonLines):
                    self._log.close()

    def _tend(self, record: FaultRecord, now: float) -> float | None:
        """Do what an active fault needs now, and heal it when it is time to. Return when to call again."""
        assert record.fault is not None
        try:
            next_call = record.fault.watch(now)
            heals = (record.heals_at is not None and record.heals_at <= now) or self._until_is_over(record.step)
            if heals and self._must_wait_to_heal(record):
                return now + SOON
            if heals or record.fault.is_over():
                if not self._heal(record, may_wait=heals):
                    return now + SOON
                self._advanced_at = now if record.kind.blocks_schedule else self._advanced_at
                return None
            return next_call
        except _ERRORS:
            return None  # the error shows again at the healing

    def _until_is_over(self, step: FaultStep) -> bool:
        """Return whether the fault that ends this one (`until`) has taken effect."""
        return step.until is not None and step.until in self.effects

    def _must_wait_to_heal(self, record: FaultRecord) -> bool:
        """Return whether the healing must wait: a node that another fault has paused takes no commands until it is resumed."""
        return record.kind.heal_order > HealOrder.PAUSE and any(is_paused(self.cluster, node) for node in record.nodes)

    def _start(self, step: FaultStep, now: float) -> bool:
        """Inject a step, or leave it out for good. Return False if it is put off: there is no target yet, or the ensemble
        has not recovered enough."""
        assert self._started_at is not None
        if self.keep_quorum and not self._affordable(step):
            self._bring_back_late()
            return False
        if self.drawn and is_exclusive(step) and self._without_disk():
            return now >= self._started_at + step.at + OMITTED_SECONDS
        since = self._waits_since(step)
        if self._awaited(step):
            if now < since + SETTLE_SECONDS:
                return False
            if step.awaits in self.unanswered:  # a fault without effect is itself not confirmed
                self._leave_out(step, f"the operation {step.awaits!r}, which it awaits, had no answer", now)
                return True
        kind = KINDS[step.do]
        number = len(self.records) + 1
        random = Random(f"fault {self.seed} {number}")
        try:
            nodes = self._resolve(step, kind, random)
        except NoTargetError as error:
            if self.keep_quorum:
                return False  # some healthy node will fit later
            if self.drawn:
                return now >= self._started_at + step.at + OMITTED_SECONDS
            # A target may still come: a leader, a node at a crash point or, on a slow machine, one that is healed late.
            may_come = error.no_leader or kind.target_state in (TargetState.DOWN, TargetState.PAUSED)
            may_come = may_come or any(record.heals_at is not None for record in self.active)
            if may_come and now < since + self._target_seconds(step):
                return False
            self._leave_out(step, str(error), now)
            return True
        self._inject(step, kind, number, nodes, random, now)
        return True

    def _leave_out(self, step: FaultStep, why: str, now: float) -> None:
        """Record that a step of a written schedule was not done, which makes the run's verdict uncertain."""
        unconfirmed = Confirmation(False, {"error": why})
        record = FaultRecord(len(self.records) + 1, step, [], unconfirmed, injected_at=now)
        self.records.append(record)
        self._write_inject(record, self.host.now_ns())

    def _nodes_to_spare(self) -> set[int]:
        """Return the nodes that a drawn schedule must not hit again: an active fault has taken them down, or is about to.
        A written schedule may hit any node."""
        if not self.keep_quorum:
            return set()
        return {node for record in self.active if record.kind.impairs for node in record.nodes}

    def _awaited(self, step: FaultStep) -> bool:
        """Return whether the fault that a step awaits has not taken effect yet, or the operation has no answer yet."""
        return step.awaits is not None and (
            step.awaits in self.unanswered or any(record.step.name == step.awaits for record in self.awaiting_effect)
        )

    def _resolve(self, step: FaultStep, kind: Kind, random: Random) -> list[int]:
        if step.target is None:
            return sorted(self.cluster.nodes)
        nodes = resolve(step.target, self.cluster, kind.target_state, random, self._named, self._nodes_to_spare())
        if step.name is not None:
            self._named[step.name] = nodes
        return nodes

    def _inject(self, step: FaultStep, kind: Kind, number: int, nodes: list[int], random: Random, now: float) -> None:
        record = FaultRecord(number, step, nodes, Confirmation(False, {}), injected_at=now, concurrent=self.active)
        context = FaultContext(
            self.cluster, self.network, random, self.patience, self.host, partial(self._explained, record),
            partial(self._may_be_paused, record), self._record_exits, self.drawn, partial(self._tell_killed, record),
        )  # fmt: skip
        fault = record.fault = kind.make(context, nodes, step.params)
        self._active.append(record)
        self.records.append(record)  # before anything is done: what was begun must be healed
        self._lost_disk.update(nodes if step.do in LOSSES else ())
        started = self.host.now_ns()
        log, later = self._log, list[dict[str, Any]]()
        self._log = later.append  # a disk that is lost meanwhile: lines are written in the order of their times
        try:
            fault.inject()
            record.injected = fault.injected()
        except _ERRORS as error:
            record.injected = Confirmation(False, {"error": str(error)})
        finally:
            self._log = log
            self._write_inject(record, started)
            for line in later:
                self._log(line)
        if step.lasts is not None:
            # Counted from now, not from the beginning of this round: healings in it, and the injection, may have taken long.
            record.heals_at = self.host.now() + step.lasts
        if kind.leaves == "down":
            self._tell_killed(record)
        if kind.leaves == "paused":
            for other in self._others(record):
                other.on_paused(nodes)
        if not kind.heals:
            self._heal_what_is_over()

    def _others(self, record: FaultRecord) -> list[Fault]:
        """Return the other active faults."""
        return [other.fault for other in self.active if other is not record and other.fault is not None]

    def _tell_killed(self, record: FaultRecord) -> None:
        """Tell the other active faults that this one has just taken its nodes down."""
        for other in self._others(record):
            other.on_killed(record.nodes)

    def _explained(self, record: FaultRecord, node: int, status: int) -> bool:
        """Return whether a fault that was active at the same time as `record` may end the node with this exit status."""
        others = [*record.concurrent, *self.records[record.id :]]
        return any(other.fault and node in other.nodes and status in other.fault.expected_exits for other in others)

    def _may_be_paused(self, record: FaultRecord, node: int) -> bool:
        """Return whether another active fault than that of `record` may pause the node at any time."""
        return any(other.pauses and node in other.nodes for other in self._others(record))

    def _heal_what_is_over(self) -> None:
        """Write the heal lines of the faults that a restart or a resume has just undone."""
        for record in self.active:
            if record.fault is not None and record.fault.is_over():
                self._heal(record)

    def _heal(self, record: FaultRecord, *, may_wait: bool = False) -> bool:
        """Heal a fault. Return False if the healing is to be tried again, because another fault has paused a node before it
        took its command; only if it `may_wait`."""
        assert record.fault is not None
        try:
            record.fault.disarm()
            self._record_exits()
            record.fault.heal()
            record.recovered = record.fault.recovered()
        except _ERRORS as error:
            if may_wait and self._must_wait_to_heal(record):
                return False
            record.recovered = Confirmation(False, {"error": str(error)})
        self._active = [one for one in self._active if one is not record]
        self._log({"type": "heal", "t": self.host.now_ns(), "id": record.id, **_confirmation_fields(record.recovered)})
        self._log_tampering()
        for other in self._others(record):
            with suppress(*_ERRORS):  # what it lacks shows at its own healing
                other.on_healed(record.fault)
        if record.fault.refused_disks:
            self._replace_disks(record.fault.refused_disks)
        return True

    def _record_exits(self) -> None:
        """Have every active fault record which of its nodes have ended, and wipe the disks that are lost with them, before any
        of them is started again."""
        for record in self.active:
            if record.fault is not None:
                with suppress(*_ERRORS):  # done again at the healing
                    record.fault.record_exits()
                self._wipe_disks(record.fault)

    def _wipe_disks(self, fault: Fault) -> None:
        """Wipe the disks of nodes that died of a fault with `wipe`, except, in a drawn schedule, while another disk is lost."""
        nodes, fault.to_wipe = fault.to_wipe, []
        if nodes and not (self.drawn and self._without_disk()):
            self._wipe(nodes)

    def _replace_disks(self, nodes: Sequence[int]) -> None:
        """Give nodes that refused their disks empty ones, and start them."""
        self._heal(self._wipe(nodes))

    def _wipe(self, nodes: Sequence[int]) -> FaultRecord:
        """Inject a fault `wipe` into nodes that are down. It is over when they are up again."""
        kind, number = KINDS["wipe"], len(self.records) + 1
        target = tuple(f"node-{node}" for node in nodes)
        step = FaultStep(at=0.0, do=kind.name, target=target, lasts=None, params=kind.defaults)
        self._inject(step, kind, number, list(nodes), Random(f"fault {self.seed} {number}"), self.host.now())
        return self.records[number - 1]

    def _wake_and_start(self) -> None:
        """Restore the network and all nodes, after all faults were healed: a healing may have failed, or a node may have ended
        by itself."""
        if self.network is not None:
            try:
                self.network.heal_all()
            except NetworkError as error:
                self._log_failed_healing("network", str(error))
            self._log_tampering()
        for node in self.cluster.nodes:
            self._bring_back(node)

    def _bring_back_late(self) -> None:
        """Bring back nodes that reached a point while it was being disarmed: they paused or ended after the healing."""
        hit = {node for record in self.active for node in record.nodes}
        for node in sorted(set(self.cluster.nodes) - hit):
            if self.cluster.alive(node) or self.cluster.wait_exit(node, 0.0) in (-SIGKILL, self.cluster.crashed):
                self._bring_back(node)

    def _bring_back(self, node: int) -> None:
        """Resume or start a node if it is paused or down."""
        try:
            if is_paused(self.cluster, node):
                self.cluster.resume(node)
            elif not self.cluster.alive(node):
                self._record_exits()
                self.cluster.start(node)
        except ClusterError as error:
            self._log_failed_healing(f"node-{node}", str(error))

    def _affordable(self, step: FaultStep) -> bool:
        """Return whether a quorum of healthy nodes would remain. An active fault counts as losing as many nodes as it costs."""
        voters = len(self.cluster.voters)
        spent = sum(cost(record.step, voters) for record in self.active)
        if (is_exclusive(step) and spent) or any(is_exclusive(record.step) for record in self.active):
            return False
        if spent + cost(step, voters) > (voters - 1) // 2:
            return False
        hit = {node for record in self.active for node in record.nodes}
        return all(self._is_healthy(node) for node in self.cluster.nodes if node not in hit)

    def _without_disk(self) -> set[int]:
        """Return the nodes that lost their disks, and are not members again yet."""
        self._lost_disk = {node for node in self._lost_disk if not self._is_healthy(node)}
        return self._lost_disk

    def _is_healthy(self, node: int) -> bool:
        """Return whether a node is up, serves, and is not amnesiac."""
        if not self.cluster.alive(node) or self.cluster.paused(node):
            return False
        status = self.cluster.status(node)
        return status is not None and status.established and not status.amnesiac

    def _write_inject(self, record: FaultRecord, started: int) -> None:
        pairs = record.fault.pairs if record.fault is not None else ()
        line: dict[str, Any] = {
            "type": "inject",
            "t": started,
            "id": record.id,
            "do": record.step.do,
            "target": record.step.target,
            "nodes": record.nodes,
            "params": dict(record.step.params),
        }
        if pairs:
            line["pairs"] = pairs
        self._log(line | _confirmation_fields(record.injected))

    def _log_tampering(self) -> None:
        """Log what others did to the links. From then on it is not known which faults this run had."""
        found = self.network.take_foreign_changes() if self.network is not None else []
        if found:
            self._log_failed_healing("tampered", found)

    def _log_failed_healing(self, where: str, error: str | list[str]) -> None:
        """Log an error that concerns no single fault, as an unconfirmed heal line with id 0."""
        evidence = {where: error}
        self._log({"type": "heal", "t": self.host.now_ns(), "id": 0, "confirmed": False, "evidence": evidence})


class _JsonLines(AppendFile):
    """A file of JSON lines. Each line is written at once."""

    def __call__(self, line: dict[str, Any]) -> None:
        self.write((json.dumps(line) + "\n").encode())


def _confirmation_fields(confirmation: Confirmation) -> dict[str, Any]:
    return {"confirmed": confirmation.confirmed, "evidence": confirmation.evidence}
