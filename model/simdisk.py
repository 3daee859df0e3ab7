"""A simulated disk: the semantics of `node.store.faithful`, in memory.

Written bytes are durable at `sync`, a new, renamed or removed name at `sync_directory`; `lose_power` takes back all the
rest. Zeros that were preallocated are not kept but counted. Sync takes no time here: whoever drives the node lets time pass
(see `owed`).
"""

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from node.store.disk_faults import Variant, VirtualFaults, survivors


class _Inode:
    """A file apart from its names. What lies behind `content`, up to `reserve`, is zeros."""

    __slots__ = ("content", "laid", "offset", "reserve", "unsynced")

    def __init__(self, content: bytearray, reserve: int, laid: int) -> None:
        self.content = content  # durable
        self.offset = len(content)  # at which the first unsynced write belongs
        self.reserve = reserve
        self.laid = laid  # how much of `reserve` is durable
        self.unsynced: list[bytes] = []

    def put(self, offset: int, data: bytes) -> None:
        """Durably."""
        content = self.content
        if offset > len(content):
            content.extend(bytes(offset - len(content)))
        content[offset : offset + len(data)] = data

    def image(self, reserve: int) -> bytes:
        return bytes(self.content) + bytes(max(0, reserve - len(self.content)))

    def writes(self) -> "list[tuple[_Inode, int, bytes]]":
        """The unsynced writes, each with its offset, in order."""
        found = []
        offset = self.offset
        for data in self.unsynced:
            found.append((self, offset, data))
            offset += len(data)
        return found

    def settle(self) -> None:
        """All that was written is durable."""
        data = self.unsynced[0] if len(self.unsynced) == 1 else b"".join(self.unsynced)
        self.put(self.offset, data)
        self.offset += len(data)
        self.unsynced.clear()
        self.laid = self.reserve


class SimFile:
    """An open file, see `node.store.disk.DiskFile`."""

    def __init__(self, disk: "SimDisk", inode: _Inode, name: str) -> None:
        self.name = name
        self.size = inode.offset
        self._disk = disk
        self._inode = inode

    def write(self, data: bytes) -> None:
        self.write_all((bytes(data),))

    def write_all(self, parts: Sequence[bytes]) -> None:
        self._disk.faults.before_write()
        self._inode.unsynced += parts
        self.size += sum(map(len, parts))

    def sync(self) -> None:
        faults = self._disk.faults
        faults.before_sync()
        if faults.power_cut is not None and any(self._inode.unsynced):
            self._disk.cut(*faults.power_cut)
        self._inode.settle()

    def close(self) -> None:
        """Nothing is held."""


class SimDisk:
    """One node's disk; it outlives the node's lives. Implements `node.store.disk.Disk`.

    `draw_sync`: nanoseconds that a sync takes now. `die`: what a power cut does to the node; does not return.
    """

    def __init__(self, *, faithful: bool, draw_sync: Callable[[], int], die: Callable[[], NoReturn]) -> None:
        self.faithful = faithful
        self.owed = 0  # nanoseconds of syncs that nobody has let pass yet
        self.paid = False  # time has passed for the next sync already
        self._draw_sync = draw_sync
        self._die = die
        self._names: dict[str, _Inode] = {}
        self._durable_names: dict[str, _Inode] = {}
        self._changes: list[Callable[[], None]] = []
        self.new_life()

    def new_life(self) -> None:
        """What was wrong with the disk was wrong in the process that used it."""
        self.faults = VirtualFaults(can_cut_power=self.faithful, spend=self._spend)
        self.owed, self.paid = 0, False

    def sync_time(self) -> int:
        """How long the next sync takes. Whoever asks lets it pass before the sync."""
        self.paid = True
        return self._draw_sync() + int(self.faults.slow_ms * 1_000_000)

    def _spend(self) -> None:
        if self.paid:
            self.paid = False
        else:
            self.owed += self._draw_sync() + int(self.faults.slow_ms * 1_000_000)

    @property
    def unsynced_bytes(self) -> int:
        return sum(len(data) for inode in self._names.values() for data in inode.unsynced)

    # ---- the store's side ----

    def list(self) -> list[str]:
        return sorted(self._names)

    def read(self, name: str) -> bytes:
        inode = self._inode(name)
        if not inode.unsynced:
            return inode.image(inode.reserve)
        seen = _Inode(bytearray(inode.content), inode.reserve, 0)
        seen.put(inode.offset, b"".join(inode.unsynced))
        return seen.image(inode.reserve)

    def create(self, name: str, preallocate: int = 0) -> SimFile:
        if preallocate:
            self.faults.before_write()
        if name in self._names:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
        inode = self._names[name] = _Inode(bytearray(), preallocate, 0)
        self._changes.append(lambda: self._link(inode, name))
        return SimFile(self, inode, name)

    def open(self, name: str, size: int) -> SimFile:
        inode = self._inode(name)
        inode.offset = size
        return SimFile(self, inode, name)

    def rename(self, old: str, new: str) -> None:
        inode = self._names.pop(old, None) or self._inode(old)
        self._names[new] = inode
        self._changes.append(lambda: self._link(inode, new))

    def remove(self, name: str) -> None:
        inode = self._inode(name)
        del self._names[name]
        self._changes.append(lambda: self._unlink(inode))

    def sync_directory(self) -> None:
        self.faults.before_sync()
        for change in self._changes:
            change()
        self._changes.clear()

    def cut(self, variant: Variant, seed: int) -> NoReturn:
        """The power goes now; see `FaithfulDisk.cut`."""
        self.faults.check_variant(variant)
        writes = [write for inode in list(self._names.values()) for write in inode.writes()]
        for inode, offset, data in survivors(writes, variant, seed):
            inode.put(offset, data)
        self._die()

    def _inode(self, name: str) -> _Inode:
        if name not in self._names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        return self._names[name]

    def _link(self, inode: _Inode, name: str) -> None:
        self._unlink(inode)
        self._durable_names[name] = inode

    def _unlink(self, inode: _Inode) -> None:
        for name in [name for name, found in self._durable_names.items() if found is inode]:
            del self._durable_names[name]

    # ---- the machine's side ----

    def lose_power(self) -> None:
        """The process is gone, and with it what it had not made durable; on an ordinary disk nothing."""
        if not self.faithful:
            for inode in self._names.values():
                inode.settle()
            self._durable_names = dict(self._names)
        self._names = dict(self._durable_names)
        self._changes.clear()
        for inode in self._names.values():
            inode.unsynced.clear()
            inode.reserve = max(inode.laid, len(inode.content))
            inode.offset = len(inode.content)

    def wipe(self) -> None:
        self._names.clear()
        self._durable_names.clear()

    def export_to(self, folder: Path) -> None:
        """As files, for whoever damages disks at rest."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, inode in self._names.items():
            folder.joinpath(name).write_bytes(inode.image(inode.reserve))

    def import_from(self, folder: Path) -> None:
        """The other way round: the folder's files are the disk."""
        self.wipe()
        for path in sorted(folder.iterdir()):
            content = path.read_bytes()
            kept = bytearray(content.rstrip(b"\0"))
            inode = _Inode(kept, len(content), len(content))
            self._names[path.name] = inode
        self._durable_names = dict(self._names)
