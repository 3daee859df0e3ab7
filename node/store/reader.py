"""Reads one segment, and decides what a bad record means: the end of the log, a torn tail, or damage.

A batch is written only after the one before it was synced, so a power cut can tear only the last batch. The disk may then
hold any of its sectors (or pages) with zeros in place of the others, any of its records, or a prefix that is cut anywhere.
A bad record is therefore torn, and the log is cut off before it, only if both of these hold:

- A part of it was never written: one of its sectors holds only zeros of it, although it would end in a nonzero byte (see
  `log_record`), or the written bytes end inside the record.
- No record of a later batch follows: that would mean that this batch had been synced.

Anything else is damage. Records of the same batch behind a torn one are cut off too: nothing in the batch was promised.
Garbage in the zeros behind the last record is cut off like a torn record.

One case can't be distinguished: if the disk itself has turned a sector of the last synced batch into zeros (a latent sector
error, or a sync that lied), it looks as if the sector had never been written, and the batch is cut off from there on.
"""

from collections.abc import Iterator

from zlib_ng.zlib_ng import crc32

from zab_chaos.node.store import log_record
from zab_chaos.node.store.errors import CorruptLog
from zab_chaos.node.store.log_record import (
    HEADER_BYTES,
    KINDS,
    MARK,
    OVERHEAD_BYTES,
    SECTOR,
    TRAILER,
    RecordKind,
    StoredRecord,
)
from zab_chaos.node.store.segment import CHECKPOINT_BYTES, Checkpoint, salt, segment_name

_ZEROS = bytes(4096)


class SegmentReader:
    """The bytes of one segment. All methods raise CorruptLog with the offset of the damage."""

    def __init__(self, number: int, data: bytes) -> None:
        self.number = number
        self.name = segment_name(number)
        self.data = data
        written = without_zeros(data)
        self.written = len(written)  # only zeros from here on
        self._records = log_record.without_sector_ends(written)
        self._ends_right = log_record.has_sector_ends(data, 0, self.written)
        self._salt = salt(number)
        self.checkpoint = self._checkpoint()

    def _checkpoint(self) -> Checkpoint:
        found = self.record_at(0, 0)
        if found is None or found.kind != RecordKind.CHECKPOINT:
            raise CorruptLog(self.name, 0, "a segment begins with a CHECKPOINT, and this one does not")
        try:
            checkpoint = Checkpoint.read(found)
        except ValueError as error:
            raise CorruptLog(self.name, 0, str(error)) from None
        if checkpoint.number != self.number:
            raise CorruptLog(self.name, 0, f"this is segment {checkpoint.number}; the file was renamed")
        if checkpoint.size != len(self.data):
            why = f"{checkpoint.size} bytes were preallocated and the file has {len(self.data)}: it was cut"
            raise CorruptLog(self.name, min(len(self.data), checkpoint.size), why)
        return checkpoint

    def records(self, end: int | None) -> Iterator[StoredRecord]:
        """Yield the records behind the CHECKPOINT.

        They reach up to `end` if the next segment names it, else to where the log was cut off.
        """
        offset, batch = CHECKPOINT_BYTES, 1
        while end is None or offset < end:
            found = self.record_at(offset, batch)
            if found is None and end is None:
                return
            if found is None:
                raise CorruptLog(
                    self.name, offset, f"no whole record, but the next segment says that records reach {end}"
                )
            yield found
            offset, batch = found.end, found.batch + found.last
        if offset != end:
            raise CorruptLog(self.name, offset, f"a record reaches beyond {end}, where the next segment says they end")

    def record_at(self, offset: int, batch: int) -> StoredRecord | None:
        """Return the record of `batch` at `offset`, or None if the log ends, or is cut off, here."""
        if offset >= self.written:
            return None
        start = offset - offset // SECTOR
        header = log_record.read_header(self._records, start, self._salt + offset)
        if header is None:
            end = log_record.end_of(offset, HEADER_BYTES)
            self._check_torn(offset, end, batch, "the record's header is damaged")
            return None
        if header.kind == RecordKind.SEAL:
            missing = segment_name(header.argument)
            raise CorruptLog(missing, 0, f"the segment is missing: {self.name} says that the log goes on in it")
        if header.kind not in KINDS:
            raise CorruptLog(self.name, offset, f"a record of kind {header.kind}, which this program does not know")
        if header.batch != batch:
            raise CorruptLog(self.name, offset, f"a record of sync {header.batch} where sync {batch} wrote")
        end = log_record.end_of(offset, header.length + OVERHEAD_BYTES)
        if end > len(self.data):
            raise CorruptLog(self.name, offset, "the record reaches beyond the end of the file")
        start += HEADER_BYTES
        payload = self._records[start : start + header.length].ljust(header.length, b"\0")
        found = StoredRecord(header.kind, header.last, batch, header.argument, payload, offset, end)
        if self._is_whole(found, header.payload_crc):
            return found
        self._check_torn(offset, end, batch, f"the {header.length} bytes of the record are damaged")
        return self.torn_record(found)

    def torn_record(self, found: StoredRecord) -> StoredRecord | None:
        """Return None for a record whose header is intact and of which a part never reached the disk: it must not be read.

        A defect overrides this.
        """
        return None

    def _is_whole(self, found: StoredRecord, payload_crc: int) -> bool:
        return (
            self.data[found.end - 1] == TRAILER
            and crc32(found.payload) == payload_crc
            and (self._ends_right or log_record.has_sector_ends(self.data, found.offset, found.end))
        )

    def _check_torn(self, offset: int, end: int, batch: int, damage: str) -> None:
        """Raise CorruptLog unless a power cut can have left these bytes of `batch` between `offset` and `end`."""
        if not any(self._unwritten(stop, piece) for stop, piece in log_record.pieces(self.data, offset, end)):
            raise CorruptLog(self.name, offset, damage)
        self.check_no_later_batch(offset, batch)

    def _unwritten(self, end: int, piece: bytes) -> bool:
        """Return whether this piece of a record never reached the disk, or only in part and with nothing behind it."""
        return not piece.strip(b"\0") or (self.written < end and piece[-1] == 0)

    def check_no_later_batch(self, offset: int, batch: int) -> None:
        """Raise CorruptLog if a record of another batch follows.

        A batch is written only after the one before it was synced, so what follows must belong to the same batch.
        """
        mark = self.data.find(MARK, offset, self.written)
        while mark != -1:
            for start in (mark - HEADER_BYTES, mark - HEADER_BYTES + 1):  # a header with a sector end in it, or without
                header = log_record.header_at(self.data, start, self._salt) if start >= offset else None
                if header is not None and header.batch != batch:
                    behind = f"one of sync {header.batch} lies behind, at {start}"
                    raise CorruptLog(self.name, offset, f"the record of sync {batch} is incomplete, although {behind}")
            mark = self.data.find(MARK, mark + 1, self.written)


def without_zeros(data: bytes) -> bytes:
    """Return the data without the zeros at its end, which are nearly all of a segment. Blocks of zeros are skipped fast."""
    end = len(data)
    while data.endswith(_ZEROS, 0, end):
        end -= len(_ZEROS)
    return data[:end].rstrip(b"\0")
