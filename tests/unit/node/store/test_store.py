"""A store without faults: synced data comes back, and the disk holds no more than it must."""

from pathlib import Path

import pytest

from tests.unit.node.store.shelf import (
    SEGMENT,
    Model,
    PowerGone,
    a_life,
    born,
    faithful,
    files,
    freeze,
    keep,
    lay_out,
    recover,
    snap,
    told,
    txns,
)
from zab_chaos.node.core.ready import (
    EpochRecord,
    MemberRecord,
    NewLeaderRecord,
    Record,
    TruncRecord,
    TxnRecords,
)
from zab_chaos.node.core.zxid import ZERO, zxid
from zab_chaos.node.store.disk import Disk, OrdinaryDisk
from zab_chaos.node.store.errors import CorruptLog, CorruptSnapshot
from zab_chaos.node.store.log_record import OVERHEAD_BYTES, StoredRecord
from zab_chaos.node.store.reader import SegmentReader, without_zeros
from zab_chaos.node.store.recovery import Recovery, RecoveryReport
from zab_chaos.node.store.segment import CHECKPOINT_BYTES
from zab_chaos.node.store.store import Store


def reopen(disk: Disk, bootstrap: bool = False) -> tuple[Store, RecoveryReport, object]:
    store, recovered, report = Store.open(disk, bootstrap=bootstrap, segment_bytes=SEGMENT)
    return store, report, told(recovered)


@pytest.mark.parametrize("make", [OrdinaryDisk, faithful])
def test_a_synced_life_is_recovered_completely(make: type, tmp_path: Path) -> None:
    model = Model()
    store, recovered, report = Store.open(make(tmp_path), bootstrap=True, segment_bytes=SEGMENT)
    assert (told(recovered), report) == (model.legal(), RecoveryReport(kind="fresh"))
    a_life(store, model)
    store.close()
    for _ in range(3):
        store, report, found = reopen(make(tmp_path))
        assert found == model.legal()
        assert (report.kind, report.last_zxid, report.snapshot_zxid) == ("recovered", zxid(2, 3), zxid(1, 17))
        assert (report.torn_bytes, report.cut) == (0, None)
        assert report.records > 0
        keep(store, model, EpochRecord(model.accepted + 1))
        store.close()


def test_runs_start_right_above_the_snapshot_and_stay_within_an_epoch(tmp_path: Path) -> None:
    store, model = born(tmp_path), Model()
    keep(store, model, txns(zxid(1, 1), b"a", b"b", b"c"), txns(zxid(1, 4), b"d"), txns(zxid(3, 1), b"e"))
    store.take_snapshot(zxid(1, 2), 5, b"state")
    store.close()
    _, recovered, _ = Store.open(faithful(tmp_path), bootstrap=False, segment_bytes=SEGMENT)
    assert recovered.snapshot == (zxid(1, 2), 5, b"state")
    assert recovered.runs == [(zxid(1, 3), [b"c", b"d"]), (zxid(3, 1), [b"e"])]


def test_nothing_is_durable_before_sync(tmp_path: Path) -> None:
    store, model = born(tmp_path), Model()
    keep(store, model, EpochRecord(1))
    store.append(EpochRecord(2))
    store.append(txns(zxid(1, 1), b"a", b"b"))
    assert store.unsynced == 2
    assert recover(tmp_path) == model.legal()
    store.close()


