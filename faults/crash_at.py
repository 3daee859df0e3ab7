"""Faults at a named point: the node dies, stops, or its disk fails when it reaches that point."""

from collections.abc import Mapping, Sequence, Sized
from random import Random
from signal import SIGKILL
from typing import Any, get_args

from zab_chaos.faults.abilities import Ability
from zab_chaos.faults.cluster import ClusterError, asleep
from zab_chaos.faults.crashpoints import DrawnPoint, point
from zab_chaos.faults.kind import Confirmation, Fault, HealOrder, Key, Kind, Need, Scene
from zab_chaos.faults.process import (
    DISK_EXIT,
    ENOUGH,
    RELAPSE,
    NodeDown,
    answered,
    came_up,
    draw_relapse,
    named,
    start_dead,
    tell_all,
    tell_if_awake,
    tell_if_up,
)
from zab_chaos.faults.rules import choice, truth
from zab_chaos.node.crash_points import DISK_STEPS, parse
from zab_chaos.node.store.disk_faults import Variant

VARIANTS = get_args(Variant)
DRAWN_VARIANTS = (*VARIANTS, "pages", "killed")  # what leaves the most different disks
WIPED = 0.2  # how often a drawn one takes the disk


def enough(fault: Fault, reached: Sized) -> bool:
    """Whether enough of the targets have reached the point."""
    return len(reached) >= {"all": len(fault.nodes), "one": 1, "none": 0}[fault.params["enough"]]


class CrashAt(NodeDown):
    """Armed through the control port. Confirmed as injected when armed, and at the end only if the point was
    reached."""

    action = "crash"

    def __init__(self, scene: Scene, nodes: Sequence[int], params: Mapping[str, Any]) -> None:
        super().__init__(scene, nodes, params)
        self.point: str = params["point"]
        self.pids: dict[int, int | None] = {}
        self.exits: dict[int, int] = {}  # of those that have ended since, there or by something else
        self.to_wipe: list[int] = []
        self.ends = (-SIGKILL, self.cluster.crashed)

    def inject(self) -> None:
        self.pids = {node: self.cluster.pid(node) for node in self.nodes}
        for node in self.nodes:
            tell_if_awake(self.cluster, node, "arm", {"point": self.point, **self._what(node)})

    def _what(self, node: int) -> dict[str, Any]:
        """What is to happen there. At a step of the messages, and on a disk that the node can't make lose a part, every crash
        is the same."""
        variant = self.params.get("variant", "plain")
        own = self.cluster.faithful and self.cluster.disk_state(node) is None
        if variant == "plain" or not own or parse(self.point).step not in DISK_STEPS:
            return {"action": self.action}
        return {"action": variant, "seed": self.scene.random.getrandbits(32)}

    def injected(self) -> Confirmation:
        return Confirmation(all(self._armed(node) for node in self.nodes), self._evidence())

    def taken_down(self, nodes: Sequence[int]) -> None:
        """Note that another fault killed nodes: they will not reach the point, and their exit proves nothing."""
        for node in nodes:
            if node not in self.exits:
                self.pids.pop(node, None)

    def note_exits(self) -> None:
        """Record the nodes that have ended, before a restart hides it."""
        for node in self.nodes:
            if node in self.pids and node not in self.exits and self.cluster.pid(node) in (None, self.pids[node]):
                exit_code = self.cluster.wait_exit(node, 0.0)
                if exit_code is not None:
                    self.exits[node] = exit_code
                    self.to_wipe += [node] if self.params.get("wipe") else []

    def heal(self) -> None:
        self.note_exits()
        for node in self.nodes:
            if self.cluster.alive(node) and node not in self.exits:
                tell_if_up(self.cluster, node, "disarm", {"point": self.point})
        self.note_exits()  # one may have got there meanwhile, and its restart would hide it
        super().heal()

    def recovered(self) -> Confirmation:
        """Whether enough nodes reached the point, and all are up again."""
        up = self.came_back()
        return Confirmation(self.settled() and up.confirmed, self._evidence() | {"up": up.confirmed})

    def reached(self) -> list[int]:
        """The nodes that have ended as one does that is at the point."""
        return [node for node, status in self.exits.items() if status in self.ends]

    def settled(self) -> bool:
        return enough(self, self.reached())

    def over(self) -> bool:
        reached = self.settled() if self.params["enough"] != "none" else len(self.exits) == len(self.nodes)
        return reached and super().over()

    def describe(self) -> str:
        lost = ", and the disk to be lost" if self.params.get("wipe") else ""
        return f"{named(self.nodes)} to {self.action} at {self.point}{lost}"

    def _armed(self, node: int) -> bool:
        """Whether the point is armed; or the node has ended, there or by something else: then it does not answer any more. Nor
        does one that another fault has paused since it said that it is armed."""
        self.note_exits()
        if node in self.exits or asleep(self.cluster, node):
            return True
        status = self.cluster.status(node)
        if status is not None:
            return parse(self.point) in [parse(armed) for armed in status.armed]
        exit_code = self.cluster.wait_exit(node, self.scene.patience)
        if exit_code is not None:
            self.exits[node] = exit_code
        return exit_code is not None

    def _evidence(self) -> dict[str, Any]:
        """`exit` stands only where somebody ended."""
        reached = self.reached()
        return {
            str(node): {"pid": self.pids.get(node), "reached": node in reached}
            | ({"exit": self.exits[node]} if node in self.exits else {})
            for node in self.nodes
        }


