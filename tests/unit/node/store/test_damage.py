"""Flipped bits and truncated files are either refused with file and offset, or have no effect."""

from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import pytest

from tests.unit.node.store.shelf import Legal, Model, a_life, born, files, freeze, keep, recover, told, txns
from zab_chaos.node.core.ready import EpochRecord, NewLeaderRecord, TruncRecord
from zab_chaos.node.core.zxid import zxid
from zab_chaos.node.store import log_record
from zab_chaos.node.store.disk import OrdinaryDisk
from zab_chaos.node.store.errors import Corrupt, CorruptLog, CorruptSnapshot
from zab_chaos.node.store.log_record import RecordKind
from zab_chaos.node.store.recovery import Recovery
from zab_chaos.node.store.segment import salt
from zab_chaos.node.store.store import Store


@pytest.fixture
def life(tmp_path: Path) -> tuple[Path, Model, dict[str, bytes]]:
    """A disk with a snapshot and several segments, the last of them not full."""
    store, model = born(tmp_path / "disk", segment_bytes=400), Model()
    a_life(store, model)
    keep(store, model, txns(zxid(2, 4), b"x" * 200))
    keep(store, model, txns(zxid(2, 5), b"Z" * 20, b"y"), EpochRecord(3))
    store.close()
    content = files(tmp_path / "disk")
    assert len(content) >= 4
    return tmp_path / "disk", model, content


class Dump:
    """A read-only disk, which is all that recovery needs: thousands of damaged ones are tested here."""

    def __init__(self, content: dict[str, bytes]) -> None:
        self.content = content

    def list(self) -> list[str]:
        return list(self.content)

    def read(self, name: str) -> bytes:
        return self.content[name]


def read(content: dict[str, bytes]) -> Legal:
    """Run recovery without opening the store."""
    return told(Recovery(Dump(content)).run().recovered)  # type: ignore[arg-type]


def damaged(whole: dict[str, bytes], name: str, content: bytes, legal: Legal) -> Corrupt | None:
    """Return the refusal, which must name the damaged file and an offset in it; None if nothing was lost."""
    try:
        found, refusal = read(whole | {name: content}), None
    except Corrupt as error:
        found, refusal = legal, error
    assert found == legal
    if refusal is not None:
        assert refusal.file == name
        assert 0 <= refusal.offset <= len(content)
        assert isinstance(refusal, CorruptSnapshot if name.startswith("snapshot") else CorruptLog)
    return refusal


def flips(data: bytes, mask: int) -> Iterator[bytes]:
    for place in range(len(data)):
        yield data[:place] + bytes([data[place] ^ mask]) + data[place + 1 :]


@pytest.mark.slow
@pytest.mark.parametrize("mask", [1 << bit for bit in range(8)] + [0xFF])
def test_every_flipped_bit_is_detected_or_harmless(mask: int, life: tuple[Path, Model, dict[str, bytes]]) -> None:
    _, model, content = life
    for name, data in content.items():
        outcomes = [damaged(content, name, flipped, model.legal()) for flipped in flips(data, mask)]
        written = len(data.rstrip(b"\0"))
        if name.startswith("snapshot"):
            assert all(outcomes)
        if name == max(content.keys() - {n for n in content if n.startswith("snapshot")}):
            assert all(outcomes[:written]), "the very last record is guarded like every other"
            assert not all(outcomes[written:]), "garbage behind it is cut off"


def test_a_node_goes_on_after_cutting_off_garbage(life: tuple[Path, Model, dict[str, bytes]]) -> None:
    folder, model, content = life
    name = max(n for n in content if n.startswith("log"))
    end = len(content[name].rstrip(b"\0"))
    (folder / name).write_bytes(content[name][: end + 30] + b"\x01" + content[name][end + 31 :])
    store, recovered, report = Store.open(OrdinaryDisk(folder), bootstrap=False, segment_bytes=400)
    assert told(recovered) == model.legal()
    assert (report.kind, report.torn_bytes, report.cut) == ("torn", 31, (name, end))
    keep(store, model, EpochRecord(9), txns(zxid(2, 7), b"on"))
    store.close()
    assert recover(folder) == model.legal()


def test_a_truncated_file_is_refused(life: tuple[Path, Model, dict[str, bytes]]) -> None:
    _, model, content = life
    for name, data in content.items():
        for size in range(len(data)):
            assert damaged(content, name, data[:size], model.legal()), f"{name} cut at {size}"


def test_a_longer_file_is_refused(life: tuple[Path, Model, dict[str, bytes]]) -> None:
    _, model, content = life
    for name, data in content.items():
        assert damaged(content, name, data + b"\0", model.legal())


def test_zeros_in_place_of_a_synced_record_are_refused(tmp_path: Path) -> None:
    """A power cut can't leave such a hole: a later sync came after it."""
    store, model = born(tmp_path, segment_bytes=2000), Model()
    places = [len(files(tmp_path)["log-00000001"].rstrip(b"\0"))]
    for counter in range(1, 12, 2):
        keep(store, model, txns(zxid(1, counter), b"x" * counter, b"Z"))
        places.append(len(files(tmp_path)["log-00000001"].rstrip(b"\0")))
    store.close()
    data = files(tmp_path)["log-00000001"]
    for start in range(places[0], places[-2]):
        for end in (start + 20, start + 60, places[-2]):
            holed = data[:start] + bytes(end - start) + data[end:]
            if start < end <= places[-2] and holed != data:
                assert damaged({}, "log-00000001", holed, model.legal()), f"zeros from {start} to {end}"


