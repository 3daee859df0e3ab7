"""The layout of a batch of records: each record is laid out as it would be alone, and as in earlier versions."""

from hashlib import sha256
from zlib import crc32

import pytest

from zab_chaos.node.config import Limits
from zab_chaos.node.store import log_record
from zab_chaos.node.store.log_record import HEADER_BYTES, SECTOR, TXN, Item
from zab_chaos.node.store.segment import CHECKPOINT_BYTES

LENGTHS = (0, 1, 400, 483, 484, 485, 511, 512, 1024, 1500)  # some end at a sector's end, or just before or behind it


def item(zxid: int, length: int) -> Item:
    payload = bytes(i % 251 for i in range(length))
    return TXN, zxid, payload, crc32(payload)


def read(data: bytes, offset: int, salt: int) -> list[tuple[int, int, bytes, bool]]:
    """Return zxid, batch, payload and whether it is the last, of the records that begin at `offset`."""
    found = []
    while offset < len(data):
        header = log_record.header_at(data, offset, salt)
        assert header is not None, offset
        payload = log_record.bytes_at(data, offset, HEADER_BYTES + header.length)[HEADER_BYTES:]
        assert crc32(payload) == header.payload_crc
        found.append((header.argument, header.batch, payload, header.last))
        offset = log_record.end_of(offset, header.length + log_record.OVERHEAD_BYTES)
    assert offset == len(data)
    return found


@pytest.mark.parametrize("offset", [0, 1, 71, 481, 482, 483, 484, 510, 511, 513, 5 * SECTOR + 17])
def test_a_batch_is_read_back_record_by_record(offset: int) -> None:
    items = [item(2**32 + i, length) for i, length in enumerate(LENGTHS)]
    data, ends = log_record.encode(items, 3, 99, offset)
    expected = [(zxid, 3, payload, zxid == items[-1][1]) for _, zxid, payload, _ in items]
    assert read(bytes(offset) + data, offset, 99) == expected
    sizes = [len(payload) + log_record.OVERHEAD_BYTES for _, _, payload, _ in items]
    assert ends == [log_record.end_of(offset, sum(sizes[: i + 1])) - offset for i in range(len(items))]
    assert log_record.has_sector_ends(bytes(offset) + data, offset, offset + len(data))


@pytest.mark.parametrize("offset", range(SECTOR - 40, SECTOR + 2))
def test_a_record_in_a_batch_has_the_layout_of_a_single_one(offset: int) -> None:
    """This includes a record that begins at a sector end.

    That byte belongs to the record before, unless that one ended there.
    """
    items = [item(7, 100), item(8, 600), item(9, 5)]
    data, ends = log_record.encode(items, 1, 5, offset)
    alone, _ = log_record.encode(items[2:], 1, 5, offset + ends[1])
    assert data[ends[1] :] == alone


def test_the_layout_has_not_changed() -> None:
    data, _ = log_record.encode([item(2**32 + i, length) for i, length in enumerate(LENGTHS)], 3, 99, 1234)
    assert sha256(data).hexdigest()[:16] == "4da64fe28ccb92b0"


def test_a_segment_holds_the_log_between_two_snapshots() -> None:
    """With default limits and values of 1 KiB. Otherwise each snapshot would cost two segments and their zeros."""
    limits, txn = Limits(), 1024 + 40
    count = limits.snapshot_bytes // txn + limits.outstanding
    end = log_record.end_of(CHECKPOINT_BYTES, count * (txn + log_record.OVERHEAD_BYTES))
    assert end <= limits.segment_bytes
