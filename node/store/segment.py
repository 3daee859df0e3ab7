"""The log's files: `log-<number>`, preallocated, each beginning with a CHECKPOINT of everything before it.

A segment is written under a temporary name, synced and renamed, so a visible one has its CHECKPOINT. The CHECKPOINT makes
earlier segments removable, and names the offset at which the previous one ends. That cuts off whatever lies behind (a torn
tail, an unclosed group, garbage) for good, in one atomic step.

Then a SEAL is written where the previous segment ends. If the newest segment is lost, the SEAL before it tells so: without it
the log would end earlier, and the node would have forgotten what it promised. A SEAL is durable before anything but the
CHECKPOINT is written to the new segment; each start writes it again. It is no part of a batch.
"""

import re
from dataclasses import dataclass
from struct import Struct

from zlib_ng.zlib_ng import crc32

from zab_chaos.node.core.zxid import Zxid
from zab_chaos.node.store import log_record
from zab_chaos.node.store.crash_hooks import CrashHook, rename_durably, step_hook, write_durably
from zab_chaos.node.store.disk import Disk, DiskFile
from zab_chaos.node.store.errors import disk_operation

VERSION = 2  # of the format of log and CHECKPOINT
TEMPORARY = ".tmp"
_NAME = re.compile(r"log-(\d{8,})")
_PAYLOAD = Struct("<IQQQQQB")
CHECKPOINT_BYTES = log_record.OVERHEAD_BYTES + _PAYLOAD.size
SEAL_ROOM = log_record.OVERHEAD_BYTES + 1  # bytes that records leave free for the SEAL, which may need a sector end


def segment_name(number: int) -> str:
    return f"log-{number:08d}"


def segment_number(name: str) -> int | None:
    """Return the number of the segment with that name, or None if it is not a segment's name."""
    match = _NAME.fullmatch(name)
    return int(match[1]) if match and segment_name(int(match[1])) == name else None


def salt(number: int) -> int:
    """Return the value that distinguishes this segment's records from other segments'; see `log_record`."""
    return crc32(number.to_bytes(8, "little"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A segment's first record: facts about the segment, and the state that results from all earlier segments."""

    number: int
    size: int  # size of this file, preallocation included
    previous_end: int  # where the records of segment number - 1 end
    accepted_epoch: int
    current_epoch: int
    last: Zxid
    amnesiac: bool

    def item(self) -> log_record.Item:
        payload = _PAYLOAD.pack(
            VERSION,
            self.number,
            self.size,
            self.previous_end,
            self.accepted_epoch,
            self.current_epoch,
            self.amnesiac,
        )
        return log_record.RecordKind.CHECKPOINT, self.last, payload, crc32(payload)

    @classmethod
    def read(cls, found: log_record.StoredRecord) -> "Checkpoint":
        """Return the checkpoint in a record. Raises ValueError if its format is unknown."""
        if len(found.payload) != _PAYLOAD.size or _PAYLOAD.unpack(found.payload)[0] != VERSION:
            raise ValueError(f"the log is in a format this program does not know; it knows version {VERSION}")
        _, number, size, previous_end, accepted, current, amnesiac = _PAYLOAD.unpack(found.payload)
        return cls(
            number=number,
            size=size,
            previous_end=previous_end,
            accepted_epoch=accepted,
            current_epoch=current,
            last=Zxid(found.argument),
            amnesiac=bool(amnesiac),
        )


def create(disk: Disk, checkpoint: Checkpoint, crash: CrashHook | None) -> DiskFile:
    """Create a segment durably, and return it open behind its CHECKPOINT. Raises DiskFailed."""
    name = segment_name(checkpoint.number)
    data, ends = log_record.encode([checkpoint.item()], 0, salt(checkpoint.number), 0)
    point = step_hook(crash, "SEGMENT")
    with disk_operation(f"beginning {name}"):
        file = disk.create(name + TEMPORARY, checkpoint.size)
        write_durably(file, data, ends, point)
        rename_durably(disk, name + TEMPORARY, name, point)
    return file


@dataclass(frozen=True, slots=True)
class Unsealed:
    """A segment whose SEAL may not be durable: the process may have ended before it was, even if it can be read."""

    number: int
    size: int  # size of the file
    end: int  # where its records end


def seal(file: DiskFile, number: int, size: int, crash: CrashHook | None) -> None:
    """Say durably, behind the records of segment `number`, that the next segment exists. `size`: that of the file.

    A full segment that an older program wrote has no room for that, and stays without. Raises DiskFailed.
    """
    item = (log_record.RecordKind.SEAL, number + 1, b"", 0)
    data, ends = log_record.encode([item], 0, salt(number), file.size)
    if file.size + len(data) > size:
        return
    with disk_operation(f"sealing {segment_name(number)}"):
        write_durably(file, data, ends, step_hook(crash, "SEGMENT"))
