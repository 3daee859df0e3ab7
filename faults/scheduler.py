"""Injects and heals faults at their times, and keeps the fault log (results/README.md, faults.jsonl).

It has no clock and no thread: its caller says what time it is, `due(now)`, as often as it can, and at the latest when
the last call asked for. Whatever goes wrong, a fault that was begun stays on the list of what is to be healed.
"""

import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from signal import SIGKILL
from types import TracebackType
from typing import Any

from zab_chaos.faults.cluster import Cluster, ClusterError, is_paused
from zab_chaos.faults.host import THIS_HOST, Host
from zab_chaos.faults.kind import Confirmation, Fault, FaultContext, FaultError, HealOrder, Kind, TargetState
from zab_chaos.faults.nemesis import LOSSES, cost, is_exclusive
from zab_chaos.faults.network import Network, NetworkError
from zab_chaos.faults.registry import KINDS
from zab_chaos.faults.scenario import SETTLE_SECONDS, FaultStep
from zab_chaos.faults.targets import NoTargetError, resolve

LEADER_SECONDS = 10.0  # how long a fault waits for what it is aimed at: a leader, a node that is down or paused
OMITTED_SECONDS = 1.0  # how long a drawn fault waits for whom it could hit
SOON = 0.02  # seconds until it looks again

_TROUBLE = (ClusterError, NetworkError, FaultError)


@dataclass(slots=True)
class FaultRecord:
    """One fault of this run, from its injection on."""

    id: int
    step: FaultStep
    nodes: list[int]
    injected: Confirmation
    fault: Fault | None = None  # None: nobody fitted the target
    injected_at: float = 0.0  # the caller's clock
    heals_at: float | None = None  # None: by another fault, or at the end
    recovered: Confirmation | None = None  # None: still there
    beside: list["FaultRecord"] = field(default_factory=list)  # the faults that were active when it was injected
    lasted: float | None = None  # seconds until it was healed by hand or with all others; None: otherwise, or not yet

    @property
    def kind(self) -> Kind:
        return KINDS[self.step.do]

    def describe(self) -> str:
        """The fault in words."""
        return self.fault.describe() if self.fault else f"{self.step.do} of {self.step.target}: no node was hit"


