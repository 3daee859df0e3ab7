"""A run's folder is as it was when the run had ended, or the verdict on it is UNKNOWN at best."""

import json
from pathlib import Path

from tests.corpus.story import ensemble
from zab_chaos.model import manifest
from zab_chaos.model.oracle.oracle import judge
from zab_chaos.model.verdict import Outcome, Verdict


def complaints(verdict: Verdict) -> str:
    return "\n".join(it.words for it in verdict.property("trace integrity").violations)


def test_it_names_every_file_with_lines_bytes_and_digest(folder: Path) -> None:
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


def test_a_run_that_has_only_just_ended_has_none_yet(folder: Path) -> None:
    (folder / "manifest.json").unlink()
    assert judge(folder, stored=False).verdict is Outcome.PASS
    verdict = judge(folder)
    assert verdict.verdict is Outcome.UNKNOWN
    assert "manifest.json is missing" in complaints(verdict)


def test_a_missing_file_an_additional_one_and_a_missing_line_are_named(folder: Path) -> None:
    (folder / "scenario.toml").unlink()
    (folder / "log").mkdir()
    (folder / "log" / "node-1-1.log").write_text("late\n")
    lines = (folder / "harness.jsonl").read_text().splitlines(keepends=True)
    (folder / "harness.jsonl").write_text("".join(lines[:-1]))
    said = complaints(judge(folder))
    assert "scenario.toml is missing" in said
    assert "log/node-1-1.log was not there" in said
    assert f"harness.jsonl:{len(lines) - 1} is the last of {len(lines) - 1} lines" in said


def test_what_is_made_later_is_no_change(folder: Path) -> None:
    (folder / "report.html").write_text("<html>")
    (folder / "shrunk.toml").write_text("")
    (folder / "data" / "node-1").mkdir(parents=True)
    (folder / "data" / "node-1" / "log-1").write_bytes(b"\0")
    assert judge(folder).verdict is Outcome.PASS


def test_a_manifest_that_was_written_by_hand(folder: Path) -> None:
    path = folder / "manifest.json"
    path.write_text(path.read_text().replace('"faults_due": 0', '"faults_due": 00'))
    assert "manifest.json is not readable" in complaints(judge(folder))
    manifest.seal(folder, faults_due=2)
    path.write_text(path.read_text().replace('"faults_due": 2', '"faults_due": 0'))
    assert "manifest.json was changed" in complaints(judge(folder))


def test_faults_that_were_due_are_on_record(folder: Path) -> None:
    manifest.seal(folder, faults_due=1)
    verdict = judge(folder)
    assert verdict.verdict is Outcome.UNKNOWN
    assert "faults.jsonl has 0 of the 1 faults that were due" in complaints(verdict)


def test_a_verdict_that_is_written_anew_belongs_to_the_folder(folder: Path) -> None:
    for _ in range(2):
        manifest.write_verdict(folder, judge(folder).to_json())
        assert judge(folder).verdict is Outcome.PASS


def test_a_new_verdict_does_not_heal_a_folder_that_was_changed(folder: Path) -> None:
    manifest.write_verdict(folder, judge(folder).to_json())
    (folder / "scenario.toml").write_text("")
    manifest.write_verdict(folder, judge(folder).to_json())
    assert judge(folder).verdict is Outcome.UNKNOWN
    assert json.loads((folder / "verdict.json").read_text())["verdict"] == "UNKNOWN"


def test_without_the_line_of_the_fault_that_took_it_a_lost_disk_is_a_violation(tmp_path: Path) -> None:
    """What is left out of faults.jsonl excuses nothing, even where the manifest was made anew."""
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
