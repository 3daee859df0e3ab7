"""The mounted disks of an ensemble, without file systems."""

from pathlib import Path

import pytest

from zab_chaos.faults.filesystem.mount import Mount
from zab_chaos.harness.backends.processes.disks import Disks
from zab_chaos.harness.results.run_folder import RunFolder


def test_all_disks_are_unmounted_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    for name in ("start", "await_ready", "begin_to_close", "close"):
        monkeypatch.setattr(Mount, name, lambda mount, name=name: done.append(f"{name} {mount.folder.name}"))
    with Disks(RunFolder(tmp_path), [1, 2], names="journal", with_process=False):
        done.clear()
    assert done == ["begin_to_close node-1", "begin_to_close node-2", "close node-2", "close node-1"]
