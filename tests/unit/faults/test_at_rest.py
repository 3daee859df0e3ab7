"""Damage of disks at rest that a node must detect."""

from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import MagicMock

import pytest

from tests.unit.node.store.shelf import Model, a_life, born, files, keep, lay_out, recover, txns
from zab_chaos.faults.at_rest import (
    OUR_FILES,
    Corrupt,
    FileDamage,
    RemoveFile,
    TruncateFile,
    files_of_kind,
)
from zab_chaos.faults.kind import FaultContext, FaultError
from zab_chaos.node.core.zxid import zxid
from zab_chaos.node.store.damage import detectable_sectors
from zab_chaos.node.store.disk import FaithfulDisk
from zab_chaos.node.store.errors import Corrupt as Refused
from zab_chaos.node.store.log_record import SECTOR
from zab_chaos.node.store.snapshot import snapshot_name


def lose(path: Path, offset: int) -> None:
    content = bytearray(path.read_bytes())
    content[offset : offset + SECTOR] = bytes(SECTOR)
    path.write_bytes(content)


def newest_file(folder: Path, kind: str) -> Path:
    return files_of_kind(folder, OUR_FILES, kind)[-1]


@pytest.fixture
def whole(tmp_path: Path) -> dict[str, bytes]:
    """Return the files of a disk with several batches in its newest segment."""
    store, model = born(tmp_path / "whole", 8192), Model()
    a_life(store, model)
    for counter in range(4, 14):
        keep(store, model, txns(zxid(2, counter), b"c" * 200))
    keep(store, model, txns(zxid(2, 14), *[b"d" * 300] * 5))
    store.close()
    return files(tmp_path / "whole")


@pytest.mark.parametrize("kind", ["log", "snapshot"])
def test_every_detectable_lost_sector_is_refused(kind: str, whole: dict[str, bytes], tmp_path: Path) -> None:
    folder = lay_out(tmp_path / "copy", whole)
    newest = newest_file(folder, kind)
    offsets = detectable_sectors(newest.name, newest.read_bytes())
    assert offsets
    for offset in offsets:
        path = newest_file(lay_out(folder, whole), kind)
        lose(path, offset)
        with pytest.raises(Refused):
            recover(folder)


def test_the_sectors_of_the_last_batch_are_not_detectable(whole: dict[str, bytes], tmp_path: Path) -> None:
    """A lost sector of the last batch looks as if it was never written: recovery cuts off the log there, without an error."""
    folder = lay_out(tmp_path / "copy", whole)
    path = newest_file(folder, "log")
    after = len(path.read_bytes().rstrip(b"\0")) // SECTOR * SECTOR
    assert after not in detectable_sectors(path.name, path.read_bytes())
    lose(path, after)
    recover(folder)


def test_a_sector_that_is_full_of_zeros_cannot_be_lost() -> None:
    """As in a snapshot with a value of zeros."""
    content = b"a" * SECTOR + bytes(2 * SECTOR) + b"b" * 2 * SECTOR
    assert detectable_sectors(snapshot_name(zxid(1, 1)), content) == [0, 3 * SECTOR]


class Disks:
    """The part of a cluster that a fault at rest uses."""

    faithful = True

    def __init__(self, folder: Path, files: Mapping[str, str] = OUR_FILES) -> None:
        self.folder = folder
        self.disk_files = files
        self.damaged: list[int] = []

    def disk_folder(self, _node: int) -> str:
        return str(self.folder)

    def note_damage(self, node: int) -> None:
        self.damaged.append(node)


@pytest.mark.parametrize("zeros", [True, False])
def test_a_sector_becomes_zeros_or_a_bit_flips(zeros: bool, whole: dict[str, bytes], tmp_path: Path) -> None:
    folder = lay_out(tmp_path / "copy", whole)
    cluster: Any = Disks(folder)
    fault = Corrupt(FaultContext(cluster, None, Random(1)), [1], {"file": "log", "zeros": zeros})
    evidence = fault.damage_disk(1)
    before, after = whole[evidence["file"]], (folder / evidence["file"]).read_bytes()
    changed = [at for at, (one, other) in enumerate(zip(before, after, strict=True)) if one != other]
    assert changed
    assert (len(changed) == 1) is not zeros
    assert all(after[at] == 0 and 0 <= at - evidence["offset"] < SECTOR for at in changed if zeros)


class Highest(Random):
    """Draws the highest value."""

    def randrange(self, stop: int, *_: Any) -> int:  # type: ignore[override]
        return stop - 1


def test_no_bit_flips_in_the_last_quarter_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "log-0000000001").write_bytes(bytes(range(1, 101)) + bytes(400))
    cluster: Any = Disks(tmp_path)
    fault = Corrupt(FaultContext(cluster, None, Highest()), [1], {"file": "log", "zeros": False})
    assert fault.damage_disk(1) == {"file": "log-0000000001", "offset": 74, "bit": 7}


