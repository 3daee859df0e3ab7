"""One mounted volume with its faults: what is wrong with the disk right now, and what came of it, counted.

All of its methods may be called by several threads.
"""

import errno
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NoReturn

import msgspec

from zab_chaos.faults.filesystem.volume import File, Folder, Names, Volume
from zab_chaos.node.store.disk_faults import DiskFaults, FailingOperation, Variant


class Counts(msgspec.Struct):
    """Since the file system was mounted."""

    writes: int = 0  # done
    syncs: int = 0  # done, of files and folders
    slowed: int = 0  # syncs that were held back
    full: int = 0  # writes that were refused with ENOSPC because the disk was told to be full
    failed: int = 0  # writes or syncs that were told to fail with EIO
    cuts: int = 0  # of the power
    lost_bytes: int = 0  # what cuts have taken of files
    lost_changes: int = 0  # and of names


@dataclass(slots=True)
class _Doom:
    """The process whose power goes at its next sync, and how."""

    pid: int
    variant: Variant
    seed: int
    timer: threading.Timer = field(repr=False)


class Disk:
    """A volume that programs use. `at_rest`: nobody runs on it, and what is done to its files is durable at once."""

    def __init__(self, names: Names) -> None:
        self.faults = DiskFaults(can_cut_power=True)
        self.counts = Counts()
        self.at_rest = True
        self._names = names
        self._volume = Volume(names)
        self._mutex = threading.Lock()
        self._off = False  # the power is gone, and the process on this disk not yet
        self._doom: _Doom | None = None
        self._waking = threading.Event()  # those who wait on a slow disk wait no longer

    # ---- what programs do ----

    @contextmanager
    def reading(self) -> Iterator[Volume]:
        with self._mutex:
            yield self._volume

    @contextmanager
    def changing(self, *, bytes_too: bool = False) -> Iterator[Volume]:
        """Names or attributes are changed, or with `bytes_too` contents; raises OSError if the disk can't."""
        with self._mutex:
            if self._off:
                _fail(errno.EIO)
            if bytes_too:
                self._before_write()
            yield self._volume
            if bytes_too:
                self.counts.writes += 1
            if self.at_rest:
                self._volume.sync_all()

    def _before_write(self) -> None:
        try:
            self.faults.before_write()
        except OSError as error:
            self._count_failure(error)
            raise

    def sync(self, inode: File | Folder) -> None:
        self._hold_back()
        with self._mutex:
            self._strike_if(self._doom is not None and self._volume.waits(inode))
            if self._off:
                _fail(errno.EIO)
            try:
                self.faults.fail_if("sync")
            except OSError as error:
                self._volume.fail(inode)
                self._count_failure(error)
                raise
            self._volume.sync(inode)
            self.counts.syncs += 1

    def _hold_back(self) -> None:
        if self.faults.slow_ms > 0:
            self._waking.wait(self.faults.slow_ms / 1000)
            with self._mutex:
                self.counts.slowed += 1

    def _count_failure(self, error: OSError) -> None:
        if error.errno == errno.ENOSPC:
            self.counts.full += 1
        else:
            self.counts.failed += 1

    @property
    def free(self) -> int:
        """Bytes."""
        return 0 if self.faults.full else self._volume.capacity - self._volume.used

    @property
    def capacity(self) -> int:
        return self._volume.capacity

    # ---- what is done to it ----

    def slow(self, ms: float) -> None:
        self.faults.slow_ms = ms
        self._waking.set()
        self._waking = threading.Event()

    def full(self, on: bool) -> None:
        self.faults.full = on

    def fail(self, op: FailingOperation | None) -> None:
        self.faults.error = op

    def cut(self, variant: Variant = "plain", seed: int = 0) -> None:
        """The power goes, and is back: for when no process runs on it."""
        with self._mutex:
            self._strike_off(variant, seed)
            self._off = False

    def cut_at_sync(self, pid: int, variant: Variant, seed: int, within_ms: int) -> None:
        """The power goes at the next sync that has something to do, or after that time, and with it goes the process."""
        self.faults.check_variant(variant)
        timer = threading.Timer(within_ms / 1000, self._too_late)
        timer.daemon = True
        with self._mutex:
            self._doom = _Doom(pid, variant, seed, timer)
        timer.start()

    def _too_late(self) -> None:
        with self._mutex:
            self._strike_if(self._doom is not None)

    def _strike_if(self, now: bool) -> None:
        if now and self._doom is not None:
            doom, self._doom = self._doom, None
            doom.timer.cancel()
            with suppress(ProcessLookupError):
                os.kill(doom.pid, signal.SIGKILL)
            self._strike_off(doom.variant, doom.seed)

    def _strike_off(self, variant: Variant, seed: int) -> None:
        """From here on the process on it can change nothing any more."""
        lost = self._volume.cut(variant, seed)
        self._off = True
        self.counts.cuts += variant != "killed"
        self.counts.lost_bytes += lost.bytes
        self.counts.lost_changes += lost.changes

    def sync_all(self) -> None:
        """As sync(2)."""
        with self._mutex:
            self._volume.sync_all()

    def wipe(self) -> None:
        with self._mutex:
            self._volume = Volume(self._names)

    def rest(self) -> None:
        """No process runs on it."""
        with self._mutex:
            self._off, self.at_rest, self._doom = False, True, None

    def begin(self) -> None:
        """A process is about to run on it."""
        with self._mutex:
            self._off, self.at_rest, self._doom = False, False, None

    def state(self) -> dict[str, Any]:
        """What is counted, what is wrong with it, and what a power cut would take."""
        with self._mutex:
            return {
                **msgspec.to_builtins(self.counts),
                "unsynced_bytes": self._volume.lost_bytes(),
                "unsynced_changes": self._volume.lost_changes(),
                "slow_ms": self.faults.slow_ms,
                "is_full": self.faults.full,
                "error": self.faults.error,
            }

    def close(self) -> None:
        """Nobody waits any longer."""
        self.slow(0)


def _fail(number: int) -> NoReturn:
    raise OSError(number, os.strerror(number))
