"""The manifest: the verdict on a folder that was changed after the run is UNKNOWN at best."""

import hashlib
import json
import resource
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.corpus.story import ensemble
from zab_chaos.model import manifest
from zab_chaos.model.oracle.oracle import judge
from zab_chaos.model.verdict import Outcome, Verdict


def reasons_of(verdict: Verdict) -> str:
    return "\n".join(it.words for it in verdict.property("trace integrity").violations)


def test_the_manifest_has_lines_bytes_and_digest_of_every_file(folder: Path) -> None:
    said = json.loads((folder / "manifest.json").read_text())
    assert said["format"] == 1
    assert said["lives"] == {"1": 1, "2": 1, "3": 1}
    assert said["files"].keys() == {
        "faults.jsonl", "harness.jsonl", "ops.jsonl", "run.json", "scenario.toml",
        "trace/node-1-1.jsonl", "trace/node-2-1.jsonl", "trace/node-3-1.jsonl",
    }  # fmt: skip
    content = (folder / "ops.jsonl").read_bytes()
    assert said["files"]["ops.jsonl"]["lines"] == content.count(b"\n")
    assert said["files"]["ops.jsonl"]["bytes"] == len(content)
    assert said["files"]["run.json"]["lines"] is None


def test_a_run_that_has_just_ended_needs_no_manifest(folder: Path) -> None:
    (folder / "manifest.json").unlink()
    assert judge(folder, stored=False).verdict is Outcome.PASS
    verdict = judge(folder)
    assert verdict.verdict is Outcome.UNKNOWN
    assert "manifest.json is missing" in reasons_of(verdict)


def test_a_missing_file_an_additional_one_and_a_missing_line_are_named(folder: Path) -> None:
    (folder / "scenario.toml").unlink()
    (folder / "log").mkdir()
    (folder / "log" / "node-1-1.log").write_text("late\n")
    lines = (folder / "harness.jsonl").read_text().splitlines(keepends=True)
    (folder / "harness.jsonl").write_text("".join(lines[:-1]))
    said = reasons_of(judge(folder))
    assert "scenario.toml is missing" in said
    assert "log/node-1-1.log did not exist" in said
    assert f"harness.jsonl:{len(lines) - 1} is the last of {len(lines) - 1} lines" in said


def test_a_changed_file_of_the_same_length_is_named(folder: Path) -> None:
    path = folder / "scenario.toml"
    path.write_text(path.read_text().replace("corpus", "corpse"))
    assert "scenario.toml was changed" in reasons_of(judge(folder))


