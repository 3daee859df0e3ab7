"""Power cuts: at every byte of a write, between any two disk operations, at every crash point, at random."""

import errno
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import get_args

import pytest

from tests.unit.node.store.shelf import (
    SEGMENT,
    Legal,
    Model,
    PowerGone,
    a_life,
    born,
    die,
    faithful,
    files,
    freeze,
    keep,
    lay_out,
    prefixes,
    recover,
    snap,
    told,
    txns,
)
from zab_chaos.node.core.ready import EpochRecord, MemberRecord, NewLeaderRecord, Record, TruncRecord
from zab_chaos.node.core.zxid import Zxid, zxid
from zab_chaos.node.crash_points import FAIL_STEPS, RECORDS
from zab_chaos.node.store.disk import FaithfulDisk, OrdinaryDisk, Variant
from zab_chaos.node.store.errors import CorruptLog, DiskFailed
from zab_chaos.node.store.recovery import Recovery
from zab_chaos.node.store.segment import segment_name, segment_number
from zab_chaos.node.store.store import Store

pytestmark = pytest.mark.slow

BATCH: list[Record] = [
    EpochRecord(2),
    txns(zxid(1, 3), b"Z" * 40, b"\0\0\xa5\0", b""),
    TruncRecord(zxid(1, 4)),
    txns(zxid(2, 1), b"two", b"more"),
    NewLeaderRecord(2),
    txns(zxid(2, 3), b"after"),
]


def base(store: Store, model: Model) -> None:
    keep(store, model, EpochRecord(1), txns(zxid(1, 1), b"synced", b"too"))


def test_a_write_torn_at_every_byte_leaves_whole_records_and_whole_groups(tmp_path: Path) -> None:
    store, model = born(tmp_path / "disk", 1024), Model()
    base(store, model)
    name = "log-00000001"
    before = len(files(tmp_path / "disk")[name].rstrip(b"\0"))
    legal = prefixes(model, BATCH)
    keep(store, model, *BATCH)
    store.close()
    data = files(tmp_path / "disk")[name]
    seen = []
    for size in range(before, len(data.rstrip(b"\0")) + 1):
        folder = lay_out(tmp_path / "copy", {name: data[:size].ljust(1024, b"\0")})
        store, recovered, report = Store.open(OrdinaryDisk(folder), bootstrap=False, segment_bytes=1024)
        seen.append(told(recovered))
        assert seen[-1] in legal
        assert report.kind in ("torn", "recovered")
        if report.kind == "torn":
            assert report.cut is not None
            assert report.cut[1] + report.torn_bytes == len(data[:size].rstrip(b"\0"))
        if size % 8 == 0:
            keep(store, Model(), EpochRecord(77))
        store.close()
        assert size % 8 or recover(folder) == (77, *seen[-1][1:]), "the node goes on, and what was cut off stays away"
    assert seen[0] == legal[0]
    assert seen[-1] == legal[-1]
    assert [state for i, state in enumerate(seen) if state not in seen[:i]] == legal, "each in its turn"


def test_an_installed_snapshot_survives_only_with_its_epoch(tmp_path: Path) -> None:
    store, model = born(tmp_path / "disk", 1024), Model()
    base(store, model)
    name = segment_name(1)
    before = len(files(tmp_path / "disk")[name].rstrip(b"\0"))
    group = [snap([(zxid(1, 1), b"synced"), (zxid(2, 1), b"sent")]), txns(zxid(2, 2), b"above"), NewLeaderRecord(2)]
    legal = prefixes(model, group)
    keep(store, model, *group)
    store.close()
    content = files(tmp_path / "disk")
    for size in range(before, len(content[name].rstrip(b"\0")) + 1):
        cut = content[name][:size].ljust(1024, b"\0")
        assert recover(lay_out(tmp_path / "copy", content | {name: cut})) in legal


