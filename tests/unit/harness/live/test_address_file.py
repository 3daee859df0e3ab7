"""The file by which a standing ensemble is found: private, gone with its process, and never mistaken for another's."""

from pathlib import Path

import msgspec
import psutil
import pytest

from zab_chaos.harness.errors import BadInput
from zab_chaos.harness.live.address_file import FOLDER, AddressFile, doors, opened, the_door
from zab_chaos.node.net.keys import files_in


def leave(results: Path, **changes: object) -> Path:
    """A door's file that nobody holds open."""
    with opened(
        results, folder=results, control="127.0.0.1:1", nodes={1: "127.0.0.1:2"}, keys=files_in(results)
    ) as door:
        left = msgspec.structs.replace(door, **changes)
    path = results / FOLDER / f"{left.pid}.json"
    path.write_bytes(msgspec.json.encode(left))
    return path


def test_it_is_found_while_it_stands_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    with opened(
        tmp_path, folder=tmp_path / "run", control="127.0.0.1:1", nodes={1: "a:2"}, keys=files_in(tmp_path)
    ) as door:
        (path,) = (tmp_path / FOLDER).iterdir()
        assert path.stat().st_mode & 0o777 == 0o600
        assert doors(tmp_path) == [door]
        assert the_door(tmp_path) == the_door(tmp_path, tmp_path / "run") == door
    assert doors(tmp_path) == []
    assert not path.exists()


@pytest.mark.parametrize("changes", [{"pid": 2**22 + 1}, {"since": 1}], ids=["no such process", "another process"])
def test_the_door_of_a_process_that_is_gone_is_removed(tmp_path: Path, changes: dict[str, object]) -> None:
    path = leave(tmp_path, **changes)
    assert doors(tmp_path) == []
    assert not path.exists()


def test_a_step_of_the_clock_closes_no_door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that the system counts from its wall clock is an hour later; a door opened before it stays one."""
    path = leave(tmp_path)
    born = psutil.Process.create_time
    monkeypatch.setattr(psutil.Process, "create_time", lambda process: born(process) + 3600)
    monkeypatch.setattr(psutil, "boot_time", lambda boot=psutil.boot_time: boot() + 3600)
    assert len(doors(tmp_path)) == 1
    assert path.exists()


def test_a_file_that_is_no_door_is_left_alone(tmp_path: Path) -> None:
    path = leave(tmp_path)
    path.write_bytes(b"{")
    assert doors(tmp_path) == []
    assert path.exists()


def test_which_one_is_meant_must_be_said_if_several_stand(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"no ensemble stands .*zab up"):
        the_door(tmp_path)
    leave(tmp_path)
    (tmp_path / FOLDER / "second.json").write_bytes(msgspec.json.encode(second(tmp_path)))
    with pytest.raises(BadInput, match="2 ensembles stand; say which"):
        the_door(tmp_path)
    assert the_door(tmp_path, tmp_path / "second").folder.endswith("second")
    with pytest.raises(BadInput, match=r"no ensemble stands in .*third; these do"):
        the_door(tmp_path, tmp_path / "third")


def second(results: Path) -> AddressFile:
    (door,) = doors(results)
    return msgspec.structs.replace(door, folder=str((results / "second").resolve()))