class CrashAtStart(CrashAt):
    """A restart with the point armed from the first moment: for points in recovery, election and discovery."""

    def __init__(self, scene: Scene, nodes: Sequence[int], params: Mapping[str, Any]) -> None:
        super().__init__(scene, nodes, {**params, "point": params["crash-at"]})

    def inject(self) -> None:
        start_dead(self.scene, self.nodes, crash_at=self.point)
        self.pids = {node: self.cluster.pid(node) for node in self.nodes}

    def injected(self) -> Confirmation:
        """Started with the point armed: it answers, or has got there already."""
        came_up(self.scene, self.nodes)
        self.note_exits()
        return Confirmation(all(self.cluster.alive(n) or n in self.exits for n in self.nodes), self._evidence())


class Relapse(CrashAtStart):
    """Kills nodes with another fault and restarts them at once with the point armed."""

    def __init__(self, before: Fault) -> None:
        super().__init__(before.scene, before.nodes, before.params)
        self.before = before

    def inject(self) -> None:
        self.before.inject()
        self.down = self.before.injected()
        super().inject()

    def injected(self) -> Confirmation:
        again = super().injected()
        evidence = {node: {**again.evidence.get(node, {}), **shown} for node, shown in self.down.evidence.items()}
        return Confirmation(self.down.confirmed and again.confirmed, evidence)

    def describe(self) -> str:
        return f"{self.before.describe()}, and started to {self.action} at {self.point}"


class CrashAtTwice(CrashAt):
    """A node that has reached the point is restarted at once, with another point armed from the start."""

    def __init__(self, scene: Scene, nodes: Sequence[int], params: Mapping[str, Any]) -> None:
        super().__init__(scene, nodes, params)
        self.again: dict[int, CrashAtStart] = {}

    def watch(self, now: float) -> float | None:
        for node in self.reached():
            if node not in self.again and not self.cluster.alive(node):
                self.again[node] = CrashAtStart(self.scene, (node,), self.params)
                self.again[node].inject()
        self.note_exits()  # one may have got there at once
        return None

    def note_exits(self) -> None:
        super().note_exits()
        for again in self.again.values():
            again.note_exits()

    def taken_down(self, nodes: Sequence[int]) -> None:
        super().taken_down(nodes)
        for again in self.again.values():
            again.taken_down(nodes)

    def heal(self) -> None:
        for again in self.again.values():
            again.heal()
        super().heal()

    def settled(self) -> bool:
        return super().settled() and enough(self, self._twice())

    def over(self) -> bool:
        """While a point is armed in a life that another fault has begun, there is something to lift."""
        return len(self._twice()) == len(self.nodes) and super().over()

    def describe(self) -> str:
        return f"{super().describe()}, and started to {self.action} at {self.params['crash-at']}"

    def _twice(self) -> list[int]:
        return [node for node, again in self.again.items() if again.reached()]

    def _evidence(self) -> dict[str, Any]:
        shown = super()._evidence()
        for node, again in self.again.items():
            shown[str(node)]["again"] = again._evidence()[str(node)]
        return shown


class FailAt(CrashAt):
    """The disk fails once, at the point: a node that does not go on with such a disk ends with exit code 74."""

    action = "fail"

    def __init__(self, scene: Scene, nodes: Sequence[int], params: Mapping[str, Any]) -> None:
        super().__init__(scene, nodes, params)
        self.ends = (DISK_EXIT,)

    def describe(self) -> str:
        return f"{named(self.nodes)}: disk to fail at {self.point}"


