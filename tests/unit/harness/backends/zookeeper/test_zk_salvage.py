"""The evidence of a run whose harness was killed, or made to end at once."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from zab_chaos.harness.backends.zookeeper.salvage import salvage
from zab_chaos.harness.backends.zookeeper.txnlog import read_disk
from zab_chaos.harness.cli import verify
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.model import manifest

LOG = Path(__file__).parents[4] / "testdata" / "zookeeper" / "3.9.4" / "log.100000001"


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """A run with one server, whose disk is empty."""
    made = RunFolder(tmp_path)
    made.write_run({"nodes": 1})
    made.file("data", "node-1", "version-2").mkdir(parents=True)
    made.file("trace").mkdir()
    made.file("harness.jsonl").touch()
    made.file("ops.jsonl").touch()
    return made


def trace(folder: RunFolder) -> list[dict[str, Any]]:
    assert salvage(folder) is not None
    return [json.loads(line) for line in folder.file("trace", "node-1-1.jsonl").read_text().splitlines()]


def test_epochs_are_left_out_because_one_salvaged_life_stands_for_many(folder: RunFolder) -> None:
    """The disk lacks acceptedEpoch, as after a fault that removed it."""
    folder.file("data", "node-1", "version-2", "currentEpoch").write_text("2")
    boot, left = trace(folder)
    assert [(it["event"], it["accepted_epoch"], it["current_epoch"]) for it in (boot, left)] == [
        ("boot", 0, 0), ("left", 0, 0)
    ]  # fmt: skip


def test_times_are_those_of_the_run_even_after_a_reboot(folder: RunFolder) -> None:
    """The monotonic clock begins anew with each boot of the machine; that of the run was far ahead of the present one."""
    disk = folder.file("data", "node-1")
    shutil.copy(LOG, disk / "version-2")
    made = [txn.time * 1_000_000 for txn in read_disk(disk).transactions]
    before = 10**18
    lines = [{"t": before, "event": "clocks", "wall": made[0]}, {"t": before + 10**9, "event": "workload-started"}]
    folder.file("harness.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    times = [event["t"] for event in trace(folder) if event["event"] == "broadcast"]
    assert times == [before + at - made[0] for at in made]


@pytest.mark.parametrize(
    ("outcome", "made"), [("unfinished", True), ("interrupted", True), ("harness-error: no", True), ("finished", False)]
)
def test_the_traces_of_every_run_that_has_not_finished_are_made(outcome: str, made: bool, folder: RunFolder) -> None:
    folder.write_run({"nodes": 1, "backend": "zookeeper", "outcome": outcome})
    assert (verify._salvage(folder) is not None) == made
    assert any(folder.file("trace").iterdir()) == made


def test_the_traces_are_added_to_the_manifest(folder: RunFolder) -> None:
    manifest.seal(folder.path)
    trace(folder)
    sealed, changes = manifest.check(folder.path)
    assert (sealed is not None and sealed.lives, changes) == ({"1": 1}, [])


def test_a_run_that_was_changed_before_stays_so(folder: RunFolder) -> None:
    manifest.seal(folder.path)
    folder.file("ops.jsonl").unlink()
    folder.file("ops.jsonl").write_text("\n")
    trace(folder)
    assert [change.file for change in manifest.check(folder.path)[1]] == ["trace/node-1-1.jsonl", "ops.jsonl"]


def test_a_run_without_a_manifest_gets_none(folder: RunFolder) -> None:
    trace(folder)
    assert not folder.file("manifest.json").exists()


def test_traces_that_were_removed_are_not_made_again(folder: RunFolder) -> None:
    folder.file("trace", "node-1-1.jsonl").touch()
    manifest.seal(folder.path)
    folder.file("trace", "node-1-1.jsonl").unlink()
    assert salvage(folder) is None
    assert not any(folder.file("trace").iterdir())
