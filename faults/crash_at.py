"""Faults at a crash point: a node dies, pauses, or its disk fails when it reaches a named point of the protocol or the disk."""

from collections.abc import Callable, Mapping, Sequence, Sized
from functools import partial
from random import Random
from signal import SIGKILL
from typing import Any, get_args

from zab_chaos.faults.abilities import Ability
from zab_chaos.faults.cluster import ClusterError, is_paused
from zab_chaos.faults.crash_point_rule import DrawnPoint, point
from zab_chaos.faults.kind import Confirmation, Fault, FaultContext, HealOrder, Key, Kind
from zab_chaos.faults.process import (
    CRASH_AT,
    ENOUGH,
    STEP,
    NodeDown,
    awake_nodes,
    command_all,
    command_if_up,
    command_unless_paused,
    confirm_answers,
    draw_crash_at,
    install,
    node_names,
    start_down_nodes,
    wait_until_up,
)
from zab_chaos.faults.rules import boolean, choice
from zab_chaos.node.crash_points import DISK_STEPS, parse
from zab_chaos.node.store.disk_faults import Variant
from zab_chaos.node.store.errors import DISK_EXIT

VARIANTS = get_args(Variant)
DRAWN_VARIANTS = (*VARIANTS, "pages", "killed")  # twice as often those that leave the most different disks
RESUMES = 5  # times that a node may pause again, at points of other faults too, before it takes a command
WIPE_SHARE = 0.2  # share of the drawn crash-at faults that lose the disk


def enough_reached(fault: Fault, reached: Sized) -> bool:
    """Return whether enough of the targets have reached the point, by the fault's key `enough`."""
    return len(reached) >= {"all": len(fault.nodes), "one": 1, "none": 0}[fault.params["enough"]]


def disarm_once_armed(
    context: FaultContext, node: int, point: str, disarm: Callable[[], dict[str, Any] | None]
) -> dict[str, Any]:
    """Send a node the command `disarm`, again as long as it says that it has not armed the point yet. Return its answer, empty
    if it has ended.

    A point that was lifted before would be a fault that was never there. Raises ClusterError if the node takes too long.
    """
    deadline = context.host.now() + context.patience
    while (answer := disarm()) is not None and answer.get("arming"):
        if context.host.now() >= deadline:
            raise ClusterError(
                f"node {node} was told to arm {point}, and has not done so within {context.patience:g} s"
            )
        context.host.sleep(STEP)
    return answer or {}


