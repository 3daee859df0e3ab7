"""Disk faults of running nodes: power cuts, full disks, errors, slowness. Damage while a node is down is in
`zab_chaos.faults.at_rest`."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

from zab_chaos.faults.abilities import Ability
from zab_chaos.faults.cluster import Cluster
from zab_chaos.faults.kind import Confirmation, Fault, HealOrder, Key, Kind, consecutive_answers
from zab_chaos.faults.process import (
    CRASH_AT,
    ENOUGH,
    KillFault,
    check_enough,
    command_all,
    command_if_up,
    command_unless_paused,
    confirm_answers,
    draw_crash_at,
    ended_by,
    evidence_by_node,
    node_names,
    start_down_nodes,
    wait_until_up,
    with_crash_at,
)
from zab_chaos.faults.rules import boolean, choice, integer
from zab_chaos.node.store.errors import DISK_EXIT

# The counters of a disk (`zab_chaos.faults.filesystem.power.Counts`): all, those of completed operations, those of losses.
COUNTERS = ("writes", "syncs", "slowed", "full", "failed", "cuts", "lost_bytes", "lost_changes")
DONE_COUNTERS = ("writes", "syncs")
LOSS_COUNTERS = ("cuts", "lost_bytes", "lost_changes")
VARIANTS = ("plain", "torn", "reordered", "pages")


class PowerCut(KillFault):
    """A power cut of all targets at one instant; only on a disk where unsynced bytes can be lost.

    `plain`: SIGKILL; exactly the unsynced bytes are lost. `torn`, `reordered` and `pages`: each node dies at its next sync
    that has something to lose, or after `within_ms`; a part of the unsynced bytes, drawn from the seed, survives. A paused
    node is killed while it is paused.
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
            lost = counter_growth(LOSS_COUNTERS, self.before[node], now)
            evidence[str(node)] = evidence.get(str(node), {}) | lost
            cut = cut and (node not in self.pids or (lost["cuts"] == 1 and not still_unsynced(now)))
        return Confirmation(cut, evidence)

    def describe(self) -> str:
        variant = self.params["variant"]
        return f"{node_names(self.nodes)} lost power" + ("" if variant == "plain" else f" ({variant})")


def disk_states(cluster: Cluster, nodes: Iterable[int]) -> dict[int, dict[str, Any]]:
    """Return the counters of the file systems under the nodes' disks, by node; other disks are left out."""
    found = {node: cluster.disk_state(node) for node in nodes}
    return {node: state for node, state in found.items() if state is not None}


def still_unsynced(state: Mapping[str, Any]) -> bool:
    """Return whether a disk still has what a power cut would have lost, by its state."""
    return bool(state.get("unsynced_bytes") or state.get("unsynced_changes"))


def counter_growth(names: Iterable[str], before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, int]:
    """Return how much each counter of a disk grew between two readings; counters that the disk does not have are left out."""
    return {name: now[name] - before[name] for name in names if name in now}


class DiskFault(Fault):
    """Base of disk faults that a node is commanded to simulate. The node may die of it; healing starts it again.

    Where the disk lies on a file system of ours, that file system takes the command instead of the node. The disk's own
    counters must show the effect.
    """

    command: str
    begin_arguments: dict[str, Any]
    end_arguments: dict[str, Any]
    expected_exits: tuple[int, ...] = (DISK_EXIT,)

    def inject(self) -> None:
        self.before = disk_states(self.cluster, self.nodes)
        self.growth: dict[int, dict[str, int]] = {}  # by node, how much its disk's counters grew during the fault
        self.answers: dict[
            int, dict[str, Any]
        ] = {}  # set before the commands: if one raises, the fault is healed all the same
        self.answers = command_all(self.cluster, self.nodes, self.command, self.begin_arguments)

    def injected(self) -> Confirmation:
        return confirm_answers(self.context, self.nodes, self.answers)

    def heal(self) -> None:
        self.exits: dict[int, int] = {}
        for node in self.nodes:
            self._heal_node(node)
        start_down_nodes(self.context, self.nodes)

    def _heal_node(self, node: int) -> None:
        if self.cluster.alive(node) or node in self.before:
            state = self.cluster.disk_state(node) or {}  # read before the healing, after which operations go on at once
            lifted = command_if_up(self.cluster, node, self.command, self.end_arguments, self.context.patience)
            if lifted is not None:
                self._record_growth(node, lifted | state)
        exit_code = self.cluster.wait_exit(node, 0.0)
        if exit_code is not None:
            self.exits[node] = exit_code

    def _record_growth(self, node: int, lifted: Mapping[str, Any]) -> None:
        """Keep how much the counters grew: completed operations since the node answered, which may be none; all others since
        before the injection."""
        begun = self.answers.get(node, {})
        if node in self.growth or not consecutive_answers(begun, lifted):
            return
        before = begun | self.before.get(node, {})
        all_growth = counter_growth(COUNTERS, before, lifted)
        self.growth[node] = all_growth | counter_growth(DONE_COUNTERS, begun, lifted)

    def recovered(self) -> Confirmation:
        up = wait_until_up(self.context, self.nodes)
        late = {
            int(node): found["exit"] for node, found in up.evidence.items() if found.get("exit") in self.expected_exits
        }
        if late:  # these nodes met the fault before it was healed, and ended after that
            self.exits |= late
            start_down_nodes(self.context, late)
            up = wait_until_up(self.context, self.nodes)
        evidence = {"up": up.evidence, "ended": evidence_by_node(self.exits, "exit")}
        if self.growth:
            evidence["disk"] = {str(node): counts for node, counts in self.growth.items()}
        shown = all(self.was_in_effect(counts) for counts in self.growth.values())
        return Confirmation(up.confirmed and shown, evidence)

    @abstractmethod
    def was_in_effect(self, counts: Mapping[str, int]) -> bool:
        """Return whether the fault was in effect all the time, by the growth of the disk's counters meanwhile."""


