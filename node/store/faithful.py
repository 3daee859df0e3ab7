"""A disk on which a SIGKILL is a power cut: what was not synced is in this process's memory and nowhere else."""

import errno
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from node.store.disk_faults import DiskFaults, Variant, survivors
from node.store.platter import (
    VOLATILE,
    empty_volatile,
    fdatasync,
    lay_zeros,
    open_new,
    open_old,
    sync_folder,
    write_at,
)


def _kill_this_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class _Inode:
    """A file apart from its name: where its durable bytes are, and those that would not survive."""

    __slots__ = ("durable", "laid_down", "path", "reserve", "unsynced")

    def __init__(self, path: Path, durable: int, reserve: int, *, laid_down: bool) -> None:
        self.path = path
        self.durable = durable  # offset at which the first unsynced write belongs
        self.reserve = reserve
        self.laid_down = laid_down  # preallocation is a write too: it reaches the file at the first sync
        self.unsynced: list[bytes] = []

    def content(self) -> bytes:
        """What a reader sees, durable or not."""
        content = bytearray(self.path.read_bytes())
        content.extend(bytes(max(0, self.reserve - len(content))))
        new = b"".join(self.unsynced)
        content[self.durable : self.durable + len(new)] = new
        return bytes(content)

    def writes(self) -> list[tuple["_Inode", int, bytes]]:
        """The unsynced writes, each with its offset, in order."""
        found = []
        offset = self.durable
        for data in self.unsynced:
            found.append((self, offset, data))
            offset += len(data)
        return found


class FaithfulFile:
    """A file whose unsynced bytes are in this process's memory and nowhere else."""

    def __init__(self, disk: "FaithfulDisk", inode: _Inode, name: str, fd: int) -> None:
        self.name = name
        self.size = inode.durable
        self._disk = disk
        self._inode = inode
        self._fd = fd

    def write(self, data: bytes) -> None:
        self.write_all((bytes(data),))

    def write_all(self, parts: Sequence[bytes]) -> None:
        self._disk.faults.before_write()
        self._inode.unsynced.extend(parts)
        self.size += sum(map(len, parts))

    def sync(self) -> None:
        inode, faults = self._inode, self._disk.faults
        faults.before_sync()
        if faults.power_cut is not None and any(inode.unsynced):
            self._disk.cut(*faults.power_cut)
        if not inode.laid_down:
            lay_zeros(self._fd, inode.reserve)
            inode.laid_down = True
        data = b"".join(inode.unsynced)
        write_at(self._fd, data, inode.durable)
        fdatasync(self._fd)
        inode.durable += len(data)
        inode.unsynced.clear()

    def close(self) -> None:
        os.close(self._fd)


class FaithfulDisk:
    """A folder that holds only what is durable; the process sees its own unsynced changes on top of it.

    `die` is called when the power goes; by default it is SIGKILL for this process. Directory changes wait in
    order and are done at `sync_directory`; until then a new file's synced bytes are kept in a hidden folder, which is
    emptied when a disk is opened.
    """

    def __init__(self, root: str | Path, die: Callable[[], None] = _kill_this_process) -> None:
        self.root = Path(root)
        self.faults = DiskFaults(can_cut_power=True)
        self._die = die
        self._created = 0
        self._directory_changes: list[Callable[[], None]] = []
        (self.root / VOLATILE).mkdir(parents=True, exist_ok=True)
        empty_volatile(self.root)
        self._names = {path.name: self._found(path) for path in sorted(self.root.iterdir()) if path.is_file()}

    @staticmethod
    def _found(path: Path) -> _Inode:
        size = path.stat().st_size
        return _Inode(path, size, size, laid_down=True)

    @property
    def unsynced_bytes(self) -> int:
        """What a power cut would take, directory changes not counted."""
        return sum(len(data) for inode in list(self._names.values()) for data in inode.unsynced)

    def list(self) -> list[str]:
        return sorted(self._names)

    def read(self, name: str) -> bytes:
        return self._inode(name).content()

    def create(self, name: str, preallocate: int = 0) -> FaithfulFile:
        if preallocate:
            self.faults.before_write()
        if name in self._names:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
        self._created += 1
        path = self.root / VOLATILE / str(self._created)
        inode = self._names[name] = _Inode(path, 0, preallocate, laid_down=preallocate == 0)
        fd = open_new(path)
        self._directory_changes.append(lambda: self._move(inode, name))
        return FaithfulFile(self, inode, name, fd)

    def open(self, name: str, size: int) -> FaithfulFile:
        inode = self._inode(name)
        inode.durable = size
        return FaithfulFile(self, inode, name, open_old(inode.path))

    def rename(self, old: str, new: str) -> None:
        inode = self._inode(old)
        del self._names[old]
        self._names[new] = inode
        self._directory_changes.append(lambda: self._move(inode, new))

    def remove(self, name: str) -> None:
        inode = self._inode(name)
        del self._names[name]
        self._directory_changes.append(lambda: inode.path.unlink())

    def sync_directory(self) -> None:
        self.faults.before_sync()
        while self._directory_changes:
            self._directory_changes[0]()
            del self._directory_changes[0]
        sync_folder(self.root)

    def cut(self, variant: Variant, seed: int) -> NoReturn:
        """The power goes now. Of the unsynced bytes nothing, a prefix or a subset of the writes survives.

        "torn": a seeded strict prefix of them. "reordered": a seeded proper subset of the writes, each whole.
        Does not return: when `die` does, raises OSError.
        """
        self.faults.check_variant(variant)
        writes = [write for inode in list(self._names.values()) for write in inode.writes()]
        for inode, offset, data in survivors(writes, variant, seed):
            fd = open_old(inode.path)
            write_at(fd, data, offset)
            os.close(fd)
        self._die()
        raise OSError(errno.EIO, "the power is cut")

    def _inode(self, name: str) -> _Inode:
        if name not in self._names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        return self._names[name]

    def _move(self, inode: _Inode, name: str) -> None:
        inode.path = inode.path.rename(self.root / name)
