"""The mounted file system: what programs and the kernel make of it, and that nothing of it is left."""

import ctypes
import errno
import mmap
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.mounted import mounted, possible
from zab_chaos.faults.filesystem import mount as mounts
from zab_chaos.faults.filesystem.mount import Mount, MountError
from zab_chaos.harness.backends.processes import stale_files
from zab_chaos.harness.backends.processes.disks import Disks
from zab_chaos.harness.machine.waiting import wait_until
from zab_chaos.harness.results.run_folder import RunFolder

pytestmark = [pytest.mark.fuse, pytest.mark.timeout(120)]
SECONDS = 20.0
RENAME_NOREPLACE = 1
AT_FDCWD = -100


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    with mounted(tmp_path) as found:
        yield found


@contextmanager
def opened(path: Path, flags: int = os.O_RDWR | os.O_CREAT) -> Iterator[int]:
    fd = os.open(path, flags, 0o600)
    try:
        yield fd
    finally:
        os.close(fd)


def synced(path: Path) -> None:
    with opened(path, os.O_RDONLY) as fd:
        os.fsync(fd)


def refused(act: Callable[[], object]) -> str:
    with pytest.raises(OSError) as raised:
        act()
    return errno.errorcode[raised.value.errno or 0]


def cut(mount: Mount, **how: Any) -> dict[str, bytes]:
    """The power goes, and is back: all files."""
    mount.command("cut", **how)
    mount.command("attach")
    return {path.name: path.read_bytes() for path in sorted(mount.folder.iterdir()) if path.is_file()}


def test_fsync_of_a_file_and_of_its_folder_are_two_things(mount: Mount) -> None:
    kept, nameless = mount.folder / "kept", mount.folder / "nameless"
    with opened(kept) as fd:
        os.write(fd, b"one")
        os.fsync(fd)
        synced(mount.folder)
        os.write(fd, b"two")
    with opened(nameless) as fd:
        os.write(fd, b"all of it")
        os.fsync(fd)
    assert (kept.read_bytes(), nameless.read_bytes()) == (b"onetwo", b"all of it")
    before = mount.state()
    assert (before["unsynced_bytes"], before["unsynced_changes"], before["syncs"]) == (3, 1, 3)
    assert cut(mount) == {"kept": b"one"}
    after = mount.state()
    assert (after["cuts"], after["lost_bytes"], after["lost_changes"]) == (1, 3, 1)


def test_renames_truncations_holes_and_reserved_room(mount: Mount) -> None:
    path = mount.folder / "a"
    with opened(path) as fd:
        os.pwrite(fd, b"far", 100_000)
        assert os.pread(fd, 8, 50_000) == bytes(8)
        os.ftruncate(fd, 100_001)
        os.posix_fallocate(fd, 0, 100_010)
        os.fsync(fd)
        os.ftruncate(fd, 5)
    synced(mount.folder)
    path.rename(mount.folder / "b")
    (mount.folder / "b").chmod(0o640)
    os.utime(mount.folder / "b", ns=(5, 7))
    found = (mount.folder / "b").stat()
    assert (found.st_size, found.st_mode & 0o777, found.st_mtime_ns) == (5, 0o640, 7)
    assert cut(mount) == {"a": b"f".rjust(100_001, b"\0").ljust(100_010, b"\0")}


def test_a_file_that_was_removed_goes_on_for_who_has_it_open(mount: Mount) -> None:
    path = mount.folder / "a"
    with opened(path) as fd:
        path.unlink()
        os.write(fd, b"still here")
        os.ftruncate(fd, 5)
        os.fsync(fd)
        assert os.pread(fd, 100, 0) == b"still"
        assert refused(lambda: os.fstat(fd)) == "ESTALE"
        assert list(mount.folder.iterdir()) == []


def test_a_folder_that_was_removed_can_be_synced_and_read_by_who_has_it_open(mount: Mount) -> None:
    path = mount.folder / "sub"
    path.mkdir()
    with opened(path, os.O_RDONLY) as fd:
        path.rmdir()
        os.fsync(fd)


def test_appending_goes_to_the_end_that_there_is_after_a_power_cut(mount: Mount) -> None:
    path = mount.folder / "a"
    with opened(path) as fd:
        os.write(fd, b"one")
        os.fsync(fd)
        synced(mount.folder)
        os.write(fd, b"lost")
    cut(mount)
    with opened(path, os.O_WRONLY | os.O_APPEND) as fd:
        os.write(fd, b"two")
    assert path.read_bytes() == b"onetwo"