class Scheduler:
    """Carries out one schedule. Use it as a context manager, or call `heal_all`, so that nothing stays broken."""

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
        """`log`: faults.jsonl, or what takes its lines. `keep_quorum`: put a fault off while the ensemble has not
        recovered enough for it. `drawn`: the schedule is; a fault that finds nobody, or would cost a second disk, is left
        out. `patience`: seconds a fault may take to show its effect.
        """
        self.cluster = cluster
        self.network = network
        self.seed = seed
        self.keep_quorum = keep_quorum
        self.drawn = drawn
        self.patience = patience
        self.records: list[FaultRecord] = []
        self._open: list[FaultRecord] = []  # those of them that are active: a long run has many that are over
        self._named: dict[str, list[int]] = {}  # by a fault's `as`
        self._lost: set[int] = set()  # whose disk was lost, and who was not seen to be a member since
        self.unanswered: set[str] = set()  # the names of operations that faults may await, and that have no answer yet
        self._waiting = sorted(steps, key=lambda step: step.at)
        self._begun: float | None = None
        self._now = 0.0  # the latest that `due` was told
        self._went_on = 0.0  # when the schedule last went on: for so long its next step has been waiting
        self.host = host
        self._closed = False
        self._log = _Lines(log) if isinstance(log, Path) else log

    def __enter__(self) -> "Scheduler":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def active(self) -> list[FaultRecord]:
        """The active faults, oldest first."""
        return list(self._open)

    @property
    def awaiting_effect(self) -> list[FaultRecord]:
        """The injected faults that have not taken effect yet: crash points that were not reached."""
        return [record for record in self.active if record.fault is not None and not record.fault.took_effect()]

    @property
    def effects(self) -> dict[str, tuple[int, ...]]:
        """The names of those faults that have taken effect, or are not waited for any more; with the nodes."""
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
        return self._waiting[0] if self._waiting else None

    @property
    def progress_deadline(self) -> float:
        """Until when the schedule need not have gone on: whatever a step waits for has a bound."""
        if self.next_step is None and not self._holding:
            return 0.0
        bounds: list[float] = [record.step.params["within"] for record in self._holding]
        return self._went_on + max([LEADER_SECONDS, SETTLE_SECONDS, *bounds])

    @property
    def _holding(self) -> list[FaultRecord]:
        return [record for record in self.awaiting_effect if record.kind.blocks_schedule]

    def begin(self, now: float) -> None:
        """The workload starts now: `at` is counted from here. `now` in seconds of the host's clock."""
        self._begun = self._went_on = now

    def due(self, now: float) -> float | None:
        """Do what is due at `now`, by the host's clock. Return when to call again at the latest; None if nothing more is
        scheduled."""
        if self._begun is None:
            raise RuntimeError("begin(now) comes first")
        self._now = now
        self._record_exits()
        times = [self._look_after(record, now) for record in self.active]
        while self._waiting and self._begun + self._waiting[0].at <= now:
            if self._holding or not self._start(self._waiting[0], now):
                times.append(now + SOON)  # put off
                break
            self._waiting.pop(0)
            self._went_on = now
        else:
            times += [self._begun + step.at for step in self._waiting[:1]]
        times += [record.heals_at for record in self.active if record.heals_at is not None and record.heals_at > now]
        return min([time for time in times if time is not None], default=None)

    def inject(self, step: FaultStep) -> FaultRecord:
        """Inject a fault that is on no schedule, now: as one whose time has come, it may have to wait for a leader."""
        while not self._start(step, self.host.now()):
            self.due(self.host.now())
            self.host.sleep(SOON)
        return self.records[-1]

    def heal(self, record: FaultRecord) -> None:
        """Heal one fault now, if it is still there."""
        if record.fault is not None and record.recovered is None:
            self._heal(record)
            record.lasted = self.host.now() - record.injected_at

    def heal_all(self) -> list[FaultRecord]:
        """Heal all active faults, in a safe order (network, pauses, disks and clocks, dead nodes), then start every node
        that is still down. Goes on when one thing fails. The faults that were healed now. Drops what is yet to come.
        """
        self._waiting.clear()
        healed = sorted(self.active, key=lambda record: (record.kind.heal_order, record.id))
        for record in healed:
            self.heal(record)
        self._wake_and_start()
        return healed

    def close(self, heal: bool = True) -> None:
        """Heal everything and close the log. May be called again."""
        if not self._closed:
            self._closed = True
            try:
                if heal:
                    self.heal_all()
            finally:
                if isinstance(self._log, _Lines):
                    self._log.close()

    def _look_after(self, record: FaultRecord, now: float) -> float | None:
        assert record.fault is not None
        try:
            next_call = record.fault.watch(now)
            self._take_disks(record.fault)
            heals = (record.heals_at is not None and record.heals_at <= now) or self._lasted(record.step)
            if heals and self._sleeps(record):
                return now + SOON
            if heals or record.fault.is_over():
                self._heal(record)
                self._went_on = now if record.kind.blocks_schedule else self._went_on
                return None
            return next_call
        except _TROUBLE:
            return None  # seen again when it is healed

    def _lasted(self, step: FaultStep) -> bool:
        """Whether it has lasted until the fault that it was to last for."""
        return step.until is not None and step.until in self.effects

    def _sleeps(self, record: FaultRecord) -> bool:
        """Whether healing must wait: a node that another fault has paused does not take commands before it wakes up."""
        return record.kind.heal_order > HealOrder.PAUSE and any(is_paused(self.cluster, node) for node in record.nodes)

    def _start(self, step: FaultStep, now: float) -> bool:
        """Inject. False if it is put off: there is no leader yet, or the ensemble has not recovered enough."""
        assert self._begun is not None
        if self.keep_quorum and not self._affordable(step):
            self._bring_back_late()
            return False
        if self.drawn and is_exclusive(step) and self._missing():
            return now >= self._begun + step.at + OMITTED_SECONDS
        since = max(self._begun + step.at, self._went_on)
        if self._awaited(step) and now < since + SETTLE_SECONDS:
            return False
        kind = KINDS[step.do]
        number = len(self.records) + 1
        random = Random(f"fault {self.seed} {number}")
        try:
            nodes = self._resolve(step, kind, random)
        except NoTargetError as error:
            if self.keep_quorum:
                return False  # drawn for whoever is well; somebody will be
            if self.drawn:
                return now >= self._begun + step.at + OMITTED_SECONDS
            may_come = error.no_leader or kind.target_state in (
                TargetState.DOWN,
                TargetState.PAUSED,
            )  # a crash point may be reached any moment
            may_come = may_come or any(record.heals_at is not None for record in self.active)  # on a slow machine: late
            if may_come and now < since + step.params.get("within", LEADER_SECONDS):
                return False
            record = FaultRecord(number, step, [], Confirmation(False, {"error": str(error)}), injected_at=now)
            self.records.append(record)
            self._write_inject(record, self.host.now_ns())
            return True
        self._inject(step, kind, number, nodes, random, now)
        return True

    def _afflicted(self) -> set[int]:
        """With a drawn schedule: the nodes that a fault is about to take down, or has; a second one would find them
        gone. A written schedule means what it says."""
        if not self.keep_quorum:
            return set()
        return {node for record in self.active if record.kind.impairs for node in record.nodes}

    def _awaited(self, step: FaultStep) -> bool:
        """Whether the fault that `step` awaits is still to take effect, or the operation to be answered."""
        return step.awaits is not None and (
            step.awaits in self.unanswered or any(record.step.name == step.awaits for record in self.awaiting_effect)
        )

    def _resolve(self, step: FaultStep, kind: Kind, random: Random) -> list[int]:
        if step.target is None:
            return sorted(self.cluster.nodes)
        nodes = resolve(step.target, self.cluster, kind.target_state, random, self._named, self._afflicted())
        if step.name is not None:
            self._named[step.name] = nodes
        return nodes

    def _inject(self, step: FaultStep, kind: Kind, number: int, nodes: list[int], random: Random, now: float) -> None:
        record = FaultRecord(number, step, nodes, Confirmation(False, {}), injected_at=now, beside=self.active)
        explained = partial(self._explained, record)
        context = FaultContext(
            self.cluster, self.network, random, self.patience, self.host, explained, self._record_exits, self.drawn
        )
        fault = record.fault = kind.make(context, nodes, step.params)
        self._open.append(record)
        self.records.append(record)  # before anything is done: what was begun must be healed
        self._lost.update(nodes if step.do in LOSSES else ())
        started = self.host.now_ns()
        try:
            fault.inject()
            record.injected = fault.injected()
        except _TROUBLE as error:
            record.injected = Confirmation(False, {"error": str(error)})
        if step.lasts is not None:
            # Not from the beginning of this round: what was healed in it may have taken long, and so may the fault itself.
            record.heals_at = self.host.now() + step.lasts
        self._write_inject(record, started)
        if kind.leaves == "down":
            for other in self.active:
                if other is not record and other.fault is not None:
                    other.fault.on_killed(nodes)
        if not kind.heals:
            self._close_what_is_over()

    def _explained(self, record: FaultRecord, node: int, status: int) -> bool:
        """Whether another fault, there at the same time as `record`, may end the node in this way."""
        others = [*record.beside, *self.records[record.id :]]
        return any(other.fault and node in other.nodes and status in other.fault.expected_exits for other in others)

    def _close_what_is_over(self) -> None:
        """A restart or a resume has healed older faults: their heal lines belong here, not at the end of the run."""
        for record in self.active:
            if record.fault is not None and record.fault.is_over():
                self._heal(record)

    def _heal(self, record: FaultRecord) -> None:
        assert record.fault is not None
        try:
            record.fault.heal()
            record.recovered = record.fault.recovered()
        except _TROUBLE as error:
            record.recovered = Confirmation(False, {"error": str(error)})
        self._open = [one for one in self._open if one is not record]
        self._write({"type": "heal", "t": self.host.now_ns(), "id": record.id, **_verdict(record.recovered)})
        self._tell_strange()
        if record.fault.refused_disks:
            self._replace(record.fault.refused_disks)

    def _record_exits(self) -> None:
        """Let every fault see which of its nodes have ended, before anything starts these again."""
        for record in self.active:
            if record.fault is not None:
                with suppress(*_TROUBLE):  # asked again when it is healed
                    record.fault.record_exits()

    def _take_disks(self, fault: Fault) -> None:
        """Have nodes that died of it lose their disks. A drawn fault spares a disk that would be the second one."""
        nodes, fault.to_wipe = fault.to_wipe, []
        if nodes and not (self.drawn and self._missing()):
            self._wipe(nodes)

    def _replace(self, nodes: Sequence[int]) -> None:
        """Give nodes that refuse their disks new ones."""
        self._heal(self._wipe(nodes))

    def _wipe(self, nodes: Sequence[int]) -> FaultRecord:
        """Take the disks of nodes that are down: a fault of its own, which is over when they are up again."""
        kind, number = KINDS["wipe"], len(self.records) + 1
        target = tuple(f"node-{node}" for node in nodes)
        params = {key.name: key.default for key in kind.keys}
        step = FaultStep(at=0.0, do=kind.name, target=target, lasts=None, params=params)
        self._inject(step, kind, number, list(nodes), Random(f"fault {self.seed} {number}"), self.host.now())
        return self.records[number - 1]

    def _wake_and_start(self) -> None:
        """Nodes that nobody is responsible for any more: a healing failed, or they ended by themselves."""
        if self.network is not None:
            try:
                self.network.heal_all()
            except NetworkError as error:
                self._write_trouble("network", str(error))
            self._tell_strange()
        for node in self.cluster.nodes:
            self._bring_back(node)

    def _bring_back_late(self) -> None:
        """Nodes that came to a point while it was being lifted: they stopped or ended when their fault was healed already."""
        hit = {node for record in self.active for node in record.nodes}
        for node in sorted(set(self.cluster.nodes) - hit):
            if self.cluster.alive(node) or self.cluster.wait_exit(node, 0.0) in (-SIGKILL, self.cluster.crashed):
                self._bring_back(node)

    def _bring_back(self, node: int) -> None:
        try:
            if is_paused(self.cluster, node):
                self.cluster.resume(node)
            elif not self.cluster.alive(node):
                self._record_exits()
                self.cluster.start(node)
        except ClusterError as error:
            self._write_trouble(f"node-{node}", str(error))

    def _affordable(self, step: FaultStep) -> bool:
        """Would a quorum of well nodes remain? Those under an active fault count as lost for as much as it costs."""
        spent = sum(cost(record.step, len(self.cluster.nodes)) for record in self.active)
        if (is_exclusive(step) and spent) or any(is_exclusive(record.step) for record in self.active):
            return False
        if spent + cost(step, len(self.cluster.nodes)) > (len(self.cluster.nodes) - 1) // 2:
            return False
        hit = {node for record in self.active for node in record.nodes}
        return all(self._well(node) for node in self.cluster.nodes if node not in hit)

    def _missing(self) -> set[int]:
        """Those whose disk was lost and who do not count again yet."""
        self._lost = {node for node in self._lost if not self._well(node)}
        return self._lost

    def _well(self, node: int) -> bool:
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
        self._write(line | _verdict(record.injected))

    def _tell_strange(self) -> None:
        """What somebody else did to the links: from then on the faults of this run are not known."""
        found = self.network.take_foreign_changes() if self.network is not None else []
        if found:
            self._write_trouble("tampered", found)

    def _write_trouble(self, where: str, error: str | list[str]) -> None:
        """A healing of last resort that failed, or who else changed the links, as an unconfirmed heal of no fault in
        particular (id 0)."""
        evidence = {where: error}
        self._write({"type": "heal", "t": self.host.now_ns(), "id": 0, "confirmed": False, "evidence": evidence})

    def _write(self, line: dict[str, Any]) -> None:
        self._log(line)


class _Lines:
    """A file of JSON lines, each written with one write(2)."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def __call__(self, line: dict[str, Any]) -> None:
        os.write(self._file, (json.dumps(line) + "\n").encode())

    def close(self) -> None:
        os.close(self._file)


def _verdict(confirmation: Confirmation) -> dict[str, Any]:
    return {"confirmed": confirmation.confirmed, "evidence": confirmation.evidence}