class Counting(OrdinaryDisk):
    """A disk that counts the calls of the operating system."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.calls: list[str] = []

    def open(self, name: str, size: int):  # type: ignore[no-untyped-def]
        return self._counted(super().open(name, size))

    def create(self, name: str, preallocate: int = 0):  # type: ignore[no-untyped-def]
        return self._counted(super().create(name, preallocate))

    def _counted(self, file):  # type: ignore[no-untyped-def]
        def counted(name, call):  # type: ignore[no-untyped-def]
            def act(*arguments):  # type: ignore[no-untyped-def]
                self.calls.append(name)
                return call(*arguments)

            return act

        file.write, file.sync = counted("write", file.write), counted("sync", file.sync)
        return file


def test_many_records_take_one_write_and_one_sync(tmp_path: Path) -> None:
    disk = Counting(tmp_path)
    store, _, _ = Store.open(disk, bootstrap=True, segment_bytes=2**16)
    disk.calls.clear()
    store.append(EpochRecord(1))
    for counter in range(1, 101):
        store.append(txns(zxid(1, counter), b"x" * 100))
    store.append(TruncRecord(zxid(1, 100)))
    store.append(NewLeaderRecord(1))
    assert disk.calls == []
    store.sync()
    assert (disk.calls, disk.unsynced_bytes) == (["write", "sync"], 0)
    store.sync()
    assert disk.calls == ["write", "sync"], "nothing waits, nothing happens"
    store.close()


def test_an_open_group_waits_for_its_newleader(tmp_path: Path) -> None:
    store, model = born(tmp_path), Model()
    keep(store, model, EpochRecord(1), txns(zxid(1, 1), b"a", b"b"))
    before = files(tmp_path)
    store.append(TruncRecord(zxid(1, 1)))
    store.append(txns(zxid(2, 1), b"c"))
    store.sync()
    assert (store.unsynced, files(tmp_path)) == (0, before)
    for promise in (EpochRecord(3), MemberRecord()):
        with pytest.raises(ValueError, match="inside a group"):
            store.append(promise)
    store.append(NewLeaderRecord(2))
    assert store.unsynced == 3
    store.sync()
    store.close()
    assert recover(tmp_path) == (1, 2, False, [(zxid(1, 1), b"a"), (zxid(2, 1), b"c")])


def test_every_batch_and_group_is_in_one_segment(tmp_path: Path) -> None:
    store, model = born(tmp_path), Model()
    keep(store, model, txns(zxid(1, 1), *[b"x" * 300] * 5))
    keep(store, model, TruncRecord(zxid(1, 4)), txns(zxid(2, 1), b"y" * 5000), NewLeaderRecord(2))
    keep(store, model, EpochRecord(7))
    store.close()
    sizes = {name: len(data) for name, data in files(tmp_path).items()}
    assert list(sizes) == ["log-00000001", "log-00000002", "log-00000003", "log-00000004"]
    assert sizes["log-00000003"] > 5000
    assert recover(tmp_path) == model.legal()


def test_an_empty_run_writes_no_record(tmp_path: Path) -> None:
    store, model = born(tmp_path), Model()
    keep(store, model, txns(zxid(1, 1)))
    keep(store, model, EpochRecord(4))
    store.close()
    assert recover(tmp_path) == model.legal()


# ---- snapshots ----


def test_a_snapshot_removes_the_log_below_it_and_older_snapshots(tmp_path: Path) -> None:
    store, model = born(tmp_path), Model()
    for counter in range(1, 31):
        keep(store, model, txns(zxid(1, counter), b"x" * 100))
    assert len(files(tmp_path)) > 5
    store.take_snapshot(zxid(1, 10), 1, freeze(model.history[:10]))
    middle = files(tmp_path)
    assert recover(lay_out(tmp_path / "copy", middle)) == model.legal()
    store.take_snapshot(zxid(1, 30), 3, freeze(model.history))
    assert len(files(tmp_path)) == 2, "one snapshot, and one segment with nothing but its CHECKPOINT"
    keep(store, model, txns(zxid(1, 31), b"y"))
    store.close()
    assert recover(tmp_path) == model.legal()
    assert len(middle) < 12


def test_a_snapshot_syncs_the_log_that_it_covers(tmp_path: Path) -> None:
    """A leader may have committed, with a quorum's disks, what its own disk has not synced yet."""
    store, model = born(tmp_path), Model()
    store.append(txns(zxid(1, 1), b"a"))
    model.apply(txns(zxid(1, 1), b"a"))
    store.take_snapshot(zxid(1, 1), 1, freeze(model.history))
    assert store.unsynced == 0
    assert recover(tmp_path) == model.legal()
    with pytest.raises(ValueError, match="1:9"):
        store.take_snapshot(zxid(1, 9), 1, b"of the future")
    store.close()


def test_the_same_snapshot_may_be_taken_twice(tmp_path: Path) -> None:
    store, model = born(tmp_path), Model()
    keep(store, model, txns(zxid(1, 1), b"a"))
    for _ in range(2):
        store.take_snapshot(zxid(1, 1), 1, freeze(model.history))
    store.close()
    assert recover(tmp_path) == model.legal()


def test_an_installed_snapshot_replaces_the_history(tmp_path: Path) -> None:
    store, model = born(tmp_path), Model()
    keep(store, model, txns(zxid(1, 1), b"a", b"skipped"))
    installed = [(zxid(1, 1), b"a"), (zxid(2, 1), b"b"), (zxid(2, 2), b"c")]
    keep(store, model, snap(installed), txns(zxid(3, 1), b"d"), NewLeaderRecord(4))
    assert recover(lay_out(tmp_path / "copy", files(tmp_path))) == model.legal()
    store.take_snapshot(zxid(3, 1), 4, freeze(model.history))
    assert [name for name in files(tmp_path) if "snapshot" in name] == ["snapshot-0000000300000001"]
    store.close()
    assert recover(tmp_path) == model.legal()


