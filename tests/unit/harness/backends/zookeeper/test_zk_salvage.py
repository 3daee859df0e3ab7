"""The evidence of a run whose harness was killed."""

import json
from pathlib import Path

from zab_chaos.harness.backends.zookeeper.salvage import salvage
from zab_chaos.harness.results.run_folder import RunFolder


def test_epochs_are_left_out_because_one_salvaged_life_stands_for_many(tmp_path: Path) -> None:
    """The disk lacks acceptedEpoch, as after a fault that removed it."""
    folder = RunFolder(tmp_path)
    folder.write_run({"nodes": 1})
    disk = folder.file("data", "node-1", "version-2")
    disk.mkdir(parents=True)
    (disk / "currentEpoch").write_text("2")
    folder.file("trace").mkdir()
    folder.file("harness.jsonl").touch()
    folder.file("ops.jsonl").touch()
    assert salvage(folder) is not None
    boot, left = (json.loads(line) for line in folder.file("trace", "node-1-1.jsonl").read_text().splitlines())
    assert [(it["event"], it["accepted_epoch"], it["current_epoch"]) for it in (boot, left)] == [
        ("boot", 0, 0), ("left", 0, 0)
    ]  # fmt: skip
