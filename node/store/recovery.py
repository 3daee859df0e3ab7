"""Reads what a disk holds: the newest snapshot on the log's path, then the log above it.

Recovery only reads. Damage is refused before anything on the disk is changed. What has to be removed or cut off is left to
the store (see `DiskContents`). Only bytes at the end of the newest segment that no completed sync covered are given up: a
torn record, and a group (TRUNC or SNAP) without its NEWLEADER. So history and current epoch change together or not at all
(ZOOKEEPER-3911, 4643, 4785).
"""

from dataclasses import dataclass, field
from typing import Literal

from zab_chaos.node.core import zxid as zx
from zab_chaos.node.core.digest import Algorithm
from zab_chaos.node.core.ready import Recovered
from zab_chaos.node.core.zxid import ZERO, Zxid
from zab_chaos.node.store import log_record
from zab_chaos.node.store.disk import Disk
from zab_chaos.node.store.errors import CorruptLog, CorruptSnapshot, disk_operation
from zab_chaos.node.store.log_record import TXN, StoredRecord
from zab_chaos.node.store.reader import SegmentReader
from zab_chaos.node.store.segment import CHECKPOINT_BYTES, TEMPORARY, Checkpoint, Unsealed, segment_name, segment_number
from zab_chaos.node.store.snapshot import read_snapshot, snapshot_name, snapshot_zxid
from zab_chaos.node.store.state import LogState

