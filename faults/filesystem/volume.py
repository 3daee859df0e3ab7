"""The files and folders of a volume, which of their changes are durable, and what a power cut leaves.

Bytes and sizes are durable once their file is synced. Changes of names (a file that is created, renamed or removed, a folder
that is created or removed) are durable by one of the rules in `Names`. Owners, modes and times are durable at once, because
no system promises anything about them.
"""

import errno
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from random import Random
from typing import Literal, NoReturn

from zab_chaos.faults.filesystem.contents import Contents, Resize, Unsynced, Write, surviving
from zab_chaos.node.store.disk_faults import Variant, surviving_changes

Names = Literal["folder", "journal"]
"""When a change of a name is durable:

- folder: when its folder is synced, which is all that POSIX promises;
- journal: at the next sync of anything, as on ext4 and XFS.
"""
CAPACITY = 2**30  # bytes of all files together, including holes; everything is held in memory
SECTOR = 512  # bytes
NAME_BYTES = 255


@dataclass(slots=True)
class Times:
    """The times of an inode in nanoseconds since 1970: of the last access, change of contents, and change of anything."""

    access: int = field(default_factory=time.time_ns)
    contents: int = field(default_factory=time.time_ns)
    anything: int = field(default_factory=time.time_ns)


class Inode:
    """A file or a folder, without its name.

    `durable_location`: the folder and name under which it is durable; `was_durable`: whether it ever had one.
    """

    __slots__ = ("durable_location", "group", "mode", "owner", "times", "was_durable")

    def __init__(self, mode: int) -> None:
        self.mode = mode
        self.owner, self.group = os.getuid(), os.getgid()
        self.times = Times()
        self.durable_location: Location | None = None
        self.was_durable = False


class File(Inode):
    """A file and its contents."""

    __slots__ = ("contents", "removed")

    def __init__(self, mode: int) -> None:
        super().__init__(mode)
        self.contents = Contents()
        self.removed = False  # whether it has no name any more


class Folder(Inode):
    """A folder: its entries as programs see them (`names`), and the durable ones (`durable`)."""

    __slots__ = ("durable", "names")

    def __init__(self, mode: int = 0o755) -> None:
        super().__init__(mode)
        self.names: dict[str, File | Folder] = {}
        self.durable: dict[str, File | Folder] = {}


Location = tuple[Folder, str]


@dataclass(frozen=True, slots=True)
class NameChange:
    """An unsynced change of names: a removal (no target), a creation (no source), or a rename. `at`: when it was made."""

    at: float
    inode: File | Folder
    source: Location | None
    target: Location | None

    def touches(self, inode: Inode) -> bool:
        """Return whether it changes the entries of this inode."""
        return any(location is not None and location[0] is inode for location in (self.source, self.target))


@dataclass(frozen=True, slots=True)
class Losses:
    """What a power cut lost: unsynced bytes of files, and unsynced changes of names."""

    bytes: int
    changes: int


