"""A disk on which a SIGKILL is a power cut: unsynced data is only in this process's memory."""

import errno
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from zab_chaos.node.store import page_cache
from zab_chaos.node.store.disk_faults import DiskFaults
from zab_chaos.node.store.os_files import (
    VOLATILE,
    clear_volatile,
    create_numbered_file,
    fdatasync,
    open_existing,
    sync_folder,
    write_at,
    write_zeros,
)
from zab_chaos.node.store.page_cache import CachedInode, PageCache
from zab_chaos.node.store.volatile import Change, Extent, Inode, VolatileDisk, unique


def _kill_this_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class FolderInode(Inode):
    """A file whose durable bytes are in a real file.

    That file has the inode's name, or is in a hidden folder while no durable name refers to it.
    """

    __slots__ = ("_fd", "path", "zeros_written")

    def __init__(self, path: Path, reserve: int, *, linked: bool, zeros_written: bool) -> None:
        super().__init__(reserve, linked=linked)
        self.path = path
        self.zeros_written = zeros_written  # preallocated zeros are written to the file at the first sync
        self._fd: int | None = None

    @property
    def fd(self) -> int:
        if self._fd is None:
            self._fd = open_existing(self.path)
        return self._fd

    def durable(self) -> bytes:
        return self.path.read_bytes()

    def write_through(self, extents: Sequence[Extent]) -> None:
        for offset, data in extents:
            write_at(self.fd, data, offset)

    def make_durable(self) -> None:
        if not self.zeros_written:
            write_zeros(self.fd, self.reserve)
            self.zeros_written = True
        self.write_through(self.whole_writes())
        fdatasync(self.fd)
        self.mark_synced()

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


class FaithfulDisk(VolatileDisk[FolderInode]):
    """A folder that holds only what is durable. The process sees its own unsynced changes on top of it.

    `die` ends the process; by default it sends SIGKILL to this process. Until a directory change is synced, a new file's
    synced bytes are kept in a hidden folder. That folder is emptied when a disk is opened, unless the previous process was
    killed in a way that keeps the page cache (`Variant`): then this process sees what that one wrote.
    """

    def __init__(self, root: str | Path, die: Callable[[], None] = _kill_this_process) -> None:
        super().__init__()
        self.root = Path(root)
        self.faults = DiskFaults(can_cut_power=True)
        self._die = die
        (self.root / VOLATILE).mkdir(parents=True, exist_ok=True)
        cache = page_cache.take(self.root)
        clear_volatile(self.root, keep={inode.path for inode in cache.inodes} if cache else ())
        self._durable = {
            path.name: self._existing_inode(path) for path in sorted(self.root.iterdir()) if path.is_file()
        }
        self._names = dict(self._durable)
        if cache is not None:
            self._load_cache(cache)

    @staticmethod
    def _existing_inode(path: Path) -> FolderInode:
        return FolderInode(path, path.stat().st_size, linked=True, zeros_written=True)

    def _new_inode(self, reserve: int) -> FolderInode:
        return FolderInode(
            create_numbered_file(self.root / VOLATILE), reserve, linked=False, zeros_written=reserve == 0
        )

    def _link(self, inode: FolderInode, name: str) -> None:
        inode.path = inode.path.rename(self.root / name)

    def _unlink(self, inode: FolderInode, name: str) -> None:
        inode.path.unlink()

    def sync_directory(self) -> None:
        super().sync_directory()
        sync_folder(self.root)

    def _end_process(self) -> NoReturn:
        self._die()
        raise OSError(errno.EIO, "the power is cut")

    # ---- the page cache ----

    def _keep_cache(self) -> None:
        inodes = unique((*self._names.values(), *(change.inode for change in self._changes)))
        number = {id(inode): i for i, inode in enumerate(inodes)}
        page_cache.save(
            self.root,
            PageCache(
                [self._cached_inode(inode) for inode in inodes],
                {name: number[id(inode)] for name, inode in self._names.items()},
                [(number[id(change.inode)], change.name, change.removes) for change in self._changes],
            ),
        )

    def _drop_cache(self) -> None:
        page_cache.take(self.root)

    def _cached_inode(self, inode: FolderInode) -> CachedInode:
        path = str(inode.path.relative_to(self.root))
        return CachedInode(path, inode.reserve, inode.linked, inode.zeros_written, inode.extents(), inode.stale)

    def _load_cache(self, cache: PageCache) -> None:
        """Continue with the page cache that the killed process left."""
        inodes = []
        for saved in cache.inodes:
            inode = self._durable.get(saved.path)
            if inode is None:
                inode = FolderInode(self.root / saved.path, 0, linked=saved.linked, zeros_written=False)
            inode.reserve, inode.zeros_written = saved.reserve, saved.zeros_written
            inode.unsynced = [(offset, data, (len(data),)) for offset, data in saved.unsynced]
            inode.stale = saved.stale
            inodes.append(inode)
        self._names = {name: inodes[i] for name, i in cache.names.items()}
        self._changes = [Change(inodes[i], name, removes) for i, name, removes in cache.changes]