@pytest.mark.parametrize("variant", ["plain", "torn", "reordered", "pages", "killed"])
def test_a_power_cut_during_a_sync_leaves_earlier_synced_data(variant: str, tmp_path: Path) -> None:
    outcomes = []
    for seed in range(40):
        folder = tmp_path / str(seed)
        store, model = born(folder, 1024), Model()
        base(store, model)
        store.disk.faults.power_cut = (variant, seed)  # type: ignore[attr-defined]
        for record in BATCH:
            store.append(record)
        with pytest.raises(PowerGone):
            store.sync()
        store.close()
        store, recovered, _ = Store.open(faithful(folder), bootstrap=False, segment_bytes=SEGMENT)
        store.close()
        outcomes.append(told(recovered))
        assert outcomes[-1] in prefixes(model, BATCH)
        assert recover(folder) == outcomes[-1], "what recovery has told is durable"
    assert len({str(outcome) for outcome in outcomes}) > (0 if variant == "plain" else 1)


def test_writes_behind_an_unwritten_gap_of_the_same_sync_are_cut_off(tmp_path: Path) -> None:
    store, model = born(tmp_path, 1024), Model()
    base(store, model)
    data = files(tmp_path)["log-00000001"]
    start = len(data.rstrip(b"\0"))
    batch = [txns(zxid(1, 3), b"one", b"two", b"three")]
    legal = prefixes(model, batch)
    keep(store, model, *batch)
    store.close()
    data = files(tmp_path)["log-00000001"]
    lengths = [27 + len(word) for word in (b"one", b"two", b"three")]
    for hole in range(3):
        at = start + sum(lengths[:hole])
        (tmp_path / "log-00000001").write_bytes(data[:at] + bytes(lengths[hole]) + data[at + lengths[hole] :])
        assert told(Recovery(OrdinaryDisk(tmp_path)).run().recovered) == legal[hole]


# ---- between any two disk operations ----