def test_a_hole_is_refused_wherever_the_batch_behind_it_begins(tmp_path: Path) -> None:
    """Also if the end of a sector is in the first header of that batch, which is its only one."""
    begins = set()
    for size in range(log_record.SECTOR // 2, log_record.SECTOR):
        store, model = born(tmp_path / f"{size}", segment_bytes=2000), Model()
        hole = len(files(tmp_path / f"{size}")["log-00000001"].rstrip(b"\0"))
        keep(store, model, txns(zxid(1, 1), b"x" * size + b"Z"))
        begin = len(files(tmp_path / f"{size}")["log-00000001"].rstrip(b"\0"))
        if log_record.SECTOR - log_record.HEADER_BYTES <= begin <= log_record.SECTOR:
            keep(store, model, txns(zxid(1, 2), b"Z"))
            begins.add(begin)
        store.close()
        if begin in begins:
            data = files(tmp_path / f"{size}")["log-00000001"]
            holed = data[:hole] + bytes(begin - hole) + data[begin:]
            assert damaged({}, "log-00000001", holed, model.legal()), f"the next batch begins at {begin}"
    assert len(begins) >= log_record.HEADER_BYTES


def test_records_are_valid_only_where_they_were_written(tmp_path: Path) -> None:
    """A transaction may contain a copy of a log, which must not look like records behind a torn record."""
    store, model = born(tmp_path, segment_bytes=1500), Model()
    keep(store, model, txns(zxid(1, 1), b"one"), EpochRecord(3))
    stolen = files(tmp_path)["log-00000001"].rstrip(b"\0")
    start = len(stolen)
    store.append(txns(zxid(1, 2), stolen))
    store.sync()
    store.close()
    data = files(tmp_path)["log-00000001"]
    for size in range(start, len(data.rstrip(b"\0"))):
        content = {"log-00000001": data[:size].ljust(len(data), b"\0")}
        assert read(content) == model.legal()


def test_a_damaged_newest_snapshot_is_refused(tmp_path: Path) -> None:
    """Exactly one snapshot is used: an older one does not replace a damaged newer one."""
    store, model = born(tmp_path), Model()
    keep(store, model, txns(zxid(1, 1), b"a", b"b"))
    store.take_snapshot(zxid(1, 1), 1, freeze(model.history[:1]))
    older = files(tmp_path)
    store.take_snapshot(zxid(1, 2), 2, freeze(model.history))
    store.close()
    newer = "snapshot-0000000100000002"
    content = older | {newer: files(tmp_path)[newer]}
    assert read(content) == model.legal()
    content[newer] = content[newer].replace(b"[", b"(", 1)
    with pytest.raises(CorruptSnapshot, match=newer):
        read(content)


def item(kind: int, argument: int, payload: bytes = b"") -> log_record.Item:
    return kind, argument, payload, crc32(payload)


NONSENSE = {
    "sync 3 where sync 4": ([item(RecordKind.EPOCH, 9)], 3),
    "kind 42": ([item(42, 9)], 4),
    "CHECKPOINT": ([item(RecordKind.CHECKPOINT, 9)], 4),
    "1:2 can't follow 1:2": ([item(RecordKind.TXN, zxid(1, 2), b"again")], 4),
    "EPOCH inside a group": (
        [item(RecordKind.TRUNC, zxid(1, 1)), item(RecordKind.EPOCH, 9), item(RecordKind.NEWLEADER, 9)],
        4,
    ),
}


@pytest.mark.parametrize("why", NONSENSE)
def test_an_intact_but_inconsistent_record_is_refused(why: str, tmp_path: Path) -> None:
    """Its bytes are intact, so a program wrote it wrongly. Recovery still must not make up a history."""
    store, model = born(tmp_path), Model()
    for record in (EpochRecord(1), txns(zxid(1, 1), b"a"), txns(zxid(1, 2), b"b")):
        keep(store, model, record)
    store.close()
    data = files(tmp_path)["log-00000001"]
    end = len(data.rstrip(b"\0"))
    items, batch = NONSENSE[why]
    forged = data[:end] + log_record.encode(items, batch, salt(1), end)[0]
    with pytest.raises(CorruptLog, match=why) as raised:
        read({"log-00000001": forged.ljust(len(data), b"\0")})
    assert end <= raised.value.offset < len(forged)


def test_a_truncation_below_the_snapshot_is_refused(tmp_path: Path) -> None:
    """Snapshots hold committed state, which nothing undoes: better no node than one that forgot."""
    store, model = born(tmp_path), Model()
    keep(store, model, txns(zxid(1, 1), b"a", b"b", b"c"))
    store.take_snapshot(zxid(1, 3), 1, freeze(model.history))
    keep(store, model, TruncRecord(zxid(1, 2)), NewLeaderRecord(2))
    store.close()
    with pytest.raises(CorruptSnapshot, match="snapshot-0000000100000002, offset 0: it is missing"):
        read(files(tmp_path))
