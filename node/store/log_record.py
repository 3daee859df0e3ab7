"""The bytes of one log record in a segment. Any single flipped bit is either detected or has no effect.

    header   kind u8 (its top bit: last record of its batch), payload length u32, batch u32, argument u64,
             CRC-32 of the payload u32, CRC-32 of the header so far u32, MARK u8
    payload  `length` bytes
    trailer  TRAILER u8

A batch is what one sync makes durable. The header's CRC starts from the record's place (segment and offset), so bytes that
look like a record are one only where they were written.

The last byte of every 512-byte sector of the file is no part of any record's fields: a record that extends beyond it puts
SECTOR_END there. So each piece of a record, one in each sector, ends with a nonzero byte: SECTOR_END or TRAILER. A power
cut in the middle of a sync leaves zeros there if the sector (or its page) was not written, and no single flipped bit turns
such a byte into zero. That is how `reader` tells a torn record from a damaged one. MARK does the same for a header whose
length can't be trusted.
"""

from collections.abc import Iterator
from enum import IntEnum
from struct import Struct

import msgspec
from zlib_ng.zlib_ng import crc32

from zab_chaos.node.core.ready import (
    EpochRecord,
    MemberRecord,
    NewLeaderRecord,
    Record,
    SnapRecord,
    TruncRecord,
    TxnRecords,
)
from zab_chaos.node.core.zxid import Zxid


class RecordKind(IntEnum):
    """The kind of a record; see `zab_chaos.node.core.ready` for what most of them mean.

    CHECKPOINT begins a segment, and SEAL says that the log goes on in the next one; see `segment`.
    """

    CHECKPOINT = 1
    EPOCH = 2
    TXN = 3
    TRUNC = 4
    SNAP = 5
    NEWLEADER = 6
    MEMBER = 7
    SEAL = 8


KINDS = frozenset(RecordKind)
LAST = 0x80  # flag in the kind: the last record of its batch

SECTOR = 512  # bytes; no disk writes less at once, and pages are whole sectors
SECTOR_END = 0x3C
MARK = 0x5A
TRAILER = 0xA5
_SECTOR_END = bytes([SECTOR_END])
_TRAILER = bytes([TRAILER])
_HEAD = Struct("<BIIQI")
_SEAL = Struct("<IB")
_FULL = Struct("<BIIQIIB")
HEADER_BYTES = _FULL.size
OVERHEAD_BYTES = HEADER_BYTES + 1
DIGEST = Struct("<Q")  # SNAP's payload: the running digest at its zxid

TXN = int(RecordKind.TXN)  # an int, because comparing with the enumeration is slow

Item = tuple[int, int, bytes, int]  # kind, argument, payload, the payload's CRC-32
Other = EpochRecord | TruncRecord | SnapRecord | NewLeaderRecord | MemberRecord  # all records but transactions


class RecordHeader(msgspec.Struct, frozen=True, gc=False):
    """The header of a record, with a correct checksum."""

    kind: int
    last: bool  # whether it is the last record of its batch
    length: int
    batch: int
    argument: int
    payload_crc: int


class StoredRecord(msgspec.Struct, frozen=True, gc=False):
    """A record that was read, from `offset` up to `end`."""

    kind: int
    last: bool
    batch: int
    argument: int
    payload: bytes
    offset: int
    end: int


def items(records: list[Record]) -> list[Item]:
    """Return what the log stores for these records, one TXN for each transaction."""
    found: list[Item] = []
    for record in records:
        if isinstance(record, TxnRecords):
            zxid: int = record.first
            for txn in record.txns:
                found.append((TXN, zxid, txn, crc32(txn)))
                zxid += 1
        else:
            found.append(_item(record))
    return found


def _item(record: Other) -> Item:
    match record:
        case EpochRecord(epoch):
            return RecordKind.EPOCH, epoch, b"", 0
        case TruncRecord(keep):
            return RecordKind.TRUNC, keep, b"", 0
        case SnapRecord(zxid, digest):
            payload = DIGEST.pack(digest)
            return RecordKind.SNAP, zxid, payload, crc32(payload)
        case NewLeaderRecord(epoch):
            return RecordKind.NEWLEADER, epoch, b"", 0
        case MemberRecord():
            return RecordKind.MEMBER, 0, b"", 0


def record_of(stored: StoredRecord) -> Other:
    """Return the record of a stored record that is no TXN.

    A SNAP's state is not in the log. Raises ValueError for a CHECKPOINT or SEAL.
    """
    argument = stored.argument
    match stored.kind:
        case RecordKind.EPOCH:
            return EpochRecord(argument)
        case RecordKind.TRUNC:
            return TruncRecord(Zxid(argument))
        case RecordKind.SNAP:
            return SnapRecord(Zxid(argument), DIGEST.unpack(stored.payload)[0], b"")
        case RecordKind.NEWLEADER:
            return NewLeaderRecord(argument)
        case RecordKind.MEMBER:
            return MemberRecord()
    raise ValueError(f"a {RecordKind(stored.kind).name} has no place among the records")


