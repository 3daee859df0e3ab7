"""How one log record lies in a segment, so that any single flipped bit is either noticed or without effect.

    header   kind u8 (its top bit: last record of its batch), payload length u32, batch u32, argument u64,
             CRC-32 of the payload u32, CRC-32 of the header so far u32, MARK u8
    payload  `length` bytes
    trailer  TRAILER u8

A batch is what one sync makes durable. The header's CRC starts from the record's place (segment and offset),
so bytes that look like a record are one only where they were written.

MARK and TRAILER are the last bytes of header and record. Power that goes in the middle of a write leaves zeros there,
while no single flipped bit can turn them into zero: that is how a torn record and a damaged one are told apart.
"""

from enum import IntEnum
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from node.core.digest import txn_digest
from node.core.ready import (
    EpochRecord,
    MemberRecord,
    NewLeaderRecord,
    Record,
    SnapRecord,
    TruncRecord,
    TxnRecords,
)
from node.core.zxid import Zxid


class Kind(IntEnum):
    """What a record is; see `node.core.ready` for what each means."""

    CHECKPOINT = 1
    EPOCH = 2
    TXN = 3
    TRUNC = 4
    SNAP = 5
    NEWLEADER = 6
    MEMBER = 7


KINDS = frozenset(Kind)
LAST = 0x80  # in the kind: a batch's last record

MARK = 0x5A
TRAILER = 0xA5
_TRAILER = bytes([TRAILER])
_HEAD = Struct("<BIIQI")
_SEAL = Struct("<IB")
_FULL = Struct("<BIIQIIB")
HEADER_BYTES = _FULL.size
OVERHEAD_BYTES = HEADER_BYTES + 1
DIGEST = Struct("<Q")  # SNAP's payload: the running digest at its zxid

_TXN = Kind.TXN

Item = tuple[int, int, bytes, int]  # kind, argument, payload, the payload's CRC-32


class Header(NamedTuple):
    """A record's header whose checksum is right."""

    kind: int
    last: bool  # of its batch
    length: int
    batch: int
    argument: int
    payload_crc: int


class Frame(NamedTuple):
    """A record as it was read, from `offset` up to `end`."""

    kind: int
    last: bool
    batch: int
    argument: int
    payload: bytes
    offset: int
    end: int


def items(records: list[Record]) -> list[Item]:
    """What the log stores for these records, a TXN for each transaction."""
    found: list[Item] = []
    for record in records:
        if isinstance(record, TxnRecords):
            for zxid, txn in enumerate(record.txns, record.first):
                found.append((_TXN, zxid, txn, crc32(txn)))
        else:
            found.append(_item(record))
    return found


def _item(record: EpochRecord | TruncRecord | SnapRecord | NewLeaderRecord | MemberRecord) -> Item:
    match record:
        case EpochRecord(epoch):
            return Kind.EPOCH, epoch, b"", 0
        case TruncRecord(keep):
            return Kind.TRUNC, keep, b"", 0
        case SnapRecord(zxid, digest):
            payload = DIGEST.pack(digest)
            return Kind.SNAP, zxid, payload, crc32(payload)
        case NewLeaderRecord(epoch):
            return Kind.NEWLEADER, epoch, b"", 0
        case MemberRecord():
            return Kind.MEMBER, 0, b"", 0


def record_of(frame: Frame) -> Record:
    """The other way round. A SNAP's state is not in the log. Raises ValueError for a CHECKPOINT."""
    argument = frame.argument
    match frame.kind:
        case Kind.EPOCH:
            return EpochRecord(argument)
        case Kind.TXN:
            return TxnRecords(Zxid(argument), [frame.payload], [txn_digest(frame.payload)])
        case Kind.TRUNC:
            return TruncRecord(Zxid(argument))
        case Kind.SNAP:
            return SnapRecord(Zxid(argument), DIGEST.unpack(frame.payload)[0], b"")
        case Kind.NEWLEADER:
            return NewLeaderRecord(argument)
        case Kind.MEMBER:
            return MemberRecord()
    raise ValueError(f"a {Kind(frame.kind).name} has no place among the records")


def size(batch_items: list[Item]) -> int:
    """Bytes that these take in a segment."""
    return sum([len(item[2]) for item in batch_items]) + OVERHEAD_BYTES * len(batch_items)


def encode(batch_items: list[Item], batch: int, salt: int, offset: int) -> list[bytes]:
    """One batch's frames, to be written at `offset` one behind the other. `salt` names the segment."""
    frames = []
    pack, seal = _HEAD.pack, _SEAL.pack
    left = len(batch_items)
    for kind, argument, payload, crc in batch_items:
        left -= 1
        head = pack(kind if left else kind | LAST, len(payload), batch, argument, crc)
        frame = head + seal(crc32(head, salt + offset), MARK) + payload + _TRAILER
        frames.append(frame)
        offset += len(frame)
    return frames


def header_at(data: bytes, offset: int, salt: int) -> Header | None:
    """The header that was written at `offset`, or None if what lies there is none."""
    if offset + HEADER_BYTES > len(data):
        return None
    kind, length, batch, argument, payload_crc, crc, mark = _FULL.unpack_from(data, offset)
    if mark != MARK or crc != crc32(data[offset : offset + _HEAD.size], salt + offset):
        return None
    return Header(kind & ~LAST, bool(kind & LAST), length, batch, argument, payload_crc)
