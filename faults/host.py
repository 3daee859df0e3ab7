"""The machine that an ensemble runs on, as faults see it: its clock and its process table.

A simulated world is a host of its own: its time passes only while somebody sleeps.
"""

import threading
import time
from typing import Protocol

import psutil


class Host(Protocol):
    """Times are nanoseconds or seconds of one clock that never goes back."""

    def now(self) -> float:
        """Seconds."""

    def now_ns(self) -> int: ...
    def sleep(self, seconds: float, until: threading.Event | None = None) -> bool:
        """Let time pass; True at once when `until` is set."""

    def process_state(self, pid: int | None) -> str | None:
        """What the kernel says of a process (psutil's words, "stopped" for T), or None if it is gone."""


class ThisHost:
    """The real one."""

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
