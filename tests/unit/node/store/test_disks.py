"""Both disks keep the contract; the faithful one loses exactly what was not synced."""

import errno
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path

import psutil
import pytest

from tests.unit.node.store.shelf import PowerGone, faithful, files
from zab_chaos.node.store.disk import Disk, FaithfulDisk, OrdinaryDisk

MakeDisk = Callable[[Path], FaithfulDisk | OrdinaryDisk]
both = pytest.mark.parametrize("make", [OrdinaryDisk, faithful])


@both
def test_a_slow_disk_waits_at_each_sync(make: MakeDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr("zab_chaos.node.store.disk_faults.time.sleep", waited.append)
    disk = make(tmp_path)
    file = disk.create("a")
    file.sync()
    disk.faults.slow_ms = 250
    file.write(b"x")
    file.sync()
    disk.sync_directory()
    file.close()
    assert waited == [0.25, 0.25]
    assert disk.faults.slowed == 0  # no time has passed: only what was measured is counted


@both
def test_a_sync_reaches_the_machines_disk(make: MakeDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []

    def note(fd: int) -> None:
        synced.append(Path(f"/proc/self/fd/{fd}").readlink().name)

    monkeypatch.setattr("zab_chaos.node.store.disk.fdatasync", note)
    monkeypatch.setattr("zab_chaos.node.store.faithful.fdatasync", note)
    monkeypatch.setattr(os, "fsync", note)
    disk = make(tmp_path / "data")
    file = disk.create("a")
    disk.sync_directory()
    file.write(b"x")
    file.sync()
    file.close()
    assert synced == ["data", "a"]
    disk.rename("a", "b")
    disk.sync_directory()
    disk.remove("b")
    disk.sync_directory()
    assert synced == ["data", "a", "data", "data"]


@both
def test_an_error_of_the_machines_disk_is_raised(
    make: MakeDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    disk = make(tmp_path)
    file = disk.create("a")
    file.write(b"x")
    monkeypatch.setattr("zab_chaos.node.store.disk.fdatasync", fail)
    monkeypatch.setattr("zab_chaos.node.store.faithful.fdatasync", fail)
    monkeypatch.setattr(os, "fsync", fail)
    for sync in (file.sync, disk.sync_directory):
        with pytest.raises(OSError, match="Input/output error"):
            sync()
    file.close()


@both
def test_a_closed_file_and_a_synced_folder_hold_no_descriptor(make: MakeDisk, tmp_path: Path) -> None:
    before = psutil.Process().num_fds()
    disk = make(tmp_path)
    file = disk.create("a", 10)
    file.write(b"x")
    file.sync()
    disk.sync_directory()
    file.close()
    assert psutil.Process().num_fds() == before


@both
def test_bytes_of_which_the_machine_takes_a_part_are_written_whole(
    make: MakeDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, offset: pwrite(fd, data[:3], offset))
    disk = make(tmp_path)
    file = disk.create("a", preallocate=20)
    file.write(b"0123456789")
    file.sync()
    disk.sync_directory()
    file.close()
    assert (tmp_path / "a").read_bytes() == b"0123456789" + bytes(10)


def test_an_ordinary_disk_refuses_to_cut_the_power(tmp_path: Path) -> None:
    disk = OrdinaryDisk(tmp_path)
    with pytest.raises(ValueError, match="faithful = true"):
        disk.faults.arm_power_cut("torn", 1)
    with pytest.raises(ValueError, match="faithful = true"):
        disk.cut("plain", 1)


def test_an_unknown_variant_is_refused_with_the_allowed_ones(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="allowed: plain, torn, reordered"):
        faithful(tmp_path).faults.arm_power_cut("smoky", 1)  # type: ignore[arg-type]


# ---- only on the faithful disk ----


def test_nothing_is_durable_before_its_sync(tmp_path: Path) -> None:
    disk = faithful(tmp_path)
    file = disk.create("a", 6)
    file.write(b"abc")
    file.sync()
    assert files(tmp_path) == {}, "the entry is not durable, although the bytes are"
    disk.sync_directory()
    file.write(b"def")
    assert files(tmp_path) == {"a": b"abc\0\0\0"}
    file.close()
    assert faithful(tmp_path).read("a") == b"abc\0\0\0"


def test_a_durable_name_without_synced_bytes_is_an_empty_file(tmp_path: Path) -> None:
    disk = faithful(tmp_path)
    disk.create("a", 6).close()
    disk.sync_directory()
    assert files(tmp_path) == {"a": b""}


def test_renames_and_removals_wait_for_the_directory(tmp_path: Path) -> None:
    disk = faithful(tmp_path)
    for name in ("a", "b"):
        disk.create(name).close()
    disk.sync_directory()
    disk.rename("a", "c")
    disk.remove("b")
    assert disk.list() == ["c"]
    assert faithful(tmp_path).list() == ["a", "b"]


def unsynced(folder: Path) -> tuple[FaithfulDisk, list[bytes]]:
    disk = faithful(folder)
    file = disk.create("a", 64)
    file.write(b"synced")
    file.sync()
    disk.sync_directory()
    writes = [b"one", b"twotwo", b"three", b"4"]
    file.write_all(b"".join(writes), list(accumulate(map(len, writes))))
    file.close()
    return disk, writes


@pytest.mark.parametrize("seed", range(12))
def test_a_torn_cut_keeps_a_strict_prefix(seed: int, tmp_path: Path) -> None:
    disk, writes = unsynced(tmp_path)
    with pytest.raises(PowerGone):
        disk.cut("torn", seed)
    left = faithful(tmp_path).read("a")
    whole = b"synced" + b"".join(writes)
    assert len(left) == 64
    assert left in [whole[:n].ljust(64, b"\0") for n in range(6, len(whole))]


@pytest.mark.parametrize("seed", range(12))
def test_a_reordered_cut_keeps_some_writes_whole(seed: int, tmp_path: Path) -> None:
    disk, writes = unsynced(tmp_path)
    with pytest.raises(PowerGone):
        disk.cut("reordered", seed)
    left = faithful(tmp_path).read("a")
    subsets = []
    for chosen in range(2 ** len(writes) - 1):  # all but the full set
        subsets.append(b"synced" + b"".join(w if chosen >> i & 1 else bytes(len(w)) for i, w in enumerate(writes)))
    assert left.ljust(64, b"\0") in [subset.ljust(64, b"\0") for subset in subsets]


def test_the_seed_determines_what_survives(tmp_path: Path) -> None:
    def left(variant: str, seed: int) -> bytes:
        folder = tmp_path / f"{variant}-{seed}-{len(list(tmp_path.iterdir()))}"
        with pytest.raises(PowerGone):
            unsynced(folder)[0].cut(variant, seed)  # type: ignore[arg-type]
        return (folder / "a").read_bytes()

    for variant in ("torn", "reordered"):
        assert left(variant, 3) == left(variant, 3)
        assert len({left(variant, seed) for seed in range(12)}) > 3


def test_an_armed_power_cut_waits_for_a_sync_with_unsynced_data(tmp_path: Path) -> None:
    disk = faithful(tmp_path)
    file = disk.create("a", 10)
    file.sync()
    disk.sync_directory()
    disk.faults.power_cut = ("plain", 0)
    file.sync()
    disk.sync_directory()
    file.write(b"lost")
    with pytest.raises(PowerGone):
        file.sync()
    file.close()
    assert faithful(tmp_path).read("a") == bytes(10)


def test_a_directory_change_counts_as_unsynced_data(tmp_path: Path) -> None:
    disk = faithful(tmp_path)
    disk.create("a").close()
    disk.faults.power_cut = ("plain", 0)
    with pytest.raises(PowerGone):
        disk.sync_directory()
    assert faithful(tmp_path).list() == []


def test_a_cut_never_returns_even_if_the_process_survives(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="power is cut"):
        FaithfulDisk(tmp_path, die=lambda: None).cut("plain", 0)


@pytest.mark.parametrize("seed", range(4))
def test_a_killed_process_leaves_its_files_at_their_full_size(seed: int, tmp_path: Path) -> None:
    disk = faithful(tmp_path)
    disk.create("a", preallocate=100).write(b"x")
    with pytest.raises(PowerGone):
        disk.cut("killed", seed)
    assert len(faithful(tmp_path).read("a")) == 100


# ---- real processes, really killed ----

CHILD = """
import sys
from zab_chaos.node.store.disk import FaithfulDisk, OrdinaryDisk
disk = {"faithful": FaithfulDisk, "ordinary": OrdinaryDisk}[sys.argv[1]](sys.argv[2])
file = disk.create("a", 16)
file.write(b"synced")
file.sync()
disk.sync_directory()
if sys.argv[3] == "armed":
    disk.faults.power_cut = ("plain", 1)
file.write(b"+more")
disk.create("never-linked").close()
if sys.argv[3] == "armed":
    file.sync()
print("written", flush=True)
sys.stdin.read()
"""


def child(*arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", CHILD, *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


@pytest.mark.parametrize(
    ("kind", "left", "names"),
    [("faithful", b"synced", ["a"]), ("ordinary", b"synced+more", ["a", "never-linked"])],
)
def test_sigkill_is_a_power_cut_only_on_a_faithful_disk(
    kind: str, left: bytes, names: list[str], tmp_path: Path
) -> None:
    with child(kind, str(tmp_path), "unarmed") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"written\n"
        process.kill()
    after: Disk = faithful(tmp_path)
    assert (after.read("a"), after.list()) == (left.ljust(16, b"\0"), names)


def test_an_armed_power_cut_kills_its_own_process(tmp_path: Path) -> None:
    with child("faithful", str(tmp_path), "armed") as process:
        assert process.stdout is not None
        assert process.stdout.read() == b""
    assert process.returncode == -signal.SIGKILL
    assert faithful(tmp_path).read("a") == b"synced".ljust(16, b"\0")


def test_a_process_that_is_killed_while_its_page_cache_is_saved_leaves_a_disk_that_can_be_opened(
    tmp_path: Path,
) -> None:
    """A crash may come while a power cut of another kind, or a failed sync, saves what the next life is to see."""
    disk = faithful(tmp_path)
    file = disk.create("a")
    file.write(b"durable")
    file.sync()
    disk.sync_directory()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # kills the process in the middle of a write beyond the limit
        resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))
        file.write(bytes(1000))
        disk.cut("killed", 1)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGXFSZ
    file.close()
    disk = faithful(tmp_path)
    assert (disk.list(), disk.read("a")) == (["a"], b"durable")
