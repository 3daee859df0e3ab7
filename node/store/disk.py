"""The `Disk` contract, and its two real implementations. Only they access the file system.

`OrdinaryDisk` writes through to the operating system, so a SIGKILL loses nothing and hides every missing sync
(ZOOKEEPER-4646 and 4712 are invisible under kill -9). `FaithfulDisk` keeps unsynced data in this process's memory, so a
SIGKILL *is* a power cut: it loses exactly what was not synced.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn, Protocol

from zab_chaos.node.store.disk_faults import DiskFaults, Variant
from zab_chaos.node.store.faithful import FaithfulDisk
from zab_chaos.node.store.os_files import (
    fdatasync,
    open_existing,
    open_new,
    sync_folder,
    write_at,
    write_zeros,
)

__all__ = ["Disk", "DiskFaults", "DiskFile", "FaithfulDisk", "OrdinaryDisk", "Variant"]


class DiskFile(Protocol):
    """An open file of a disk. It is only written at its end."""

    name: str
    size: int  # bytes written so far, synced or not (not counting preallocation)

    def write(self, data: bytes) -> None:
        """Append. Not durable until `sync`. Raises OSError (ENOSPC, EIO)."""

    def write_all(self, data: bytes, ends: Sequence[int]) -> None:
        """Append several parts with one call.

        `ends`: ascending, where each part ends. In a power cut each part counts as a write of its own.
        """

    def sync(self) -> None:
        """Make everything written durable (fdatasync). After an OSError nothing may be assumed about the file."""

    def close(self) -> None: ...


class Disk(Protocol):
    """A flat folder of files. A faithful one really loses unsynced bytes in a power cut."""

    writes: int  # since the disk was opened; preallocations are not counted
    syncs: int  # of files and of the folder, since the disk was opened

    def list(self) -> list[str]: ...
    def read(self, name: str) -> bytes: ...
    def create(self, name: str, preallocate: int = 0) -> DiskFile:
        """Create a file that is preallocated with `preallocate` zeros. Raises OSError, including FileExistsError."""

    def open(self, name: str, size: int) -> DiskFile:
        """Open an existing file to write on from offset `size`."""

    def rename(self, old: str, new: str) -> None: ...
    def remove(self, name: str) -> None: ...
    def sync_directory(self) -> None:
        """Make creations, renames and removals durable."""


class OrdinaryFile:
    """A file whose written bytes outlive the process, and whose synced bytes outlive a power cut."""

    def __init__(self, disk: "OrdinaryDisk", name: str, fd: int, size: int) -> None:
        self.name = name
        self.size = size
        self._disk = disk
        self._fd = fd
        self._unsynced = 0

    def write(self, data: bytes) -> None:
        self._disk.faults.before_write()
        write_at(self._fd, data, self.size)
        self.size += len(data)
        self._unsynced += len(data)
        self._disk.unsynced_bytes += len(data)
        self._disk.writes += 1

    def write_all(self, data: bytes, ends: Sequence[int]) -> None:
        self.write(data)

    def sync(self) -> None:
        self._disk.faults.before_sync()
        fdatasync(self._fd)
        self._disk.unsynced_bytes -= self._unsynced
        self._unsynced = 0
        self._disk.syncs += 1

    def close(self) -> None:
        os.close(self._fd)


class OrdinaryDisk:
    """A folder of the operating system. It is created if it is missing."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)
        self.faults = DiskFaults(can_cut_power=False)
        self.unsynced_bytes = 0
        self.writes = 0
        self.syncs = 0
        self.root.mkdir(parents=True, exist_ok=True)

    def list(self) -> list[str]:
        return sorted(path.name for path in self.root.iterdir() if path.is_file())

    def read(self, name: str) -> bytes:
        return (self.root / name).read_bytes()

    def create(self, name: str, preallocate: int = 0) -> OrdinaryFile:
        if preallocate:
            self.faults.before_write()
        fd = open_new(self.root / name)
        try:
            write_zeros(fd, preallocate)
        except OSError:
            os.close(fd)
            self.remove(name)
            raise
        return OrdinaryFile(self, name, fd, 0)

    def open(self, name: str, size: int) -> OrdinaryFile:
        return OrdinaryFile(self, name, open_existing(self.root / name), size)

    def rename(self, old: str, new: str) -> None:
        (self.root / old).rename(self.root / new)

    def remove(self, name: str) -> None:
        (self.root / name).unlink()

    def sync_directory(self) -> None:
        self.faults.before_sync()
        sync_folder(self.root)
        self.syncs += 1

    def cut(self, variant: Variant, seed: int) -> NoReturn:
        """Raise ValueError: an ordinary disk can't lose its power (see `DiskFaults.check_variant`)."""
        self.faults.check_variant(variant)
        raise AssertionError("an ordinary disk can't cut the power")
