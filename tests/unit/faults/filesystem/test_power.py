"""Power cuts of a mounted disk that wait for a sync, without mounting anything."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from zab_chaos.faults import process_tree
from zab_chaos.faults.filesystem import power
from zab_chaos.faults.filesystem.power import MountedVolume
from zab_chaos.faults.filesystem.volume import File, Names

PROCESS = 7


@pytest.fixture
def timers(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """What each timer calls when its time is up, whether or not it was cancelled: a cancellation may come too late."""
    started: list[Callable[[], None]] = []

    def timer(seconds: float, call: Callable[[], None]) -> SimpleNamespace:
        return SimpleNamespace(start=lambda: started.append(call), cancel=lambda: None)

    monkeypatch.setattr(power.threading, "Timer", timer)
    return started


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    processes: list[int] = []
    monkeypatch.setattr(process_tree, "kill", processes.append)
    return processes


def written(disk: MountedVolume) -> File:
    """A file with an unsynced byte."""
    with disk.changing(contents=True) as volume:
        file = volume.create("/a", 0o644)
        volume.write(file, b"x", 0)
    return file


def test_what_one_failed_sync_has_not_written_stays_lost_though_the_next_one_succeeds() -> None:
    """As on Linux: the pages count as clean, and a reader sees them until the power is cut."""
    disk = MountedVolume("journal")
    disk.attach()
    disk.fail("sync", once=True)
    file = written(disk)
    with pytest.raises(OSError, match="Input/output error"):
        disk.sync(file)
    disk.sync(file)
    assert (disk.counts.failed, disk.counts.syncs) == (1, 1)
    assert bytes(file.contents.visible) == b"x"
    disk.detach()
    disk.cut()
    assert b"x" not in bytes(file.contents.visible)


class Clocked:
    """A disk whose time is set by hand, with one file for each name."""

    def __init__(self, names: Names) -> None:
        self.time = 1000.0
        self.disk = MountedVolume(names, now=lambda: self.time)
        self.disk.attach()
        self.files: dict[str, File] = {}

    def write(self, at: float, name: str, data: bytes) -> None:
        self.time = 1000.0 + at
        with self.disk.changing(contents=True) as volume:
            file = self.files.get(name) or volume.create(name, 0o644)
            volume.write(file, data, len(file.contents.visible))
        self.files[name] = file

    def cut(self, at: float) -> dict[str, bytes]:
        """Return the files that a power cut leaves."""
        self.time = 1000.0 + at
        self.disk.cut()
        with self.disk.reading() as volume:
            return {path: bytes(it.contents.visible) for path, it in volume.walk() if isinstance(it, File)}


def test_what_was_not_synced_for_long_is_durable() -> None:
    disk = Clocked("journal")
    disk.write(0, "/old", b"a")
    disk.write(30, "/new", b"b")
    assert disk.cut(40) == {"/old": b"a"}


def test_a_file_is_written_back_with_all_that_it_has_then_and_later_writes_count_anew() -> None:
    disk = Clocked("journal")
    disk.write(0, "/a", b"a")
    disk.write(34, "/a", b"b")
    disk.write(36, "/a", b"c")  # "ab" was written back a second before
    assert disk.cut(70) == {"/a": b"ab"}


@pytest.mark.parametrize("data", [b"", b"x"])
def test_names_are_written_back_in_their_order(data: bytes) -> None:
    disk = Clocked("journal")
    disk.write(0, "/a", data)
    with disk.disk.changing() as volume:
        volume.rename("/a", "/b")
    assert disk.cut(36) == {"/b": data}


def test_by_the_rule_of_posix_nothing_is_written_back() -> None:
    disk = Clocked("folder")
    disk.write(0, "/a", b"a")
    assert disk.cut(10_000) == {}


def test_a_failing_disk_writes_nothing_back() -> None:
    disk = Clocked("journal")
    disk.write(0, "/a", b"a")
    disk.disk.fail("sync")
    assert disk.cut(40) == {}


def armed() -> MountedVolume:
    disk = MountedVolume("journal")
    disk.attach()
    disk.cut_at_sync(PROCESS, "plain", 1, 1000)
    return disk


def test_the_time_runs_out_once(timers: list[Callable[[], None]], killed: list[int]) -> None:
    disk = armed()
    timers[0]()
    timers[0]()
    assert killed == [PROCESS]
    assert disk.counts.cuts == 1


@pytest.mark.parametrize("dropped", [MountedVolume.attach, MountedVolume.detach])
def test_a_cut_is_dropped_when_its_process_has_ended(
    timers: list[Callable[[], None]], killed: list[int], dropped: Callable[[MountedVolume], None]
) -> None:
    disk = armed()
    dropped(disk)
    disk.attach()
    timers[0]()
    disk.sync(written(disk))
    assert killed == []
    assert disk.counts.cuts == 0


def test_the_time_of_a_dropped_cut_does_not_end_the_wait_of_the_next_one(
    timers: list[Callable[[], None]], killed: list[int]
) -> None:
    disk = armed()
    disk.detach()
    disk.attach()
    disk.cut_at_sync(PROCESS + 1, "plain", 1, 1000)
    timers[0]()
    assert killed == []
    with pytest.raises(OSError, match="Input/output"):
        disk.sync(written(disk))
    assert killed == [PROCESS + 1]