def test_an_installed_snapshot_may_be_below_the_logs_end(tmp_path: Path) -> None:
    """An uncommitted tail can have higher zxids than the leader's snapshot; both must survive every purge."""
    store, model = born(tmp_path), Model()
    keep(store, model, txns(zxid(1, 1), b"a"), txns(zxid(2, 1), *[b"uncommitted" * 9] * 5))
    keep(store, model, snap([(zxid(1, 1), b"a"), (zxid(1, 2), b"b")]), txns(zxid(1, 3), b"c"), NewLeaderRecord(3))
    store.take_snapshot(zxid(1, 3), 4, freeze(model.history))
    keep(store, model, txns(zxid(3, 1), b"d"))
    store.close()
    assert recover(tmp_path) == model.legal()


def test_a_snapshot_whose_group_never_closed_is_an_orphan(tmp_path: Path) -> None:
    store, model = born(tmp_path), Model()
    keep(store, model, txns(zxid(1, 1), b"a"))
    store.close()
    orphan = born(tmp_path / "other")
    keep(orphan, Model(), snap([(zxid(1, 1), b"a"), (zxid(2, 2), b"b")]), NewLeaderRecord(2))
    orphan.close()
    name = "snapshot-0000000200000002"
    (tmp_path / name).write_bytes((tmp_path / "other" / name).read_bytes()[:-1])
    for temporary in ("snapshot-0000000300000002.tmp", "log-00000002.tmp"):
        (tmp_path / temporary).write_bytes(b"half")
    (tmp_path / "notes.txt").write_bytes(b"not ours")
    assert recover(tmp_path) == model.legal()
    assert sorted(files(tmp_path)) == ["log-00000001", "notes.txt"]


def test_snapshots_of_an_empty_history(tmp_path: Path) -> None:
    store, model = born(tmp_path), Model()
    store.take_snapshot(ZERO, 1, freeze([]))
    keep(store, model, txns(zxid(1, 1), b"a"))
    store.close()
    assert recover(tmp_path) == model.legal()


# ---- bootstrap and amnesia ----


def test_bootstrap_counts_only_on_an_empty_disk(tmp_path: Path) -> None:
    store, report, _ = reopen(faithful(tmp_path), bootstrap=False)
    assert report.kind == "amnesiac"
    store.close()
    store, report, (_, _, amnesiac, _) = reopen(faithful(tmp_path), bootstrap=True)  # type: ignore[misc]
    assert (report.kind, amnesiac) == ("amnesiac", True)
    store.close()


def test_amnesia_lasts_until_a_member_record_through_segments_and_snapshots(tmp_path: Path) -> None:
    store, report, _ = reopen(faithful(tmp_path))
    model = Model(amnesiac=True)
    history = [(zxid(1, counter), b"x" * 90) for counter in range(1, 8)]
    keep(store, model, EpochRecord(2), snap(history), NewLeaderRecord(2))
    for counter in range(1, 9):
        keep(store, model, txns(zxid(2, counter), b"y" * 100))
    store.take_snapshot(zxid(2, 8), 1, freeze(model.history))
    store.close()
    store, report, found = reopen(faithful(tmp_path))
    assert (report.kind, found) == ("amnesiac", model.legal())
    keep(store, model, MemberRecord())
    store.close()
    store, report, found = reopen(faithful(tmp_path))
    assert (report.kind, found) == ("recovered", model.legal())
    store.take_snapshot(zxid(2, 8), 1, freeze(model.history))
    store.close()
    assert recover(tmp_path) == model.legal()


# ---- missing files ----


def refusal(folder: Path, kind: type[CorruptLog] | type[CorruptSnapshot]) -> str:
    before = files(folder)
    with pytest.raises(kind) as raised:
        recover(folder)
    assert files(folder) == before, "a disk that is refused is not touched"
    assert f"{raised.value.file}, offset {raised.value.offset}: " in str(raised.value)
    return raised.value.file


def test_missing_files_are_named(tmp_path: Path) -> None:
    store, model = born(tmp_path), Model()
    for counter in range(1, 21):
        keep(store, model, txns(zxid(1, counter), b"x" * 100))
    store.close()
    whole = files(tmp_path)
    assert len(whole) > 4

    def without(*names: str) -> Path:
        return lay_out(tmp_path / "copy", {name: data for name, data in whole.items() if name not in names})

    assert refusal(without("log-00000002"), CorruptLog) == "log-00000002"
    assert refusal(without("log-00000002", "log-00000003"), CorruptLog) == "log-00000002"
    assert refusal(without(max(whole)), CorruptLog) == max(whole)
    assert refusal(without("log-00000001"), CorruptSnapshot).startswith("snapshot-")


def test_a_full_segment_of_an_older_program_stays_without_a_seal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zab_chaos.node.store.log.SEAL_ROOM", 0)
    store, model = born(tmp_path, 512), Model()
    keep(store, model, txns(zxid(1, 1), b"x" * (510 - CHECKPOINT_BYTES - OVERHEAD_BYTES)))
    keep(store, model, EpochRecord(2))
    store.close()
    assert list(files(tmp_path)) == ["log-00000001", "log-00000002"]
    assert recover(tmp_path) == model.legal()
    assert recover(tmp_path) == model.legal()


