"""A node's durable memory: the log and its snapshots, on one disk."""

from typing import Self

from zab_chaos.node.core import zxid as zx
from zab_chaos.node.core.digest import Algorithm
from zab_chaos.node.core.ready import (
    EpochRecord,
    MemberRecord,
    NewLeaderRecord,
    Record,
    Recovered,
    SnapRecord,
    TruncRecord,
)
from zab_chaos.node.core.zxid import Zxid
from zab_chaos.node.store.crash_hooks import CrashHook, remove_durably, step_hook
from zab_chaos.node.store.disk import Disk
from zab_chaos.node.store.errors import DiskFailed, disk_operation
from zab_chaos.node.store.log import Log
from zab_chaos.node.store.recovery import Recovery, RecoveryReport
from zab_chaos.node.store.snapshot import snapshot_name, snapshot_zxid, write_snapshot
from zab_chaos.node.store.state import LogState

_GROUP_OPENERS = (TruncRecord, SnapRecord)  # the records that open a group


class Store:
    """Stores records, which are durable when `sync` returns. Created by `open`.

    A group, from TRUNC or SNAP to its NEWLEADER, is written when it is closed. Recovery would cut off an unclosed group, so
    writing it earlier would make nothing more durable.
    """

    recovery = Recovery
    log_type = Log

    def __init__(self, disk: Disk, log: Log, digest: Algorithm) -> None:
        self.disk = disk
        self.log = log
        self.digest = digest
        self.failed: DiskFailed | None = None  # once the disk has failed, it is not used again
        self._waiting: list[Record] = []
        self._group: list[Record] | None = None  # the open group

    @classmethod
    def open(
        cls,
        disk: Disk,
        *,
        bootstrap: bool,
        segment_bytes: int,
        crash: CrashHook | None = None,
        digest: Algorithm = "blake2b",
    ) -> tuple[Self, Recovered, RecoveryReport]:
        """Recover what the disk holds, make it durable again, and continue from there.

        On an empty disk, `bootstrap` says that this node is a member of a new ensemble. Without it the node has lost its
        disk: it is amnesiac, which the disk remembers until a MEMBER record. On any other disk `bootstrap` is ignored.
        `digest`: the algorithm of the running digests in snapshots, see NodeConfig. Raises CorruptLog, CorruptSnapshot or
        DigestMismatch, having changed nothing, and DiskFailed.
        """
        recovery = cls.recovery(disk, digest)
        if recovery.is_empty():
            found, state = None, LogState(amnesiac=not bootstrap)
        else:
            found = recovery.run()
            state = found.state
        log = cls.log_type(disk, segment_bytes, state, crash)
        if found is None:
            _remove(disk, recovery.superfluous(None), crash)
            log.roll()
            recovered = Recovered(amnesiac=state.amnesiac)
            report = RecoveryReport(kind="amnesiac" if state.amnesiac else "fresh")
            return cls(disk, log, digest), recovered, report
        log.resume(found)
        _remove(disk, found.superfluous, crash)  # the snapshot that replaces them is durable
        if found.must_roll:
            log.roll()
        return cls(disk, log, digest), found.recovered, found.report

    @property
    def crash(self) -> CrashHook | None:
        """The hook of the crash points. It may be set and removed between any two calls."""
        return self.log.crash

    @crash.setter
    def crash(self, hook: CrashHook | None) -> None:
        self.log.crash = hook

    # ---- records ----

    @property
    def unsynced(self) -> int:
        """How many records the next `sync` would make durable. An open group waits for its NEWLEADER."""
        return len(self._waiting)

    def append(self, record: Record) -> None:
        """Add a record, which is not durable yet. Raises ValueError for a promise inside a group."""
        if self._group is None and type(record) not in _GROUP_OPENERS:
            self._waiting.append(record)
            return
        if isinstance(record, EpochRecord | MemberRecord):
            raise ValueError(f"{record} inside a group: TRUNC or SNAP must first be closed by NEWLEADER")
        if self._group is None:
            self._group = []
        self._group.append(record)
        if isinstance(record, NewLeaderRecord):
            self._waiting.extend(self._group)
            self._group = None

    def sync(self) -> None:
        """Make everything appended durable, with one write and one sync. Once it has raised DiskFailed it always does."""
        if self.failed is not None:
            raise self.failed
        try:
            records = self.take_waiting()
            if records:
                self.write(records)
                self.make_durable()
        except DiskFailed as failure:
            self.failed = failure
            raise

    def take_waiting(self) -> list[Record]:
        """Return the waiting records in order. The caller must write them to the disk."""
        records, self._waiting = self._waiting, []
        return records

    def write(self, records: list[Record]) -> None:
        """Hand records to the disk as one batch. A snapshot that replaces the history is durable before its record."""
        for record in records:
            if type(record) is SnapRecord:
                write_snapshot(self.disk, record.zxid, record.digest, record.state, self.crash, self.digest)
        self.log.write(records)

    def make_durable(self) -> None:
        self.log.sync()

    # ---- snapshots ----

    def take_snapshot(self, zxid: Zxid, digest: int, state: bytes) -> None:
        """Store the committed state at `zxid` durably, then remove the log segments and snapshots that it replaces.

        `digest` is the running digest at `zxid`. Raises ValueError if `zxid` is not in the log's history, and DiskFailed.
        """
        self.sync()
        if zxid not in self.log.state.outline:
            raise ValueError(f"a snapshot at {zx.show(zxid)}: the log's history does not hold this zxid")
        try:
            write_snapshot(self.disk, zxid, digest, state, self.crash, self.digest)
            self.log.roll()
            self.log.purge(zxid)
            self.purge_snapshots(zxid)
        except DiskFailed as failure:
            self.failed = failure
            raise

    def purge_snapshots(self, newest: Zxid) -> None:
        with disk_operation("listing the folder"):
            snapshots = [z for name in self.disk.list() if (z := snapshot_zxid(name)) is not None]
        _remove(self.disk, [snapshot_name(z) for z in snapshots if z < newest], self.crash)

    def close(self) -> None:
        """Close the files. What was not synced is not written."""
        self.log.close()


def _remove(disk: Disk, names: list[str], crash: CrashHook | None) -> None:
    """Remove snapshots and temporary files that nothing depends on."""
    if not names:
        return
    with disk_operation(f"removing {', '.join(names)}"):
        remove_durably(disk, names, step_hook(crash, "SNAPSHOT"))