class PauseAt(Fault):
    """A pause (SIGSTOP) at a named point, by the node itself; healed by SIGCONT. Confirmed when it was reached."""

    def __init__(self, scene: Scene, nodes: Sequence[int], params: Mapping[str, Any]) -> None:
        super().__init__(scene, nodes, params)
        self.reached: set[int] = set()

    def inject(self) -> None:
        armed = {"point": self.params["point"], "action": "pause"}
        self.answers = tell_all(self.cluster, self.nodes, "arm", armed)

    def injected(self) -> Confirmation:
        """Whether the point is armed, but where another fault had ended the node before. Whether it is reached is known
        later."""
        told = answered(self.scene, self.nodes, self.answers)
        return Confirmation(told.confirmed, {"point": self.params["point"]})

    def watch(self, now: float) -> float | None:
        self.reached.update(node for node in self.nodes if asleep(self.cluster, node))
        return None

    def heal(self) -> None:
        self.watch(0.0)
        for node in self.nodes:
            if self.cluster.alive(node):
                self._let_go(node)

    def _let_go(self, node: int) -> None:
        """Resume it and lift the point, for it may stand at the point of another fault and have its own still ahead. On
        the way to the command it may get there: it is resumed again."""
        while True:
            if self.cluster.paused(node):
                self.cluster.resume(node)
            try:
                self.cluster.control(node, "disarm", point=self.params["point"])
                return
            except ClusterError:
                if not self.cluster.alive(node):
                    return
                if not self.cluster.paused(node):
                    raise

    def settled(self) -> bool:
        return enough(self, self.reached)

    def recovered(self) -> Confirmation:
        evidence = {str(node): {"pid": self.cluster.pid(node), "reached": node in self.reached} for node in self.nodes}
        return Confirmation(self.settled(), evidence)

    def describe(self) -> str:
        return f"{named(self.nodes)} to pause at {self.params['point']}"


def _crash_at(scene: Scene, nodes: Sequence[int], params: Mapping[str, Any]) -> Fault:
    return (CrashAt if params["crash-at"] is None else CrashAtTwice)(scene, nodes, params)


def _not_both(params: Mapping[str, Any], _target: Any, _nodes: int) -> list[str]:
    wrong = []
    if params["wipe"] and params["variant"] != "plain":
        wrong.append(f"variant = {params['variant']!r} says what survives on the disk, but wipe = true loses all of it")
    if params["wipe"] and params["crash-at"] is not None:
        wrong.append("crash-at restarts the node on its disk, but wipe = true loses that; a wipe has a crash-at, too")
    return wrong


def _crash_at_drawn(random: Random) -> dict[str, Any]:
    drawn = {"point": DrawnPoint("crash"), "variant": random.choice(DRAWN_VARIANTS), "wipe": False, "enough": "none"}
    relapse = draw_relapse(random)
    if random.random() < WIPED:
        return drawn | {"variant": "plain", "wipe": True, "crash-at": None}
    return drawn | relapse


KINDS = (
    Kind(
        name="pause-at",
        doc="SIGSTOP at a named point of the protocol or the disk; healed by SIGCONT",
        make=PauseAt,
        needs=frozenset({Ability.CRASH_POINTS}),
        keys=(Key(name="point", rule=point(), doc="the point"), ENOUGH),
        need=Need.UP,
        order=HealOrder.PAUSE,
        draw=lambda random: {"point": DrawnPoint("pause"), "enough": "none"},
    ),
    Kind(
        name="crash-at",
        doc="SIGKILL at a named point of the protocol or the disk; healed by a restart",
        make=_crash_at,
        needs=frozenset({Ability.CRASH_POINTS}),
        keys=(
            Key(name="point", rule=point(), doc="the crash point"),
            Key(
                name="variant",
                rule=choice(*VARIANTS),
                default="plain",
                needs=Ability.UNSYNCED,
                doc="at a step of the disk, what survives of the unsynced bytes: as of power-cut, or of crash with keeps_cache "
                '(killed); with disk = "fuse" plain only',
            ),
            Key(
                name="wipe",
                rule=truth(),
                default=False,
                needs=Ability.WIPE,
                doc="whether the disk of a node that dies there is lost with it, as of wipe",
            ),
            RELAPSE,
            ENOUGH,
        ),
        need=Need.UP,
        leaves="maybe-down",
        order=HealOrder.DOWN,
        check=_not_both,
        draw=_crash_at_drawn,
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
        need=Need.UP,
        leaves="maybe-down",
        order=HealOrder.DOWN,
        draw=lambda random: {"point": DrawnPoint("fail"), "enough": "none"},
    ),
)
