"""The files and folders of a volume, what of them is durable, and what a power cut leaves.

Bytes and sizes are durable when their file is synced. When names are (a file that is made, renamed or removed, a folder
that is made or removed) is what `Names` says. Owners, modes and times are always durable: nothing is promised of them.
"""

import errno
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Literal, NoReturn

from zab_chaos.faults.filesystem.contents import Contents, Resize, Unsynced, Write, surviving
from zab_chaos.node.store.disk_faults import Variant, surviving_changes

Names = Literal["folder", "journal"]
"""- folder: a name is durable when its folder is synced. All that POSIX promises.
- journal: any sync makes all names durable that were changed before it, as ext4 and XFS have it.
"""
CAPACITY = 2**30  # bytes of all files, holes included: everything is held in memory
NAME_BYTES = 255


@dataclass(slots=True)
class Times:
    """Nanoseconds since 1970: of the last access, of the last change of the contents, and of anything."""

    access: int = field(default_factory=time.time_ns)
    contents: int = field(default_factory=time.time_ns)
    anything: int = field(default_factory=time.time_ns)


class Inode:
    """A file or a folder, apart from its name. `place`: where it is durably found; `linked`: whether it ever was."""

    __slots__ = ("group", "linked", "mode", "owner", "place", "times")

    def __init__(self, mode: int) -> None:
        self.mode = mode
        self.owner, self.group = os.getuid(), os.getgid()
        self.times = Times()
        self.place: Location | None = None
        self.linked = False


class File(Inode):
    __slots__ = ("contents", "removed")

    def __init__(self, mode: int) -> None:
        super().__init__(mode)
        self.contents = Contents()
        self.removed = False  # no name stands for it any more


class Folder(Inode):
    __slots__ = ("durable", "names")

    def __init__(self, mode: int = 0o755) -> None:
        super().__init__(mode)
        self.names: dict[str, File | Folder] = {}  # as programs see them
        self.durable: dict[str, File | Folder] = {}


Location = tuple[Folder, str]


@dataclass(frozen=True, slots=True)
class Change:
    """A change of names that no sync has covered: it leaves a place, comes to one, or both at once."""

    inode: File | Folder
    source: Location | None
    target: Location | None

    def touches(self, folder: Folder) -> bool:
        return any(place is not None and place[0] is folder for place in (self.source, self.target))


@dataclass(frozen=True, slots=True)
class Losses:
    """What a power cut took: bytes of files that were not synced, and changes of names."""

    bytes: int
    changes: int