def size(batch_items: list[Item]) -> int:
    """Return the size of these records in bytes, without sector ends; see `end_of`."""
    return sum([len(item[2]) for item in batch_items]) + OVERHEAD_BYTES * len(batch_items)


def end_of(offset: int, length: int) -> int:
    """Return the offset where `length` bytes of records that begin at `offset` end, with sector ends."""
    room = SECTOR - 1 - offset % SECTOR
    ends = 0 if length <= room else 1 + (length - room - 1) // (SECTOR - 1)
    return offset + length + ends


def encode(batch_items: list[Item], batch: int, salt: int, offset: int) -> tuple[bytes, list[int]]:
    """Return the bytes of one batch that is written at `offset`, and where in them each record ends.

    `salt` names the segment.
    """
    pieces: list[bytes] = []
    ends: list[int] = []
    room = SECTOR - 1 - offset % SECTOR
    length = end = 0  # size of the records so far, without and with sector ends
    left = len(batch_items)
    for kind, argument, payload, crc in batch_items:
        left -= 1  # how many follow
        head = _HEAD.pack(kind if left else kind | LAST, len(payload), batch, argument, crc)
        pieces += head, _SEAL.pack(crc32(head, salt + offset + end), MARK), payload, _TRAILER
        if left:
            length += OVERHEAD_BYTES + len(payload)
            end = length + (length - room - 1) // (SECTOR - 1) + 1  # as `end_of`
            ends.append(end)
    data = _with_sector_ends(b"".join(pieces), room)
    ends.append(len(data))
    return data, ends


def _with_sector_ends(records: bytes, room: int) -> bytes:
    """Return the records' bytes with sector ends; `room`: bytes up to the first one."""
    if len(records) <= room:
        return records
    if len(records) < room + SECTOR:  # there is one, in most batches under a light load
        return records[:room] + _SECTOR_END + records[room:]
    whole, rest = divmod(len(records) - room, SECTOR - 1)
    sectors = f"{SECTOR - 1}s" * whole + (f"{rest}s" if rest else "")
    return _SECTOR_END.join(Struct(f"{room}s{sectors}").unpack(records))  # twice as fast as slices


def bytes_at(data: bytes, offset: int, length: int) -> bytes:
    """Return `length` bytes of a record from `offset` on, without sector ends; fewer if the data ends before."""
    room = SECTOR - 1 - offset % SECTOR
    if length <= room:
        return data[offset : offset + length]
    raw = data[offset : end_of(offset, length)]
    return b"".join([raw[:room], *[raw[i : i + SECTOR - 1] for i in range(room + 1, len(raw), SECTOR)]])


def without_sector_ends(data: bytes) -> bytes:
    """Return a segment's records from its beginning on, without sector ends.

    The byte at `offset` of the segment is at `offset - offset // SECTOR` of the result.
    """
    return b"".join([data[i : i + SECTOR - 1] for i in range(0, len(data), SECTOR)])


def has_sector_ends(data: bytes, offset: int, end: int) -> bool:
    """Return whether all sector ends between `offset` and `end` are correct."""
    ends = data[offset | SECTOR - 1 : end : SECTOR]
    return ends == _SECTOR_END * len(ends)


def pieces(data: bytes, offset: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield the data between `offset` and `end`, cut at the sector ends: the end of each piece, and the piece."""
    for start in (offset, *range((offset // SECTOR + 1) * SECTOR, end, SECTOR)):
        stop = min((start // SECTOR + 1) * SECTOR, end)
        yield stop, data[start:stop]


def header_at(data: bytes, offset: int, salt: int) -> RecordHeader | None:
    """Return the header that was written at `offset`, or None if there is no valid one."""
    return read_header(bytes_at(data, offset, HEADER_BYTES), 0, salt + offset)


def read_header(records: bytes, start: int, seed: int) -> RecordHeader | None:
    """Return the header at `start`, or None if there is no valid one.

    `records` has no sector ends. `seed` starts the header's CRC: salt plus offset.
    """
    if start + HEADER_BYTES > len(records):
        return None
    kind, length, batch, argument, payload_crc, crc, mark = _FULL.unpack_from(records, start)
    if mark != MARK or crc != crc32(records[start : start + _HEAD.size], seed):
        return None
    return RecordHeader(kind & ~LAST, bool(kind & LAST), length, batch, argument, payload_crc)