class DiskFull(DiskFault):
    """A full disk: writes fail with ENOSPC. A node that has to write does not go on, and ends with exit code 74."""

    command, begin_arguments, end_arguments = "disk-full", {"on": True}, {"on": False}

    def was_in_effect(self, counts: Mapping[str, int]) -> bool:
        return counts["writes"] == 0

    def describe(self) -> str:
        return f"{node_names(self.nodes)}: disk full"


class DiskError(DiskFault):
    """A failing disk: EIO at each write or sync, or at one of them. The node ends with exit code 74."""

    command, end_arguments = "disk-error", {"op": None}

    def inject(self) -> None:
        self.begin_arguments = {"op": self.params["op"]} | ({"once": True} if self.params["once"] else {})
        faithful_disk = self.cluster.faithful and not disk_states(self.cluster, self.nodes)
        if self.params["stays_readable"] and faithful_disk:
            self.begin_arguments["stays_readable"] = True
        super().inject()

    def was_in_effect(self, counts: Mapping[str, int]) -> bool:
        done = counts["writes" if self.params["op"] == "write" else "syncs"]
        return done == 0 or (self.params["once"] and counts.get("failed") == 1)

    def describe(self) -> str:
        return f"{node_names(self.nodes)}: disk error at {'one ' if self.params['once'] else ''}{self.params['op']}"


class SlowDisk(DiskFault):
    """A slow disk: each sync takes `ms` longer, also in the next lives. Of two on one node the later one counts."""

    command, end_arguments = "slow-disk", {"ms": 0}
    expected_exits = ()

    def inject(self) -> None:
        self.begin_arguments = {"ms": self.params["ms"]}
        super().inject()
        self.pids = {node: self.cluster.pid(node) for node in self.nodes}

    def on_healed(self, other: Fault) -> None:
        """Make the disks slow again that are not slow any more. The counters are compared from then on."""
        for node in ended_by(other, self, self.pids):
            answer = command_unless_paused(self.cluster, node, self.command, self.begin_arguments)
            if answer is not None:
                self.answers[node], self.pids[node] = answer, self.cluster.pid(node)
                self.before |= disk_states(self.cluster, [node])

    def was_in_effect(self, counts: Mapping[str, int]) -> bool:
        return counts["slowed"] > 0 or counts["syncs"] == 0

    def describe(self) -> str:
        return f"{node_names(self.nodes)}: every sync takes {self.params['ms']} ms longer"


def _draw_power_cut(random: Any) -> dict[str, Any]:
    drawn = {"variant": random.choice(VARIANTS), "within_ms": random.choice((100, 500))}
    return drawn | draw_crash_at(random)


def _check_disk_error(params: Mapping[str, Any], _target: Any, _nodes: int) -> list[str]:
    if params["stays_readable"] and params["op"] != "sync":
        return ["stays_readable says what a failed sync leaves, but op is not sync"]
    return []


def _draw_disk_error(random: Any) -> dict[str, Any]:
    op, which = random.choice(("write", "sync")), int(4 * random.random())
    return {"op": op, "stays_readable": op == "sync" and which < 2, "once": which % 2 == 0}


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
        leaves="down",
        heal_order=HealOrder.DOWN,
        check=check_enough,
        draw=_draw_power_cut,
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
                name="once",
                rule=boolean(),
                default=False,
                doc="whether only the next one fails: tried again, it succeeds, although what a failed sync should have "
                "written is lost at a power cut, as on Linux",
            ),
            Key(
                name="stays_readable",
                rule=boolean(),
                default=False,
                needs=Ability.UNSYNCED,
                doc="whether the next life can read what the failed sync did not write, until a power cut, as on ext4. "
                'On the ordinary disk and with disk = "fuse" the file system decides',
            ),
        ),
        leaves="maybe-down",
        heal_order=HealOrder.DOWN,
        check=_check_disk_error,
        draw=_draw_disk_error,
    ),
    Kind(
        name="slow-disk",
        doc="make every sync take longer, also after a restart",
        make=SlowDisk,
        needs=frozenset({Ability.DISK_TROUBLE}),
        keys=(Key(name="ms", rule=integer(1, 10_000, "milliseconds"), doc="how much longer"),),
        impairs=False,
        draw=lambda random: {"ms": random.randrange(5, 60)},
    ),
)
