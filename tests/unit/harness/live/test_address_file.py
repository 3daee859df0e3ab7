"""The address file of a running ensemble: private, stale when its process is gone, and never taken for another process's."""

from pathlib import Path

import msgspec
import psutil
import pytest

from zab_chaos.harness.cli.app import main
from zab_chaos.harness.errors import BadInput
from zab_chaos.harness.live.address_file import FOLDER, AddressFile, chosen_ensemble, opened, running_ensembles
from zab_chaos.node.net.keys import files_in


def leave(results: Path, **changes: object) -> Path:
    """Write an address file that stays although the ensemble has ended."""
    with opened(
        results, folder=results, control="127.0.0.1:1", nodes={1: "127.0.0.1:2"}, keys=files_in(results)
    ) as address:
        left = msgspec.structs.replace(address, **changes)
    path = results / FOLDER / f"{left.pid}.json"
    path.write_bytes(msgspec.json.encode(left))
    return path


def test_a_running_ensemble_is_found_and_only_its_owner_can_read_the_file(tmp_path: Path) -> None:
    with opened(
        tmp_path, folder=tmp_path / "run", control="127.0.0.1:1", nodes={1: "a:2"}, keys=files_in(tmp_path)
    ) as address:
        (path,) = (tmp_path / FOLDER).iterdir()
        assert path.stat().st_mode & 0o777 == 0o600
        assert running_ensembles(tmp_path) == [address]
        assert chosen_ensemble(tmp_path) == chosen_ensemble(tmp_path, tmp_path / "run") == address
    assert running_ensembles(tmp_path) == []
    assert not path.exists()


def test_the_folder_of_an_ensemble_is_enough_to_find_it(tmp_path: Path) -> None:
    run = tmp_path / "up" / "20260101T000000Z-1"
    with opened(tmp_path, folder=run, control="127.0.0.1:1", nodes={1: "a:2"}, keys=files_in(tmp_path)) as address:
        assert chosen_ensemble(tmp_path / "other results", run) == address
        assert chosen_ensemble(tmp_path, run) == address


@pytest.mark.parametrize("changes", [{"pid": 2**22 + 1}, {"since": 1}], ids=["no such process", "another process"])
def test_the_file_of_a_process_that_is_gone_is_removed(tmp_path: Path, changes: dict[str, object]) -> None:
    path = leave(tmp_path, **changes)
    assert running_ensembles(tmp_path) == []
    assert not path.exists()


def test_setting_the_clock_does_not_make_a_file_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Times that the system derives from the wall clock change by an hour; the address file stays valid."""
    path = leave(tmp_path)
    born = psutil.Process.create_time
    monkeypatch.setattr(psutil.Process, "create_time", lambda process: born(process) + 3600)
    monkeypatch.setattr(psutil, "boot_time", lambda boot=psutil.boot_time: boot() + 3600)
    assert len(running_ensembles(tmp_path)) == 1
    assert path.exists()


def test_a_file_that_is_not_an_address_file_is_left_alone(tmp_path: Path) -> None:
    path = leave(tmp_path)
    path.write_bytes(b"{")
    assert running_ensembles(tmp_path) == []
    assert path.exists()


def test_with_several_ensembles_one_must_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match=r"no ensemble is running .*zab up"):
        chosen_ensemble(tmp_path)
    leave(tmp_path)
    (tmp_path / FOLDER / "second.json").write_bytes(msgspec.json.encode(second(tmp_path)))
    with pytest.raises(BadInput, match="2 ensembles are running; say which"):
        chosen_ensemble(tmp_path)
    assert chosen_ensemble(tmp_path, tmp_path / "second").folder.endswith("second")
    monkeypatch.chdir(tmp_path)
    assert chosen_ensemble(tmp_path, Path("second")).folder.endswith("second")
    with pytest.raises(BadInput, match=r"no ensemble is running in .*third; these are"):
        chosen_ensemble(tmp_path, tmp_path / "third")


@pytest.mark.parametrize(
    ("address", "words"), [("2", "no node 2; the nodes are 1"), ("127.0.0.1:3", "127.0.0.1:2 (node 1)\n")]
)
def test_a_client_is_told_which_ensemble_is_meant(
    address: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only the second ensemble has this node; its key file does not exist."""
    leave(tmp_path)
    other = msgspec.structs.replace(second(tmp_path), nodes={2: "127.0.0.1:3"}, secret=str(tmp_path / "second.key"))
    (tmp_path / FOLDER / "second.json").write_bytes(msgspec.json.encode(other))
    client = ["client", "--results", str(tmp_path), address, "get", "/a"]
    assert main([*client, "--ensemble", str(tmp_path)]) == 4
    assert words in capsys.readouterr().err
    assert main([*client, "--ensemble", other.folder]) == 4
    assert "second.key: the key file cannot be read" in capsys.readouterr().err
    assert main([*client, "--ensemble", other.folder, "--secret", "x"]) == 4
    assert "leave one of them out" in capsys.readouterr().err


def second(results: Path) -> AddressFile:
    (address,) = running_ensembles(results)
    return msgspec.structs.replace(address, folder=str((results / "second").resolve()))
