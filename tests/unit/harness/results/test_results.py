import json
import os
import resource
from pathlib import Path

import pytest

from tests.corpus.story import ensemble
from zab_chaos.harness.cli.app import main
from zab_chaos.harness.errors import BadInput, HarnessError
from zab_chaos.harness.results import run_folder
from zab_chaos.model import manifest


def test_runs_of_one_seed_in_one_second_get_folders_of_their_own(tmp_path: Path) -> None:
    made = [run_folder.create(tmp_path, "steady-state", 7) for _ in range(5)]
    assert len({run.path for run in made}) == 5
    assert all(run.path.parent.name == "steady-state" and run.name.split("Z-")[1].startswith("7") for run in made)


def test_latest_points_at_the_newest_run_also_when_the_results_are_moved(tmp_path: Path) -> None:
    first = tmp_path / "first"
    run_folder.create(first, "a", 1)
    newest = run_folder.create(first, "b", 2)
    assert (first / "latest").resolve() == newest.path
    moved = first.rename(tmp_path / "moved")
    assert (moved / "latest").resolve() == moved / "b" / newest.name


def test_milestones_are_lines_in_order_and_a_torn_last_one_is_left_out(tmp_path: Path) -> None:
    run = run_folder.create(tmp_path, "a", 1)
    run.milestone("established", leader=2, epoch=1)
    run.milestone("converged", zxid=[1, 5], seconds=0.1)
    with run.file("harness.jsonl").open("a") as file:
        file.write('{"t": 1, "event": "stop')
    lines = list(run.lines("harness.jsonl"))
    assert [line["event"] for line in lines] == ["established", "converged"]
    assert lines[0]["leader"] == 2
    assert lines[0]["t"] <= lines[1]["t"]
    assert list(run.lines("ops.jsonl")) == []


def test_a_run_is_found_by_path_by_place_and_as_latest(tmp_path: Path) -> None:
    run = run_folder.create(tmp_path, "a", 1)
    run.write_run({"scenario": "a"})
    for name in (str(run.path), f"a/{run.name}", "latest"):
        assert run_folder.find(tmp_path, name).path == run.path


def test_an_unknown_run_raises_with_the_newest_ones(tmp_path: Path) -> None:
    for place in ("b/20260101T000000Z-1", "a/20260102T000000Z-1", "c/20260103T000000Z-1"):
        (tmp_path / place).mkdir(parents=True)
        run_folder.RunFolder(tmp_path / place).write_run({})
    with pytest.raises(BadInput, match="c/20260103T000000Z-1\n  a/20260102T000000Z-1\n  b/20260101T000000Z-1"):
        run_folder.find(tmp_path, "nowhere")


def test_a_folder_of_runs_is_no_run_and_shows_how_to_list_them(tmp_path: Path) -> None:
    run_folder.create(tmp_path / "my runs", "a", 1).write_run({})
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInput, match=r"folder of runs. `zab results --results '.*/my runs'` lists.* newest is .*/a/"):
        run_folder.find(tmp_path / "empty", str(tmp_path / "my runs"))


def test_a_results_folder_whose_path_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    """The files of a run could not name it."""
    with pytest.raises(HarnessError, match=r"in '.*/r\\udce9sultats'.*--results"):
        run_folder.create(tmp_path / os.fsdecode(b"r\xe9sultats"), "a", 1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("blocked", ["latest", "a"])
def test_the_file_or_folder_in_the_way_is_named(tmp_path: Path, blocked: str) -> None:
    if blocked == "latest":
        (tmp_path / "latest").mkdir()
    else:
        (tmp_path / "a").touch()
    with pytest.raises(HarnessError, match=rf"\({tmp_path}/{blocked}\)\. Choose another place"):
        run_folder.create(tmp_path, "a", 1)


def test_a_results_folder_that_cannot_be_created_is_named_with_a_remedy(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(HarnessError, match=r"(?s)file.*--results"):
        run_folder.create(file, "a", 1)


def test_run_json_is_replaced_atomically(tmp_path: Path) -> None:
    run = run_folder.create(tmp_path, "a", 1)
    run.write_run({"outcome": "started"})
    run.write_run({"outcome": "finished"})
    assert json.loads(run.file("run.json").read_text()) == {"outcome": "finished"} == run.read_run()
    assert [path.name for path in run.path.iterdir() if path.name.startswith(".")] == []


def test_a_run_is_for_its_owner_only(tmp_path: Path) -> None:
    """All files of a simulated run are private; the results folder around it has the permissions of the user's umask."""
    scenario = tmp_path / "small.toml"
    scenario.write_text('[scenario]\nname = "small"\nabout = "A second."\nduration = 1\n')
    before = os.umask(0o022)
    try:
        assert (
            main(["run", str(scenario), "--on", "sim", "--keep-data", "--results", str(tmp_path / "r"), "--quiet"]) == 0
        )
    finally:
        os.umask(before)
    run = (tmp_path / "r" / "latest").resolve()
    made = [run, *run.rglob("*")]
    assert len([path for path in made if path.is_file()]) > 10
    assert {path.stat().st_mode & 0o777 for path in made if path.is_dir()} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in made if path.is_file()} == {0o600}
    assert (tmp_path / "r").stat().st_mode & 0o777 == 0o755


def test_a_report_that_cannot_be_written_leaves_the_run_as_it_was(tmp_path: Path) -> None:
    """As on a full disk. What a killed command leaves is no part of the run either."""
    folder = tmp_path / "run"
    ensemble().save(folder)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            run_folder.write_atomically(folder / "report.html", "x" * 2**17)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert manifest.check(folder)[1] == []
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []
    (folder / f"{manifest.PART}report.html.1234").write_text("x")
    assert manifest.check(folder)[1] == []


def test_a_link_stays_one_and_what_is_no_file_is_written_to(tmp_path: Path) -> None:
    link, pipe = tmp_path / "link", tmp_path / "pipe"
    link.symlink_to("page")
    run_folder.write_atomically(link, "new")
    assert link.is_symlink()
    assert (tmp_path / "page").read_text() == "new"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    run_folder.write_atomically(pipe, "new")
    assert os.read(reader, 9) == b"new"
    os.close(reader)
    assert pipe.is_fifo()