class CrashAt(NodeDown):
    """A crash at a point that is armed through the control port.

    The injection is confirmed when the point is armed, the healing only if the point was reached. An exit status does not say
    which of several points it was: the judge compares that with the node's trace. Unless the schedule is drawn, at least one
    node must have taken the command: with `enough` none, nothing else shows that there was a fault.
    """

    action = "crash"

    def __init__(self, context: FaultContext, nodes: Sequence[int], params: Mapping[str, Any]) -> None:
        super().__init__(context, nodes, params)
        self.point: str = params["point"]
        self.pids: dict[int, int | None] = {}
        self.actions: dict[int, str] = {}  # by node: what it was told to do at the point
        self.answered: set[int] = set()  # nodes that have answered the command to arm it
        self.exits: dict[int, int] = {}  # exit statuses of the nodes that have ended since, at the point or otherwise
        self.to_wipe: list[int] = []
        self.disarmed: set[int] = set()
        self.expected_exits = (-SIGKILL, self.cluster.crashed)

    def inject(self) -> None:
        self.pids = {node: self.cluster.pid(node) for node in self.nodes}
        for node in self.nodes:
            arguments = self._action_at_point(node)
            self.actions[node] = arguments["action"]
            answer = command_unless_paused(self.cluster, node, "arm", {"point": self.point, **arguments})
            self.answered |= {node} if answer is not None else set()

    def _action_at_point(self, node: int) -> dict[str, Any]:
        """Return the action at the point, as arguments of the command `arm`.

        A variant makes a difference only at a step of the disk, on a faithful disk, which is inside the node.
        """
        variant = self.params.get("variant", "plain")
        faithful_disk = self.cluster.faithful and self.cluster.disk_state(node) is None
        if variant == "plain" or not faithful_disk or parse(self.point).step not in DISK_STEPS:
            return {"action": self.action}
        return {"action": variant, "seed": self.context.random.getrandbits(32)}

    def injected(self) -> Confirmation:
        armed = all(self._armed(node) for node in self.nodes)
        return Confirmation(armed and (self.context.drawn or bool(self.answered)), self._evidence())

    def on_killed(self, nodes: Sequence[int]) -> None:
        """Take note that another fault killed nodes: they will not reach the point, and their exit proves nothing.

        But a status that only a crash point has shows that they had reached it a moment before.
        """
        for node in nodes:
            if self.cluster.wait_exit(node, 0.0) == self.cluster.crashed != -SIGKILL:
                self._record_exit(node)
            if node not in self.exits:
                self.pids.pop(node, None)

    def record_exits(self) -> None:
        """Record the nodes that have ended, before a restart hides it."""
        for node in self.nodes:
            self._record_exit(node)

    def _record_exit(self, node: int) -> None:
        if node in self.pids and node not in self.exits:
            exit_code = self.cluster.wait_exit(node, 0.0)
            if exit_code is not None:
                self.exits[node] = exit_code
                self.to_wipe += [node] if self.params.get("wipe") else []

    def disarm(self) -> None:
        self.record_exits()
        for node in self.nodes:
            if self.cluster.alive(node) and node not in self.exits and node not in self.disarmed:
                arguments = {"point": self.point, "action": self.actions.get(node, self.action)}
                send = partial(command_if_up, self.cluster, node, "disarm", arguments)
                disarm_once_armed(self.context, node, self.point, send)
                self.disarmed.add(node)

    def recovered(self) -> Confirmation:
        """Return whether enough nodes reached the point, and all are up again."""
        up = self.confirm_restarted()
        return Confirmation(self.took_effect() and up.confirmed, self._evidence() | {"up": up.confirmed})

    def reached(self) -> list[int]:
        """Return the nodes that have reached the point, by their exit statuses."""
        return [node for node, status in self.exits.items() if status in self.expected_exits]

    def took_effect(self) -> bool:
        return enough_reached(self, self.reached())

    def is_over(self) -> bool:
        reached = self.took_effect() if self.params["enough"] != "none" else len(self.exits) == len(self.nodes)
        return reached and super().is_over()

    def describe(self) -> str:
        lost = ", and the disk to be lost" if self.params.get("wipe") else ""
        return f"{node_names(self.nodes)} to {self.action} at {self.point}{lost}"

    def _armed(self, node: int) -> bool:
        """Return whether the node says that the point is armed.

        A node that has ended, at the point or otherwise, or that another fault has paused since, can't answer any more: True.
        """
        self.record_exits()
        if node in self.exits or is_paused(self.cluster, node):
            return True
        status = self.cluster.status(node)
        if status is not None:
            return parse(self.point) in [parse(armed) for armed in status.armed]
        exit_code = self.cluster.wait_exit(node, self.context.patience)
        if exit_code is not None:
            self.exits[node] = exit_code
        return exit_code is not None

    def _evidence(self) -> dict[str, Any]:
        """Return by node: its process id, whether it reached the point and, if it ended, its exit status."""
        reached = self.reached()
        return {
            str(node): {"pid": self.pids.get(node), "reached": node in reached}
            | ({"exit": self.exits[node]} if node in self.exits else {})
            for node in self.nodes
        }


class CrashAtStart(CrashAt):
    """A restart with the point armed from the start: for points in recovery, election and discovery."""

    def __init__(self, context: FaultContext, nodes: Sequence[int], params: Mapping[str, Any]) -> None:
        super().__init__(context, nodes, {**params, "point": params["crash-at"]})

    def inject(self) -> None:
        install(self.cluster, self.nodes, self.params.get("release"))
        start_down_nodes(self.context, self.nodes, crash_at=self.point)
        self.pids = {node: self.cluster.pid(node) for node in self.nodes}

    def injected(self) -> Confirmation:
        """Return whether every node answers, or has ended at the point already."""
        wait_until_up(self.context, self.nodes)
        self.record_exits()
        return Confirmation(all(self.cluster.alive(n) or n in self.exits for n in self.nodes), self._evidence())


class KillThenCrashAtStart(CrashAtStart):
    """A fault that kills nodes, after which they are restarted at once with a crash point armed."""

    def __init__(self, before: Fault) -> None:
        super().__init__(before.context, before.nodes, before.params)
        self.before = before

    def inject(self) -> None:
        self.before.inject()
        self.killed = self.before.injected()
        self.context.tell_killed()
        super().inject()

    def injected(self) -> Confirmation:
        again = super().injected()
        evidence = {node: {**again.evidence.get(node, {}), **shown} for node, shown in self.killed.evidence.items()}
        return Confirmation(self.killed.confirmed and again.confirmed, evidence)

    def describe(self) -> str:
        return f"{self.before.describe()}, and restarted to {self.action} at {self.point}"


