"""The stale files that `zab clean` removes after runs were killed, and the files that it leaves alone."""

from pathlib import Path

import pytest

from zab_chaos.harness.backends.processes import stale_files
from zab_chaos.node.net import keys
from zab_chaos.node.net.keys import KeyFiles


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[KeyFiles]:
    """Create the key files of two runs, each beside a node's configuration."""
    monkeypatch.setattr(stale_files, "lock_files", list)  # of this machine, not of the test
    found = []
    for name in ("killed", "goes-on"):
        config = tmp_path / "scenario" / name / "config"
        config.mkdir(parents=True)
        (config / "node-1.json").touch()
        found.append(keys.create_files(config))
    return found


def test_a_killed_runs_keys_are_removed_and_nothing_else(runs: list[KeyFiles], tmp_path: Path) -> None:
    killed, goes_on = runs
    with stale_files.locked(goes_on.links), stale_files.locked(goes_on.control), stale_files.locked(goes_on.clients):
        assert stale_files.remove_stale_files(tmp_path) == sorted(killed)
    assert not any(path.exists() for path in killed)
    assert all(path.exists() for path in goes_on)
    assert len(list(tmp_path.rglob("node-1.json"))) == 2


def test_is_locked_leaves_the_lock_as_it_was(runs: list[KeyFiles]) -> None:
    file = runs[0].links
    with stale_files.locked(file):
        assert stale_files.is_locked(file)
    assert not stale_files.is_locked(file)
    assert not stale_files.is_locked(file)
    file.unlink()
    assert not stale_files.is_locked(file)
