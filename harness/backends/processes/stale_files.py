"""What a harness that was killed has left in the file system: its run's key files, the locks of its ports, dead mounts.

A killed harness takes its processes with it, but not its files. Whoever still holds the lock of such a file is alive. A
disk that was mounted unmounts itself, unless it was killed, too.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from zab_chaos.faults.filesystem import mount
from zab_chaos.harness.machine import files
from zab_chaos.harness.machine.ports import lock_files
from zab_chaos.node.net import keys


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a file's lock: it belongs to a run that goes on."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Whether somebody holds that lock."""
    with suppress(OSError), _trying(path) as free:
        return not free
    return False  # it can't be opened


@contextmanager
def _trying(path: Path) -> Iterator[bool]:
    """Whether a file's lock is free; then it is held. Raises OSError if the file can't be opened."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield _lock(descriptor)
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Lock it, if that is possible at once."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError:
        return False


def remove_stale_files(results: Path) -> list[Path]:
    """Remove what nobody holds: key files and mounts of runs below `results`, and port locks; what was removed."""
    unmounted = _unmount(results)  # first: whoever looks into them fails
    names = {path.name for path in keys.files_in(results)}
    key_files = [path for path in files.below(results, names) if path.parent.name == "config"]
    candidates = [*key_files, *lock_files()]
    return [*unmounted, *(path for path in sorted(candidates) if _remove_free(path))]


def _unmount(results: Path) -> list[Path]:
    """Mounted disks whose processes are gone; the folders."""
    dead = [folder for folder in mount.mounts_below(results) if mount.is_dead(folder)]
    for folder in dead:
        mount.unmount(folder)
    return dead


def _remove_free(path: Path) -> bool:
    with suppress(OSError), _trying(path) as free:  # gone meanwhile, or another user's
        if free:
            path.unlink()
            return True
    return False