class CrashAtTwice(CrashAt):
    """A crash at a point, after which the node is restarted at once with another point armed."""

    def __init__(self, context: FaultContext, nodes: Sequence[int], params: Mapping[str, Any]) -> None:
        super().__init__(context, nodes, params)
        self.again: dict[int, CrashAtStart] = {}

    def watch(self, now: float) -> float | None:
        for node in self.reached():
            if node not in self.again and not self.cluster.alive(node):
                self.again[node] = CrashAtStart(self.context, (node,), self.params)
                self.again[node].inject()
        self.record_exits()  # a node may have reached the second point at once
        return None

    def record_exits(self) -> None:
        super().record_exits()
        for again in self.again.values():
            again.record_exits()

    def on_killed(self, nodes: Sequence[int]) -> None:
        super().on_killed(nodes)
        for again in self.again.values():
            again.on_killed(nodes)

    def disarm(self) -> None:
        for again in self.again.values():
            again.disarm()
        super().disarm()

    def took_effect(self) -> bool:
        return super().took_effect() and enough_reached(self, self._reached_twice())

    def is_over(self) -> bool:
        """Return whether all nodes have reached both points and run again. Until then a point may be armed in a life that
        another fault has begun, and must be disarmed."""
        return len(self._reached_twice()) == len(self.nodes) and super().is_over()

    def describe(self) -> str:
        return f"{super().describe()}, and restarted to {self.action} at {self.params['crash-at']}"

    def _reached_twice(self) -> list[int]:
        return [node for node, again in self.again.items() if again.reached()]

    def _evidence(self) -> dict[str, Any]:
        shown = super()._evidence()
        for node, again in self.again.items():
            shown[str(node)]["again"] = again._evidence()[str(node)]
        return shown


class FailAt(CrashAt):
    """One disk failure (EIO) at a point. The node does not go on with such a disk, and ends with exit code 74."""

    action = "fail"

    def __init__(self, context: FaultContext, nodes: Sequence[int], params: Mapping[str, Any]) -> None:
        super().__init__(context, nodes, params)
        self.expected_exits = (DISK_EXIT,)

    def describe(self) -> str:
        return f"{node_names(self.nodes)}: disk to fail at {self.point}"


class PauseAt(Fault):
    """A pause (SIGSTOP) at a point, by the node itself; healed by SIGCONT. Confirmed at the end if the point was reached.

    A node that is paused has reached the point, unless another fault has paused it, or its answer at the healing says that
    the point is still ahead.
    """

    pauses = True

    def __init__(self, context: FaultContext, nodes: Sequence[int], params: Mapping[str, Any]) -> None:
        super().__init__(context, nodes, params)
        self.reached: set[int] = set()
        self._held: set[int] = set()  # nodes that another fault has paused, and that have not been seen running since
        self._once_held: set[int] = set()

    def inject(self) -> None:
        self._pids = {node: self.cluster.pid(node) for node in self.nodes}
        armed = {"point": self.params["point"], "action": "pause"}
        self.answers = command_all(self.cluster, self.nodes, "arm", armed)

    def injected(self) -> Confirmation:
        """Return whether the point is armed, except in nodes that another fault had ended before."""
        armed = confirm_answers(self.context, self.nodes, self.answers)
        return Confirmation(armed.confirmed, {"point": self.params["point"]})

    def watch(self, now: float) -> float | None:
        paused = {node for node in self.nodes if is_paused(self.cluster, node)}
        self._held &= paused
        self.reached |= paused - self._held
        return None

    def on_paused(self, nodes: Sequence[int]) -> None:
        held = set(nodes) & set(self.nodes)
        self._held |= held
        self._once_held |= held

    def heal(self) -> None:
        self.watch(0.0)
        self.awake = awake_nodes(self.cluster, sorted(self.reached))
        for node in self.nodes:
            if self.cluster.alive(node):
                self._resume_and_disarm(node)

    def _resume_and_disarm(self, node: int) -> None:
        """Resume a node and disarm its point.

        Both are needed: the node may be paused at the point of another fault, with this point still ahead. It may reach
        this point before it takes the command `disarm`; then it is resumed again. Raises ClusterError if it stays paused.
        """
        point = self.params["point"]
        send = partial(self.cluster.control, node, "disarm", point=point, action="pause")
        for _ in range(RESUMES):
            if self.cluster.paused(node):
                self.cluster.resume(node)
            try:
                answer = disarm_once_armed(self.context, node, point, send)
            except ClusterError:
                if not self.cluster.alive(node):
                    return
                if not self.cluster.paused(node):
                    raise
            else:
                self._learn(node, answer.get("armed"))
                return
        raise ClusterError(f"node {node} was resumed {RESUMES} times and is paused again or still")

    def _learn(self, node: int, armed: bool | None) -> None:
        """Learn whether the node has reached the point. `armed`: whether the point was still armed; None: it is not known."""
        if armed:
            self.reached.discard(node)
        elif armed is False and node in self._once_held and self.cluster.pid(node) == self._pids[node]:
            self.reached.add(node)

    def took_effect(self) -> bool:
        return enough_reached(self, self.reached)

    def recovered(self) -> Confirmation:
        evidence = {str(node): {"pid": self.cluster.pid(node), "reached": node in self.reached} for node in self.nodes}
        return Confirmation(self.took_effect(), evidence | {"awake": self.awake})

    def describe(self) -> str:
        return f"{node_names(self.nodes)} to pause at {self.params['point']}"


