"""`zab zookeeper`: lists and fetches releases, and reports bad input."""

import json
from pathlib import Path

import pytest

from zab_chaos.harness.backends.zookeeper import releases
from zab_chaos.harness.cli.app import main


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(releases.cache, "folder", lambda: tmp_path)
    return tmp_path


def test_without_a_command_it_prints_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["zookeeper"]) == 0
    shown = capsys.readouterr()
    assert "fetch" in shown.out
    assert shown.err == ""


def test_the_list_shows_which_releases_are_cached(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (cache / "zookeeper" / "3.8.4").mkdir(parents=True)
    assert main(["zookeeper", "list", "--json"]) == 0
    told = {one["version"]: one["here"] for one in json.loads(capsys.readouterr().out)}
    assert told["3.8.4"] is True
    assert told["3.9.4"] is False
    assert main(["zookeeper", "list"]) == 0
    assert "zab zookeeper fetch 3.9.4" in capsys.readouterr().out


def test_an_invalid_version_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["zookeeper", "fetch", "latest"]) == 4
    assert "is not a version" in capsys.readouterr().err


def test_an_unreachable_repository_names_the_remedy(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZAB_MAVEN", "http://127.0.0.1:1")
    assert main(["zookeeper", "fetch", "3.9.4"]) == 3
    assert "ZAB_MAVEN" in capsys.readouterr().err


def test_an_upgrade_to_a_release_that_can_not_be_fetched_does_not_start(
    cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZAB_MAVEN", "http://127.0.0.1:1")
    monkeypatch.setattr(releases, "find_java", lambda: "java")
    (cache / "zookeeper" / "3.8.4").mkdir(parents=True)
    monkeypatch.setattr(releases, "locate_byteman", lambda _: cache)
    words = ["run", "zookeeper/upgrade", "--zookeeper", "3.8.4", "--to", "3.9.4", "--results", str(cache / "results")]
    assert main(words) == 3
    assert "ZooKeeper 3.9.4 could not be fetched" in capsys.readouterr().err
    assert not (cache / "results").exists()
    assert main([*words, "--from", "3.8.4"]) == 4
    assert "give one of them" in capsys.readouterr().err
