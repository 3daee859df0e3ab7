"""Disk faults of running nodes: power cuts, full disks, errors, slowness. What happens at rest is in
`zab_chaos.faults.at_rest`."""

from typing import Any

from zab_chaos.faults.abilities import Ability
from zab_chaos.faults.cluster import ClusterError
from zab_chaos.faults.kind import Confirmation, Fault, FaultError, HealOrder, Key, Kind, Need
from zab_chaos.faults.process import DISK_EXIT, Killed, came_up, named, start_dead
from zab_chaos.faults.rules import choice, whole

VARIANTS = ("plain", "torn", "reordered", "pages")


class PowerCut(Killed):
    """Cuts the power of all targets at one instant; only on the faithful disk, where unsynced bytes can be lost.

    `plain`: SIGKILL, which on that disk loses exactly what was not synced. `torn`, `reordered` and `pages`: each node dies
    at its next sync with something to lose, of which a seeded part survives, or after `within_ms` if it never syncs. One
    that sleeps dies in its sleep.
    """

    def inject(self) -> None:
        if not self.cluster.faithful:
            raise FaultError('a power cut needs the faithful disk: [scenario] disk = "faithful"')
        if self.params["variant"] == "plain":
            self.kill()
        else:
            self.kill_at_sync(self.nodes, self.params["variant"], self.params["within_ms"])

    def injected(self) -> Confirmation:
        return Confirmation(*self.deaths())

    def describe(self) -> str:
        variant = self.params["variant"]
        return f"{named(self.nodes)} without power" + ("" if variant == "plain" else f" ({variant})")


class DiskFault(Fault):
    """Base of what a node is told to do to its own disk; the node may die of it, and healing starts it again."""

    command: str
    on: dict[str, Any]
    off: dict[str, Any]
    ends: tuple[int, ...] = (DISK_EXIT,)

    def inject(self) -> None:
        self.answers = {str(node): self.cluster.control(node, self.command, **self.on) for node in self.nodes}

    def injected(self) -> Confirmation:
        return Confirmation(len(self.answers) == len(self.nodes), {"answers": self.answers})

    def heal(self) -> None:
        self.exits: dict[int, int] = {}
        for node in self.nodes:
            self._heal_node(node)
        start_dead(self.scene, self.nodes)

    def _heal_node(self, node: int) -> None:
        if self.cluster.alive(node):
            try:
                self.cluster.control(node, self.command, **self.off)
                return
            except ClusterError:
                if self.cluster.wait_exit(node, 0.0) is None:
                    raise
        exit_code = self.cluster.wait_exit(node, 0.0)
        if exit_code is not None:
            self.exits[node] = exit_code

    def recovered(self) -> Confirmation:
        up = came_up(self.scene, self.nodes)
        exits = {str(node): {"exit": status} for node, status in self.exits.items()}
        return Confirmation(up.confirmed, {"up": up.evidence, "ended": exits})


class DiskFull(DiskFault):
    """Writes fail with ENOSPC. A node that has to write ends with exit code 74: it does not go on with such a disk."""

    command, on, off = "disk-full", {"on": True}, {"on": False}

    def describe(self) -> str:
        return f"{named(self.nodes)}: disk full"


class DiskError(DiskFault):
    """EIO at the next write or sync. The node ends with exit code 74."""

    command, off = "disk-error", {"op": None}

    def inject(self) -> None:
        self.on = {"op": self.params["op"]}
        super().inject()

    def describe(self) -> str:
        return f"{named(self.nodes)}: disk error at {self.params['op']}"


class SlowDisk(DiskFault):
    """Each sync takes so much longer."""

    command, off = "slow-disk", {"ms": 0}
    ends = ()

    def inject(self) -> None:
        self.on = {"ms": self.params["ms"]}
        super().inject()

    def describe(self) -> str:
        return f"{named(self.nodes)}: every sync takes {self.params['ms']} ms longer"


def _power_cut_drawn(random: Any) -> dict[str, Any]:
    return {"variant": random.choice(VARIANTS), "within_ms": random.choice((100, 500))}


KINDS = (
    Kind(
        name="power-cut",
        doc="cut the power of all targets at one instant: unsynced bytes are lost; healed by a restart",
        make=PowerCut,
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
                rule=whole(1, 60_000, "milliseconds"),
                default=500,
                doc="for torn, reordered and pages: the power fails after this time if no sync comes",
            ),
        ),
        need=Need.UP,
        leaves="down",
        order=HealOrder.DOWN,
        draw=_power_cut_drawn,
    ),
    Kind(
        name="disk-full",
        doc="fail writes with ENOSPC; the node exits with code 74; healed by a restart",
        make=DiskFull,
        needs=frozenset({Ability.DISK_TROUBLE}),
        leaves="maybe-down",
        order=HealOrder.DOWN,
        draw=lambda _random: {},
    ),
    Kind(
        name="disk-error",
        doc="fail one kind of operation with EIO; the node exits with code 74; healed by a restart",
        make=DiskError,
        needs=frozenset({Ability.DISK_TROUBLE}),
        keys=(Key(name="op", rule=choice("write", "sync"), default="sync", doc="the operation that fails"),),
        leaves="maybe-down",
        order=HealOrder.DOWN,
        draw=lambda random: {"op": random.choice(("write", "sync"))},
    ),
    Kind(
        name="slow-disk",
        doc="make every sync take longer",
        make=SlowDisk,
        needs=frozenset({Ability.DISK_TROUBLE}),
        keys=(Key(name="ms", rule=whole(1, 10_000, "milliseconds"), doc="how much longer"),),
        impairs=False,
        draw=lambda random: {"ms": random.randrange(5, 60)},
    ),
)
