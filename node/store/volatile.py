"""A disk that remembers what is durable and what is not: what the faithful and the simulated disk have in common.

Written bytes are durable at `sync`, a new, renamed or removed name at `sync_directory`. Where the durable bytes are is up
to the two; what the process sees on top of them, and what of it a power cut leaves, is decided here.
"""

import errno
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from itertools import pairwise
from random import Random
from typing import Generic, NamedTuple, NoReturn, TypeVar

from zab_chaos.node.store.disk_faults import DiskFaults, Variant, surviving_changes, surviving_writes

Extent = tuple[int, bytes]  # offset, data


class Inode(ABC):
    """A file apart from its names."""

    __slots__ = ("linked", "reserve", "stale", "unsynced")

    def __init__(self, reserve: int, *, linked: bool) -> None:
        self.reserve = reserve  # what was preallocated; behind the content it is zeros
        self.linked = linked  # a durable name stands for it, or has stood
        self.unsynced: list[
            tuple[int, bytes, Sequence[int]]
        ] = []  # offset, what was handed over at once, its parts' ends
        self.stale: list[Extent] = []  # seen and taken for clean, though a sync of it failed; with what came later

    @abstractmethod
    def durable(self) -> bytes:
        """What is durable of it."""

    @abstractmethod
    def put(self, extents: Sequence[Extent]) -> None:
        """Durably, as far as a power cut lets it."""

    @abstractmethod
    def settle(self) -> None:
        """All that was written, and the preallocated zeros, are durable."""

    def close(self) -> None:  # noqa: B027 - there may be nothing to do
        """Nobody writes it any more."""

    def written(self) -> None:
        """All that was handed over is in `durable` now, and still seen above what is stale."""
        if self.stale:
            self.stale += self.joined()
        self.unsynced.clear()

    def fail(self, *, stays_readable: bool) -> None:
        """A sync has failed: nobody will write any more what it was to write."""
        if stays_readable:
            self.stale += self.joined()
        self.unsynced.clear()

    def extents(self) -> list[Extent]:
        """The unsynced writes in order."""
        found = []
        for offset, data, ends in self.unsynced:
            for part in parts(data, ends):
                found.append((offset, part))
                offset += len(part)
        return found

    def joined(self) -> list[Extent]:
        """The same, each handing-over as one."""
        return [(offset, data) for offset, data, _ in self.unsynced]

    def content(self) -> bytes:
        """What a reader sees, durable or not."""
        seen = bytearray(self.durable())
        seen.extend(bytes(max(0, self.reserve - len(seen))))
        for offset, data in (*self.stale, *self.joined()):
            overlay(seen, offset, data)
        return bytes(seen)


_Inode = TypeVar("_Inode", bound=Inode)


class Change(NamedTuple, Generic[_Inode]):
    """A directory change that waits: the file is to be found under this name, or no longer."""

    inode: _Inode
    name: str
    removes: bool


class VolatileFile:
    """An open file, see `zab_chaos.node.store.disk.DiskFile`."""

    def __init__(self, disk: "VolatileDisk[_Inode]", inode: _Inode, name: str, size: int) -> None:
        self.name = name
        self.size = size
        self._disk = disk
        self._inode = inode

    def write(self, data: bytes) -> None:
        self.write_all(bytes(data), (len(data),))

    def write_all(self, data: bytes, ends: Sequence[int]) -> None:
        self._disk.faults.before_write()
        self._inode.unsynced.append((self.size, data, ends))
        self._disk.writes += 1
        self.size += len(data)

    def sync(self) -> None:
        """As `DiskFile.sync`. When it fails, what was written is gone, as some kernels have it, or stays in the page cache and
        counts as clean, as others do; none keep it dirty."""
        inode, faults = self._inode, self._disk.faults
        try:
            faults.before_sync()
        except OSError:
            self._disk.sync_failed(inode)
            raise
        if faults.power_cut is not None and any(data for _, data in inode.extents()):
            self._disk.cut(*faults.power_cut)
        self._disk.drop_cache()
        inode.settle()
        self._disk.syncs += 1

    def close(self) -> None:
        self._inode.close()


