"""The write-ahead log: typed, checksummed records in preallocated segments (see `segment` and `log_record`).

What is written between two syncs is one batch, which lies in one segment. If a batch does not fit into the segment, a new
segment is begun, which requires that everything before it is durable. The store hands over a group (TRUNC or SNAP, up to
its NEWLEADER) within one batch, so no group is ever split.
"""

from zab_chaos.node.core.ready import Record
from zab_chaos.node.core.zxid import Zxid
from zab_chaos.node.store import log_record, segment
from zab_chaos.node.store.crash_hooks import CrashHook, remove_durably, step_hook, write_durably
from zab_chaos.node.store.disk import Disk, DiskFile
from zab_chaos.node.store.errors import DiskFailed, disk_operation
from zab_chaos.node.store.recovery import DiskContents
from zab_chaos.node.store.segment import CHECKPOINT_BYTES, SEAL_ROOM, Checkpoint, Unsealed, segment_name
from zab_chaos.node.store.state import LogState


class Log:
    """The end of the log, open for writing. Methods raise DiskFailed; after that the log must not be used."""

    def __init__(self, disk: Disk, segment_bytes: int, state: LogState, crash: CrashHook | None) -> None:
        self.state = state  # the state after everything written, durable or not
        self._disk = disk
        self._segment_bytes = segment_bytes
        self.crash = crash  # may be set and removed between any two calls
        self._segments: list[tuple[int, Zxid]] = []  # number, and the last zxid before it; ascending
        self._name, self._salt = "", 0  # of the newest segment
        self._operations = ("", "")  # for DiskFailed: writing, syncing
        self._file: DiskFile | None = None
        self._size = 0  # size of the newest segment's file
        self._offset = 0  # where the next batch is written
        self._batch = 1  # number of the next batch
        self._dirty = False  # something was written since the last sync
        self.syncs = 0  # number of syncs so far
        self._unsynced: list[str] = []  # with a crash hook: the records that the next sync covers

    def resume(self, found: DiskContents) -> None:
        """Continue behind the good bytes of the newest segment."""
        self._segments = list(found.segments)
        self._size, self._offset, self._batch = found.size, len(found.good), found.batch
        self._enter(found.segments[-1][0])
        with disk_operation(f"making {self._name} durable again"):
            self._file = self.make_durable_again(found.good)
        if found.unsealed is not None:
            self._seal_earlier(found.unsealed)

    def make_durable_again(self, good: bytes) -> DiskFile:
        """Return the newest segment, open behind its good bytes, which are durable then, as is the folder.

        What recovery has read may never have been synced. A killed process leaves its writes in the page cache, and after a
        failed fsync the kernel may consider pages clean that the disk does not hold. So the bytes are written again, which
        makes the pages dirty, and synced. They are equal, so a power cut meanwhile takes nothing that was durable.
        Everything before the newest segment was synced before that segment was created.
        """
        file = self._disk.open(self._name, 0)
        write_durably(file, good, (len(good),), step_hook(self.crash, "SEGMENT"))
        self._disk.sync_directory()
        return file

    def _seal_earlier(self, unsealed: Unsealed) -> None:
        """Seal the segment before the newest, which is durable."""
        name = segment_name(unsealed.number)
        with disk_operation(f"opening {name}"):
            file = self._disk.open(name, unsealed.end)
        segment.seal(file, unsealed.number, unsealed.size, self.crash)
        file.close()

    def _enter(self, number: int) -> None:
        """Direct further records to this segment."""
        self._name, self._salt = segment_name(number), segment.salt(number)
        self._operations = f"writing {self._name}", f"syncing {self._name}"

    def write(self, records: list[Record]) -> None:
        """Hand one batch to the disk: with one write, or record by record if there are crash points."""
        items = log_record.items(records)
        if not items:
            return
        data, ends = log_record.encode(items, self._batch, self._salt, self._offset)
        if self._file is None or self._offset + len(data) > self._size - SEAL_ROOM:
            self.roll(log_record.size(items))
            data, ends = log_record.encode(items, self._batch, self._salt, self._offset)
        assert self._file is not None
        self._dirty = True
        try:  # the same as disk_operation, which would cost as much as the rest
            if self.crash is None:
                self._file.write_all(data, ends)
            else:
                self._write_each(self.crash, self._file, items, data, ends)
        except OSError as error:
            raise DiskFailed(self._operations[0], error) from error
        self._offset += len(data)
        self._batch += 1
        for record in records:
            self.state.apply(record)

    def _write_each(
        self, crash: CrashHook, file: DiskFile, items: list[log_record.Item], data: bytes, ends: list[int]
    ) -> None:
        for item, start, end in zip(items, [0, *ends], ends, strict=False):
            name = log_record.RecordKind(item[0]).name
            crash("before-write", name)
            file.write(data[start:end])
            crash("after-write", name)
            self._unsynced.append(name)

    def sync(self) -> None:
        """Make everything written durable."""
        if self._file is None or not self._dirty:
            return
        try:
            if self.crash is not None:
                self._hit_each("before-sync", self.crash)
            self._file.sync()
        except OSError as error:
            raise DiskFailed(self._operations[1], error) from error
        self._dirty = False
        self.syncs += 1
        if self.crash is not None:
            self._hit_each("after-sync", self.crash)
        self._unsynced.clear()

    def _hit_each(self, step: str, crash: CrashHook) -> None:
        """Hit a crash point for each record that the sync covers, in order."""
        for name in self._unsynced:
            crash(step, name)

    def roll(self, room: int = 0) -> None:
        """Begin a new segment with at least `room` bytes for records. What was written is made durable first."""
        self.sync()
        number = self._segments[-1][0] + 1 if self._segments else 1
        checkpoint = Checkpoint(
            number=number,
            size=max(self._segment_bytes, log_record.end_of(CHECKPOINT_BYTES, room) + SEAL_ROOM),
            previous_end=self._offset,
            accepted_epoch=self.state.accepted_epoch,
            current_epoch=self.state.current_epoch,
            last=self.state.outline.last,
            amnesiac=self.state.amnesiac,
        )
        file = segment.create(self._disk, checkpoint, self.crash)
        self.seal_newest()
        self.close()
        self._file = file
        self._segments.append((number, checkpoint.last))
        self._enter(number)
        self._size, self._offset, self._batch = checkpoint.size, CHECKPOINT_BYTES, 1

    def seal_newest(self) -> None:
        """Seal the newest segment, if there is one: the next one has just been created."""
        if self._file is not None:
            segment.seal(self._file, self._segments[-1][0], self._size, self.crash)

    def purge(self, snapshot: Zxid) -> None:
        """Remove the segments that a durable snapshot makes superfluous: all before the newest one that begins at or below
        it.

        The oldest is removed first, each one durably, so that no crash leaves a gap in the numbers.
        """
        while len(self._segments) > 1 and any(last <= snapshot for _, last in self._segments[1:]):
            name = segment_name(self._segments[0][0])
            with disk_operation(f"removing {name}"):
                remove_durably(self._disk, [name], step_hook(self.crash, "SEGMENT"))
            del self._segments[0]

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
