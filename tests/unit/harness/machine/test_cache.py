"""Files are put into the cache atomically, also if two processes do so at once."""

from pathlib import Path

import pytest

from zab_chaos.harness.machine import cache


def made_in(room: Path) -> Path:
    folder = room / "whole"
    folder.mkdir()
    folder.joinpath("jar").write_text("ours")
    return folder


def test_a_folder_that_another_process_has_put_there_meanwhile_stays(tmp_path: Path) -> None:
    target = tmp_path / "cache" / "3.9.4"

    def slowly(room: Path) -> Path:
        target.mkdir()
        target.joinpath("jar").write_text("theirs")
        return made_in(room)

    cache.store(target, slowly)
    assert target.joinpath("jar").read_text() == "theirs"
    assert list(target.parent.iterdir()) == [target]


def test_a_failed_creation_leaves_nothing(tmp_path: Path) -> None:
    def broken(room: Path) -> Path:
        made_in(room)
        raise OSError("the connection broke")

    with pytest.raises(OSError, match="broke"):
        cache.store(tmp_path / "cache" / "3.9.4", broken)
    assert not any((tmp_path / "cache").iterdir())
