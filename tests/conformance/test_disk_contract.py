"""The contract of a disk (`zab_chaos.node.store.disk`), tested on the real disks and on the simulated one."""

import errno
import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.mounted import after_power_cut, mounted
from tests.unit.node.store.shelf import PowerGone, faithful
from zab_chaos.model.world.disk import SimDisk
from zab_chaos.node.store.disk import FaithfulDisk, OrdinaryDisk

Start = Callable[[], FaithfulDisk | OrdinaryDisk | SimDisk]


def gone() -> None:
    raise PowerGone


class Simulated:
    """A simulated disk that outlives the process on it. To open it again is to start after a kill."""

    def __init__(self, *, keeps: bool) -> None:
        self._disk = SimDisk(faithful=not keeps, draw_sync=lambda: 0, die=gone)  # type: ignore[arg-type]

    def __call__(self) -> SimDisk:
        self._disk.lose_power()
        self._disk.new_life()
        return self._disk


KINDS = [
    "ordinary",
    "faithful",
    "simulated ordinary",
    "simulated faithful",
    pytest.param("mounted", marks=pytest.mark.fuse),
]


@pytest.fixture(params=KINDS)
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Start]:
    """Opens the same disk repeatedly. What was not durable is gone each time, except on an ordinary disk."""
    kind: str = request.param
    if kind == "mounted":
        with mounted(tmp_path) as mount:
            yield partial(after_power_cut, mount)
    elif kind.startswith("simulated"):
        yield Simulated(keeps=kind.endswith("ordinary"))
    else:
        yield (lambda: OrdinaryDisk(tmp_path)) if kind == "ordinary" else (lambda: faithful(tmp_path))


def test_written_bytes_are_read_back_synced_or_not(start: Start) -> None:
    disk = start()
    file = disk.create("a", 8)
    assert disk.read("a") == bytes(8)
    file.write(b"one")
    assert disk.read("a") == b"one" + bytes(5)
    assert (file.size, disk.unsynced_bytes) == (3, 3)
    file.sync()
    file.write_all(b"twothree", [3, 3, 8])
    assert disk.read("a") == b"onetwothree"
    assert (file.size, disk.unsynced_bytes) == (11, 8)
    file.sync()
    assert disk.unsynced_bytes == 0
    large = random.Random(1).randbytes(3 * 2**20)  # more than one call of the operating system may read
    file.write(large)
    assert disk.read("a") == b"onetwothree" + large
    file.close()
    assert disk.list() == ["a"]


def test_a_reopened_file_is_written_from_the_given_offset(start: Start) -> None:
    disk = start()
    file = disk.create("a", 8)
    file.write(b"onetwo")
    file.sync()
    file.close()
    disk.sync_directory()
    disk = start()
    file = disk.open("a", 3)
    file.write(b"2")
    file.sync()
    file.close()
    assert disk.read("a") == b"one2wo\0\0"


def test_names_change_and_errors_equal_those_of_the_operating_system(start: Start) -> None:
    disk = start()
    for name in ("a", "b"):
        file = disk.create(name)
        file.write(name.encode())
        file.sync()
        file.close()
    disk.rename("a", "c")
    disk.rename("c", "b")
    assert (disk.list(), disk.read("b")) == (["b"], b"a")
    disk.sync_directory()
    assert (start().list(), start().read("b")) == (["b"], b"a")
    with pytest.raises(FileExistsError):
        disk.create("b")
    for gone in (lambda: disk.read("a"), lambda: disk.open("a", 0), lambda: disk.remove("a")):
        with pytest.raises(FileNotFoundError):
            gone()
    disk.remove("b")
    assert disk.list() == []
    disk.sync_directory()
    assert start().list() == []


