"""The machine that an ensemble runs on, as far as faults use it: its clock and its process table.

The simulated world is a host of its own, whose time passes only during `sleep`.
"""

import threading
import time
from typing import Protocol

import psutil


class Host(Protocol):
    """A clock that never goes back, and a process table."""

    def now(self) -> float:
        """Return the time in seconds."""

    def now_ns(self) -> int:
        """Return the time in nanoseconds, of the same clock as `now`."""

    def sleep(self, seconds: float, until: threading.Event | None = None) -> bool:
        """Sleep for `seconds`, or until the event `until` is set. Return whether it was set."""

    def process_state(self, pid: int | None) -> str | None:
        """Return the kernel's state of a process as psutil names it ("stopped" for T); None if the process is gone."""


class ThisHost:
    """The machine that this process runs on."""

    def now(self) -> float:
        return time.monotonic()

    def now_ns(self) -> int:
        return time.monotonic_ns()

    def sleep(self, seconds: float, until: threading.Event | None = None) -> bool:
        if until is not None:
            return until.wait(max(0.0, seconds))
        time.sleep(max(0.0, seconds))
        return False

    def process_state(self, pid: int | None) -> str | None:
        try:
            return psutil.Process(pid).status() if pid is not None else None
        except psutil.NoSuchProcess:
            return None


THIS_HOST = ThisHost()
