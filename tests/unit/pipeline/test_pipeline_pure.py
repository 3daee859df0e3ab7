"""The parts of the pipeline that do not need Spark."""

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.corpus.story import ensemble
from zab_chaos.model.runfiles import read_run
from zab_chaos.pipeline import ingest
from zab_chaos.pipeline.folders import NoRuns, Size, SourceFolder, find
from zab_chaos.pipeline.lines import lines_files, read_lines, run_row
from zab_chaos.pipeline.session import is_local


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "give the folder of one run"),
        ("{", "does not describe a run"),
        ("[]", "does not describe a run"),
        ('{"nodes": 0}', "does not describe a run"),
    ],
)
def test_a_run_json_that_cannot_be_used(tmp_path: Path, text: str | None, words: str) -> None:
    if text is not None:
        (tmp_path / "run.json").write_text(text)
    row = run_row(SourceFolder(str(tmp_path)))
    assert (row["seed"], row["nodes"], row["scenario"]) == (None, None, None)
    assert words in row["error"]


def test_a_run_json_says_what_was_run(tmp_path: Path) -> None:
    said = {"nodes": 3, "seed": 7, "run": "r", "scenario": "s", "record": True, "expect": {"verdict": "PASS"}}
    (tmp_path / "run.json").write_text(json.dumps(said))
    row = run_row(SourceFolder(str(tmp_path)))
    assert (row["error"], row["nodes"], row["seed"], row["name"], row["scenario"]) == (None, 3, 7, "r", "s")
    assert (row["record"], json.loads(row["expect"]), row["defect"]) == (True, {"verdict": "PASS"}, None)


def test_fingerprint_depends_on_contents_and_stamp_on_times(tmp_path: Path) -> None:
    for name in ("a", "b"):
        ensemble(writes=2).save(tmp_path / name)
    first, copy = find([str(tmp_path)])
    assert first.fingerprint() == copy.fingerprint()
    known = copy.fingerprint()
    for name in ("record/node-1-1.bin", "sessions.jsonl", "log/node-1-1.log", "manifest.json"):
        (tmp_path / "b" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "b" / name).write_text("x")  # the judge compares it with the manifest
        changed = find([str(tmp_path)])[1]
        assert changed.fingerprint() != known
        assert changed.stamp != copy.stamp
        copy, known = changed, changed.fingerprint()
    (tmp_path / "b" / "sessions.jsonl").write_text("y")  # as long as before
    copy = find([str(tmp_path)])[1]
    assert copy.fingerprint() != known
    for name in ("report.html", "data/node-1/log"):  # not in the manifest
        (tmp_path / "b" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "b" / name).write_text("x")
    assert find([str(tmp_path)])[1] == copy
    os.utime(tmp_path / "b" / "ops.jsonl", ns=(10**18, 10**18))
    touched = find([str(tmp_path)])[1]
    assert (touched.stamp != copy.stamp, touched.fingerprint()) == (True, copy.fingerprint())
    (tmp_path / "b" / "config").mkdir()
    (tmp_path / "b" / "config" / "links.json").write_text("keys")
    in_progress = find([str(tmp_path)])[1]
    (tmp_path / "b" / "config" / "links.json").unlink()  # as a run does when it ends
    assert in_progress.fingerprint() == touched.fingerprint()


def test_disks_that_disappear_meanwhile_are_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ensemble(writes=2).save(tmp_path / "run")
    (disks := tmp_path / "run" / "data").mkdir()
    scandir = os.scandir

    def late(path: str) -> object:
        if Path(path) == disks:
            disks.rmdir()
        return scandir(path)

    monkeypatch.setattr(os, "scandir", late)
    assert [folder.path for folder in find([str(tmp_path)])] == [str(tmp_path / "run")]


def test_a_file_of_another_size_is_a_change_whatever_its_time() -> None:
    short, long = (SourceFolder("/r", {"ops.jsonl": Size(size, 5)}) for size in (1, 2))
    assert short.stamp != long.stamp


def test_runs_of_the_same_name_have_different_numbers() -> None:
    assert SourceFolder("/before/1").run != SourceFolder("/after/1").run


def test_only_files_whose_lines_have_a_table_are_read() -> None:
    names = ("ops.jsonl", "sessions.jsonl", "trace/node-10-12.jsonl", "record/node-1-1.bin", "trace/node-1-1.jsonl~")
    folder = SourceFolder("/r", {name: Size(1, 1) for name in names})
    assert [it.name for it in lines_files(folder)] == ["ops.jsonl", "trace/node-10-12.jsonl"]


def test_a_folder_that_cannot_be_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ensemble(writes=2).save(tmp_path / "run")
    scandir = os.scandir

    def refusing(path: str) -> object:
        if Path(path).name == "trace":
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.raises(NoRuns, match=r"trace can't be read: Permission denied"):
        find([str(tmp_path)])


