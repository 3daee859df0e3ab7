"""Reads one segment, and decides what a bad record means: the end, a torn tail, or damage.

Power that goes during a sync leaves, of that one batch, whole records, zeros, or a prefix with zeros behind it. All
that can be told apart from damage:

- all zeros where a header should be: nothing was written here. If valid records of the same batch lie behind, the
  disk had reordered the writes. If one of a later batch does, then this batch had been synced: damage.
- a header without its mark, or a record without its trailer, and only zeros behind: torn.
- anything else: damage. Garbage in the zeros behind the last record is cut off like a torn record.
"""

from collections.abc import Iterator
from zlib import crc32

from node.store import frame
from node.store.errors import CorruptLog
from node.store.frame import HEADER_BYTES, KINDS, MARK, TRAILER, Frame, Kind
from node.store.segment import CHECKPOINT_BYTES, Checkpoint, salt, segment_name


class SegmentReader:
    """One segment's bytes. Everything here raises CorruptLog, with the offset of the damage."""

    def __init__(self, number: int, data: bytes) -> None:
        self.number = number
        self.name = segment_name(number)
        self.data = data
        self.written = len(data.rstrip(b"\0"))  # only zeros from here on
        self._salt = salt(number)
        self.checkpoint = self._checkpoint()

    def _checkpoint(self) -> Checkpoint:
        found = self.record_at(0, 0)
        if found is None or found.kind != Kind.CHECKPOINT:
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

    def records(self, end: int | None) -> Iterator[Frame]:
        """The records behind the CHECKPOINT: up to `end` if the next segment says so, else to where the log was cut."""
        offset, batch = CHECKPOINT_BYTES, 1
        while end is None or offset < end:
            found = self.record_at(offset, batch)
            if found is None and end is None:
                return
            if found is None:
                raise CorruptLog(self.name, offset, f"zeros, but the next segment says that records reach {end}")
            yield found
            offset, batch = found.end, found.batch + found.last
        if offset != end:
            raise CorruptLog(self.name, offset, f"a record reaches beyond {end}, where the next segment says they end")

    def record_at(self, offset: int, batch: int) -> Frame | None:
        """The record at `offset`, which belongs to `batch`; None if the log ends, or is to be cut, here."""
        head = self.data[offset : offset + HEADER_BYTES]
        if not head.strip(b"\0"):
            self._check_hole(offset, batch)
            return None
        if len(head) < HEADER_BYTES or head[-1] == 0:
            self._check_torn(offset, offset + len(head))
            return None
        header = frame.header_at(self.data, offset, self._salt)
        if header is None:
            raise CorruptLog(self.name, offset, "the record's header is damaged")
        if header.kind not in KINDS:
            raise CorruptLog(self.name, offset, f"a record of kind {header.kind}, which this program does not know")
        if header.batch != batch:
            raise CorruptLog(self.name, offset, f"a record of sync {header.batch} where sync {batch} wrote")
        start = offset + HEADER_BYTES
        end = start + header.length + 1
        payload = self.data[start : end - 1]
        found = Frame(header.kind, header.last, batch, header.argument, payload, offset, end)
        if end > len(self.data):
            raise CorruptLog(self.name, offset, "the record reaches beyond the end of the file")
        if self.data[end - 1] == 0:
            return self.unfinished(found)
        if self.data[end - 1] != TRAILER or crc32(payload) != header.payload_crc:
            raise CorruptLog(self.name, offset, f"the {header.length} bytes of the record are damaged")
        return found

    def unfinished(self, found: Frame) -> Frame | None:
        """A record whose header is whole and whose end never reached the disk: it is torn, and never read."""
        self._check_torn(found.offset, found.end)
        return None

    def _check_torn(self, offset: int, end: int) -> None:
        if self.written > end:
            why = f"the record is incomplete, yet there are bytes behind it, up to {self.written}"
            raise CorruptLog(self.name, offset, why)

    def _check_hole(self, offset: int, batch: int) -> None:
        """A batch is written only after the one before it was synced, so what lies behind must be of the same one."""
        mark = self.data.find(MARK, offset + HEADER_BYTES - 1, self.written)
        while mark != -1:
            start = mark - HEADER_BYTES + 1
            header = frame.header_at(self.data, start, self._salt)
            if header is not None and header.batch != batch:
                why = (
                    f"zeros where sync {batch} wrote, although a record of sync {header.batch} lies behind, at {start}"
                )
                raise CorruptLog(self.name, offset, why)
            mark = self.data.find(MARK, mark + 1, self.written)
