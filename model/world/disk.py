"""A simulated disk: a faithful or an ordinary one whose durable bytes are in memory.

Zeros that were preallocated are not kept but counted. Sync takes no time here: whoever drives the node lets time pass (see
`owed`).
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from zab_chaos.node.store.disk_faults import VirtualFaults
from zab_chaos.node.store.segment import TEMPORARY
from zab_chaos.node.store.volatile import Extent, Inode, VolatileDisk, overlay, unique


class MemoryInode(Inode):
    """A file in memory. What lies behind `kept`, up to `reserve`, is zeros."""

    __slots__ = ("kept", "laid")

    def __init__(self, kept: bytearray, reserve: int, laid: int) -> None:
        super().__init__(reserve, linked=False)
        self.kept = kept  # durable
        self.laid = laid  # how much of `reserve` is durable

    def durable(self) -> bytes:
        return bytes(self.kept)

    def put(self, extents: Sequence[Extent]) -> None:
        for offset, data in extents:
            overlay(self.kept, offset, data)

    def settle(self) -> None:
        self.put(self.joined())
        self.written()
        self.laid = self.reserve

    def lose(self) -> None:
        """All that is not durable."""
        self.unsynced.clear()
        self.stale.clear()
        self.reserve = max(self.laid, len(self.kept))

    def copy(self) -> "MemoryInode":
        """The same, durable or not."""
        copied = MemoryInode(self.kept[:], self.reserve, self.laid)
        copied.linked = self.linked
        copied.unsynced, copied.stale = self.unsynced[:], self.stale[:]
        return copied

    def image(self) -> bytes:
        """What is durable, with the zeros."""
        return bytes(self.kept).ljust(self.laid, b"\0")


class SimDisk(VolatileDisk[MemoryInode]):
    """One node's disk; it outlives the node's lives. Implements `zab_chaos.node.store.disk.Disk`.

    `draw_sync`: nanoseconds that a sync takes now. `die`: what the end does to the node; does not return.
    """

    def __init__(self, *, faithful: bool, draw_sync: Callable[[], int], die: Callable[[], NoReturn]) -> None:
        super().__init__()
        self.faithful = faithful
        self.owed = 0  # nanoseconds of syncs that nobody has let pass yet
        self.paid = False  # time has passed for the next sync already
        self._draw_sync = draw_sync
        self._die = die
        self._cached = False  # the process ends and the machine does not
        self.new_life()

    def new_life(self) -> None:
        """What was wrong with the disk was wrong in the process that used it."""
        self.faults = VirtualFaults(can_cut_power=self.faithful, spend=self._spend)
        self.writes = self.syncs = 0
        self.owed, self.paid = 0, False
        self._kept = False

    def sync_time(self) -> int:
        """How long the next sync takes. Whoever asks lets it pass before the sync."""
        self.paid = True
        return self._draw_time()

    def _spend(self) -> None:
        if self.paid:
            self.paid = False
        else:
            self.owed += self._draw_time()

    def _draw_time(self) -> int:
        faults = self.faults
        faults.slowed += faults.slow_ms > 0
        return self._draw_sync() + int(faults.slow_ms * 1_000_000)

    # ---- where durable bytes are ----

    def _new_inode(self, reserve: int) -> MemoryInode:
        return MemoryInode(bytearray(), reserve, 0)

    def _link(self, inode: MemoryInode, name: str) -> None:
        """Nothing to do: a name is nothing but an entry here."""

    def _unlink(self, inode: MemoryInode, name: str) -> None:
        """Likewise."""

    def _keep_cache(self) -> None:
        self._cached = True

    def _drop_cache(self) -> None:
        self._cached = False

    def _end(self) -> NoReturn:
        self._die()

    # ---- the machine's side ----

    def lose_power(self) -> None:
        """The process is gone, and with it what it had not made durable; on an ordinary disk nothing."""
        if self._cached:
            self._cached = False
            return
        if not self.faithful:
            for inode in self._names.values():
                inode.settle()
            self._durable = dict(self._names)
        self._be_durable()

    def _be_durable(self) -> None:
        """Nothing is in the page cache any more."""
        self._names = dict(self._durable)
        self._changes.clear()
        for inode in self._names.values():
            inode.lose()

    def changing(self) -> tuple[tuple[str, bool, bool], ...]:
        """The directory changes that wait, in order: the kind of file, whether it is a temporary one, whether it is removed."""
        return tuple(
            (change.name.partition("-")[0], change.name.endswith(TEMPORARY), change.removes) for change in self._changes
        )

    def copy_to(self, other: "SimDisk") -> None:
        """The other one holds what this one does, durable or not."""
        inodes = (*self._names.values(), *self._durable.values(), *(change.inode for change in self._changes))
        copies = {id(inode): inode.copy() for inode in unique(inodes)}
        other._names = {name: copies[id(inode)] for name, inode in self._names.items()}
        other._durable = {name: copies[id(inode)] for name, inode in self._durable.items()}
        other._changes = [change._replace(inode=copies[id(change.inode)]) for change in self._changes]

    def wipe(self) -> None:
        self._names.clear()
        self._durable.clear()
        self._changes.clear()

    def export_to(self, folder: Path) -> None:
        """As files, for whoever damages disks at rest."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, inode in self._durable.items():
            folder.joinpath(name).write_bytes(inode.image())

    def import_from(self, folder: Path) -> None:
        """The other way round: the folder's files are the disk."""
        self.wipe()
        for path in sorted(folder.iterdir()):
            content = path.read_bytes()
            inode = MemoryInode(bytearray(content.rstrip(b"\0")), len(content), len(content))
            inode.linked = True
            self._durable[path.name] = inode
        self._be_durable()