def test_faults_raise_what_a_real_disk_raises(start: Start) -> None:
    disk = start()
    file = disk.create("a")

    def number(act: Callable[[], object]) -> int | None:
        with pytest.raises(OSError) as raised:
            act()
        return raised.value.errno

    disk.faults.full = True
    assert number(lambda: file.write(b"x")) == errno.ENOSPC
    assert number(lambda: disk.create("b", 100)) == errno.ENOSPC
    assert disk.list() == ["a"]
    file.sync()
    disk.faults.full = False
    disk.faults.error = "write"
    assert number(lambda: file.write_all(b"x", [1])) == errno.EIO
    disk.faults.error = "sync"
    file.write(b"y")
    assert number(file.sync) == errno.EIO
    assert number(disk.sync_directory) == errno.EIO
    disk.faults.error = None
    file.sync()  # after a failed sync nothing is known of what was written before it
    file.write(b"z")
    file.sync()
    file.close()
    assert disk.read("a") in (b"yz", b"\0z")


@pytest.mark.parametrize("start", ["faithful", "simulated faithful"], indirect=True)
def test_bytes_readable_after_a_failed_sync_count_as_clean_and_are_lost_in_a_power_cut(start: Start) -> None:
    disk = start()
    file = disk.create("a", 8)
    file.write(b"ab")
    file.sync()
    disk.sync_directory()
    disk.faults.error, disk.faults.stays_readable = "sync", True
    file.write(b"cd")
    with pytest.raises(OSError, match="Input/output error"):
        file.sync()
    file.close()
    disk = start()
    assert (disk.read("a"), disk.unsynced_bytes) == (b"abcd\0\0\0\0", 0)
    file = disk.open("a", 3)
    file.write(b"xef")
    file.sync()
    file.close()
    assert disk.read("a") == b"abcxef\0\0"
    disk = start()
    assert disk.read("a") == b"ab\0xef\0\0"


@pytest.mark.parametrize("start", ["faithful", "simulated faithful"], indirect=True)
def test_a_process_that_goes_on_after_a_failed_sync_leaves_no_page_cache(start: Start) -> None:
    disk = start()
    file = disk.create("a", 8)
    disk.faults.error, disk.faults.stays_readable = "sync", True
    file.write(b"ab")
    with pytest.raises(OSError, match="Input/output error"):
        file.sync()
    disk.faults.error = None
    file.write(b"cd")
    file.sync()
    disk.sync_directory()
    file.close()
    assert disk.read("a") == b"abcd\0\0\0\0"
    assert start().read("a") == b"\0\0cd\0\0\0\0"


def test_unsynced_data_is_lost_unless_the_disk_is_ordinary(start: Start) -> None:
    disk = start()
    file = disk.create("a", 8)
    file.write(b"ab")
    file.sync()
    disk.sync_directory()
    file.write(b"cd")
    file.close()
    disk.create("b").close()
    disk.rename("a", "c")
    kept = not disk.faults.can_cut_power
    disk = start()
    assert disk.list() == (["b", "c"] if kept else ["a"])
    assert disk.read("c" if kept else "a") == (b"abcd" if kept else b"ab").ljust(8, b"\0")
    assert disk.unsynced_bytes == 0


def test_successful_operations_are_counted_and_failed_ones_are_not(start: Start) -> None:
    disk = start()
    file = disk.create("a", 8)
    writes, syncs = disk.writes, disk.syncs

    def done() -> tuple[int, int]:
        return disk.writes - writes, disk.syncs - syncs

    file.write(b"one")
    file.write_all(b"twothree", [3, 8])
    assert done() == (2, 0)
    file.sync()
    disk.sync_directory()
    assert done() == (2, 2)
    disk.faults.full = True
    with pytest.raises(OSError, match=r"No space left"):
        file.write(b"four")
    disk.faults.full, disk.faults.error = False, "sync"
    with pytest.raises(OSError, match=r"Input/output error"):
        file.sync()
    with pytest.raises(OSError, match=r"Input/output error"):
        disk.sync_directory()
    assert done() == (2, 2)


def test_slowed_syncs_are_counted(start: Start) -> None:
    disk = start()
    file = disk.create("a", 8)
    file.write(b"one")
    file.sync()
    slowed = disk.faults.slowed
    disk.faults.slow_ms = 1
    file.sync()
    disk.sync_directory()
    assert disk.faults.slowed - slowed == 2
