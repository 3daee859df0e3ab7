"""The common base of the faithful and the simulated disk: it tracks which data is durable and which is not.

Written bytes become durable at `sync`; a created, renamed or removed name at `sync_directory`. The subclasses store the
durable bytes. This module decides what the process sees on top of them, and what a power cut leaves.
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
    """A file without its names."""

    __slots__ = ("linked", "reserve", "stale", "unsynced")

    def __init__(self, reserve: int, *, linked: bool) -> None:
        self.reserve = reserve  # preallocated size; zeros follow the content up to here
        self.linked = linked  # it has, or had, a durable name
        self.unsynced: list[tuple[int, bytes, Sequence[int]]] = []  # offset, data, ends of its parts
        self.stale: list[Extent] = []  # visible and considered clean although its sync failed; and later writes

    @abstractmethod
    def durable(self) -> bytes:
        """Return the durable bytes."""

    @abstractmethod
    def write_through(self, extents: Sequence[Extent]) -> None:
        """Write the extents to the durable bytes. Nothing is synced."""

    @abstractmethod
    def make_durable(self) -> None:
        """Make everything written, and the preallocated zeros, durable."""

    def close(self) -> None:  # noqa: B027 - there may be nothing to do
        """Close the file: it will not be written any more."""

    def mark_synced(self) -> None:
        """Drop the unsynced writes, which are durable now. They stay visible above stale data."""
        if self.stale:
            self.stale += self.whole_writes()
        self.unsynced.clear()

    def drop_unsynced(self, *, stays_readable: bool) -> None:
        """Drop the unsynced writes after a failed sync. With `stays_readable` they stay visible as stale data."""
        if stays_readable:
            self.stale += self.whole_writes()
        self.unsynced.clear()

    def extents(self) -> list[Extent]:
        """Return the unsynced writes in order, each part on its own."""
        found = []
        for offset, data, ends in self.unsynced:
            for part in split_parts(data, ends):
                found.append((offset, part))
                offset += len(part)
        return found

    def whole_writes(self) -> list[Extent]:
        """Return the unsynced writes in order, without splitting them into parts."""
        return [(offset, data) for offset, data, _ in self.unsynced]

    def content(self) -> bytes:
        """Return what a reader sees, durable or not."""
        seen = bytearray(self.durable())
        seen.extend(bytes(max(0, self.reserve - len(seen))))
        for offset, data in (*self.stale, *self.whole_writes()):
            overlay(seen, offset, data)
        return bytes(seen)


_Inode = TypeVar("_Inode", bound=Inode)


class Change(NamedTuple, Generic[_Inode]):
    """A pending directory change: the name is given to the file, or removed from it."""

    inode: _Inode
    name: str
    removes: bool


class VolatileFile:
    """An open file. Implements `zab_chaos.node.store.disk.DiskFile`."""

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
        """Make the file durable, as `DiskFile.sync` does.

        When it fails, the written bytes are gone, as on some kernels, or stay in the page cache and count as clean, as on
        others. No kernel keeps them dirty.
        """
        inode, faults = self._inode, self._disk.faults
        try:
            faults.before_sync()
        except OSError:
            self._disk.sync_failed(inode)
            raise
        if faults.power_cut is not None and any(data for _, data in inode.extents()):
            self._disk.cut(*faults.power_cut)
        if self._disk.cache_kept:
            self._disk.drop_cache()
        inode.make_durable()
        self._disk.syncs += 1

    def close(self) -> None:
        self._inode.close()


class VolatileDisk(ABC, Generic[_Inode]):
    """A disk that loses unsynced data. Implements `zab_chaos.node.store.disk.Disk`.

    `zab_chaos.node.store.disk_faults` says what each kind of power cut leaves.
    """

    faults: DiskFaults

    def __init__(self) -> None:
        self._names: dict[str, _Inode] = {}  # the names that the process sees
        self._durable: dict[str, _Inode] = {}
        self._changes: list[Change[_Inode]] = []  # that turn the durable names into the visible ones, in order
        self.cache_kept = False  # the page cache was kept for the next life
        self.writes = 0
        self.syncs = 0

    # ---- where durable bytes are ----

    @abstractmethod
    def _new_inode(self, reserve: int) -> _Inode: ...
    @abstractmethod
    def _link(self, inode: _Inode, name: str) -> None:
        """Give `name`, durably, to this file, in place of any other name that it has."""

    @abstractmethod
    def _unlink(self, inode: _Inode, name: str) -> None: ...
    @abstractmethod
    def _keep_cache(self) -> None:
        """Keep the page cache for the next life: the process ends and the machine goes on."""

    @abstractmethod
    def _drop_cache(self) -> None:
        """Drop the page cache that was kept for the next life: the process goes on."""

    @abstractmethod
    def _end_process(self) -> NoReturn:
        """End the process."""

    # ---- the store's side ----

    @property
    def unsynced_bytes(self) -> int:
        """How many bytes a power cut would lose; directory changes are not counted."""
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
            self._apply(self._changes[0])
            del self._changes[0]
        self.syncs += 1

    def sync_failed(self, inode: _Inode) -> None:
        """Drop the file's unsynced writes after a failed sync.

        The process will end by itself. With `stays_readable` the next one reads what was not made durable.
        """
        inode.drop_unsynced(stays_readable=self.faults.stays_readable)
        if self.faults.stays_readable:
            self._keep_cache()
            self.cache_kept = True

    def drop_cache(self) -> None:
        """Drop a kept page cache: a process that goes on after a failed sync leaves nothing to the next one."""
        self._drop_cache()
        self.cache_kept = False

    def _inode(self, name: str) -> _Inode:
        if name not in self._names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        return self._names[name]

    def _apply(self, change: Change[_Inode]) -> None:
        """Apply a directory change durably.

        A file that has lost its last name, because an earlier change did not survive, stays lost.
        """
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
        """Cut the power now, or kill only the process; see `Variant`. Does not return."""
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
                inode.write_through([(offset, data)])
            for change in surviving_changes(self._changes, variant, random):
                self._apply(change)
        self._end_process()

    def _forget_unsynced(self) -> None:
        for inode in (*self._names.values(), *self._durable.values()):
            inode.unsynced.clear()


def split_parts(data: bytes, ends: Sequence[int]) -> list[bytes]:
    """Split data that was written with one call into its parts, see `zab_chaos.node.store.disk.DiskFile.write_all`."""
    return [data[start:end] for start, end in pairwise((0, *ends))]


def overlay(content: bytearray, offset: int, data: bytes) -> None:
    """Write `data` into `content` at `offset`. `content` grows if necessary."""
    missing = offset - len(content)
    if missing > 0:
        content.extend(bytes(missing))
    if missing >= 0:  # the usual case, and to assign a slice takes four times as long
        content.extend(data)
    else:
        content[offset : offset + len(data)] = data


def unique(inodes: Iterable[_Inode]) -> list[_Inode]:
    """Return each inode once, in the order of first occurrence."""
    return list({id(inode): inode for inode in inodes}.values())
