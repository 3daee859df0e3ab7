"""The FUSE operations: carries out the system calls of programs on the disk.

The kernel caches what is read until the file is opened again, and passes on each write at once. What a program stores
through a shared mapping arrives as a write at the latest when the file is synced, or when the mapping ends, also by SIGKILL;
when the power is off then, it is lost. Links, special files and extended attributes are refused. An attribute of
`DiskOperations` must not have the name of a FUSE operation, such as `lock`: the library would call it.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from typing import Any, cast

os.environ.setdefault("FUSE_LIBRARY_NAME", "fuse3")  # the library prefers the older one if both are installed
import mfusepy

from zab_chaos.faults.filesystem.power import MountedVolume, PowerOff
from zab_chaos.faults.filesystem.volume import NAME_BYTES, File, Folder

BLOCK = 4096
KEEP_SIZE = 1  # a mode of fallocate(2)
OPTIONS = {
    "attr_timeout": 0,  # no caching: a power cut changes attributes and names
    "entry_timeout": 0,
    "negative_timeout": 0,
    "hard_remove": True,  # remove a file also while it is open; by default the library only hides it
    "auto_unmount": True,  # also when this process is killed
    "max_threads": 64,  # each slow sync occupies one, and must not hold back other syncs or reads
}


class Fuse(mfusepy.FUSE):  # type: ignore[misc]
    """The FUSE library with two corrections: it ignores the flags of a rename, and needs a path to truncate a file."""

    def rename_fuse_3(self, old: bytes, new: bytes, flags: int) -> int:
        """Refuse a rename with flags (no replacement, exchange), which the library would carry out as a plain one."""
        return -errno.EINVAL if flags else cast(int, super().rename_fuse_3(old, new, flags))

    def truncate_fuse_3(self, path: bytes | None, length: int, fip: Any) -> int:
        """Truncate by the open file, which may have no name any more."""
        return cast(int, self.ftruncate(path, length, fip))


class DiskOperations(mfusepy.Operations):  # type: ignore[misc]
    """The FUSE operations on a disk. `ready` is called when programs can use the file system."""

    use_ns = True

    def __init__(self, disk: MountedVolume, ready: Callable[[], None]) -> None:
        self._disk = disk
        self._ready = ready
        self._open: dict[int, File] = {}
        self._open_folders: dict[int, Folder] = {}
        self._numbers = count(1)

    def init(self, path: str) -> None:
        self._ready()

    # ---- names ----

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        with self._disk.reading() as volume:
            inode = self._file(path, fh) if fh else volume.find(path)
            kind, size = (stat.S_IFREG, len(inode.contents.visible)) if isinstance(inode, File) else (stat.S_IFDIR, 0)
            return {
                "st_mode": kind | inode.mode, "st_nlink": 1, "st_size": size, "st_blocks": -(-size // 512),
                "st_uid": inode.owner, "st_gid": inode.group, "st_atime": inode.times.access,
                "st_mtime": inode.times.contents, "st_ctime": inode.times.anything,
            }  # fmt: skip

    def opendir(self, path: str) -> int:
        with self._disk.reading() as volume:
            folder = volume.folder(path)
        number = next(self._numbers)
        self._open_folders[number] = folder
        return number

    def releasedir(self, path: str | None, fh: int) -> None:
        self._open_folders.pop(fh, None)

    def readdir(self, path: str | None, fh: int) -> Iterator[str]:
        with self._disk.reading():
            names = sorted(self._open_folders[fh].names)
        return iter([".", "..", *names])

    def create(self, path: str, mode: int, flags: int) -> int:
        with self._disk.changing() as volume:
            return self._opened(volume.create(path, stat.S_IMODE(mode)))

    def mkdir(self, path: str, mode: int) -> None:
        with self._disk.changing() as volume:
            volume.make_folder(path, stat.S_IMODE(mode))

    def unlink(self, path: str) -> None:
        with self._disk.changing() as volume:
            volume.remove(path)

    def rmdir(self, path: str) -> None:
        with self._disk.changing() as volume:
            volume.remove_folder(path)

    def rename(self, old: str, new: str) -> None:
        with self._disk.changing() as volume:
            volume.rename(old, new)

    # ---- contents ----

    def open(self, path: str, flags: int) -> int:
        with self._disk.reading() as volume:
            file = volume.file(path)
        if flags & os.O_TRUNC:
            with self._disk.changing(contents=True) as volume:
                volume.resize(file, 0)
        return self._opened(file)

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        file = self._file(path, fh)
        with self._disk.reading():
            return bytes(file.contents.visible[offset : offset + size])

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        file = self._file(path, fh)
        # While the power is off, the kernel writes back what the killed process has stored through mappings. That is lost. Of
        # an error nobody would know but the next program on this disk, whose first sync of the file would fail with it.
        with suppress(PowerOff), self._disk.changing(contents=True) as volume:
            volume.write(file, data, offset)
        return len(data)

    def truncate(self, path: str, length: int, fh: int | None = None) -> None:
        with self._disk.changing(contents=True) as volume:
            volume.resize(self._file(path, fh) if fh else volume.file(path), length)

    def fallocate(self, path: str, mode: int, offset: int, size: int, fh: int) -> None:
        """Reserve room by appending zeros. With KEEP_SIZE do nothing: there is nothing to reserve."""
        if mode not in (0, KEEP_SIZE):
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        file = self._file(path, fh)
        with self._disk.changing(contents=True) as volume:
            if mode == 0 and offset + size > len(file.contents.visible):
                volume.resize(file, offset + size)

    def fsync(self, path: str, datasync: int, fh: int) -> None:
        self._disk.sync(self._file(path, fh))

    def fsyncdir(self, path: str | None, datasync: int, fh: int) -> None:
        self._disk.sync(self._open_folders[fh])

    def release(self, path: str, fh: int) -> None:
        self._open.pop(fh, None)

    def _opened(self, file: File) -> int:
        number = next(self._numbers)
        self._open[number] = file
        return number

    def _file(self, path: str, fh: int) -> File:
        """Return an open file. After a power cut, files that were opened before may not be part of the volume any more."""
        return self._open[fh]

    # ---- attributes ----

    def chmod(self, path: str, mode: int) -> None:
        with self._disk.changing() as volume:
            volume.find(path).mode = stat.S_IMODE(mode)

    def chown(self, path: str, uid: int, gid: int) -> None:
        with self._disk.changing() as volume:
            inode = volume.find(path)
            inode.owner = inode.owner if uid == -1 else uid
            inode.group = inode.group if gid == -1 else gid

    def utimens(self, path: str, times: tuple[int, int] | None = None) -> None:
        with self._disk.changing() as volume:
            inode = volume.find(path)
            if times is not None:
                inode.times.access, inode.times.contents = times

    def statfs(self, path: str) -> dict[str, int]:
        free = self._disk.free // BLOCK
        return {
            "f_bsize": BLOCK, "f_frsize": BLOCK, "f_blocks": self._disk.capacity // BLOCK, "f_bfree": free,
            "f_bavail": free, "f_namemax": NAME_BYTES,
        }  # fmt: skip