@pytest.mark.parametrize(("which", "gone"), [("newest", [3]), ("older", [1, 2]), ("all", [1, 2, 3])])
def test_the_files_of_a_kind_that_are_removed(which: str, gone: list[int], tmp_path: Path) -> None:
    names = [f"log-000000000{number}" for number in (1, 2, 3)]
    for name in names:
        (tmp_path / name).write_bytes(b"x")
    cluster: Any = Disks(tmp_path)
    fault = RemoveFile(FaultContext(cluster, None), [1], {"file": "log", "which": which})
    assert cluster.damaged == []
    wiped = {"wiped": True} if which == "all" else {}
    assert fault.damage_disk(1) == {"files": [names[number - 1] for number in gone], "left": 3 - len(gone), **wiped}
    assert cluster.damaged == [1]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        name for number, name in enumerate(names, 1) if number not in gone
    ]


DAMAGES: list[tuple[type[FileDamage], dict[str, Any]]] = [
    (Corrupt, {"file": "log", "zeros": False}),
    (Corrupt, {"file": "log", "zeros": True}),
    (TruncateFile, {"file": "log", "bytes": 64}),
    (RemoveFile, {"file": "log", "which": "newest"}),
]


@pytest.mark.parametrize(("kind", "params"), DAMAGES)
def test_damage_that_leaves_the_files_as_they_are_is_an_error(
    kind: type[FileDamage],
    params: dict[str, Any],
    whole: dict[str, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster: Any = Disks(lay_out(tmp_path / "copy", whole))
    fault = kind(FaultContext(cluster, None, Random(1)), [1], params)
    for name in ("write_bytes", "open", "unlink"):
        monkeypatch.setattr(Path, name, MagicMock())
    monkeypatch.setattr(Path, "read_bytes", lambda path: whole[path.name])
    with pytest.raises(FaultError, match="as it was"):
        fault.damage_disk(1)
    assert cluster.damaged == []


def test_there_may_be_no_older_file_to_remove_only_in_a_drawn_schedule(tmp_path: Path) -> None:
    (tmp_path / "log-0000000001").write_bytes(b"x")
    cluster: Any = Disks(tmp_path)
    params = {"file": "log", "which": "older"}
    assert RemoveFile(FaultContext(cluster, None, drawn=True), [1], params).damage_disk(1) == {
        "files": [],
        "left": 1,
        "unchanged": True,
    }
    with pytest.raises(FaultError, match="as it was"):
        RemoveFile(FaultContext(cluster, None), [1], params).damage_disk(1)


THEIR_FILES = {"log": "wal/*.wal", "snapshot": "*.db"}


def test_the_files_of_another_program_are_found_by_its_patterns(tmp_path: Path) -> None:
    """The newest has the last name, and a snapshot is newer than a log. Empty files, and files of no kind, are left alone."""
    tmp_path.joinpath("wal").mkdir()
    for name, content in (("9.wal", b"a"), ("10.wal", b"b"), ("11.wal", b""), ("3.tmp", b"c")):
        tmp_path.joinpath("wal", name).write_bytes(content)
    with pytest.raises(FaultError, match="there is no snapshot"):
        files_of_kind(tmp_path, THEIR_FILES, "snapshot")
    assert [path.name for path in files_of_kind(tmp_path, THEIR_FILES, "any")] == ["9.wal", "10.wal"]
    tmp_path.joinpath("1.db").write_bytes(b"d")
    assert [path.name for path in files_of_kind(tmp_path, THEIR_FILES, "any")] == ["9.wal", "10.wal", "1.db"]
    with pytest.raises(FaultError, match="there is no current-epoch"):
        files_of_kind(tmp_path, THEIR_FILES, "current-epoch")


def test_in_a_file_of_another_program_a_bit_flips_instead_of_a_sector(tmp_path: Path) -> None:
    """It is not known which of its sectors a power cut may leave unwritten."""
    path = tmp_path / "7.db"
    path.write_bytes(b"a" * 4 * SECTOR)
    cluster: Any = Disks(tmp_path, THEIR_FILES)
    fault = Corrupt(FaultContext(cluster, None, Random(1)), [1], {"file": "any", "zeros": True})
    assert fault.damage_disk(1).keys() == {"file", "offset", "bit"}
    assert fault.describe() == "node 1: a sector of zeros in the log or snapshot"
    assert len(path.read_bytes()) - path.read_bytes().count(b"a") == 1


def test_what_a_killed_process_kept_in_the_page_cache_is_lost_with_the_files(tmp_path: Path) -> None:
    """The next life would look for the file to which the kept writes belong."""
    disk = FaithfulDisk(tmp_path, die=lambda: None)
    file = disk.create("log-00000001")
    file.write(b"durable")
    file.sync()
    disk.sync_directory()
    file.write(b"cached")
    with pytest.raises(OSError, match="power"):
        disk.cut("killed", 1)
    cluster: Any = Disks(tmp_path)
    fault = RemoveFile(FaultContext(cluster, None), [1], {"file": "any", "which": "all"})
    assert fault.damage_disk(1) == {"files": ["log-00000001"], "left": 0, "wiped": True}
    assert FaithfulDisk(tmp_path).list() == []
