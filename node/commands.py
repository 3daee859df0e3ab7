"""What the control port can ask of a node: its status, and faults inside its process.

Every command is traced as a `fault` event before it takes effect, so that a verdict can be checked against what was done.
"""

import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from node.core import digest as dg
from node.core import zxid as zx
from node.crash import BadPoint, CrashPoints, check_action, parse
from node.net.control import ControlError

if TYPE_CHECKING:
    from node.server import Server

MS = 1_000_000
ARMING = 50 * MS  # a point is armed so much later, so that the answer has left before the node stops there


class Commands:
    """The handler behind the control port. Mistakes raise ControlError, whose words go back to the caller."""

    def __init__(self, server: "Server", disk: Any, crash: CrashPoints) -> None:
        self._server = server
        self._disk = disk
        self._crash = crash
        self._power_cut_at: int | None = None
        self._arming: list[tuple[int, str, str]] = []
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
        found = self._commands.get(command)
        if found is None:
            raise ControlError(f"no command {command!r}; there are {', '.join(self._commands)}")
        try:
            return found(**arguments) or {}
        except TypeError as error:
            raise ControlError(f"{command}: {error}") from None
        except (BadPoint, ValueError) as error:
            raise ControlError(f"{command}: {error}") from None

    def due(self, now: int) -> None:
        """Arm the points whose time has come. A power cut that waited for unsynced bytes in vain takes place now."""
        while self._arming and now >= self._arming[0][0]:
            _, point, action = self._arming.pop(0)
            self._crash.arm(point, action)
            self._server.watch_disk()
        if self._power_cut_at is not None and now >= self._power_cut_at:
            self._trace("power-cut", "fired", "nothing was unsynced")
            os.kill(os.getpid(), signal.SIGKILL)

    def _trace(self, what: str, state: str, detail: str) -> None:
        self._server.trace.add("fault", {"do": what, "state": state, "detail": detail})
        self._server.driver.flush()

    # ---- the commands ----

    def status(self) -> dict[str, Any]:
        server = self._server
        machine, tree = server.machine, server.application.tree
        return {
            "node": machine.me,
            "life": server.life,
            "role": machine.role.name,
            "phase": machine.phase.name,
            "leader": machine.leader,
            "epoch": machine.current_epoch,
            "accepted_epoch": machine.accepted_epoch,
            "last_zxid": zx.pair(machine.history.last),
            "delivered": zx.pair(machine.delivered),
            "digest": dg.show(machine.digest),
            "tree": dg.show(tree.digest),
            "established": machine.in_broadcast,
            "amnesiac": machine.amnesiac,
            "frames": dict(server.links.frames),
            "armed": [*self._crash.armed, *(point for _, point, _ in self._arming)],
            "unsynced_bytes": self._disk.unsynced_bytes,
        }

    def arm(self, point: str, action: str = "crash") -> None:
        check_action(action)
        parse(point)
        self._arming.append((self._server.clock.now_ns() + ARMING, point, action))

    def disarm(self) -> None:
        self._arming.clear()
        self._crash.disarm()
        self._server.watch_disk()

    def slow_disk(self, ms: float) -> None:
        self._disk.faults.slow_ms = float(ms)
        self._trace("slow-disk", "armed" if ms else "lifted", f"{ms} ms more a sync")

    def disk_full(self, on: bool) -> None:
        self._disk.faults.full = bool(on)
        self._trace("disk-full", "armed" if on else "lifted", "")

    def disk_error(self, op: str | None) -> None:
        if op not in (None, "write", "sync", "truncate"):
            raise ValueError(f"op {op!r}: a disk fails at write, sync or truncate, or null lifts it")
        self._disk.faults.error = op
        self._trace("disk-error", "armed" if op else "lifted", op or "")

    def power_cut(self, variant: str, seed: int, within_ms: int) -> None:
        """The power goes at the next sync that has unsynced bytes, or after `within_ms` without one."""
        self._disk.faults.power_cut = (variant, seed)
        self._power_cut_at = self._server.clock.now_ns() + within_ms * MS
        self._trace("power-cut", "armed", f"{variant}, seed {seed}")

    def clock_rate(self, rate: float) -> None:
        self._server.clock.rate = rate
        self._trace("clock-rate", "lifted" if rate == 1 else "armed", f"{rate} seconds a second")

    def clock_jump(self, ms: float) -> None:
        self._server.clock.jump(int(ms * MS))
        self._trace("clock-jump", "fired", f"{ms} ms")

    def stop(self) -> None:
        self._server.stop("asked to")