class Volume:
    """Paths begin with `/`. What can't be done raises OSError, as the system call would. Not for several threads at once."""

    def __init__(self, names: Names = "journal", capacity: int = CAPACITY) -> None:
        self.root = Folder()
        self.capacity = capacity
        self.used = 0
        self._rule = names
        self._order = 0
        self._unsynced: dict[File, None] = {}  # files that have something unsynced
        self._changes: list[Change] = []

    # ---- finding ----

    def find(self, path: str) -> File | Folder:
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
        inode = self.find(path)
        return inode if isinstance(inode, File) else _fail(errno.EISDIR, path)

    def folder(self, path: str) -> Folder:
        inode = self.find(path)
        return inode if isinstance(inode, Folder) else _fail(errno.ENOTDIR, path)

    def walk(self) -> Iterator[tuple[str, File | Folder]]:
        """Everything that is seen, folders before what is in them."""
        waiting: list[tuple[str, File | Folder]] = [("", self.root)]
        while waiting:
            path, inode = waiting.pop()
            yield path, inode
            if isinstance(inode, Folder):
                waiting += [(f"{path}/{name}", found) for name, found in inode.names.items()]

    def lost_bytes(self) -> int:
        """What a power cut would take, changes of names not counted."""
        there = (file for file in self._unsynced if file.place is not None or not file.removed)
        return sum(file.contents.lost_bytes() for file in there)

    def lost_changes(self) -> int:
        return len(self._changes)

    # ---- names ----

    def create(self, path: str, mode: int) -> File:
        file = File(mode)
        self._come(file, path)
        return file

    def make_folder(self, path: str, mode: int) -> None:
        self._come(Folder(mode), path)

    def remove(self, path: str) -> None:
        file = self.file(path)
        self._leave(path)
        self._forget(file)

    def remove_folder(self, path: str) -> None:
        if self.folder(path).names:
            _fail(errno.ENOTEMPTY, path)
        self._leave(path)

    def rename(self, old: str, new: str) -> None:
        inode = self.find(old)
        (source, was), (target, name) = self._place(old), self._place(new)
        there = target.names.get(name)
        if there is inode:
            return
        if there is not None:
            self._replaceable(inode, there, new)
        del source.names[was]
        target.names[name] = inode
        self._changes.append(Change(inode, (source, was), (target, name)))
        if isinstance(there, File):
            self._forget(there)

    def _replaceable(self, inode: File | Folder, there: File | Folder, path: str) -> None:
        if isinstance(there, File) and isinstance(inode, Folder):
            _fail(errno.ENOTDIR, path)
        if isinstance(there, Folder) and isinstance(inode, File):
            _fail(errno.EISDIR, path)
        if isinstance(there, Folder) and there.names:
            _fail(errno.ENOTEMPTY, path)

    def _place(self, path: str) -> Location:
        parent, _, name = path.rpartition("/")
        if len(name.encode(errors="surrogateescape")) > NAME_BYTES:
            _fail(errno.ENAMETOOLONG, path)
        return self.folder(parent), name

    def _come(self, inode: File | Folder, path: str) -> None:
        folder, name = self._place(path)
        if name in folder.names:
            _fail(errno.EEXIST, path)
        folder.names[name] = inode
        self._changes.append(Change(inode, None, (folder, name)))

    def _leave(self, path: str) -> None:
        folder, name = self._place(path)
        self._changes.append(Change(folder.names.pop(name), (folder, name), None))

    def _forget(self, file: File) -> None:
        """No name stands for it; whoever has it open goes on with it."""
        file.removed = True
        self.used -= len(file.contents.visible)

    # ---- contents ----

    def write(self, file: File, data: bytes, offset: int) -> None:
        self._fit(file, max(len(file.contents.visible), offset + len(data)))
        self._change(file, Write(self._next(), offset, data))

    def resize(self, file: File, size: int) -> None:
        if size != len(file.contents.visible):
            self._fit(file, size)
            self._change(file, Resize(self._next(), size))

    def _fit(self, file: File, size: int) -> None:
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
        self._unsynced[file] = None

    def _next(self) -> int:
        self._order += 1
        return self._order

    # ---- what is durable ----

    def waits(self, inode: File | Folder) -> bool:
        """Whether a sync of it has anything to do."""
        if isinstance(inode, File) and any(one.data for one in inode.contents.unsynced):
            return True
        return any(self._covered(inode))

    def sync(self, inode: File | Folder) -> None:
        if isinstance(inode, File):
            inode.contents.sync()
            self._unsynced.pop(inode, None)
        covered = list(self._covered(inode))
        for change in covered:
            self._settle(change)
        if covered:
            done = set(map(id, covered))
            self._changes = [change for change in self._changes if id(change) not in done]

    def fail(self, inode: File | Folder) -> None:
        """A sync has failed."""
        if isinstance(inode, File):
            inode.contents.fail()
            self._unsynced.pop(inode, None)

    def sync_all(self) -> None:
        for inode in [*self._unsynced, *(found for _, found in self.walk())]:
            self.sync(inode)

    def _covered(self, inode: File | Folder) -> Iterable[Change]:
        """The changes of names that a sync of it makes durable."""
        if self._rule == "journal":
            return self._changes
        return (change for change in self._changes if isinstance(inode, Folder) and change.touches(inode))

    def _settle(self, change: Change) -> None:
        """Durably. What has lost its last name, because an earlier change did not survive, stays lost."""
        inode, target = change.inode, change.target
        if target is None:
            if inode.place == change.source:
                _unplace(inode)
        elif inode.place is not None or not inode.linked:
            _unplace(inode)
            folder, name = target
            if name in folder.durable:
                _unplace(folder.durable[name])
            folder.durable[name] = inode
            inode.place, inode.linked = target, True

    def cut(self, variant: Variant, seed: int) -> Losses:
        """The power is gone and back. With `killed` it never went, but the last writes were not carried out."""
        random = Random(seed)
        before = Losses(self.lost_bytes(), len(self._changes))
        if variant == "killed":
            self._keep(self._survivors(variant, random))
            return Losses(before.bytes - self.lost_bytes(), 0)
        if variant == "pages":
            for file in self._unsynced:
                file.contents.durable = file.contents.some_pages(random)
        else:
            for file, kept in self._survivors(variant, random).items():
                for one in kept:
                    one.apply(file.contents.durable)
        for change in surviving_changes(self._changes, variant, random):
            self._settle(change)
        self._return()
        return before

    def _survivors(self, variant: Variant, random: Random) -> dict[File, list[Unsynced]]:
        owners = {one.order: file for file in self._unsynced for one in file.contents.unsynced}
        everything = [one for file in self._unsynced for one in file.contents.unsynced]
        found: dict[File, list[Unsynced]] = {file: [] for file in self._unsynced}
        for one in surviving(sorted(everything, key=lambda one: one.order), variant, random):
            found[owners[one.order]].append(one)
        return found

    def _keep(self, survivors: dict[File, list[Unsynced]]) -> None:
        """Only these are still there, unsynced as before."""
        for file, kept in survivors.items():
            file.contents.lose()
            for one in kept:
                file.contents.change(one)
        self._count()

    def _return(self) -> None:
        """All is as it is durably."""
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
                    inode.contents.lose()
                    inode.removed = False
        self._count()

    def _count(self) -> None:
        self.used = sum(len(inode.contents.visible) for _, inode in self.walk() if isinstance(inode, File))


def _unplace(inode: File | Folder) -> None:
    if inode.place is not None:
        folder, name = inode.place
        del folder.durable[name]
        inode.place = None


def _fail(number: int, path: str | None = None) -> NoReturn:
    raise OSError(number, os.strerror(number), path)
