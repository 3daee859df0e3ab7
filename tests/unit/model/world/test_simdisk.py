"""The simulated disk and the real one: the same calls give the same answers, and the same bytes after a power cut."""

from itertools import accumulate
from pathlib import Path
from random import Random
from typing import get_args

import pytest

from zab_chaos.model.world.disk import SimDisk
from zab_chaos.node.store.disk import FaithfulDisk
from zab_chaos.node.store.disk_faults import Variant

NAMES = ("a", "b", "c")


class PowerGone(BaseException):
    pass


def gone() -> None:
    raise PowerGone


def sim_disk(**options: bool) -> SimDisk:
    return SimDisk(faithful=options.get("faithful", True), draw_sync=lambda: 7, die=gone)  # type: ignore[arg-type]


class Pair:
    """A real and a simulated disk on which the same calls are made."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.real = FaithfulDisk(folder, gone)
        self.sim = sim_disk()
        self.files: dict[str, tuple[object, object]] = {}

    def both(self, call: str, *arguments: object) -> object:
        """Make a call on both disks. The answers, or the kinds of error, must be equal."""
        answers = []
        for disk in (self.real, self.sim):
            try:
                answers.append(getattr(disk, call)(*arguments))
            except OSError as error:
                answers.append(type(error))
        if call in ("create", "open"):
            return answers
        assert answers[0] == answers[1], (call, arguments)
        return answers[0]

    def on_files(self, name: str, call: str, *arguments: object) -> None:
        for file in self.files[name]:
            getattr(file, call)(*arguments)

    def look(self) -> None:
        assert self.real.list() == self.sim.list()
        for name in self.real.list():
            assert self.real.read(name) == self.sim.read(name), name
        assert self.real.unsynced_bytes == self.sim.unsynced_bytes

    def power_off(self) -> None:
        """Kill the process: the real disk is opened again, and the simulated one keeps what was durable."""
        self.files.clear()
        self.real = FaithfulDisk(self.folder, gone)
        self.sim.lose_power()
        self.sim.new_life()

    def cut(self, variant: Variant, seed: int) -> None:
        for disk in (self.real, self.sim):
            with pytest.raises(PowerGone):
                disk.cut(variant, seed)
        self.power_off()


def step(pair: Pair, random: Random) -> None:
    """Make one drawn call of a store."""
    name = random.choice(NAMES)
    match random.randrange(8):
        case 0 if name not in pair.files and name not in pair.real.list():
            real, sim = pair.both("create", name, random.choice((0, 0, 40)))  # type: ignore[misc]
            pair.files[name] = (real, sim)
        case 1 | 2 | 3 if name in pair.files:
            ends = list(accumulate(random.randrange(1, 9) for _ in range(3)))
            pair.on_files(name, "write_all", random.randbytes(ends[-1]), ends)
        case 4 if name in pair.files:
            pair.on_files(name, "sync")
        case 5:
            pair.both("sync_directory")
        case 6:
            pair.both("remove", name)
            pair.files.pop(name, None)
        case 7 if name in pair.files:
            other = random.choice(NAMES)
            if other != name and other not in pair.real.list():
                pair.both("rename", name, other)
                pair.files[other] = pair.files.pop(name)


@pytest.mark.parametrize("seed", range(25))
def test_same_calls_same_bytes_also_after_power_cuts(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    pair = Pair(tmp_path)
    for _ in range(4):
        for _ in range(40):
            step(pair, random)
            pair.look()
        pair.power_off()
        pair.look()


@pytest.mark.slow
@pytest.mark.parametrize("variant", get_args(Variant))
@pytest.mark.parametrize("seed", range(12))
def test_the_same_survives_a_power_cut_after_drawn_operations(tmp_path: Path, seed: int, variant: Variant) -> None:
    """This holds for bytes and directory changes, also if the power is cut again before anything was synced."""
    random = Random(seed)
    pair = Pair(tmp_path)
    for life in range(6):
        for _ in range(random.randrange(1, 40)):
            step(pair, random)
        pair.cut(variant, seed + life)
        pair.look()
        for name in pair.real.list():
            if random.random() < 0.5:
                pair.files[name] = tuple(pair.both("open", name, random.randrange(50)))  # type: ignore[arg-type, assignment]
        if random.random() < 0.3:
            pair.power_off()
            pair.look()


@pytest.mark.parametrize("variant", ["torn", "reordered", "pages", "killed"])
@pytest.mark.parametrize("seed", range(8))
def test_the_same_part_of_a_file_survives_a_power_cut(tmp_path: Path, seed: int, variant: Variant) -> None:
    pair = Pair(tmp_path)
    pair.files["a"] = tuple(pair.both("create", "a", 100))  # type: ignore[arg-type, assignment]
    pair.on_files("a", "write", b"durable")
    pair.on_files("a", "sync")
    pair.both("sync_directory")
    pair.on_files("a", "write_all", b"onetwothree", [3, 6, 11])
    for disk, file in zip((pair.real, pair.sim), pair.files["a"], strict=True):
        disk.faults.power_cut = (variant, seed)
        with pytest.raises(PowerGone):
            file.sync()  # type: ignore[attr-defined]
    pair.power_off()
    pair.look()
    assert pair.sim.read("a").startswith(b"durable")


def test_an_ordinary_disk_keeps_everything() -> None:
    disk = sim_disk(faithful=False)
    disk.create("a").write(b"unsynced")
    disk.lose_power()
    assert disk.read("a") == b"unsynced"
    with pytest.raises(ValueError, match="ordinary"):
        disk.faults.arm_power_cut("torn", 1)


def test_an_exported_and_imported_disk_is_the_same(tmp_path: Path) -> None:
    disk = sim_disk()
    file = disk.create("log", 50)
    file.write(b"content")
    file.sync()
    disk.sync_directory()
    disk.export_to(tmp_path / "out")
    other = sim_disk()
    other.import_from(tmp_path / "out")
    assert other.read("log") == disk.read("log") == b"content".ljust(50, b"\0")


def test_the_time_of_a_sync_that_was_not_waited_for_is_owed() -> None:
    disk = sim_disk()
    file = disk.create("log")
    disk.faults.slow_ms = 1
    assert disk.sync_time() == 7 + 1_000_000
    file.sync()
    assert disk.owed_ns == 0
    file.sync()
    disk.sync_directory()
    assert disk.owed_ns == 2 * (7 + 1_000_000)