def _make_crash_at(context: FaultContext, nodes: Sequence[int], params: Mapping[str, Any]) -> Fault:
    return (CrashAt if params["crash-at"] is None else CrashAtTwice)(context, nodes, params)


def _check_crash_at(params: Mapping[str, Any], _target: Any, _nodes: int) -> list[str]:
    wrong = []
    if params["wipe"] and params["variant"] != "plain":
        wrong.append(f"variant = {params['variant']!r} says what survives on the disk, but wipe = true loses all of it")
    if params["wipe"] and params["crash-at"] is not None:
        wrong.append("crash-at restarts the node on its disk, but wipe = true loses that; a wipe has a crash-at, too")
    return wrong


def _draw_crash_at_params(random: Random) -> dict[str, Any]:
    drawn = {"point": DrawnPoint("crash"), "variant": random.choice(DRAWN_VARIANTS), "wipe": False, "enough": "none"}
    again = draw_crash_at(random)
    if random.random() < WIPE_SHARE:
        return drawn | {"variant": "plain", "wipe": True, "crash-at": None}
    return drawn | again


KINDS = (
    Kind(
        name="pause-at",
        doc="SIGSTOP at a named point of the protocol or the disk; healed by SIGCONT",
        make=PauseAt,
        needs=frozenset({Ability.CRASH_POINTS}),
        keys=(Key(name="point", rule=point(), doc="the point"), ENOUGH),
        heal_order=HealOrder.PAUSE,
        draw=lambda random: {"point": DrawnPoint("pause"), "enough": "none"},
    ),
    Kind(
        name="crash-at",
        doc="SIGKILL at a named point of the protocol or the disk; healed by a restart",
        make=_make_crash_at,
        needs=frozenset({Ability.CRASH_POINTS}),
        keys=(
            Key(name="point", rule=point(), doc="the crash point"),
            Key(
                name="variant",
                rule=choice(*VARIANTS),
                default="plain",
                needs=Ability.UNSYNCED,
                doc="at a step of the disk, what survives of the unsynced bytes: as for power-cut, or all of them (killed), as "
                'for crash with keeps_cache; with disk = "fuse" plain only',
            ),
            Key(
                name="wipe",
                rule=boolean(),
                default=False,
                needs=Ability.WIPE,
                doc="whether a node that dies there loses its disk too, as for wipe",
            ),
            CRASH_AT,
            ENOUGH,
        ),
        leaves="maybe-down",
        heal_order=HealOrder.DOWN,
        check=_check_crash_at,
        draw=_draw_crash_at_params,
    ),
    Kind(
        name="fail-at",
        doc="fail the disk once (EIO) at a named point; the node exits with code 74; healed by a restart",
        make=FailAt,
        needs=frozenset({Ability.CRASH_POINTS}),
        keys=(
            Key(name="point", rule=point("fail"), doc="the point, with the step before-write or before-sync"),
            ENOUGH,
        ),
        leaves="maybe-down",
        heal_order=HealOrder.DOWN,
        draw=lambda random: {"point": DrawnPoint("fail"), "enough": "none"},
    ),
)