def test_a_place_without_a_run_is_an_error_also_beside_others(tmp_path: Path) -> None:
    ensemble(writes=2).save(tmp_path / "some" / "run")
    (tmp_path / "empty").mkdir()
    with pytest.raises(NoRuns) as told:
        find([str(tmp_path / name) for name in ("none", "some", "empty")])
    assert f"{tmp_path / 'empty'}: there is no run.json in or below it" in str(told.value)
    assert f"{tmp_path / 'none'}: there is no such file or folder" in str(told.value)
    assert "some" not in str(told.value)


@pytest.mark.parametrize(
    "field",
    [b'"command": "zab \xe9"', b'"seed": %d' % 2**64, b'"x": ' + b"9" * 5000],
    ids=["no UTF-8", "more than 64 bits", "5000 digits"],
)
def test_a_run_json_that_only_the_judge_can_read_stops_no_analysis(tmp_path: Path, field: bytes) -> None:
    (tmp_path / "run.json").write_bytes(b'{"nodes": 3, ' + field + b"}")
    assert read_run(tmp_path).nodes == 3
    row = run_row(SourceFolder(str(tmp_path)))
    assert (row["path"], row["seed"]) == (str(tmp_path), None)


def test_a_run_that_is_removed_meanwhile_is_none_and_stops_no_analysis(tmp_path: Path) -> None:
    """A passed test, and an exploration, remove the folders of their runs."""
    ensemble(writes=2).save(tmp_path / "run")
    (folder,) = find([str(tmp_path)])
    shutil.rmtree(folder.path)
    assert run_row(folder)["error"].endswith("give the folder of one run, with its run.json")
    assert [line for source in lines_files(folder) for line in read_lines(source)] == []


def test_a_run_is_found_once_under_its_own_path_whatever_links_lead_to_it(tmp_path: Path) -> None:
    ensemble(writes=2).save(tmp_path / "run")
    (tmp_path / "latest").symlink_to("run")
    (tmp_path / "run" / "up").symlink_to(tmp_path)
    assert [folder.path for folder in find([str(tmp_path)])] == [str(tmp_path / "run")]


def test_lines_go_to_their_tables_or_to_the_quarantine(tmp_path: Path) -> None:
    ensemble(writes=2).save(tmp_path / "run")
    trace = tmp_path / "run" / "trace" / "node-1-1.jsonl"
    other = {"t": 1, "node": 2, "life": 1, "n": 1, "event": "exit", "code": 0}
    link = {
        "t": 1,
        "node": 1,
        "life": 1,
        "n": 1,
        "event": "link",
        "peer": 2,
        "state": "opened",
        "session": 1,
        "why": "",
    }
    frames = {**link, "n": 2, "event": "channel", "incarnation": 1, "first": 1, "last": 9, "ended": "closed"}
    with trace.open("a") as file:
        file.write("\n".join([json.dumps(link), json.dumps(frames), json.dumps(other), "no JSON", '{"t": 1, "no']))
    (folder,) = find([str(tmp_path)])
    found = [
        line for source in lines_files(folder) if source.name == "trace/node-1-1.jsonl" for line in read_lines(source)
    ]
    assert {table for _, table, *_ in found} == {"events", "broadcasts", "accepts", "deliveries", "links", "quarantine"}
    assert [number for _, _, _, number, *_ in found] == list(range(1, len(found) + 1))
    assert {line[0] for line in found} == {folder.run}
    assert [table for _, table, *_ in found[-5:]] == ["links"] * 2 + ["quarantine"] * 3
    refused = [(reason, torn) for _, table, _, _, reason, torn, _ in found if table == "quarantine"]
    assert [torn for _, torn in refused] == [False, False, True]
    assert refused[0][0] == "is of node 2, life 1"
    assert refused[1][0] is not None
    assert refused[1][0].startswith("is not readable: ")
    assert [line[-1] for line in found[-2:]] == ["no JSON", '{"t": 1, "no']


@pytest.mark.parametrize(
    "text", [b'{"type": "invoke", "op": "\xff"}', b'{"more": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"]
)
def test_an_undecodable_line_is_quarantined(tmp_path: Path, text: bytes) -> None:
    ensemble(writes=2).save(tmp_path / "run")
    with (tmp_path / "run" / "ops.jsonl").open("ab") as file:
        file.write(text + b"\n")
    (folder,) = find([str(tmp_path)])
    found = [line for source in lines_files(folder) if source.name == "ops.jsonl" for line in read_lines(source)]
    _, table, _, _, reason, torn, _ = found[-1]
    assert (table, torn) == ("quarantine", False)
    assert reason is not None
    assert reason.startswith("is not readable: ")


def test_runs_are_read_in_batches_of_limited_number_and_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest, "RUNS_AT_ONCE", 3)
    monkeypatch.setattr(ingest, "BYTES_AT_ONCE", 100)
    sizes = (1, 1, 1, 1, 200, 1, 1)
    folders = [SourceFolder(str(i), {"ops.jsonl": Size(size, 0)}) for i, size in enumerate(sizes)]
    found = [[folder.path for folder in batch] for batch in ingest._batches(folders)]
    assert found == [["0", "1", "2"], ["3", "4"], ["5", "6"]]


def test_a_local_master() -> None:
    assert is_local("local[2]")
    assert not is_local("spark://h:1")
