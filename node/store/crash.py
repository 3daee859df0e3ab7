"""Crash points inside the store: places at which whoever drives it may end the process."""

from collections.abc import Callable

CrashHook = Callable[[str, str], None]
"""Called as hook(step, what): step is before-write, after-write, before-sync, after-sync or after-rename; what is
EPOCH, TXN, TRUNC, SNAP, NEWLEADER, MEMBER (log records) or SNAPSHOT (a snapshot's file)."""


def crash_points(crash: CrashHook | None, what: str) -> Callable[[str], None]:
    """The hook for one thing that is written; without a hook, nothing happens."""
    return (lambda step: crash(step, what)) if crash is not None else (lambda _: None)
