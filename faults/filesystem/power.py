"""The disk under a mounted file system: a volume with its active faults, power cuts and counters. Thread-safe."""

import errno
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from zab_chaos.faults import process_tree
from zab_chaos.faults.filesystem.volume import File, Folder, Names, Volume
from zab_chaos.node.store.disk_faults import DiskFaults, FailingOperation, Variant

WRITE_BACK = 35.0  # seconds: Linux takes what is older than 30 s, and looks every 5 s


class PowerOff(OSError):
    """The power is off: nothing can be changed. The number is EIO."""

    def __init__(self) -> None:
        super().__init__(errno.EIO, os.strerror(errno.EIO))


class Counts(msgspec.Struct):
    """The counters of a disk since the file system was mounted."""

    writes: int = 0  # completed writes
    syncs: int = 0  # completed syncs of files and folders
    slowed: int = 0  # syncs that were delayed
    full: int = 0  # writes that were refused with ENOSPC by the fault
    failed: int = 0  # writes or syncs that were refused with EIO by the fault
    cuts: int = 0  # power cuts
    lost_bytes: int = 0  # unsynced bytes of files that were lost
    lost_changes: int = 0  # unsynced changes of names that were lost


@dataclass(slots=True, eq=False)
class _PendingCut:
    """A power cut that happens at the next sync, and kills the process."""

    pid: int
    variant: Variant
    seed: int
    timer: threading.Timer = field(repr=False)  # carries it out when no sync has come