class Volume:
    """The files and folders of a file system. Not thread-safe.

    Paths begin with `/`. Methods raise OSError with the error number of the system call. `now` returns the time in seconds.
    """

    def __init__(
        self, names: Names = "journal", capacity: int = CAPACITY, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.root = Folder()
        self.capacity = capacity
        self.used = 0
        self._rule = names
        self._whole = SECTOR if names == "journal" else 1  # bytes that a disk writes as a whole, or not at all
        self._now = now
        self._order = 0
        # Files with unsynced changes of their contents, and the time of the first of these.
        self._unsynced: dict[File, float] = {}
        self._changes: list[NameChange] = []

    # ---- lookup ----

    def find(self, path: str) -> File | Folder:
        """Return the file or folder at a path."""
        inode: File | Folder = self.root
        for name in path.split("/"):
            if name:
                if not isinstance(inode, Folder):
                    _fail(errno.ENOTDIR, path)
                if name not in inode.names:
                    _fail(errno.ENOENT, path)
                inode = inode.names[name]
        return inode

    def file(self, path: str) -> File:
        """Return the file at a path."""
        inode = self.find(path)
        return inode if isinstance(inode, File) else _fail(errno.EISDIR, path)

    def folder(self, path: str) -> Folder:
        """Return the folder at a path."""
        inode = self.find(path)
        return inode if isinstance(inode, Folder) else _fail(errno.ENOTDIR, path)

    def walk(self) -> Iterator[tuple[str, File | Folder]]:
        """Yield the path and inode of everything that programs see, each folder before its entries."""
        waiting: list[tuple[str, File | Folder]] = [("", self.root)]
        while waiting:
            path, inode = waiting.pop()
            yield path, inode
            if isinstance(inode, Folder):
                waiting += [(f"{path}/{name}", found) for name, found in inode.names.items()]

    def unsynced_bytes(self) -> int:
        """Return the bytes that a power cut would lose: those of files that have a name, or would have one after it."""
        return sum(file.contents.unsynced_bytes() for file in self._unsynced if _has_or_gets_name(file))

    def unsynced_changes(self) -> int:
        """Return the number of changes of names that a power cut would lose."""
        return len(self._changes)

    # ---- names ----

    def create(self, path: str, mode: int) -> File:
        file = File(mode)
        self._link(file, path)
        return file

    def make_folder(self, path: str, mode: int) -> None:
        self._link(Folder(mode), path)

    def remove(self, path: str) -> None:
        file = self.file(path)
        self._unlink(path)
        self._mark_removed(file)

    def remove_folder(self, path: str) -> None:
        if self.folder(path).names:
            _fail(errno.ENOTEMPTY, path)
        self._unlink(path)

    def rename(self, old: str, new: str) -> None:
        inode = self.find(old)
        (source, old_name), (target, name) = self._location(old), self._location(new)
        replaced = target.names.get(name)
        if replaced is inode:
            return
        if replaced is not None:
            self._check_replacement(inode, replaced, new)
        del source.names[old_name]
        target.names[name] = inode
        self._changes.append(NameChange(self._now(), inode, (source, old_name), (target, name)))
        if isinstance(replaced, File):
            self._mark_removed(replaced)

    def _check_replacement(self, inode: File | Folder, replaced: File | Folder, path: str) -> None:
        if isinstance(replaced, File) and isinstance(inode, Folder):
            _fail(errno.ENOTDIR, path)
        if isinstance(replaced, Folder) and isinstance(inode, File):
            _fail(errno.EISDIR, path)
        if isinstance(replaced, Folder) and replaced.names:
            _fail(errno.ENOTEMPTY, path)

    def _location(self, path: str) -> Location:
        parent, _, name = path.rpartition("/")
        if len(name.encode(errors="surrogateescape")) > NAME_BYTES:
            _fail(errno.ENAMETOOLONG, path)
        return self.folder(parent), name

    def _link(self, inode: File | Folder, path: str) -> None:
        folder, name = self._location(path)
        if name in folder.names:
            _fail(errno.EEXIST, path)
        folder.names[name] = inode
        self._changes.append(NameChange(self._now(), inode, None, (folder, name)))

    def _unlink(self, path: str) -> None:
        folder, name = self._location(path)
        self._changes.append(NameChange(self._now(), folder.names.pop(name), (folder, name), None))

    def _mark_removed(self, file: File) -> None:
        """Free the room of a file that has no name any more. Programs that have it open can still use it."""
        file.removed = True
        self.used -= len(file.contents.visible)

    # ---- contents ----

    def write(self, file: File, data: bytes, offset: int) -> None:
        self._reserve(file, max(len(file.contents.visible), offset + len(data)))
        self._change(file, Write(self._next_order(), offset, data))

    def resize(self, file: File, size: int) -> None:
        if size != len(file.contents.visible):
            self._reserve(file, size)
            self._change(file, Resize(self._next_order(), size))

    def _reserve(self, file: File, size: int) -> None:
        """Make room for a file to have this size."""
        more = size - len(file.contents.visible)
        if size > self.capacity:
            _fail(errno.EFBIG)
        if more > self.capacity - self.used:
            _fail(errno.ENOSPC)
        if not file.removed:
            self.used += more

    def _change(self, file: File, change: Unsynced) -> None:
        file.contents.change(change)
        file.times.contents = file.times.anything = time.time_ns()
        self._unsynced.setdefault(file, self._now())

    def _next_order(self) -> int:
        self._order += 1
        return self._order

    # ---- syncs and power cuts ----

    def has_unsynced(self, inode: File | Folder) -> bool:
        """Return whether a sync of this file or folder has anything to do."""
        if isinstance(inode, File) and any(one.data for one in inode.contents.unsynced):
            return True
        return bool(self._covered(inode))

    def sync(self, inode: File | Folder) -> None:
        """Make durable what a sync of this file or folder covers."""
        if isinstance(inode, File):
            inode.contents.sync()
            self._unsynced.pop(inode, None)
        covered = self._covered(inode)
        for change in covered:
            self._make_durable(change)
        if covered:
            done = set(map(id, covered))
            self._changes = [change for change in self._changes if id(change) not in done]

    def fail_sync(self, inode: File | Folder) -> None:
        """Fail a sync of this file or folder (see `Contents.fail_sync`)."""
        if isinstance(inode, File):
            inode.contents.fail_sync()
            self._unsynced.pop(inode, None)

    def sync_all(self) -> None:
        """Make everything durable."""
        for inode in [*self._unsynced, *(found for _, found in self.walk())]:
            self.sync(inode)

    def write_back(self, seconds: float) -> None:
        """Make durable what has been unsynced for so long, as a kernel does by itself. All unsynced bytes of a file count from
        the first of them on."""
        before = self._now() - seconds
        while self._changes and self._changes[0].at <= before:
            self._make_durable(self._changes.pop(0))
        for file in list(takewhile(lambda file: self._unsynced[file] <= before, self._unsynced)):
            file.contents.sync()
            del self._unsynced[file]

    def _covered(self, inode: File | Folder) -> list[NameChange]:
        """Return the changes of names that a sync of this file or folder makes durable, in their order.

        With a change come the earlier ones of the same inode and of the name that it takes. Otherwise a later sync of another
        folder would make them durable after it, and undo it.
        """
        if self._rule == "journal":
            return self._changes
        if isinstance(inode, File):
            return []
        found: list[NameChange] = []
        inodes: set[Inode] = set()
        taken: set[Location | None] = set()
        for change in reversed(self._changes):
            if change.touches(inode) or change.inode in inodes or not taken.isdisjoint((change.source, change.target)):
                found.append(change)
                inodes.add(change.inode)
                taken |= {change.target} - {None}
        return found[::-1]

    def _make_durable(self, change: NameChange) -> None:
        """Make a change of names durable.

        An inode that was durable and lost its durable name, because an earlier change did not survive, stays lost.
        """
        inode, target = change.inode, change.target
        if target is None:
            if inode.durable_location == change.source:
                _remove_durable(inode)
        elif inode.durable_location is not None or not inode.was_durable:
            _remove_durable(inode)
            folder, name = target
            if name in folder.durable:
                _remove_durable(folder.durable[name])
            folder.durable[name] = inode
            inode.durable_location, inode.was_durable = target, True

    def cut(self, variant: Variant, seed: int) -> Losses:
        """Cut and restore the power, and return what was lost. With `killed` the power stays on: only the last writes of the
        killed process are lost, and the others stay unsynced."""
        random = Random(seed)
        if variant == "killed":
            before = self.unsynced_bytes()
            self._keep_only(self._survivors(variant, random))
            return Losses(before - self.unsynced_bytes(), 0)
        unsynced = {file: file.contents.unsynced_bytes() for file in self._unsynced}
        named = {file for file in unsynced if _has_or_gets_name(file)}
        kept = self._keep_contents(variant, random)
        survivors = surviving_changes(self._changes, variant, random)
        changes = len(self._changes) - len(survivors)
        for change in survivors:
            self._make_durable(change)
        self._reset_to_durable()
        there = {inode for _, inode in self.walk()}
        lost = [
            count - (kept[file] if file in there else 0) for file, count in unsynced.items() if file in named | there
        ]
        return Losses(sum(lost), changes)

    def _keep_contents(self, variant: Variant, random: Random) -> dict[File, int]:
        """Make durable what survives of the unsynced changes of contents. Return how many bytes that is, by file."""
        if variant == "pages":
            return {file: file.contents.keep_some_pages(random) for file in self._unsynced}
        survivors = self._survivors(variant, random)
        for file, kept in survivors.items():
            for one in kept:
                one.apply(file.contents.durable)
        return {file: sum(len(one.data) for one in kept) for file, kept in survivors.items()}

    def _survivors(self, variant: Variant, random: Random) -> dict[File, list[Unsynced]]:
        """Draw the unsynced changes of contents that survive, by file."""
        owners = {one.order: file for file in self._unsynced for one in file.contents.unsynced}
        everything = [one for file in self._unsynced for one in file.contents.unsynced]
        found: dict[File, list[Unsynced]] = {file: [] for file in self._unsynced}
        for one in surviving(sorted(everything, key=lambda one: one.order), variant, random, self._whole):
            found[owners[one.order]].append(one)
        return found

    def _keep_only(self, survivors: dict[File, list[Unsynced]]) -> None:
        """Drop all unsynced changes of contents but these, which stay unsynced."""
        for file, kept in survivors.items():
            file.contents.lose_unsynced()
            for one in kept:
                file.contents.change(one)
        self._update_used()

    def _reset_to_durable(self) -> None:
        """Make the visible state equal to the durable one."""
        self._unsynced.clear()
        self._changes.clear()
        waiting = [self.root]
        while waiting:
            folder = waiting.pop()
            folder.names = dict(folder.durable)
            for inode in folder.names.values():
                if isinstance(inode, Folder):
                    waiting.append(inode)
                else:
                    inode.contents.lose_unsynced()
                    inode.removed = False
        self._update_used()

    def _update_used(self) -> None:
        self.used = sum(len(inode.contents.visible) for _, inode in self.walk() if isinstance(inode, File))


def _has_or_gets_name(file: File) -> bool:
    """Return whether a file has a name, or would have one after a power cut."""
    return file.durable_location is not None or not file.removed


def _remove_durable(inode: File | Folder) -> None:
    if inode.durable_location is not None:
        folder, name = inode.durable_location
        del folder.durable[name]
        inode.durable_location = None


def _fail(number: int, path: str | None = None) -> NoReturn:
    raise OSError(number, os.strerror(number), path)
