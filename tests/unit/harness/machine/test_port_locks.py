"""Ports are locked in a folder that is private to the user, and never through a link that another user has created."""

import os
from pathlib import Path

import pytest

from zab_chaos.harness.errors import HarnessError
from zab_chaos.harness.machine import ports
from zab_chaos.harness.machine.ports import NoFreePortError, free_ports, lock_files, release_ports


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use a temporary folder that all users share, without a runtime folder of the user."""
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(ports.tempfile, "gettempdir", lambda: str(tmp_path))
    return tmp_path / f"zab-ports-{os.getuid()}"


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    folder = tmp_path / "theirs"
    folder.mkdir(mode=0o700)
    (folder / "20000.lock").write_text("precious")
    return folder


def test_the_folder_is_made_for_this_user_only(shared: Path) -> None:
    taken = free_ports(2)
    assert shared.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in lock_files()] == sorted(f"{port}.lock" for port in taken)
    release_ports(taken)
    assert lock_files() == []


def test_a_link_in_its_place_is_refused(shared: Path, theirs: Path) -> None:
    shared.symlink_to(theirs)
    with pytest.raises(NoFreePortError, match="another user may have created it"):
        free_ports(1)
    assert lock_files() == []
    assert [path.name for path in theirs.iterdir()] == ["20000.lock"]


@pytest.mark.parametrize("mode", [0o770, 0o755, 0o777])
def test_a_folder_that_others_may_use_is_refused(shared: Path, mode: int) -> None:
    shared.mkdir()
    shared.chmod(mode)
    with pytest.raises(NoFreePortError, match="only you may use"):
        free_ports(1)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_another_users_folder_is_refused(shared: Path) -> None:
    shared.mkdir(mode=0o700)
    os.chown(shared, 65534, 65534)
    with pytest.raises(NoFreePortError, match="only you may use"):
        free_ports(1)


def test_a_lock_file_that_is_a_link_is_not_followed(
    shared: Path, theirs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ports, "HIGHEST", ports.LOWEST)  # there is one port only
    shared.mkdir(mode=0o700)
    (shared / f"{ports.LOWEST}.lock").symlink_to(theirs / "made-through-the-link")
    with pytest.raises(HarnessError, match="only 0 of 1 ports"):
        free_ports(1)
    assert not (theirs / "made-through-the-link").exists()


def test_the_runtime_folder_is_preferred_unless_others_may_use_it(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "run"
    own.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(own))
    taken = free_ports(1)
    assert lock_files()[0].parent.parent == own
    release_ports(taken)
    own.chmod(0o777)
    assert ports._lock_folder() == shared
