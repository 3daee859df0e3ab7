"""Disk faults of running nodes: power cuts, full disks, errors, slowness. What happens at rest is in
`zab_chaos.faults.at_rest`."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

from zab_chaos.faults.abilities import Ability
from zab_chaos.faults.cluster import Cluster
from zab_chaos.faults.kind import Confirmation, Fault, HealOrder, Key, Kind, TargetState, consecutive_answers
from zab_chaos.faults.process import (
    CRASH_AT,
    DISK_EXIT,
    ENOUGH,
    KillFault,
    check_enough,
    command_all,
    command_if_up,
    confirm_answers,
    draw_crash_at,
    evidence_by_node,
    node_names,
    start_down_nodes,
    wait_until_up,
    with_crash_at,
)
from zab_chaos.faults.rules import boolean, choice, integer

COUNTS = ("writes", "syncs", "slowed", "full", "failed", "cuts", "lost_bytes", "lost_changes")
DONE = ("writes", "syncs")
LOST = ("cuts", "lost_bytes", "lost_changes")
VARIANTS = ("plain", "torn", "reordered", "pages")


class PowerCut(KillFault):
    """Cuts the power of all targets at one instant; only on a disk where unsynced bytes can be lost.

    `plain`: SIGKILL, with which exactly what was not synced is lost. `torn`, `reordered` and `pages`: each node dies
    at its next sync with something to lose, of which a seeded part survives, or after `within_ms` if it never syncs. One
    that sleeps dies in its sleep.
    """

    def inject(self) -> None:
        self.before = disk_states(self.cluster, self.nodes)
        if self.params["variant"] == "plain":
            self.kill(power=True)
        else:
            self.kill_at_sync(self.params["variant"], self.params["within_ms"])

    def injected(self) -> Confirmation:
        cut, evidence = self.deaths()
        for node, now in disk_states(self.cluster, self.before).items():
            lost = counted(LOST, self.before[node], now)
            evidence[str(node)] = evidence.get(str(node), {}) | lost
            cut = cut and (lost["cuts"] == 1 or node not in self.pids)
        return Confirmation(cut, evidence)

    def describe(self) -> str:
        variant = self.params["variant"]
        return f"{node_names(self.nodes)} without power" + ("" if variant == "plain" else f" ({variant})")


def disk_states(cluster: Cluster, nodes: Iterable[int]) -> dict[int, dict[str, Any]]:
    """What the file systems under the nodes' disks have counted so far; nothing of a disk that has none."""
    found = {node: cluster.disk_state(node) for node in nodes}
    return {node: state for node, state in found.items() if state is not None}


def counted(names: Iterable[str], before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, int]:
    """What a disk has counted between the two, as far as it counts that."""
    return {name: now[name] - before[name] for name in names if name in now}


class DiskFault(Fault):
    """Base of what a node is told to do to its own disk; the node may die of it, and healing starts it again.

    Where a file system of ours is under the disk, it obeys instead of the node. The disk's own counts must show the effect.
    """

    command: str
    on: dict[str, Any]
    off: dict[str, Any]
    expected_exits: tuple[int, ...] = (DISK_EXIT,)

    def inject(self) -> None:
        self.before = disk_states(self.cluster, self.nodes)
        self.counted: dict[int, dict[str, int]] = {}  # while the fault was there
        self.answers: dict[int, dict[str, Any]] = {}  # if somebody can't be told, it is healed all the same
        self.answers = command_all(self.cluster, self.nodes, self.command, self.on)

    def injected(self) -> Confirmation:
        return confirm_answers(self.context, self.nodes, self.answers)

    def heal(self) -> None:
        self.exits: dict[int, int] = {}
        for node in self.nodes:
            self._heal_node(node)
        start_down_nodes(self.context, self.nodes)

    def _heal_node(self, node: int) -> None:
        if self.cluster.alive(node) or node in self.before:
            below = self.cluster.disk_state(node) or {}  # before it is lifted: then it goes on at once
            lifted = command_if_up(self.cluster, node, self.command, self.off, self.context.patience)
            if lifted is not None:
                self._count(node, lifted | below)
        exit_code = self.cluster.wait_exit(node, 0.0)
        if exit_code is not None:
            self.exits[node] = exit_code

    def _count(self, node: int, lifted: Mapping[str, Any]) -> None:
        """The effects since it was begun; and what was still done since it was there, which may be nothing."""
        begun = self.answers.get(node, {})
        if node in self.counted or not consecutive_answers(begun, lifted):
            return
        before = begun | self.before.get(node, {})
        self.counted[node] = counted(COUNTS, before, lifted) | counted(DONE, begun, lifted)

    def recovered(self) -> Confirmation:
        up = wait_until_up(self.context, self.nodes)
        late = {
            int(node): found["exit"] for node, found in up.evidence.items() if found.get("exit") in self.expected_exits
        }
        if late:  # these had met the fault before it was lifted, and ended after that
            self.exits |= late
            start_down_nodes(self.context, late)
            up = wait_until_up(self.context, self.nodes)
        evidence = {"up": up.evidence, "ended": evidence_by_node(self.exits, "exit")}
        if self.counted:
            evidence["disk"] = {str(node): counts for node, counts in self.counted.items()}
        shown = all(self.effective(counts) for counts in self.counted.values())
        return Confirmation(up.confirmed and shown, evidence)

    @abstractmethod
    def effective(self, counts: Mapping[str, int]) -> bool:
        """Whether the fault was there all the time, by what the disk has counted meanwhile."""


