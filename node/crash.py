"""Crash points: named steps at which a node ends itself, or stops itself, as if the power or the scheduler had.

`<step>:<what>[#k]`: the k-th time (from arming; default 1) that the step comes to pass. The points sit in the server's loop
and in the store, which are generic; the protocol knows nothing of them.
"""

import os
import re
import signal
from collections.abc import Callable

from node.core.messages import NAMES

DISK_STEPS = ("before-write", "after-write", "before-sync", "after-sync", "after-rename")
SEND_STEPS = ("before-send", "after-send")
RECORDS = ("EPOCH", "TXN", "TRUNC", "SNAP", "NEWLEADER", "MEMBER", "SNAPSHOT")
MESSAGES = tuple(NAMES.values())

_GRAMMAR = re.compile(r"(?P<step>[a-z-]+):(?P<what>[A-Z-]+)(?:#(?P<k>[1-9][0-9]*))?")


class BadPoint(ValueError):
    """A crash point that does not exist."""


def parse(point: str) -> tuple[str, str, int]:
    """(step, what, k). Raises BadPoint with what is allowed."""
    match = _GRAMMAR.fullmatch(point)
    if match is None:
        raise BadPoint(
            f"{point!r}: a crash point is written <step>:<what>[#k], e.g. after-write:NEWLEADER or after-send:COMMIT#1"
        )
    step, what, k = match["step"], match["what"], int(match["k"] or 1)
    allowed: tuple[str, ...]
    if step in DISK_STEPS:
        allowed = RECORDS
    elif step in SEND_STEPS:
        allowed = MESSAGES
    else:
        raise BadPoint(f"{point!r}: no step {step!r}; there are {', '.join(DISK_STEPS + SEND_STEPS)}")
    if what not in allowed:
        raise BadPoint(f"{point!r}: {step} goes with {', '.join(allowed)}")
    if step == "after-rename" and what != "SNAPSHOT":
        raise BadPoint(f"{point!r}: only a SNAPSHOT is renamed")
    return step, what, k


def check_action(action: str) -> None:
    """Raises BadPoint."""
    if action not in ("crash", "pause"):
        raise BadPoint(f"{action!r}: at a point a node can crash or pause")


class CrashPoints:
    """What is armed, and what happens there: `crash` (SIGKILL of itself) or `pause` (SIGSTOP of itself)."""

    def __init__(self, report: Callable[[str, str], None]) -> None:
        self._report = report  # (point, "armed" | "fired" | "lifted"), traced before anything happens
        self._armed: dict[tuple[str, str], tuple[str, int, str]] = {}
        self.settle: Callable[[], None] = lambda: None  # returns when what was sent so far has left the process
        self.die: Callable[[], None] = lambda: os.kill(os.getpid(), signal.SIGKILL)
        self.pause: Callable[[], None] = lambda: os.kill(os.getpid(), signal.SIGSTOP)

    @property
    def armed(self) -> list[str]:
        return [point for point, _, _ in self._armed.values()]

    @property
    def on_disk(self) -> bool:
        return bool(self._armed) and any(step in DISK_STEPS for step, _ in self._armed)

    @property
    def on_send(self) -> bool:
        return bool(self._armed) and any(step in SEND_STEPS for step, _ in self._armed)

    @property
    def pausing(self) -> bool:
        return bool(self._armed) and any(action == "pause" for _, _, action in self._armed.values())

    def arm(self, point: str, action: str = "crash") -> None:
        """Raises BadPoint."""
        check_action(action)
        step, what, k = parse(point)
        self._armed[step, what] = (point, k, action)
        self._report(point, "armed")

    def disarm(self) -> None:
        for point in self.armed:
            self._report(point, "lifted")
        self._armed.clear()

    def hit(self, step: str, what: str) -> None:
        """A step comes to pass. What was sent before it has been sent: a crash waits until it has left the process."""
        entry = self._armed.get((step, what))
        if entry is None:
            return
        point, k, action = entry
        if k > 1:
            self._armed[step, what] = (point, k - 1, action)
            return
        del self._armed[step, what]
        self._report(point, "fired")
        if action == "pause":
            self.pause()
        else:
            self.settle()
            self.die()
