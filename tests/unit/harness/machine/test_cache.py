"""Files are put into the cache atomically, also if two processes do so at once."""

import multiprocessing
from pathlib import Path
from typing import NoReturn

import pytest

from zab_chaos.harness.machine import cache


def made_in(room: Path) -> Path:
    folder = room / "whole"
    folder.mkdir()
    folder.joinpath("jar").write_text("ours")
    return folder


def made_again(_room: Path) -> NoReturn:
    raise AssertionError("another process is creating it already")


def test_a_second_process_waits_and_uses_the_result_of_the_first(tmp_path: Path) -> None:
    target = tmp_path / "cache" / "3.9.4"
    second = multiprocessing.get_context("fork").Process(target=cache.store, args=(target, made_again))

    def meanwhile(room: Path) -> Path:
        second.start()
        return made_in(room)

    cache.store(target, meanwhile)
    second.join()
    assert second.exitcode == 0
    assert target.joinpath("jar").read_text() == "ours"
    assert {path.name for path in target.parent.iterdir()} == {target.name, cache.LOCK}


def test_what_a_killed_process_has_not_finished_is_removed(tmp_path: Path) -> None:
    target = tmp_path / "cache" / "3.9.4"
    left = target.parent / "fetching-x1"
    left.joinpath("modules").mkdir(parents=True)
    cache.store(target, made_in)
    assert not left.exists()


def test_a_failed_creation_leaves_nothing(tmp_path: Path) -> None:
    def broken(room: Path) -> Path:
        made_in(room)
        raise OSError("the connection broke")

    with pytest.raises(OSError, match="broke"):
        cache.store(tmp_path / "cache" / "3.9.4", broken)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [cache.LOCK]