def test_a_purged_log_needs_its_snapshot(tmp_path: Path) -> None:
    store, model = born(tmp_path), Model()
    a_life(store, model)
    store.close()
    name = "snapshot-0000000100000011"
    content = files(tmp_path)
    snapshot = content.pop(name)
    assert refusal(lay_out(tmp_path / "copy", content), CorruptSnapshot).startswith("snapshot-")
    assert refusal(lay_out(tmp_path / "copy", {name: snapshot}), CorruptLog) == "log-00000001"
    content["snapshot-0000000100000010"] = snapshot  # renamed
    assert refusal(lay_out(tmp_path / "copy", content), CorruptSnapshot).startswith("snapshot-")


def test_segments_of_another_life_do_not_fit(tmp_path: Path) -> None:
    """A file restored from the wrong copy is intact but wrong."""
    for life, epoch in (("one", 1), ("two", 2)):
        store = born(tmp_path / life)
        for counter in range(1, 11):
            keep(store, Model(), txns(zxid(epoch, counter), b"x" * 100))
        store.close()
    one, two = files(tmp_path / "one"), files(tmp_path / "two")
    newest = max(one)
    assert newest == max(two)
    for name in ("log-00000002", newest):
        assert refusal(lay_out(tmp_path / "copy", one | {name: two[name]}), CorruptLog) == name
    assert refusal(lay_out(tmp_path / "copy", one | {"log-00000002": one["log-00000001"]}), CorruptLog)


# ---- known bugs, each by one overridden method ----


class LyingSync(Store):
    """A store that acknowledges before its data is durable."""

    def make_durable(self) -> None:
        pass


def test_a_store_with_a_lying_sync_loses_promises(tmp_path: Path) -> None:
    store, _, _ = LyingSync.open(faithful(tmp_path), bootstrap=True, segment_bytes=SEGMENT)
    store.append(EpochRecord(5))
    store.sync()
    assert store.unsynced == 0
    assert recover(tmp_path) == Model().legal()
    store.close()


class EpochFirst(Store):
    """ZOOKEEPER-4643: the current epoch becomes durable before the history."""

    def write(self, records: list[Record]) -> None:
        late = [record for record in records if isinstance(record, TxnRecords)]
        super().write([record for record in records if not isinstance(record, TxnRecords)])
        self.make_durable()
        super().write(late)


def test_a_store_can_put_the_epoch_before_the_history(tmp_path: Path) -> None:
    disk = faithful(tmp_path)
    store, _, _ = EpochFirst.open(disk, bootstrap=True, segment_bytes=SEGMENT)
    store.append(TruncRecord(ZERO))
    store.append(txns(zxid(1, 1), b"lost"))
    store.append(NewLeaderRecord(1))
    store.write(store.take_waiting())
    with pytest.raises(PowerGone):
        disk.cut("plain", 0)
    assert recover(tmp_path) == (0, 1, False, [])
    store.close()


class KeepsTorn(SegmentReader):
    """The bug of a log without checksums: a torn record is read as valid."""

    def torn_record(self, found: StoredRecord) -> StoredRecord | None:
        return found


class KeepsTornRecovery(Recovery):
    reader = KeepsTorn


class KeepsTornStore(Store):
    recovery = KeepsTornRecovery


def test_a_store_that_keeps_torn_records_reads_zeros_for_bytes(tmp_path: Path) -> None:
    store, model = born(tmp_path), Model()
    keep(store, model, EpochRecord(1), txns(zxid(1, 1), b"synced", b"too"))
    end = len(files(tmp_path)["log-00000001"].rstrip(b"\0"))
    keep(store, model, txns(zxid(1, 3), b"torn in two"))
    store.close()
    data = files(tmp_path)["log-00000001"]
    (tmp_path / "log-00000001").write_bytes(data[: end + 30].ljust(SEGMENT, b"\0"))
    store, recovered, _ = KeepsTornStore.open(faithful(tmp_path), bootstrap=False, segment_bytes=SEGMENT)
    store.close()
    assert told(recovered)[3][-1] == (zxid(1, 3), b"torn".ljust(11, b"\0"))
    assert recover(tmp_path)[3][-1] == (zxid(1, 2), b"too")


@pytest.mark.parametrize("written", [0, 1, 4095, 4096, 4097, 20_000])
@pytest.mark.parametrize("zeros", [0, 1, 4095, 4096, 4097, 20_000])
def test_written_bytes_end_before_the_trailing_zeros(written: int, zeros: int) -> None:
    data = bytes(written - 1) + b"x" if written else b""
    assert without_zeros(data + bytes(zeros)) == data
