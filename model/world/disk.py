"""A simulated disk: a faithful or an ordinary one that keeps its durable bytes in memory.

Preallocated zeros are not stored, only counted. A sync takes no virtual time by itself: the server lets the time pass
(`sync_time`, `owed_ns`).
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from zab_chaos.node.store.disk_faults import VirtualFaults
from zab_chaos.node.store.segment import TEMPORARY
from zab_chaos.node.store.volatile import Extent, Inode, VolatileDisk, overlay, unique


class MemoryInode(Inode):
    """A file in memory. From the end of `durable_bytes` up to `reserve` it consists of zeros."""

    __slots__ = ("durable_bytes", "durable_reserve")

    def __init__(self, durable_bytes: bytearray, reserve: int, durable_reserve: int) -> None:
        super().__init__(reserve, linked=False)
        self.durable_bytes = durable_bytes
        self.durable_reserve = durable_reserve  # the reserve that has become durable

    def durable(self) -> bytes:
        return bytes(self.durable_bytes)

    def write_through(self, extents: Sequence[Extent]) -> None:
        for offset, data in extents:
            overlay(self.durable_bytes, offset, data)

    def make_durable(self) -> None:
        for offset, data, _ in self.unsynced:
            overlay(self.durable_bytes, offset, data)
        self.mark_synced()
        self.durable_reserve = self.reserve

    def lose(self) -> None:
        """Forget everything that is not durable."""
        self.unsynced.clear()
        self.stale.clear()
        self.reserve = max(self.durable_reserve, len(self.durable_bytes))

    def copy(self) -> "MemoryInode":
        """Return a copy, with what is durable and what is not."""
        copied = MemoryInode(self.durable_bytes[:], self.reserve, self.durable_reserve)
        copied.linked = self.linked
        copied.unsynced, copied.stale = self.unsynced[:], self.stale[:]
        return copied

    def image(self) -> bytes:
        """Return the durable bytes, with the zeros."""
        return bytes(self.durable_bytes).ljust(self.durable_reserve, b"\0")


class SimDisk(VolatileDisk[MemoryInode]):
    """One node's disk, which outlives the node's lives. Implements `zab_chaos.node.store.disk.Disk` and `DiskInterface`.

    `draw_sync` returns how many nanoseconds the next sync takes. `die` ends the node's process and does not return.
    """

    def __init__(self, *, faithful: bool, draw_sync: Callable[[], int], die: Callable[[], NoReturn]) -> None:
        super().__init__()
        self.faithful = faithful
        self.owed_ns = 0  # nanoseconds that syncs have taken and that have not passed yet
        self.prepaid = False  # the time of the next sync has passed already
        self._draw_sync = draw_sync
        self._die = die
        self._cached = False  # the process ends, but the page cache survives
        self.new_life()

    def new_life(self) -> None:
        """Begin a new life. Disk faults end with the life, because they are injected into its process."""
        self.faults = VirtualFaults(can_cut_power=self.faithful, spend=self._spend)
        self.writes = self.syncs = 0
        self.owed_ns, self.prepaid = 0, False
        self.cache_kept = False

    def sync_time(self) -> int:
        """Return how many nanoseconds the next sync takes. The caller must let them pass before the sync."""
        self.prepaid = True
        return self._draw_time()

    def _spend(self) -> None:
        if self.prepaid:
            self.prepaid = False
        else:
            self.owed_ns += self._draw_time()

    def _draw_time(self) -> int:
        drawn, faults = self._draw_sync(), self.faults
        if faults.slow_ms > 0:
            faults.slowed += 1
            drawn += int(faults.slow_ms * 1_000_000)
        return drawn

    # ---- storage of durable bytes (VolatileDisk) ----

    def _new_inode(self, reserve: int) -> MemoryInode:
        return MemoryInode(bytearray(), reserve, 0)

    def _link(self, inode: MemoryInode, name: str) -> None:
        """Nothing to do: in memory a name is only an entry of the directory."""

    def _unlink(self, inode: MemoryInode, name: str) -> None:
        """Nothing to do, for the same reason."""

    def _keep_cache(self) -> None:
        self._cached = True

    def _drop_cache(self) -> None:
        self._cached = False

    def _end_process(self) -> NoReturn:
        self._die()

    # ---- called by the machine ----

    def lose_power(self) -> None:
        """End the process: what it had not made durable is lost on a faithful disk, and nothing is lost on an ordinary one."""
        if self._cached:
            self._cached = False
            return
        if not self.faithful:
            for inode in self._names.values():
                inode.make_durable()
            self._durable = dict(self._names)
        self._drop_volatile()

    def _drop_volatile(self) -> None:
        """Drop the page cache: the files are what is durable."""
        self._names = dict(self._durable)
        self._changes.clear()
        for inode in self._names.values():
            inode.lose()

    def changing(self) -> tuple[tuple[str, bool, bool], ...]:
        """Return the directory changes that are not durable yet, in order: (kind of file, is temporary, is removed)."""
        return tuple(
            (change.name.partition("-")[0], change.name.endswith(TEMPORARY), change.removes) for change in self._changes
        )

    def describe_changes(self) -> str:
        """Return the directory changes that are not durable yet, in words; empty if there are none."""
        return ", ".join(f"{change.name} {'removed' if change.removes else 'created'}" for change in self._changes)

    def copy_to(self, other: "SimDisk") -> None:
        """Give the other disk copies of all files, with what is durable and what is not."""
        inodes = (*self._names.values(), *self._durable.values(), *(change.inode for change in self._changes))
        copies = {id(inode): inode.copy() for inode in unique(inodes)}
        other._names = {name: copies[id(inode)] for name, inode in self._names.items()}
        other._durable = {name: copies[id(inode)] for name, inode in self._durable.items()}
        other._changes = [change._replace(inode=copies[id(change.inode)]) for change in self._changes]

    def wipe(self) -> None:
        """Remove everything, as if the disk were replaced by an empty one."""
        self._names.clear()
        self._durable.clear()
        self._changes.clear()

    def export_to(self, folder: Path) -> None:
        """Write the durable files to a folder, for faults that damage a disk while its node is down."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, inode in self._durable.items():
            folder.joinpath(name).write_bytes(inode.image())

    def import_from(self, folder: Path) -> None:
        """Replace what is on the disk with the files of a folder."""
        self.wipe()
        for path in sorted(folder.iterdir()):
            content = path.read_bytes()
            inode = MemoryInode(bytearray(content.rstrip(b"\0")), len(content), len(content))
            inode.linked = True
            self._durable[path.name] = inode
        self._drop_volatile()