def test_a_private_mapping_changes_nothing_and_a_shared_one_is_durable_once_it_is_synced(mount: Mount) -> None:
    path = mount.folder / "a"
    path.write_bytes(b"x" * 5000)
    synced(mount.folder)
    with opened(path) as fd:
        with mmap.mmap(fd, 5000, access=mmap.ACCESS_COPY) as private:
            private[:3] = b"abc"
        with mmap.mmap(fd, 5000) as shared:
            shared[:3] = b"abc"
            shared.flush()
            shared[4990:] = b"not synced"
            assert os.pread(fd, 5000, 0) == b"abc" + b"x" * 4987 + b"not synced"
    assert path.read_bytes().endswith(b"not synced")
    assert cut(mount) == {"a": b"abc" + b"x" * 4997}


STORER = """
import mmap, os, sys
shared = mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 5000)
shared[:3] = b"abc"
os.write(1, b".")
input()
"""


@pytest.mark.parametrize("power", [True, False])
def test_what_a_killed_program_has_stored_through_a_mapping_is_lost_only_with_the_power(
    mount: Mount, power: bool
) -> None:
    path = mount.folder / "a"
    path.write_bytes(b"x" * 5000)
    synced(path)
    synced(mount.folder)
    with subprocess.Popen(
        [sys.executable, "-c", STORER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.read(1) == b"."
        if power:
            mount.command("cut_at_sync", pid=child.pid, variant="plain", seed=1, within_ms=1)
        else:
            child.kill()
        assert child.wait(SECONDS) == -signal.SIGKILL
    mount.command("attach")
    assert path.read_bytes()[:3] == (b"xxx" if power else b"abc")
    with opened(path) as fd, mmap.mmap(fd, 5000) as shared:  # the disk has no errors that nobody asked for
        shared[:3] = b"new"
        shared.flush()
        os.fsync(fd)


def test_what_it_does_not_have_is_refused(mount: Mount) -> None:
    path = mount.folder / "a"
    path.write_bytes(b"x")
    for make in (os.link, os.symlink):
        assert refused(partial(make, path, mount.folder / "b")) in ("ENOSYS", "EPERM", "EOPNOTSUPP")
    assert refused(lambda: os.mkfifo(mount.folder / "pipe")) in ("ENOSYS", "EPERM", "EOPNOTSUPP")
    libc = ctypes.CDLL(None, use_errno=True)
    (mount.folder / "b").write_bytes(b"y")
    names = bytes(path), bytes(mount.folder / "b")
    assert libc.renameat2(AT_FDCWD, names[0], AT_FDCWD, names[1], RENAME_NOREPLACE) == -1
    assert (mount.folder / "b").read_bytes() == b"y"


def test_a_full_disk_a_failing_one_and_a_slow_one_are_counted(mount: Mount) -> None:
    path = mount.folder / "a"
    with opened(path) as fd:
        mount.command("full", on=True)
        assert refused(lambda: os.write(fd, b"x")) == "ENOSPC"
        assert refused(lambda: os.posix_fallocate(fd, 0, 10)) == "ENOSPC"
        assert os.statvfs(mount.folder).f_bavail == 0
        mount.command("full", on=False)
        mount.command("fail", op="write")
        assert refused(lambda: os.write(fd, b"x")) == "EIO"
        mount.command("fail", op="sync")
        os.write(fd, b"x")
        assert refused(lambda: os.fsync(fd)) == "EIO"
        assert refused(lambda: synced(mount.folder)) == "EIO"
        mount.command("fail", op=None)
        mount.command("slow", ms=30)
        os.fsync(fd)
    state = mount.state()
    assert (state["full"], state["failed"], state["slowed"], state["slow_ms"]) == (2, 3, 1, 30)
    assert (state["writes"], state["syncs"]) == (1, 1)


MANY_SYNCS = """
import os, sys, threading
for number in range(20):
    threading.Thread(target=os.fsync, args=[os.open(f"{sys.argv[1]}{number}", os.O_RDWR | os.O_CREAT)]).start()
fd = os.open(sys.argv[1], os.O_RDONLY)
print({os.pread(fd, 1, 0) for _ in range(1000)}, flush=True)
"""


def test_a_disk_that_is_slow_does_not_hold_back_who_reads(mount: Mount) -> None:
    """However many wait for it. And they wait no longer when it is mended."""
    path = mount.folder / "a"
    path.write_bytes(b"x")
    mount.command("slow", ms=3_600_000)
    with subprocess.Popen([sys.executable, "-c", MANY_SYNCS, str(path)], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"{b'x'}\n"
        assert child.poll() is None
        mount.command("slow", ms=0)
        assert child.wait(SECONDS) == 0


def test_what_nobody_runs_on_is_changed_durably(mount: Mount) -> None:
    path = mount.folder / "a"
    mount.command("detach")
    path.write_bytes(b"by hand")
    assert cut(mount) == {"a": b"by hand"}
    mount.command("wipe")
    assert list(mount.folder.iterdir()) == []


WRITER = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
for number in range(100_000):
    os.write(fd, b"%07d\\n" % number)
    os.fsync(fd)
    os.write(1, b"%07d\\n" % number)
"""


@pytest.mark.parametrize("variant", ["plain", "torn", "reordered", "pages"])
def test_what_a_program_was_told_is_synced_is_there_after_the_power_goes_at_a_sync(mount: Mount, variant: str) -> None:
    """The program says each number when it is synced; it dies in a sync, in which the next number is lost or torn."""
    path = mount.folder / "a"
    path.write_bytes(b"")
    synced(mount.folder)
    lost = 0
    for seed in range(5):
        with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            told = child.stdout.readline()
            mount.command("cut_at_sync", pid=child.pid, variant=variant, seed=seed, within_ms=60_000)
            told += child.stdout.read()
            assert child.wait(SECONDS) == -signal.SIGKILL
        mount.command("attach")
        found = path.read_bytes()
        assert found.startswith(told)
        assert len(found) <= len(told) + 8
        lost += len(found) < len(told) + 8
        with opened(path) as fd:
            os.ftruncate(fd, 0)
            os.fsync(fd)
    assert mount.state()["cuts"] == 5
    assert lost


def test_a_program_that_is_killed_in_a_sync_leaves_what_the_next_power_cut_takes(mount: Mount) -> None:
    path = mount.folder / "a"
    path.write_bytes(b"")
    synced(mount.folder)
    left = set()
    for seed in range(5):
        with opened(path) as fd:
            os.ftruncate(fd, 0)
            os.fsync(fd)
        with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            told = child.stdout.readline()
            mount.command("cut_at_sync", pid=child.pid, variant="killed", seed=seed, within_ms=60_000)
            told += child.stdout.read()
        mount.command("attach")
        found = path.read_bytes()
        assert found.startswith(told)
        left.add(len(found) - len(told))
        assert cut(mount) == {"a": told}
    assert left <= set(range(9))
    assert 8 in left  # all of it
    assert len(left) > 1


def test_the_power_goes_after_a_time_if_nobody_syncs_and_nothing_can_be_written_until_a_process_begins(
    mount: Mount,
) -> None:
    path = mount.folder / "a"
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        mount.command("cut_at_sync", pid=child.pid, variant="plain", seed=1, within_ms=1)
        assert child.wait(SECONDS) == -signal.SIGKILL
    assert wait_until(lambda: mount.state()["cuts"] == 1, SECONDS)
    assert refused(lambda: path.write_bytes(b"x")) == "EIO"
    mount.command("attach")
    path.write_bytes(b"x")


def test_its_folder_holds_what_was_seen_in_it_once_it_is_unmounted(tmp_path: Path) -> None:
    with mounted(tmp_path) as mount:
        (mount.folder / "sub").mkdir()
        (mount.folder / "sub" / "a").write_bytes(bytes(70_000) + b"end")
    assert (tmp_path / "disk" / "sub" / "a").read_bytes() == bytes(70_000) + b"end"


def test_its_folder_holds_everything_however_long_it_takes_to_write(tmp_path: Path) -> None:
    """As with the logs of ZooKeeper, each of which begins as 64 MiB of zeros."""
    names = [f"log.{number}" for number in range(12)]
    with mounted(tmp_path) as mount:
        for name in names:
            with opened(mount.folder / name) as fd:
                os.posix_fallocate(fd, 0, 2**26)
    assert {path.name: path.stat().st_size for path in (tmp_path / "disk").iterdir()} == dict.fromkeys(names, 2**26)


def test_it_is_gone_when_its_process_is_killed(tmp_path: Path) -> None:
    possible()
    mount = Mount(tmp_path / "disk", tmp_path / "log")
    with mount:
        os.kill(mount.pid, signal.SIGKILL)
        with pytest.raises(MountError, match="the file system on"):
            mount.state()
    assert not mounts.is_mounted(mount.folder)
    assert list(mount.folder.iterdir()) == []


HOLDER = """
import sys, time
from pathlib import Path
from zab_chaos.faults.filesystem.mount import Mount
folder = Path(sys.argv[1])
mount = Mount(folder / "disk", folder / "log").__enter__()
print(mount.pid, flush=True)
open(folder / "disk" / "used", "w")
time.sleep(600)
"""


def test_it_is_gone_when_who_holds_it_is_killed_also_while_it_is_in_use(tmp_path: Path) -> None:
    possible()
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        pid = int(holder.stdout.readline())
        user = subprocess.Popen([sys.executable, "-c", "input()"], cwd=tmp_path / "disk", stdin=subprocess.PIPE)
        try:
            assert mounts.mounts_below(tmp_path) == [tmp_path / "disk"]
            holder.kill()
            assert wait_until(lambda: not mounts.mounts_below(tmp_path), SECONDS)
            assert wait_until(lambda: not Path(f"/proc/{pid}/cmdline").exists() or ended(pid), SECONDS)
        finally:
            user.kill()
            user.communicate()


def test_zab_clean_unmounts_what_was_killed_with_who_held_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stale_files, "lock_files", list)  # of this machine, not of the test
    (tmp_path / "alive").mkdir()
    with mounted(tmp_path / "alive") as alive:
        dead = Mount(tmp_path / "disk", tmp_path / "log")
        with dead:
            for process in psutil.process_iter(["name", "cmdline"]):  # who would unmount it first
                if process.info["name"] == "fusermount3" and str(dead.folder) in (process.info["cmdline"] or ()):
                    process.kill()
            os.kill(dead.pid, signal.SIGKILL)
            assert wait_until(lambda: mounts.is_dead(dead.folder), SECONDS)
            assert stale_files.remove_stale_files(tmp_path) == [dead.folder]
            assert mounts.mounts_below(tmp_path) == [alive.folder]


def test_a_mount_is_found_through_a_link(mount: Mount, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(mount.folder.parent)
    assert mounts.is_mounted(link / mount.folder.name)
    assert mounts.mounts_below(link) == [mount.folder]


def ended(pid: int) -> bool:
    """Nobody may wait for it: then it stays, dead."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_a_folder_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    possible()
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "precious").write_text("x")
    with pytest.raises(MountError, match="not empty"), Mount(tmp_path / "disk", tmp_path / "log"):
        pass
    assert (tmp_path / "disk" / "precious").read_text() == "x"


def test_an_unknown_command_is_answered(mount: Mount) -> None:
    with pytest.raises(MountError, match="'melt' is no command"):
        mount.command("melt")
    with pytest.raises(MountError, match="variant"):
        mount.command("cut_at_sync", pid=1, variant="none", seed=1, within_ms=1)
    assert mount.state()["cuts"] == 0


def test_what_a_machine_lacks_is_named_with_what_mends_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    possible()
    absent = mounts.missing_requirement(tmp_path / "fuse")
    assert absent is not None
    assert "modprobe" in absent[1]
    monkeypatch.setenv("PATH", "")
    without = mounts.missing_requirement()
    assert without is not None
    assert "fusermount3" in without[0]


def test_what_one_process_leaves_in_the_page_cache_does_not_make_the_next_ones_durable(tmp_path: Path) -> None:
    """The life after a crash that keeps the cache sees what was written. That it was never synced shows after its own end."""
    possible()
    (tmp_path / "log").mkdir()
    disk = tmp_path / "data" / "node-1"
    with Disks(RunFolder(tmp_path), [1], names="folder", with_process=True) as disks:
        disks.begin_life(1)
        disk.joinpath("old").touch()
        with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
            disks.command(1, process.pid, "power-cut", {"variant": "killed", "seed": 1, "within_ms": 1})
            assert process.wait(SECONDS) == -signal.SIGKILL
        disks.begin_life(1)
        assert [path.name for path in disk.iterdir()] == ["old"]
        disk.joinpath("new").touch()
        disks.begin_life(1)
        assert list(disk.iterdir()) == []