class MountedVolume:
    """A volume that programs use. `at_rest`: no process runs on it, and changes of its files are durable at once.

    With the rule `journal` what is not synced is durable after `WRITE_BACK`, unless the disk fails. `now` returns the time in
    seconds.
    """

    def __init__(self, names: Names, now: Callable[[], float] = time.monotonic) -> None:
        self.faults = DiskFaults(can_cut_power=True)
        self.counts = Counts()
        self.at_rest = True
        self._names = names
        self._now = now
        self._volume = Volume(names, now=now)
        self._mutex = threading.Lock()
        self._off = False  # the power was cut, but the process on this disk has not ended yet
        self._pending_cut: _PendingCut | None = None
        self._slow_changed = threading.Event()  # ends the waits of slow syncs

    # ---- operations of programs ----

    @contextmanager
    def reading(self) -> Iterator[Volume]:
        """Give access to the volume, for reading."""
        with self._mutex:
            yield self._volume

    @contextmanager
    def changing(self, *, contents: bool = False) -> Iterator[Volume]:
        """Give access to the volume, for changes of names and attributes or, with `contents`, of a file's contents.

        Raises PowerOff, or another OSError if a fault refuses a change of contents.
        """
        with self._mutex:
            if self._off:
                raise PowerOff
            if contents:
                self._before_write()
            self._write_back()
            yield self._volume
            if contents:
                self.counts.writes += 1
            if self.at_rest:
                self._volume.sync_all()

    def _write_back(self) -> None:
        if self._names == "journal" and self.faults.error is None:
            self._volume.write_back(WRITE_BACK)

    def _before_write(self) -> None:
        try:
            self.faults.before_write()
        except OSError as error:
            self._count_failure(error)
            raise

    def sync(self, inode: File | Folder) -> None:
        """Sync a file or folder. Raises PowerOff, or another OSError if a fault lets the sync fail."""
        self._delay()
        with self._mutex:
            self._write_back()
            if self._pending_cut is not None and self._volume.has_unsynced(inode):
                self._carry_out(self._pending_cut)
            if self._off:
                raise PowerOff
            try:
                self.faults.fail_if("sync")
            except OSError as error:
                self._volume.fail_sync(inode)
                self._count_failure(error)
                raise
            self._volume.sync(inode)
            self.counts.syncs += 1

    def _delay(self) -> None:
        if self.faults.slow_ms > 0:
            self._slow_changed.wait(self.faults.slow_ms / 1000)
            with self._mutex:
                self.counts.slowed += 1

    def _count_failure(self, error: OSError) -> None:
        if error.errno == errno.ENOSPC:
            self.counts.full += 1
        else:
            self.counts.failed += 1

    @property
    def free(self) -> int:
        """Free bytes."""
        return 0 if self.faults.full else self._volume.capacity - self._volume.used

    @property
    def capacity(self) -> int:
        return self._volume.capacity

    # ---- commands of the harness ----

    def slow(self, ms: float) -> None:
        """Delay each sync by `ms` from now on; syncs that are being delayed go on at once."""
        self.faults.slow_ms = ms
        self._slow_changed.set()
        self._slow_changed = threading.Event()

    def full(self, on: bool) -> None:
        """Refuse writes with ENOSPC, or accept them again."""
        self.faults.full = on

    def fail(self, op: FailingOperation | None, once: bool = False) -> None:
        """Let operations of one kind, or the next one of it, fail with EIO; None: none."""
        self.faults.error, self.faults.error_once = op, once

    def cut(self, variant: Variant = "plain", seed: int = 0) -> None:
        """Cut the power and restore it, while no process runs on the disk."""
        with self._mutex:
            self._cut_power(variant, seed)
            self._off = False

    def cut_at_sync(self, pid: int, variant: Variant, seed: int, within_ms: int) -> None:
        """Cut the power, and kill the process `pid`, at the next sync that has something to do, or after `within_ms`."""
        self.faults.check_variant(variant)
        cut = _PendingCut(pid, variant, seed, threading.Timer(within_ms / 1000, lambda: self._time_out(cut)))
        cut.timer.daemon = True
        with self._mutex:
            self._drop_pending_cut()
            self._pending_cut = cut
        cut.timer.start()

    def _time_out(self, cut: _PendingCut) -> None:
        """Carry out a cut that no sync has carried out, unless it was dropped while the timer waited for the mutex."""
        with self._mutex:
            if self._pending_cut is cut:
                self._carry_out(cut)

    def _carry_out(self, cut: _PendingCut) -> None:
        self._drop_pending_cut()
        process_tree.kill(cut.pid)
        self._cut_power(cut.variant, cut.seed)

    def _drop_pending_cut(self) -> None:
        if self._pending_cut is not None:
            self._pending_cut.timer.cancel()
            self._pending_cut = None

    def _cut_power(self, variant: Variant, seed: int) -> None:
        """Cut the power. From here on the process on the disk can't change anything."""
        self._write_back()
        lost = self._volume.cut(variant, seed)
        self._off = True
        self.counts.cuts += variant != "killed"
        self.counts.lost_bytes += lost.bytes
        self.counts.lost_changes += lost.changes

    def sync_all(self) -> None:
        """Write every unsynced change to the disk, as sync(2) does."""
        with self._mutex:
            self._volume.sync_all()

    def wipe(self) -> None:
        """Remove everything on the disk."""
        with self._mutex:
            self._volume = Volume(self._names, now=self._now)

    def detach(self) -> None:
        """Take note that no process runs on the disk any more."""
        with self._mutex:
            self._drop_pending_cut()
            self._off, self.at_rest = False, True

    def attach(self) -> None:
        """Take note that a process is about to run on the disk."""
        with self._mutex:
            self._drop_pending_cut()
            self._off, self.at_rest = False, False

    def state(self) -> dict[str, Any]:
        """Return the counters, the active faults, and what a power cut would lose."""
        with self._mutex:
            return {
                **msgspec.to_builtins(self.counts),
                "unsynced_bytes": self._volume.unsynced_bytes(),
                "unsynced_changes": self._volume.unsynced_changes(),
                "slow_ms": self.faults.slow_ms,
                "is_full": self.faults.full,
                "error": self.faults.error,
            }

    def close(self) -> None:
        """End the waits of all slow syncs."""
        self.slow(0)
