"""What `zab clean` removes of runs that were killed, and what it lets alone."""

from pathlib import Path

import pytest

from zab_chaos.harness.backends.processes import stale_files
from zab_chaos.node.net import keys
from zab_chaos.node.net.keys import KeyFiles


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[KeyFiles]:
    """The keys of two runs, with a node's configuration beside them."""
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


def test_who_asks_for_a_lock_learns_whether_it_is_held_and_leaves_it_free(runs: list[KeyFiles]) -> None:
    file = runs[0].links
    with stale_files.locked(file):
        assert stale_files.is_locked(file)
    assert not stale_files.is_locked(file)
    assert not stale_files.is_locked(file)
    file.unlink()
    assert not stale_files.is_locked(file)
