"""Finding files in folders that other processes change at the same time."""

import shutil
from pathlib import Path

from zab_chaos.harness.machine import files


def test_files_at_any_depth_are_found_but_not_through_links(tmp_path: Path) -> None:
    for path in ("run.json", "a/run.json", "a/b/run.json", "a/b/other.json"):
        tmp_path.joinpath(path).parent.mkdir(parents=True, exist_ok=True)
        tmp_path.joinpath(path).touch()
    tmp_path.joinpath("latest").symlink_to("a")
    tmp_path.joinpath(".latest.1").symlink_to("gone")
    found = sorted(str(path.relative_to(tmp_path)) for path in files.below(tmp_path, ["run.json"]))
    assert found == ["a/b/run.json", "a/run.json", "run.json"]


def test_a_folder_that_vanishes_meanwhile_is_skipped(tmp_path: Path) -> None:
    for name in "ab":
        tmp_path.joinpath(name).mkdir()
        tmp_path.joinpath(name, "run.json").touch()
    found = files.below(tmp_path, ["run.json"])
    first = next(found).parent.name
    shutil.rmtree(tmp_path / ("b" if first == "a" else "a"))
    assert list(found) == []
