"""Finds and removes what a killed harness leaves in the file system: key files of its run, locks of its ports, dead mounts.

The processes of a killed harness end with it, but its files stay. A live harness holds a lock on each of these files. A
mounted disk unmounts itself, unless its process was killed, too.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from zab_chaos.faults.filesystem import mount
from zab_chaos.harness.machine import files
from zab_chaos.harness.machine.ports import lock_files
from zab_chaos.node.net import keys


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a file's lock, which shows that the file belongs to a run in progress."""
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def is_locked(path: Path) -> bool:
    """Return whether a process holds the file's lock; False if the file can't be opened."""
    with suppress(OSError), _try_lock(path) as free:
        return not free
    return False


@contextmanager
def _try_lock(path: Path) -> Iterator[bool]:
    """Yield whether the file's lock was free; if so, hold it meanwhile. Raises OSError if the file can't be opened."""
    with path.open("rb") as file:
        yield _lock(file)


def _lock(file: BinaryIO) -> bool:
    """Lock the file unless another process holds the lock. Return whether it is locked."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError:
        return False


def remove_stale_files(results: Path) -> list[Path]:
    """Remove what belongs to no live harness, and return it: key files and mounts of runs below `results`, port locks."""
    unmounted = _unmount(results)  # first, because reading a dead mount fails
    names = {path.name for path in keys.files_in(results)}
    key_files = [path for path in files.below(results, names) if path.parent.name == "config"]
    candidates = [*key_files, *lock_files()]
    return [*unmounted, *(path for path in sorted(candidates) if _remove_free(path))]


def _unmount(results: Path) -> list[Path]:
    """Unmount the disks below `results` whose processes are gone. Return their folders."""
    dead = [folder for folder in mount.mounts_below(results) if mount.is_dead(folder)]
    for folder in dead:
        mount.unmount(folder)
    return dead


def _remove_free(path: Path) -> bool:
    with suppress(OSError), _try_lock(path) as free:  # the file may be gone by now, or belong to another user
        if free:
            path.unlink()
            return True
    return False
