"""A power cut in the middle of a batch: each of its sectors or pages was either written or not.

That is not damage; a flipped bit is.
"""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from random import Random

import pytest

from tests.unit.node.store.shelf import Legal, Model, files, keep, lay_out, prefixes, recover, told, txns
from zab_chaos.node.core.ready import EpochRecord, NewLeaderRecord, Record, TruncRecord
from zab_chaos.node.core.zxid import Zxid, zxid
from zab_chaos.node.store import log_record
from zab_chaos.node.store.disk import OrdinaryDisk
from zab_chaos.node.store.disk_faults import PAGE
from zab_chaos.node.store.errors import CorruptLog
from zab_chaos.node.store.log_record import SECTOR
from zab_chaos.node.store.recovery import Recovery
from zab_chaos.node.store.segment import CHECKPOINT_BYTES
from zab_chaos.node.store.store import Store

NAME = "log-00000001"


class Torn:
    """A segment before and after a batch was written, and what recovery may find if only a part of the batch was written."""

    def __init__(self, folder: Path, start: int, batch: list[Record], segment: int) -> None:
        store, _, _ = Store.open(OrdinaryDisk(folder), bootstrap=True, segment_bytes=segment)
        model = Model()
        fill = start - CHECKPOINT_BYTES
        length = next(
            n for n in range(fill) if log_record.end_of(CHECKPOINT_BYTES, n + log_record.OVERHEAD_BYTES) == start
        )
        keep(store, model, txns(zxid(1, 1), b"f" * length))
        self.before = (folder / NAME).read_bytes()
        self.legal = prefixes(model, batch)
        keep(store, model, *batch)
        store.close()
        self.after = (folder / NAME).read_bytes()
        self.start = start
        self.end = len(self.after.rstrip(b"\0"))

    def units(self, size: int) -> range:
        return range(self.start // size, -(-self.end // size))

    def with_only(self, kept: set[int], size: int) -> bytes:
        """Return the disk on which only these units of the batch were written."""
        image = bytearray(self.before)
        for unit in kept:
            image[unit * size : (unit + 1) * size] = self.after[unit * size : (unit + 1) * size]
        return bytes(image)

    def subsets(self, size: int) -> Iterator[set[int]]:
        units = self.units(size)
        for choice in product((False, True), repeat=len(units)):
            yield {unit for unit, chosen in zip(units, choice, strict=True) if chosen}


class Dump:
    """A read-only disk."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def list(self) -> list[str]:
        return [NAME]

    def read(self, name: str) -> bytes:
        return self.content


def read(content: bytes) -> Legal:
    return told(Recovery(Dump(content)).run().recovered)  # type: ignore[arg-type]


def records(*sizes: int) -> list[Record]:
    random = Random(sum(sizes))
    return [txns(zxid(1, 2), *(random.randbytes(size) for size in sizes))]


def starts(*offsets: int) -> list[int]:
    """Return offsets for a batch. No record ends with the last byte of a sector, which is the next record's."""
    return [1024 + offset for offset in offsets if (1024 + offset) % SECTOR]


GROUP: list[Record] = [EpochRecord(2), TruncRecord(Zxid(0)), *records(600, 16), NewLeaderRecord(2), EpochRecord(3)]


@pytest.mark.slow
def test_small_records_at_every_offset(tmp_path: Path) -> None:
    for start in starts(*range(SECTOR)):
        torn = Torn(tmp_path / str(start), start, records(16, 0, 1, 16), 4096)
        for kept in torn.subsets(SECTOR):
            assert read(torn.with_only(kept, SECTOR)) in torn.legal


@pytest.mark.parametrize("batch", [records(1024, 1024), records(0, 1500, 16), records(484, 485, 486, 511), GROUP])
@pytest.mark.parametrize("start", starts(1, 25, 26, 27, 240, 483, 484, 485, 486, 509, 510, 511))
def test_every_subset_of_sectors(start: int, batch: list[Record], tmp_path: Path) -> None:
    torn = Torn(tmp_path, start, batch, 8192)
    seen = []
    for kept in torn.subsets(SECTOR):
        seen.append(read(torn.with_only(kept, SECTOR)))
        assert seen[-1] in torn.legal
    assert (seen[0], seen[-1]) == (torn.legal[0], torn.legal[-1])


@pytest.mark.slow
@pytest.mark.parametrize(
    "batch", [records(*[1024] * 20), records(*[16] * 500), records(9000, 0, 9000), records(24_000)]
)
@pytest.mark.parametrize("start", starts(1, 511, 2000, 3070, 3071))
def test_every_subset_of_pages(start: int, batch: list[Record], tmp_path: Path) -> None:
    torn = Torn(tmp_path, start, batch, 2**16)
    for kept in torn.subsets(PAGE):
        assert read(torn.with_only(kept, PAGE)) in torn.legal


@pytest.mark.parametrize("size", [SECTOR, PAGE])
def test_a_large_record_that_is_mostly_zeros(size: int, tmp_path: Path) -> None:
    """A written piece of zeros is distinguishable from an unwritten one: it ends with a nonzero byte."""
    payload = bytearray(100_000)
    payload[5000:5010] = b"not zeros!"
    torn = Torn(tmp_path, 1500, [txns(zxid(1, 2), bytes(payload), b"behind")], 2**17)
    random = Random(1)
    units = torn.units(size)
    for lost in units:
        assert read(torn.with_only(set(units) - {lost}, size)) in torn.legal[:-1]
    for _ in range(50):
        assert read(torn.with_only({unit for unit in units if random.random() < 0.5}, size)) in torn.legal
    for _ in range(300):
        assert refused(flip(torn.after, random.randrange(torn.start, torn.end), 1 << random.randrange(8)))


def flip(data: bytes, place: int, mask: int) -> bytes:
    return data[:place] + bytes([data[place] ^ mask]) + data[place + 1 :]


def refused(content: bytes) -> bool:
    try:
        read(content)
    except CorruptLog:
        return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize("bit", range(8))
def test_every_flipped_bit_of_every_record_is_refused(bit: int, tmp_path: Path) -> None:
    """The last batch is protected like the others, also if a record contains zeros."""
    batch = [EpochRecord(2), txns(zxid(1, 2), bytes(700), b"\0\1\0" * 20, b"x" * 485, b"")]
    torn = Torn(tmp_path, 1024 + 300, batch, 4096)
    for place in range(torn.end):
        assert refused(flip(torn.after, place, 1 << bit)), place


def test_a_missing_sector_of_an_earlier_batch_is_damage(tmp_path: Path) -> None:
    store, _, _ = Store.open(OrdinaryDisk(tmp_path), bootstrap=True, segment_bytes=8192)
    model = Model()
    keep(store, model, txns(zxid(1, 1), b"a" * 1500))
    keep(store, model, txns(zxid(1, 2), b"b" * 700, b"c" * 1500))
    store.close()
    data = files(tmp_path)[NAME]
    left = prefixes(Model(), [txns(zxid(1, 1), b"a" * 1500, b"b" * 700)])
    last = log_record.end_of(CHECKPOINT_BYTES, 1500 + log_record.OVERHEAD_BYTES)
    for sector in range(len(data.rstrip(b"\0")) // SECTOR + 1):
        start, end = sector * SECTOR, (sector + 1) * SECTOR
        holed = data[:start] + bytes(SECTOR) + data[end:]
        if start < last:
            assert refused(holed), sector
        else:
            assert read(holed) in left


def test_a_node_goes_on_after_a_torn_batch(tmp_path: Path) -> None:
    torn = Torn(tmp_path / "disk", 1500, records(*[1024] * 8), 2**14)
    units = torn.units(SECTOR)
    for lost in units[::3]:
        folder = lay_out(tmp_path / "copy", {NAME: torn.with_only(set(units) - {lost}, SECTOR)})
        store, recovered, report = Store.open(OrdinaryDisk(folder), bootstrap=False, segment_bytes=2**14)
        assert report.kind == "torn"
        found = told(recovered)
        assert found in torn.legal[:-1]
        keep(store, Model(), EpochRecord(77))
        store.close()
        assert recover(folder) == (77, *found[1:]), "what was cut off stays away"