class DiskFull(DiskFault):
    """Writes fail with ENOSPC. A node that has to write ends with exit code 74: it does not go on with such a disk."""

    command, on, off = "disk-full", {"on": True}, {"on": False}

    def effective(self, counts: Mapping[str, int]) -> bool:
        return counts["writes"] == 0

    def describe(self) -> str:
        return f"{node_names(self.nodes)}: disk full"


class DiskError(DiskFault):
    """EIO at the next write or sync. The node ends with exit code 74."""

    command, off = "disk-error", {"op": None}

    def inject(self) -> None:
        self.on = {"op": self.params["op"]}
        own = self.cluster.faithful and not disk_states(self.cluster, self.nodes)
        if self.params["stays_readable"] and own:
            self.on["stays_readable"] = True
        super().inject()

    def effective(self, counts: Mapping[str, int]) -> bool:
        return counts["writes" if self.params["op"] == "write" else "syncs"] == 0

    def describe(self) -> str:
        return f"{node_names(self.nodes)}: disk error at {self.params['op']}"


class SlowDisk(DiskFault):
    """Each sync takes so much longer."""

    command, off = "slow-disk", {"ms": 0}
    expected_exits = ()

    def inject(self) -> None:
        self.on = {"ms": self.params["ms"]}
        super().inject()

    def effective(self, counts: Mapping[str, int]) -> bool:
        return counts["slowed"] > 0 or counts["syncs"] == 0

    def describe(self) -> str:
        return f"{node_names(self.nodes)}: every sync takes {self.params['ms']} ms longer"


def _power_cut_drawn(random: Any) -> dict[str, Any]:
    drawn = {"variant": random.choice(VARIANTS), "within_ms": random.choice((100, 500))}
    return drawn | draw_crash_at(random)


def _of_a_sync(params: Mapping[str, Any], _target: Any, _nodes: int) -> list[str]:
    if params["stays_readable"] and params["op"] != "sync":
        return ["stays_readable says what a failed sync leaves, but op is not sync"]
    return []


def _disk_error_drawn(random: Any) -> dict[str, Any]:
    op, stays = random.choice(("write", "sync")), random.random() < 0.5
    return {"op": op, "stays_readable": op == "sync" and stays}


KINDS = (
    Kind(
        name="power-cut",
        doc="cut the power of all targets at one instant: unsynced bytes are lost; healed by a restart",
        make=with_crash_at(PowerCut),
        needs=frozenset({Ability.UNSYNCED}),
        keys=(
            Key(
                name="variant",
                rule=choice(*VARIANTS),
                default="plain",
                doc="what survives of the unsynced bytes: nothing (plain), a prefix (torn), some of the writes (reordered), or "
                "some of the 4 KiB pages (pages); and of directory changes: nothing, a prefix, a prefix, or some",
            ),
            Key(
                name="within_ms",
                rule=integer(1, 60_000, "milliseconds"),
                default=500,
                doc="for torn, reordered and pages: the power fails after this time if no sync comes",
            ),
            CRASH_AT,
            ENOUGH,
        ),
        target_state=TargetState.UP,
        leaves="down",
        heal_order=HealOrder.DOWN,
        check=check_enough,
        draw=_power_cut_drawn,
    ),
    Kind(
        name="disk-full",
        doc="fail writes with ENOSPC; the node exits with code 74; healed by a restart",
        make=DiskFull,
        needs=frozenset({Ability.DISK_TROUBLE}),
        leaves="maybe-down",
        heal_order=HealOrder.DOWN,
        draw=lambda _random: {},
    ),
    Kind(
        name="disk-error",
        doc="fail one kind of operation with EIO; the node exits with code 74; healed by a restart",
        make=DiskError,
        needs=frozenset({Ability.DISK_TROUBLE}),
        keys=(
            Key(name="op", rule=choice("write", "sync"), default="sync", doc="the operation that fails"),
            Key(
                name="stays_readable",
                rule=boolean(),
                default=False,
                needs=Ability.UNSYNCED,
                doc="whether what a failed sync was to write stays readable for the next life and counts as clean, as on ext4, "
                'until the power goes. On the ordinary disk and with disk = "fuse" the file system decides',
            ),
        ),
        leaves="maybe-down",
        heal_order=HealOrder.DOWN,
        check=_of_a_sync,
        draw=_disk_error_drawn,
    ),
    Kind(
        name="slow-disk",
        doc="make every sync take longer",
        make=SlowDisk,
        needs=frozenset({Ability.DISK_TROUBLE}),
        keys=(Key(name="ms", rule=integer(1, 10_000, "milliseconds"), doc="how much longer"),),
        impairs=False,
        draw=lambda random: {"ms": random.randrange(5, 60)},
    ),
)