class Watched(FaithfulDisk):
    """A disk that keeps a copy of what was durable before each operation and each sync."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.before: Callable[[], None] = lambda: None

    def create(self, name: str, preallocate: int = 0):  # type: ignore[no-untyped-def]
        self.before()
        return self._watched(super().create(name, preallocate))

    def open(self, name: str, size: int):  # type: ignore[no-untyped-def]
        return self._watched(super().open(name, size))

    def _watched(self, file):  # type: ignore[no-untyped-def]
        sync, write_all = file.sync, file.write_all
        file.sync = lambda: (self.before(), sync(), self.before())
        file.write_all = lambda data, ends: (self.before(), write_all(data, ends))
        return file

    def rename(self, old: str, new: str) -> None:
        self.before()
        super().rename(old, new)

    def remove(self, name: str) -> None:
        self.before()
        super().remove(name)

    def sync_directory(self) -> None:
        self.before()
        super().sync_directory()
        self.before()


class Witness:
    """The legal states at any moment: the last acknowledged one, and those on the way to the next."""

    def __init__(self, disk: Watched) -> None:
        self.model = Model()
        self.on_the_way: list[Legal] = [self.model.legal()]
        self.seen: list[tuple[dict[str, bytes], list[Legal]]] = []
        disk.before = lambda: self.seen.append((files(disk.root), self.on_the_way))

    def keep(self, store: Store, *records: Record) -> None:
        self.on_the_way = prefixes(self.model, records)
        keep(store, self.model, *records)
        self.on_the_way = [self.model.legal()]


def watched_life(folder: Path) -> tuple[Witness, int]:
    """Return the witness of a life with all kinds of records, and the number of operations that a birth takes."""
    disk = Watched(folder)
    witness = Witness(disk)
    store, _, _ = Store.open(disk, bootstrap=True, segment_bytes=SEGMENT)
    born_at = len(witness.seen)
    witness.keep(store, EpochRecord(1))
    for counter in range(1, 9, 2):
        witness.keep(store, txns(zxid(1, counter), b"x" * 70, b"y" * 70))
    store.take_snapshot(zxid(1, 4), 1, freeze(witness.model.history[:4]))
    witness.keep(store, EpochRecord(2))
    witness.keep(store, TruncRecord(zxid(1, 7)), txns(zxid(2, 1), b"z"), NewLeaderRecord(2))
    installed = [*witness.model.history, (zxid(2, 2), b"installed")]
    witness.keep(store, EpochRecord(3), snap(installed), txns(zxid(3, 1), b"x" * 300), NewLeaderRecord(3))
    store.take_snapshot(zxid(3, 1), 1, freeze(witness.model.history))
    witness.keep(store, txns(zxid(3, 2), b"end"))
    store.close()
    return witness, born_at


def test_a_crash_between_any_two_disk_operations_leaves_a_legal_state(tmp_path: Path) -> None:
    witness, born_at = watched_life(tmp_path / "disk")
    assert len(witness.seen) > 60
    for number, (content, legal) in enumerate(witness.seen):
        folder = lay_out(tmp_path / "copy", content)
        if number < born_at and not content:
            assert recover(folder) == (0, 0, True, []), "no birth was recorded: a node without memory"
            continue
        found = recover(folder)
        assert found in legal, f"before operation {number}"
        assert recover(folder) == found, "recovery changes nothing that counts"


def without_newest_segment(folder: Path, content: dict[str, bytes]) -> Path | None:
    """Lay out the files without the newest segment. None if it is the only one."""
    segments = sorted(name for name in content if segment_number(name) is not None)
    if len(segments) < 2:
        return None
    return lay_out(folder, {name: data for name, data in content.items() if name != segments[-1]})


def test_nothing_is_forgotten_when_the_newest_segment_is_lost_after_a_crash(tmp_path: Path) -> None:
    """The disk is refused, or the lost segment had no record yet."""
    refused = []
    for content, legal in watched_life(tmp_path / "disk")[0].seen:
        if (folder := without_newest_segment(tmp_path / "copy", content)) is not None:
            try:
                assert recover(folder) in legal
            except CorruptLog as error:
                refused.append(error.file)
    assert {"log-00000003", "log-00000004", "log-00000005"} <= set(refused)


def test_a_segment_whose_seal_a_crash_prevented_is_sealed_at_the_next_start(tmp_path: Path) -> None:
    checked = 0
    for content, _ in watched_life(tmp_path / "disk")[0].seen:
        if without_newest_segment(tmp_path / "copy", content) is None:
            continue
        folder = lay_out(tmp_path / "copy", content)
        store, _, _ = Store.open(OrdinaryDisk(folder), bootstrap=False, segment_bytes=SEGMENT)
        keep(store, Model(), EpochRecord(9))
        store.close()
        lost = without_newest_segment(tmp_path / "lost", files(folder))
        assert lost is not None
        with pytest.raises(CorruptLog, match="the log goes on in it"):
            recover(lost)
        checked += 1
    assert checked > 30


def test_a_seal_that_only_the_page_cache_has_is_made_durable_by_the_next_start(tmp_path: Path) -> None:
    """The process is killed before it syncs the SEAL. The next life reads it, and promises an epoch in the new segment."""
    store = born(tmp_path / "disk")
    steps: list[tuple[str, str]] = []

    def hook(step: str, what: str) -> None:
        steps.append((step, what))
        if steps.count(("before-sync", "SEGMENT")) == 2:  # the first one was that of the new segment
            store.disk.cut("killed", 1)  # type: ignore[attr-defined]

    keep(store, Model(), txns(zxid(1, 1), b"x" * 300))
    store.crash = hook
    with pytest.raises(PowerGone):
        keep(store, Model(), txns(zxid(1, 2), b"x" * 300))
    disk = faithful(tmp_path / "disk")
    assert disk.read("log-00000001") != files(tmp_path / "disk")["log-00000001"], "the SEAL is not durable"
    store, _, _ = Store.open(disk, bootstrap=False, segment_bytes=SEGMENT)
    keep(store, Model(), EpochRecord(9))
    lost = without_newest_segment(tmp_path / "lost", files(tmp_path / "disk"))
    assert lost is not None
    with pytest.raises(CorruptLog, match="the log goes on in it"):
        recover(lost)


def test_recovery_itself_may_be_interrupted_at_any_time(tmp_path: Path) -> None:
    store, model = born(tmp_path / "disk"), Model()
    a_life(store, model)
    store.disk.faults.power_cut = ("torn", 5)  # type: ignore[attr-defined]
    store.append(txns(zxid(2, 4), b"torn" * 30))
    with pytest.raises(PowerGone):
        store.sync()
    store.close()
    newest = max(segment_number(name) or 0 for name in files(tmp_path / "disk"))
    (tmp_path / "disk" / f"{segment_name(newest + 1)}.tmp").write_bytes(b"half")  # left by an interrupted start
    disk = Watched(tmp_path / "disk")
    witness = Witness(disk)
    store, recovered, report = Store.open(disk, bootstrap=False, segment_bytes=SEGMENT)
    store.close()
    assert (report.kind, told(recovered)) == ("torn", model.legal())
    assert len(witness.seen) > 5
    for content, _ in witness.seen:
        assert recover(lay_out(tmp_path / "copy", content)) == model.legal()


# ---- crash points ----


FIRST: list[Record] = [EpochRecord(1), TruncRecord(Zxid(0)), txns(zxid(1, 1), b"a", b"b"), NewLeaderRecord(1)]
INSTALLED = [(zxid(1, 1), b"a"), (zxid(1, 2), b"b"), (zxid(1, 3), b"c")]
SECOND: list[Record] = [snap(INSTALLED), NewLeaderRecord(1), MemberRecord()]


def script(store: Store, model: Model) -> None:
    keep(store, model, *FIRST)
    keep(store, model, *SECOND)
    store.take_snapshot(zxid(1, 3), 1, freeze(model.history))


def test_crash_points_come_in_order_and_records_are_written_one_by_one(tmp_path: Path) -> None:
    disk = faithful(tmp_path)
    seen: list[tuple[str, str]] = []
    waiting: list[int] = []

    def hook(step: str, what: str) -> None:
        seen.append((step, what))
        waiting.append(disk.unsynced_bytes)

    store, _, _ = Store.open(disk, bootstrap=True, segment_bytes=4096, crash=hook)
    script(store, Model())
    store.close()
    first = ["EPOCH", "TRUNC", "TXN", "TXN", "NEWLEADER"]
    second = ["SNAP", "NEWLEADER", "MEMBER"]

    def batch(names: list[str]) -> list[tuple[str, str]]:
        writes = [(step, name) for name in names for step in ("before-write", "after-write")]
        return writes + [(step, name) for step in ("before-sync", "after-sync") for name in names]

    steps = ["before-write", "after-write", "before-sync", "after-sync", "after-rename"]
    snapshot = [(step, "SNAPSHOT") for step in steps]
    segment = [(step, "SEGMENT") for step in steps]
    seal = [(step, "SEGMENT") for step in steps if step != "after-rename"]
    purge = [("after-remove", "SEGMENT")]
    assert seen == segment + batch(first) + snapshot + batch(second) + snapshot + segment + seal + purge
    assert waiting[5:15] == [0, 27, 27, 54, 54, 82, 82, 110, 110, 137], "each record is handed over by itself"


def test_a_start_has_crash_points_too(tmp_path: Path) -> None:
    """What was read is written again, and a leftover snapshot is removed."""
    store, model = born(tmp_path, 4096), Model()
    keep(store, model, *FIRST)

    def hook(step: str, what: str) -> None:
        if (step, what) == ("after-rename", "SNAPSHOT"):
            store.disk.cut("killed", 1)  # type: ignore[attr-defined]

    store.crash = hook
    with pytest.raises(PowerGone):
        keep(store, model, *SECOND)
    store.close()
    seen: list[tuple[str, str]] = []
    again = Store.open(
        faithful(tmp_path), bootstrap=False, segment_bytes=4096, crash=lambda step, what: seen.append((step, what))
    )
    again[0].close()
    steps = ["before-write", "after-write", "before-sync", "after-sync"]
    assert seen == [(step, "SEGMENT") for step in steps] + [("after-remove", "SNAPSHOT")]


def test_crash_points_can_be_armed_and_disarmed_in_a_running_store(tmp_path: Path) -> None:
    store, model, seen = born(tmp_path), Model(), []
    keep(store, model, EpochRecord(1))
    store.crash = lambda step, what: seen.append((step, what))
    keep(store, model, txns(zxid(1, 1), b"a"))
    store.take_snapshot(zxid(1, 1), 1, freeze(model.history))
    store.crash = None
    keep(store, model, EpochRecord(2))
    store.close()
    assert [what for step, what in seen if step == "after-sync"] == ["TXN", "SNAPSHOT", "SEGMENT", "SEGMENT"]
    assert recover(tmp_path) == model.legal()


@pytest.mark.parametrize("kind", [OrdinaryDisk, FaithfulDisk])
def test_a_crash_at_each_crash_point_leaves_a_legal_state(kind: type, tmp_path: Path) -> None:
    model = Model()
    nothing, *first = prefixes(model, FIRST)
    for record in FIRST:
        model.apply(record)
    second = prefixes(model, SECOND)[1:]
    for number in range(53):
        folder, seen = tmp_path / str(number), []

        def hook(step: str, what: str, number: int = number, seen: list[tuple[str, str]] = seen) -> None:  # type: ignore[assignment]
            seen.append((step, what))
            if len(seen) > number:
                raise PowerGone

        with pytest.raises(PowerGone):
            script(Store.open(kind(folder), bootstrap=True, segment_bytes=4096, crash=hook)[0], Model())
        if ("before-write", "EPOCH") not in seen:
            continue  # there is no log yet
        found = recover(folder)
        if ("after-sync", "SNAP") in seen:
            assert found == second[-1]
        elif ("after-sync", "EPOCH") in seen:
            assert found in [first[-1], *(second if kind is OrdinaryDisk else [])]
        else:
            assert found in [nothing, *(first if kind is OrdinaryDisk else [])]


# ---- a failing disk ----


@pytest.mark.parametrize("fault", ["full", "write", "sync", "one sync"])
@pytest.mark.parametrize("make", [OrdinaryDisk, faithful])
def test_a_disk_error_ends_the_store_for_good(make: type, fault: str, tmp_path: Path) -> None:
    disk = make(tmp_path)
    store, _, _ = Store.open(disk, bootstrap=True, segment_bytes=SEGMENT)
    model = Model()
    base(store, model)
    legal = prefixes(model, BATCH)
    if fault == "full":
        disk.faults.full = True
    else:
        disk.faults.error, disk.faults.error_once = fault.removeprefix("one "), fault == "one sync"
    for record in BATCH:
        store.append(record)
    with pytest.raises(DiskFailed, match="log-00000001") as raised:
        store.sync()
    assert raised.value.__cause__.errno == (errno.ENOSPC if fault == "full" else errno.EIO)
    disk.faults.full, disk.faults.error = False, None
    for act in (store.sync, lambda: store.take_snapshot(zxid(1, 1), 0, b"")):
        with pytest.raises(DiskFailed, match="log-00000001"):
            act()
    store.close()
    assert recover(tmp_path) in legal


def test_every_error_of_a_full_disk_names_it(tmp_path: Path) -> None:
    store, model = born(tmp_path), Model()
    base(store, model)
    store.disk.faults.full = True  # type: ignore[attr-defined]
    with pytest.raises(DiskFailed, match="writing snapshot-0000000100000002"):
        store.take_snapshot(zxid(1, 2), 1, freeze(model.history))
    store.close()
    disk = faithful(tmp_path / "new")
    disk.faults.full = True
    with pytest.raises(DiskFailed, match="beginning log-00000001"):
        Store.open(disk, bootstrap=True, segment_bytes=SEGMENT)
    assert recover(tmp_path) == model.legal()


# ---- a killed process; the page cache stays ----


class CutAtFolder(FaithfulDisk):
    """A disk that loses its power at one of the syncs of the folder."""

    def __init__(self, root: Path, nth: int, seed: int) -> None:
        super().__init__(root, die)
        self.left, self.seed = nth, seed

    def sync_directory(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.cut("pages", self.seed)
        super().sync_directory()


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_snapshot_is_durable_before_older_files_are_removed(nth: int, tmp_path: Path) -> None:
    """The process is killed after the rename, before its sync. The next life must not remove the older one too early."""
    for seed in range(12):
        folder = tmp_path / str(seed)
        store, model = born(folder), Model()
        keep(store, model, txns(zxid(1, 1), b"a", b"b"))
        store.take_snapshot(zxid(1, 2), 1, freeze(model.history))
        keep(store, model, txns(zxid(1, 3), b"c"))

        def hook(step: str, what: str, disk: FaithfulDisk = store.disk) -> None:  # type: ignore[assignment]
            if step == "after-rename":
                disk.cut("killed", 0)

        store.crash = hook
        with pytest.raises(PowerGone):
            store.take_snapshot(zxid(1, 3), 1, freeze(model.history))
        store.close()
        disk = CutAtFolder(folder, nth, seed)
        assert "snapshot-0000000100000003" in disk.list()
        with suppress(PowerGone):
            Store.open(disk, bootstrap=False, segment_bytes=SEGMENT)[0].close()
        assert recover(folder) == model.legal()


def test_a_killed_process_leaves_all_its_writes_or_a_prefix(tmp_path: Path) -> None:
    left = set()
    for seed in range(20):
        store = born(tmp_path / str(seed), 4096)
        store.append(EpochRecord(7))
        store.disk.faults.power_cut = ("killed", seed)  # type: ignore[attr-defined]
        with pytest.raises(PowerGone):
            store.sync()
        store.close()
        left.add(Recovery(faithful(tmp_path / str(seed))).run().state.accepted_epoch)
    assert left == {0, 7}


def test_recovered_data_is_made_durable_first(tmp_path: Path) -> None:
    """Also if the segment can't be continued, so that no later sync would cover it."""
    for seed in range(30):
        folder = tmp_path / str(seed)
        store, model = born(folder, 4096), Model()
        base(store, model)
        store.disk.faults.power_cut = ("killed", seed)  # type: ignore[attr-defined]
        for record in BATCH:
            store.append(record)
        with pytest.raises(PowerGone):
            store.sync()
        store.close()
        store, recovered, _ = Store.open(faithful(folder), bootstrap=False, segment_bytes=4096)
        keep(store, Model(), EpochRecord(77))
        store.close()
        assert recover(folder) == (77, *told(recovered)[1:])