@pytest.mark.parametrize("name", ["log/report.html", "trace/manifest.json", "log/data/node-1-1.log"])
def test_only_at_the_top_of_the_folder_are_files_made_later(folder: Path, name: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("late")
    assert f"{name} did not exist when the run had ended" in reasons_of(judge(folder))


def test_files_that_are_made_later_are_no_change(folder: Path) -> None:
    (folder / "report.html").write_text("<html>")
    (folder / "shrunk.toml").write_text("")
    (folder / "data" / "node-1").mkdir(parents=True)
    (folder / "data" / "node-1" / "log-1").write_bytes(b"\0")
    assert judge(folder).verdict is Outcome.PASS


def test_an_edited_manifest_makes_the_run_unknown(folder: Path) -> None:
    path = folder / "manifest.json"
    path.write_text(path.read_text().replace('"format": 1', '"format": 01'))
    assert "manifest.json is not readable" in reasons_of(judge(folder))
    manifest.seal(folder)
    path.write_text(path.read_text().replace('"2": 1', '"2": 2'))
    assert "manifest.json was changed" in reasons_of(judge(folder))


def test_a_manifest_with_other_lives_than_traces_makes_the_run_unknown(folder: Path) -> None:
    sealed, _ = manifest.check(folder)
    assert sealed is not None
    forged = msgspec.structs.replace(sealed, lives={**sealed.lives, "3": 2}).signed()
    (folder / "manifest.json").write_bytes(forged.to_json())
    assert "manifest.json lists other lives than traces" in reasons_of(judge(folder))


def test_a_dump_that_is_not_that_of_run_json_makes_the_run_unknown(folder: Path) -> None:
    content = b"DSEZAB01"
    for said, outcome in ((hashlib.sha256(content).hexdigest(), Outcome.PASS), (64 * "0", Outcome.UNKNOWN)):
        run = json.loads((folder / "run.json").read_text())
        (folder / "run.json").write_text(json.dumps({**run, "dump": said}))
        (folder / "dump.bin").write_bytes(content)
        manifest.seal(folder)
        assert judge(folder).verdict is outcome
    (folder / "dump.bin").unlink()
    manifest.seal(folder)
    assert "dump.bin is not the one that run.json names" in reasons_of(judge(folder))


def one_fault(folder: Path) -> None:
    """Write a run with one fault."""
    story = ensemble()
    story.milestone("workload-started")
    story.inject("clock-jump", [1])
    story.heal()
    story.settle()
    story.save(folder)


@pytest.mark.parametrize(("due", "outcome"), [(1, Outcome.PASS), (2, Outcome.UNKNOWN)])
def test_an_older_run_says_in_its_manifest_how_many_faults_were_due(tmp_path: Path, due: int, outcome: Outcome) -> None:
    one_fault(tmp_path)
    sealed, _ = manifest.check(tmp_path)
    assert sealed is not None
    older = msgspec.structs.replace(sealed, faults_due=due).signed()
    (tmp_path / "manifest.json").write_bytes(older.to_json())
    verdict = judge(tmp_path)
    assert verdict.verdict is outcome
    assert ("faults.jsonl has 1 of the 2 faults that were due" in reasons_of(verdict)) == (due == 2)


JUMP = {"do": "clock-jump", "target": "one"}


@pytest.mark.parametrize(
    ("schedule", "missing"),
    [
        ([JUMP | {"at": 0.0}], []),
        ([JUMP | {"at": 0.0}, JUMP | {"at": 600.0}], ["`clock-jump`, planned for 600 s"]),
        ([JUMP | {"at": 0.0, "as": "First"}, JUMP | {"at": 0.0}], ["`clock-jump` as First, planned for 0 s"]),
        ([{"at": 0.0, "do": "clock-jump", "target": ["one"]}], ["`clock-jump`, planned for 0 s"]),
        (
            [{"at": 0.0, "do": "crash", "target": "one"}, JUMP | {"at": 0.0}, {"at": 0.5, "do": "reset"}],
            ["`crash`, planned for 0 s", "`reset`, planned for 0.5 s"],
        ),
    ],
)
@pytest.mark.parametrize("ended", ["finished", "interrupted"])
def test_missing_faults_of_the_schedule_make_the_run_unknown(
    tmp_path: Path, schedule: list[dict[str, Any]], missing: list[str], ended: str
) -> None:
    one_fault(tmp_path)
    run = json.loads((tmp_path / "run.json").read_text())
    (tmp_path / "run.json").write_text(json.dumps({**run, "schedule": schedule, "outcome": ended}))
    verdict = judge(tmp_path, stored=False)
    lines = reasons_of(verdict).splitlines()
    named = [line.partition("lacks a fault of the schedule: ")[2] for line in lines if "lacks a fault" in line]
    assert named == (missing if ended == "finished" else [])
    assert (verdict.verdict is Outcome.PASS) == (ended == "finished" and not missing)


def test_a_replaced_verdict_updates_the_manifest(folder: Path) -> None:
    for _ in range(2):
        manifest.write_verdict(folder, judge(folder).to_json())
        assert judge(folder).verdict is Outcome.PASS


def test_a_replaced_verdict_does_not_hide_a_changed_folder(folder: Path) -> None:
    manifest.write_verdict(folder, judge(folder).to_json())
    (folder / "scenario.toml").write_text("")
    manifest.write_verdict(folder, judge(folder).to_json())
    assert judge(folder).verdict is Outcome.UNKNOWN
    assert json.loads((folder / "verdict.json").read_text())["verdict"] == "UNKNOWN"


def test_a_change_that_is_taken_back_has_no_effect_any_more(folder: Path) -> None:
    """The verdict of the time in between is no change of its own."""
    manifest.write_verdict(folder, judge(folder).to_json())
    (folder / "notes.txt").write_text("")
    manifest.write_verdict(folder, judge(folder).to_json())
    assert judge(folder).verdict is Outcome.UNKNOWN
    (folder / "notes.txt").unlink()
    assert judge(folder).verdict is Outcome.PASS


def test_a_replaced_verdict_does_not_hide_that_it_was_changed(folder: Path) -> None:
    manifest.write_verdict(folder, judge(folder).to_json())
    (folder / "verdict.json").write_text("{}")
    for _ in range(2):
        manifest.write_verdict(folder, judge(folder).to_json())
        assert judge(folder).verdict is Outcome.UNKNOWN


def test_without_the_line_of_the_fault_that_took_it_a_lost_disk_is_a_violation(tmp_path: Path) -> None:
    """A fault that is missing in faults.jsonl excuses nothing, even if the manifest was written again."""
    story = ensemble()
    story.wipe(3)
    story.boot(3, "amnesiac")
    story.join(3)
    story.write()
    story.settle()
    story.save(tmp_path / "run")
    assert judge(tmp_path / "run").verdict is Outcome.PASS
    (tmp_path / "run" / "faults.jsonl").write_text("")
    manifest.seal(tmp_path / "run")
    verdict = judge(tmp_path / "run")
    assert verdict.verdict is Outcome.VIOLATION
    assert [it.name for it in verdict.properties if it.verdict == "VIOLATION"] == ["disk"]


def test_a_verdict_that_cannot_be_written_leaves_the_folder_as_it_was(tmp_path: Path) -> None:
    """As on a full disk: no file of this process may be larger than the limit."""
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "verdict.json").write_bytes(b"the one of an older version")
    manifest.seal(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            manifest.write_verdict(folder, bytes(2**17))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert manifest.check(folder)[1] == []


def test_the_same_verdict_is_not_written_again(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "verdict.json").write_bytes(b"this one")
    manifest.seal(folder)
    before = {path.name: path.stat() for path in folder.iterdir()}
    manifest.write_verdict(folder, b"this one")
    assert {path.name: path.stat() for path in folder.iterdir()} == before
    manifest.write_verdict(folder, b"another one")
    assert (folder / "verdict.json").read_bytes() == b"another one"
    assert manifest.check(folder)[1] == []