class VolatileDisk(ABC, Generic[_Inode]):
    """Implements `zab_chaos.node.store.disk.Disk`.

    What each kind of power cut leaves is in `zab_chaos.node.store.disk_faults`.
    """

    faults: DiskFaults

    def __init__(self) -> None:
        self._names: dict[str, _Inode] = {}  # as the process sees them
        self._durable: dict[str, _Inode] = {}
        self._changes: list[Change[_Inode]] = []  # from the one to the other, in order
        self._kept = False  # the page cache, for the next life
        self.writes = 0
        self.syncs = 0

    # ---- where durable bytes are ----

    @abstractmethod
    def _new_inode(self, reserve: int) -> _Inode: ...
    @abstractmethod
    def _link(self, inode: _Inode, name: str) -> None:
        """Durably: `name` stands for this file, and no other name does."""

    @abstractmethod
    def _unlink(self, inode: _Inode, name: str) -> None: ...
    @abstractmethod
    def _keep_cache(self) -> None:
        """The process ends, and the machine does not: the next life is to see what this one did."""

    @abstractmethod
    def _drop_cache(self) -> None:
        """The process goes on: the next life is not to see it."""

    @abstractmethod
    def _end(self) -> NoReturn:
        """End the process."""

    # ---- the store's side ----

    @property
    def unsynced_bytes(self) -> int:
        """What a power cut would take, directory changes not counted."""
        return sum(len(data) for inode in list(self._names.values()) for _, data in inode.extents())

    def list(self) -> list[str]:
        return sorted(self._names)

    def read(self, name: str) -> bytes:
        return self._inode(name).content()

    def create(self, name: str, preallocate: int = 0) -> VolatileFile:
        if preallocate:
            self.faults.before_write()
        if name in self._names:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
        inode = self._names[name] = self._new_inode(preallocate)
        self._changes.append(Change(inode, name, removes=False))
        return VolatileFile(self, inode, name, 0)

    def open(self, name: str, size: int) -> VolatileFile:
        return VolatileFile(self, self._inode(name), name, size)

    def rename(self, old: str, new: str) -> None:
        inode = self._inode(old)
        del self._names[old]
        self._names[new] = inode
        self._changes.append(Change(inode, new, removes=False))

    def remove(self, name: str) -> None:
        inode = self._inode(name)
        del self._names[name]
        self._changes.append(Change(inode, name, removes=True))

    def sync_directory(self) -> None:
        self.faults.before_sync()
        if self.faults.power_cut is not None and self._changes:
            self.cut(*self.faults.power_cut)
        while self._changes:
            self._do(self._changes[0])
            del self._changes[0]
        self.syncs += 1

    def sync_failed(self, inode: _Inode) -> None:
        """The process will end by itself, and with `stays_readable` the next one reads what was not made durable."""
        inode.fail(stays_readable=self.faults.stays_readable)
        if self.faults.stays_readable:
            self._keep_cache()
            self._kept = True

    def drop_cache(self) -> None:
        """A process that goes on after a failed sync leaves nothing to the next one."""
        if self._kept:
            self._drop_cache()
            self._kept = False

    def _inode(self, name: str) -> _Inode:
        if name not in self._names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        return self._names[name]

    def _do(self, change: Change[_Inode]) -> None:
        """Durably. A file that has lost its last name, because an earlier change did not survive, stays lost."""
        inode, name, removes = change
        at = next((name for name, found in self._durable.items() if found is inode), None)
        if removes:
            if at == name:
                del self._durable[name]
                self._unlink(inode, name)
        elif at is not None or not inode.linked:
            if at is not None:
                del self._durable[at]
            self._durable[name] = inode
            inode.linked = True
            self._link(inode, name)

    # ---- the end ----

    def cut(self, variant: Variant, seed: int) -> NoReturn:
        """The power goes now, or the process alone is killed; see `Variant`. Does not return."""
        self.faults.check_variant(variant)
        random = Random(seed)
        writes = [(inode, *extent) for _, inode in sorted(self._names.items()) for extent in inode.extents()]
        kept = surviving_writes(writes, variant, random)
        if variant == "killed":
            self._forget_unsynced()
            for inode, offset, data in kept:
                inode.unsynced.append((offset, data, (len(data),)))
            self._keep_cache()
        else:
            for inode, offset, data in kept:
                inode.put([(offset, data)])
            for change in surviving_changes(self._changes, variant, random):
                self._do(change)
        self._end()

    def _forget_unsynced(self) -> None:
        for inode in (*self._names.values(), *self._durable.values()):
            inode.unsynced.clear()


def parts(data: bytes, ends: Sequence[int]) -> list[bytes]:
    """The parts of what is handed over at once, see `zab_chaos.node.store.disk.DiskFile.write_all`."""
    return [data[start:end] for start, end in pairwise((0, *ends))]


def overlay(content: bytearray, offset: int, data: bytes) -> None:
    """Write into `content`, which grows if it has to."""
    if offset > len(content):
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def unique(inodes: Iterable[_Inode]) -> list[_Inode]:
    """Each of them once, in order."""
    return list({id(inode): inode for inode in inodes}.values())
