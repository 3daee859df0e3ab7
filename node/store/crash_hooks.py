"""Crash points inside the store, and the durable operations that have them.

At each crash point a hook may end the process. `node/crash_points.py` decides what happens there.
"""

from collections.abc import Callable, Sequence

from zab_chaos.node.store.disk import Disk, DiskFile

CrashHook = Callable[[str, str], None]
"""Called as hook(step, what).

`step` is before-write, after-write, before-sync, after-sync, after-rename or after-remove. `what` is EPOCH, TXN, TRUNC, SNAP,
NEWLEADER, MEMBER (log records), SNAPSHOT (a snapshot's file) or SEGMENT (a file of the log: a new one, the SEAL of the one
before it, or the newest one, which each start writes again)."""
StepHook = Callable[[str], None]
"""Called with the step; what is written is fixed."""


def step_hook(crash: CrashHook | None, what: str) -> StepHook:
    """Return a hook for the steps of writing `what`. Without a crash hook it does nothing."""
    return (lambda step: crash(step, what)) if crash is not None else (lambda _: None)


def write_durably(file: DiskFile, data: bytes, ends: Sequence[int], point: StepHook) -> None:
    """Append and sync; `ends` as for `DiskFile.write_all`. Raises OSError."""
    point("before-write")
    file.write_all(data, ends)
    point("after-write")
    point("before-sync")
    file.sync()
    point("after-sync")


def rename_durably(disk: Disk, old: str, new: str, point: StepHook) -> None:
    """Rename and sync the folder. Raises OSError."""
    disk.rename(old, new)
    point("after-rename")
    disk.sync_directory()


def remove_durably(disk: Disk, names: Sequence[str], point: StepHook) -> None:
    """Remove the files and sync the folder once: a power cut may leave any of them. Raises OSError."""
    for name in names:
        disk.remove(name)
        point("after-remove")
    disk.sync_directory()