def test_writing_the_good_bytes_again_loses_no_durable_data(tmp_path: Path) -> None:
    store, model = born(tmp_path / "disk", 8192), Model()
    keep(store, model, EpochRecord(1), txns(zxid(1, 1), b"x" * 5000))
    store.close()
    content = files(tmp_path / "disk")
    for variant in get_args(Variant):
        for seed in range(6):
            disk = faithful(lay_out(tmp_path / "copy", content))
            disk.faults.power_cut = (variant, seed)
            with pytest.raises(PowerGone):
                Store.open(disk, bootstrap=False, segment_bytes=8192)
            assert files(tmp_path / "copy") == content


def test_a_failed_sync_loses_the_written_bytes(tmp_path: Path) -> None:
    """A store that went on and synced again would leave a hole: the kernel considers the pages clean."""
    store, model = born(tmp_path, 4096), Model()
    base(store, model)
    store.disk.faults.error = "sync"  # type: ignore[attr-defined]
    store.append(txns(zxid(1, 3), b"lost"))
    with pytest.raises(DiskFailed):
        store.sync()
    store.disk.faults.error = None  # type: ignore[attr-defined]
    store.failed = None
    store.append(txns(zxid(1, 4), b"behind"))
    store.sync()
    store.close()
    with pytest.raises(CorruptLog, match="incomplete"):
        recover(tmp_path)


def test_bytes_readable_after_a_failed_sync_are_written_again(tmp_path: Path) -> None:
    """The next life reads it, and a sync alone would not make it durable."""
    store = born(tmp_path, 4096)
    base(store, Model())
    store.disk.faults.error, store.disk.faults.stays_readable = "sync", True  # type: ignore[attr-defined]
    store.append(EpochRecord(9))
    with pytest.raises(DiskFailed):
        store.sync()
    store.close()
    store, recovered, _ = Store.open(faithful(tmp_path), bootstrap=False, segment_bytes=4096)
    store.close()
    assert recovered.accepted_epoch == 9
    assert recover(tmp_path) == told(recovered)


@pytest.mark.parametrize("step", FAIL_STEPS)
@pytest.mark.parametrize("what", RECORDS)
def test_the_disk_can_fail_at_every_record(what: str, step: str, tmp_path: Path) -> None:
    def hook(at: str, of: str) -> None:
        if (at, of) == (step, what):
            raise OSError(errno.EIO, "drawn")

    with pytest.raises(DiskFailed, match="drawn"):
        script(Store.open(faithful(tmp_path), bootstrap=True, segment_bytes=4096, crash=hook)[0], Model())
