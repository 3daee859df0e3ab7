import os
from pathlib import Path

import pytest

from zab_chaos.harness.errors import BadInput
from zab_chaos.harness.runs import catalogue


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("leader-crash", "power-outage", "defects/ack-before-sync"):
        path = tmp_path / f"{name}.toml"
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    monkeypatch.setattr(catalogue, "folder", lambda: tmp_path)
    return tmp_path


def test_shipped_scenarios_have_names_and_those_of_defects_a_prefix(shelf: Path) -> None:
    assert list(catalogue.shipped()) == ["leader-crash", "power-outage", "defects/ack-before-sync"]


def test_a_name_or_any_path_is_found(shelf: Path, tmp_path: Path) -> None:
    assert catalogue.find("leader-crash") == shelf / "leader-crash.toml"
    own = tmp_path / "own.toml"
    own.write_text("")
    assert catalogue.find(str(own)) == own


def test_a_folder_is_no_scenario_file(shelf: Path) -> None:
    with pytest.raises(BadInput, match=f"^{shelf}/defects is a folder, not a scenario file"):
        catalogue.find(f"{shelf}/defects")


@pytest.mark.parametrize("wrong", ["leader-crsh", "leadercrash", "somewhere/leader-crash.toml"])
def test_a_near_miss_gets_a_suggestion(shelf: Path, wrong: str) -> None:
    with pytest.raises(BadInput, match="Did you mean leader-crash"):
        catalogue.find(wrong)


@pytest.mark.parametrize("wrong", ["stroy.toml", "story"])
def test_a_near_miss_of_a_file_beside_it_gets_a_suggestion(
    shelf: Path, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    monkeypatch.chdir(shelf / "defects")
    (shelf / "defects/story.toml").write_text("")
    with pytest.raises(BadInput, match=r"Did you mean story\.toml"):
        catalogue.find(wrong)


@pytest.mark.parametrize("wrong", ["4643", "ZOOKEEPER-4643", "zookeeper-4643"])
def test_a_ticket_gets_the_name_of_its_scenario(shelf: Path, wrong: str) -> None:
    (shelf / "zookeeper").mkdir()
    (shelf / "zookeeper/4643.toml").touch()
    with pytest.raises(BadInput, match=rf"no scenario is called '{wrong}'\. Did you mean zookeeper/4643\?$"):
        catalogue.find(wrong)


@pytest.mark.parametrize("wrong", ["zzz", "zzz.toml"])
def test_a_far_miss_names_the_command_that_lists_them(shelf: Path, wrong: str) -> None:
    with pytest.raises(BadInput, match=rf"{wrong}'?\. `zab scenarios` lists those that are included\.$"):
        catalogue.find(wrong)


def test_an_empty_name_is_not_the_current_folder() -> None:
    with pytest.raises(BadInput, match="no scenario is called ''"):
        catalogue.find("")


def test_a_pipe_is_not_called_a_missing_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadInput, match=r"/pipe is a pipe or a device. Write the scenario to a file"):
        catalogue.find(str(tmp_path / "pipe"))
