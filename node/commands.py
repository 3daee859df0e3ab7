"""The commands of the control port: a node's status, and faults inside its process.

Every fault is traced as a `fault` event before it takes effect, so that a verdict can be checked against what was done.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

from zab_chaos.node.clock import Clock
from zab_chaos.node.core import digest as dg
from zab_chaos.node.core import zxid as zx
from zab_chaos.node.crash_points import CUT_ACTIONS, check_action
from zab_chaos.node.replica import Replica

MS = 1_000_000
ARMING_DELAY = 50 * MS  # points are armed after this delay, so that the answer leaves before the node stops


class CommandError(Exception):
    """A command that can't be executed. The text is sent back to the caller."""


class Commands:
    """Executes the commands of the control port. `stop` ends the life after this round."""

    def __init__(self, replica: Replica, clock: Clock, disk: Any, stop: Callable[[str], None]) -> None:
        self._replica = replica
        self._clock = clock
        self._disk = disk
        self._crash = replica.crash
        self._stop = stop
        self._power_cut_at: int | None = None
        self._pending_points: list[tuple[int, str, str, int]] = []  # when to arm it, point, action, seed
        self._command_counts: Counter[str] = Counter()  # by command: how often it changed the disk or the clock
        self._commands: dict[str, Callable[..., dict[str, Any] | None]] = {
            "status": self.status,
            "arm": self.arm,
            "disarm": self.disarm,
            "slow-disk": self.slow_disk,
            "disk-full": self.disk_full,
            "disk-error": self.disk_error,
            "power-cut": self.power_cut,
            "clock-rate": self.clock_rate,
            "clock-jump": self.clock_jump,
            "stop": self.stop,
        }

    def handle(self, command: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Execute a command, and return its answer. Raises CommandError."""
        found = self._commands.get(command)
        if found is None:
            raise CommandError(f"no command {command!r}; there are {', '.join(self._commands)}")
        try:
            return found(**arguments) or {}
        except (TypeError, ValueError) as error:  # InvalidCrashPoint is a ValueError
            raise CommandError(f"{command}: {error}") from None

    def due(self, now: int) -> None:
        """Arm the crash points that are due.

        A power cut that has waited too long for unsynced bytes takes place now.
        """
        while self._pending_points and now >= self._pending_points[0][0]:
            _, point, action, seed = self._pending_points.pop(0)
            self._crash.arm(point, action, seed)
            self._replica.install_disk_hook()
        if self._power_cut_at is not None and now >= self._power_cut_at:
            self._trace("power-cut", "fired", "nothing was unsynced")
            self._crash.die()

    def wakes_at(self) -> int | None:
        """Return when `due` will have something to do, or None if nothing is pending."""
        if not self._pending_points:
            return self._power_cut_at
        arms_at = self._pending_points[0][0]
        return arms_at if self._power_cut_at is None else min(arms_at, self._power_cut_at)

    def _trace(self, what: str, state: str, detail: str) -> None:
        self._replica.trace.add("fault", {"do": what, "state": state, "detail": detail})
        self._replica.trace.flush()

    # ---- the commands ----

    def status(self) -> dict[str, Any]:
        replica = self._replica
        machine, application = replica.machine, replica.application
        return {
            "node": machine.me,
            "life": replica.life,
            "role": machine.role.name,
            "phase": machine.phase.name,
            "leader": machine.leader,
            "epoch": machine.current_epoch,
            "accepted_epoch": machine.accepted_epoch,
            "last_zxid": zx.pair(machine.history.last),
            "delivered": zx.pair(machine.delivered),
            "digest": dg.show(machine.digest),
            "tree": dg.show(application.tree.digest),
            "established": machine.in_broadcast,
            "amnesiac": machine.amnesiac,
            "frames": dict(replica.network.frames),
            "armed": [*self._crash.armed, *(point for _, point, _, _ in self._pending_points)],
            "unsynced_bytes": self._disk.unsynced_bytes,
            "waiting": application.waiting,
            "in_flight_bytes": application.primary.outstanding_bytes,
            "leftovers": application.leftovers() | replica.claims.leftovers(),
        }

    def arm(self, point: str, action: str = "crash", seed: int = 0) -> None:
        """Arm a crash point. `seed` determines what is left if the crash is also a power cut."""
        check_action(action, point)
        if action in CUT_ACTIONS:
            self._disk.faults.check_variant(action)
            self._crash.cut = self._disk.cut
        self._pending_points.append((self._clock.now_ns() + ARMING_DELAY, point, action, seed))

    def disarm(self, point: str | None = None, action: str | None = None) -> dict[str, Any]:
        """Disarm one point, named as it was armed, or all. The answer says whether it was still armed: it was not reached.

        A point that is not armed yet is not lifted: else the fault would never have been there. Then the answer has `arming`,
        and the command must be sent again.
        """
        armed = self._crash.disarm(point, action)
        self._replica.install_disk_hook()
        pending = any(point in (None, it[1]) and action in (None, it[2]) for it in self._pending_points)
        return {"armed": armed, "arming": pending and not (armed and point is not None)}

    # The answers of two such commands in one life show the effect of the fault between them. Their counts show whether another
    # command of the same kind came in between.

    def slow_disk(self, ms: float) -> dict[str, Any]:
        self._disk.faults.slow_ms = float(ms)
        self._trace("slow-disk", "armed" if ms else "lifted", f"{ms} ms more a sync")
        return self._disk_work("slow-disk")

    def disk_full(self, on: bool) -> dict[str, Any]:
        self._disk.faults.full = bool(on)
        self._trace("disk-full", "armed" if on else "lifted", "")
        return self._disk_work("disk-full")

    def disk_error(self, op: str | None, stays_readable: bool = False, once: bool = False) -> dict[str, Any]:
        if op not in (None, "write", "sync"):
            raise ValueError(f"op {op!r}: a disk fails at write or sync, or null lifts it")
        if stays_readable and not self._disk.faults.can_cut_power:
            raise ValueError("on an ordinary disk the file system decides what stays readable after a failed sync")
        faults = self._disk.faults
        faults.error, faults.stays_readable, faults.error_once = op, stays_readable, once
        self._trace("disk-error", "armed" if op else "lifted", op or "")
        return self._disk_work("disk-error")

    def _disk_work(self, command: str) -> dict[str, Any]:
        disk = self._disk
        work = {"writes": disk.writes, "syncs": disk.syncs, "slowed": disk.faults.slowed, "failed": disk.faults.failed}
        return self._count_command(command) | work

    def _count_command(self, what: str) -> dict[str, Any]:
        self._command_counts[what] += 1
        return {"life": self._replica.life, "told": self._command_counts[what]}

    def power_cut(self, variant: str, seed: int, within_ms: int) -> None:
        """Cut the power at the next sync that has unsynced bytes, or after `within_ms` without one."""
        self._disk.faults.arm_power_cut(variant, seed)
        self._power_cut_at = self._clock.now_ns() + within_ms * MS
        self._trace("power-cut", "armed", f"{variant}, seed {seed}")

    def clock_rate(self, rate: float) -> dict[str, Any]:
        self._clock.rate = rate
        answer = self._count_command("clock") | {"clock_ns": self._clock.changed_ns}
        self._trace("clock-rate", "lifted" if rate == 1 else "armed", f"{rate} seconds a second")
        return answer

    def clock_jump(self, ms: float) -> dict[str, Any]:
        before = self._clock.now_ns()
        self._clock.jump(int(ms * MS))
        answer = self._count_command("clock") | {"before_ns": before, "clock_ns": self._clock.now_ns()}
        self._trace("clock-jump", "fired", f"{ms} ms")
        return answer

    def stop(self) -> None:
        self._stop("asked to")