RecoveryKind = Literal["fresh", "recovered", "torn", "amnesiac"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryReport:
    """What recovery found, for the boot event. Sizes are bytes."""

    kind: RecoveryKind  # torn: an incomplete tail was cut off; amnesiac: the node lost its disk before, whatever else holds
    last_zxid: Zxid = ZERO
    snapshot_zxid: Zxid = ZERO
    torn_bytes: int = 0  # written bytes that were cut off
    records: int = 0  # number of records read from the log
    bytes: int = 0  # size of the records and the snapshot
    cut: tuple[str, int] | None = None  # file and offset where the log was cut off


@dataclass(slots=True, kw_only=True)
class DiskContents:
    """The contents of a disk, and where the log continues."""

    state: LogState
    recovered: Recovered
    report: RecoveryReport
    segments: list[tuple[int, Zxid]]  # number and the last zxid before it, ascending
    size: int  # size of the newest segment's file
    good: bytes  # its content up to the end of the last good record
    batch: int  # number of the next batch in it
    unsealed: Unsealed | None  # the segment before the newest, if there is one
    must_roll: bool  # the segment can't be continued: something behind `good` was cut off
    superfluous: list[str]  # files that nothing depends on: orphans, older snapshots, temporary files


@dataclass(slots=True)
class _Replay:
    """The log that was read so far."""

    state: LogState
    txns: dict[int, bytes] = field(default_factory=dict)  # by zxid
    records: int = 0
    bytes: int = 0


class Recovery:
    """Reads one disk. Raises CorruptLog, CorruptSnapshot, or DiskFailed if the disk can't be read.

    `digest`: the algorithm that the disk must have been written with, or None. `run` raises DigestMismatch if a snapshot
    was written with another one.
    """

    reader = SegmentReader

    def __init__(self, disk: Disk, digest: Algorithm | None = None) -> None:
        self.disk = disk
        self.digest = digest
        with disk_operation("listing the folder"):
            self.names = disk.list()
        self.numbers = sorted(n for name in self.names if (n := segment_number(name)) is not None)
        self.snapshots = sorted(z for name in self.names if (z := snapshot_zxid(name)) is not None)

    def is_empty(self) -> bool:
        """Return whether this node was never started on this disk.

        Temporary files do not count: nothing durable needs them.
        """
        if self.snapshots and not self.numbers:
            raise CorruptLog(segment_name(1), 0, "there is no log at all, although there are snapshots")
        return not self.numbers

    def run(self) -> DiskContents:
        """Read everything. The disk must not be empty."""
        self.check_numbers()
        replay, segments, unsealed = None, [], None
        reader = self.open_segment(self.numbers[0])
        for number in self.numbers[1:]:
            following = self.open_segment(number)
            replay = self.check_checkpoint(reader, replay)
            segments.append((reader.number, reader.checkpoint.last))
            end = following.checkpoint.previous_end
            self.replay_earlier(reader, end, replay)
            unsealed = Unsealed(reader.number, reader.checkpoint.size, end)
            reader = following
        replay = self.check_checkpoint(reader, replay)
        segments.append((reader.number, reader.checkpoint.last))
        return self.replay_newest(reader, replay, segments, unsealed)

    def superfluous(self, chosen: Zxid | None) -> list[str]:
        """Return the files that are left over from interrupted work."""
        temporary = [name for name in self.names if self.is_temporary(name)]
        return temporary + [snapshot_name(zxid) for zxid in self.snapshots if zxid != chosen]

    @staticmethod
    def is_temporary(name: str) -> bool:
        stem = name.removesuffix(TEMPORARY)
        return stem != name and (segment_number(stem) is not None or snapshot_zxid(stem) is not None)

    # ---- the log ----

    def check_numbers(self) -> None:
        for expected, number in enumerate(self.numbers, self.numbers[0]):
            if number != expected:
                raise CorruptLog(segment_name(expected), 0, f"the segment is missing, although {number} is there")

    def open_segment(self, number: int) -> SegmentReader:
        with disk_operation(f"reading {segment_name(number)}"):
            data = self.disk.read(segment_name(number))
        return self.reader(number, data)

    def check_checkpoint(self, reader: SegmentReader, replay: _Replay | None) -> _Replay:
        """Begin with the state of the first segment's CHECKPOINT; check a later one against what was read so far."""
        said = _state_of(reader.checkpoint)
        if replay is None:
            return _Replay(said)
        if said.summary() != replay.state.summary():
            raise CorruptLog(reader.name, 0, "the CHECKPOINT does not agree with the segments before it")
        return replay

    def replay_earlier(self, reader: SegmentReader, end: int, replay: _Replay) -> None:
        """Replay an earlier segment. It was durable before the next one was created, so nothing may be missing."""
        records = list(reader.records(end))
        if (opening := self.open_group(reader, records)) is not None:
            raise CorruptLog(reader.name, records[opening].offset, "a group begins here that is never closed")
        self.apply(reader, records, replay)

    def replay_newest(
        self, reader: SegmentReader, replay: _Replay, segments: list[tuple[int, Zxid]], unsealed: Unsealed | None
    ) -> DiskContents:
        """Replay the newest segment, in which the power may have been cut."""
        records = list(reader.records(None))
        if (opening := self.open_group(reader, records)) is not None:
            del records[opening:]
        self.apply(reader, records, replay)
        end = records[-1].end if records else CHECKPOINT_BYTES
        torn = max(0, reader.written - end)
        snapshot, recovered = self.recover(replay)
        return DiskContents(
            state=replay.state,
            recovered=recovered,
            report=RecoveryReport(
                kind="amnesiac" if replay.state.amnesiac else "torn" if torn else "recovered",
                last_zxid=replay.state.outline.last,
                snapshot_zxid=snapshot or ZERO,
                torn_bytes=torn,
                records=replay.records,
                bytes=replay.bytes,
                cut=(reader.name, end) if torn else None,
            ),
            segments=segments,
            size=reader.checkpoint.size,
            good=reader.data[:end],
            batch=records[-1].batch + 1 if records else 1,
            unsealed=unsealed,
            must_roll=torn > 0 or (bool(records) and not records[-1].last),
            superfluous=self.superfluous(snapshot),
        )

    def open_group(self, reader: SegmentReader, records: list[StoredRecord]) -> int | None:
        """Return the index where a group begins that has no NEWLEADER, or None.

        Raises CorruptLog for a promise inside a group: there never is one.
        """
        opening = None
        for i, found in enumerate(records):
            if found.kind == TXN:
                continue
            if found.kind in (log_record.RecordKind.TRUNC, log_record.RecordKind.SNAP):
                opening = i if opening is None else opening
            elif found.kind == log_record.RecordKind.NEWLEADER:
                opening = None
            elif opening is not None:
                raise CorruptLog(reader.name, found.offset, f"{log_record.RecordKind(found.kind).name} inside a group")
        return opening

    def apply(self, reader: SegmentReader, records: list[StoredRecord], replay: _Replay) -> None:
        outline, txns = replay.state.outline, replay.txns
        for found in records:
            if found.kind == TXN:  # the core computes its digest when it takes over the history
                zxid, last = Zxid(found.argument), outline.last
                if zxid <= last:
                    why = f"transaction {zx.show(zxid)} can't follow {zx.show(last)}"
                    raise CorruptLog(reader.name, found.offset, why)
                txns[zxid] = found.payload
                outline.append(zxid, 1)
                continue
            try:
                replay.state.apply(log_record.record_of(found))
            except ValueError as error:
                raise CorruptLog(reader.name, found.offset, str(error)) from None
        if records:
            replay.records += len(records)
            replay.bytes += records[-1].end - records[0].offset

    # ---- snapshot and history ----

    def recover(self, replay: _Replay) -> tuple[Zxid | None, Recovered]:
        state = replay.state
        zxid = self.choose_snapshot(state)
        snapshot = None
        if zxid is not None:
            with disk_operation(f"reading {snapshot_name(zxid)}"):
                snapshot = read_snapshot(self.disk, zxid, self.digest)
            replay.bytes += len(snapshot[2])
        runs = [
            (first, [replay.txns[z] for z in range(first, last + 1)])
            for first, last in state.outline.above(zxid or ZERO)
        ]
        return zxid, Recovered(state.accepted_epoch, state.current_epoch, snapshot, runs, state.amnesiac)

    def choose_snapshot(self, state: LogState) -> Zxid | None:
        """Return the zxid of the newest snapshot on the log's path, or None.

        A snapshot beyond the log's path is an orphan: it belongs to a SNAP group that was never closed.
        """
        for zxid in reversed(self.snapshots):
            if zxid in state.outline:
                return zxid
        if state.outline.base != ZERO:
            why = f"it is missing, and the log no longer reaches below {zx.show(state.outline.base)}"
            raise CorruptSnapshot(snapshot_name(state.outline.base), 0, why)
        return None


def _state_of(checkpoint: Checkpoint) -> LogState:
    state = LogState(checkpoint.accepted_epoch, checkpoint.current_epoch, checkpoint.amnesiac)
    state.outline.start_from(checkpoint.last)
    return state
