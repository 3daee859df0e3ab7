"""Arguments of `zab analyze` and `zab explore --master`: all mistakes are reported at once, before Spark is started."""

import sys
from pathlib import Path

import pytest

from zab_chaos.harness.cli.app import main


def told(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(arguments) == 4
    return capsys.readouterr().err


def test_all_mistakes_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.write_text("")
    wrong = ["--master", "sparkle", "--memory", "4", "--out", str(file), "--compare", "a", str(file)]
    said = told(["analyze", str(tmp_path / "none"), *wrong], capsys)
    for words in (
        "give the RESULTS to analyze, or two campaigns with --compare A B, not both",
        f"{tmp_path / 'none'}: there is no such file or folder",
        "a: there is no such file or folder",
        f"{file} is a file; give a run folder",
        "--master is 'sparkle'; it needs a Spark master's URL",
        "--memory is '4'; it needs a number and k, m or g",
        f"--out is {file}, which is a file",
    ):
        assert words in said


def test_no_places_are_given(capsys: pytest.CaptureFixture[str]) -> None:
    assert "give the RESULTS to analyze" in told(["analyze"], capsys)


@pytest.mark.parametrize(
    "master", ["local", "local[*]", "local[4]", "local[4,2]", "spark://host:7077", "yarn", "k8s://https://h:1"]
)
def test_valid_masters(master: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--master" not in told(["analyze", str(tmp_path / "none"), "--master", master], capsys)


def test_a_pattern_may_name_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "runs").mkdir()
    assert "there is no such" not in told(["analyze", f"{tmp_path}/r*", "--memory", "much"], capsys)
    assert "there is no such" in told(["analyze", f"{tmp_path}/s*"], capsys)


def test_a_uri_is_refused_with_advice(capsys: pytest.CaptureFixture[str]) -> None:
    said = told(["analyze", "hdfs://host/runs", "--out", "s3://bucket/x"], capsys)
    assert "hdfs://host/runs: a URI can't be analyzed; give a path that this machine and all executors can read" in said
    assert "--out is s3://bucket/x; it needs a folder" in said


def test_a_master_for_an_exploration(capsys: pytest.CaptureFixture[str]) -> None:
    said = told(["explore", "lab-flapping", "--seeds", "1", "--jobs", "2", "--master", "here"], capsys)
    assert "--master is 'here'" in said
    assert "--jobs and --master exclude each other" in said
    assert "lab-flapping runs on this machine only" in said


def test_options_for_comparisons_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--fail-if-worse needs --compare A B" in told(["analyze", str(tmp_path), "--fail-if-worse"], capsys)


def test_a_place_for_the_results_that_cannot_be_used_is_reported_before_spark_is_started(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zab_chaos.harness.explore.spark_session.spark", lambda *_: pytest.fail("Spark is started"))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text("{}")
    (tmp_path / "file").write_text("")
    assert main(["analyze", str(tmp_path), "--out", str(tmp_path / "file" / "out")]) == 3
    assert f"{tmp_path}/file/out cannot be used: Not a directory" in capsys.readouterr().err


def test_without_the_packages_of_the_pipeline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are reported before Spark is started, with the command that installs them."""
    monkeypatch.setitem(sys.modules, "scipy", None)
    for name in [name for name in sys.modules if name.startswith("zab_chaos.pipeline.")]:
        monkeypatch.delitem(sys.modules, name)
    assert main(["analyze", str(tmp_path)]) == 4
    said = capsys.readouterr().err
    assert "the pipeline needs scipy, which is not installed" in said
    assert "pip install 'zab-chaos[pipeline]'" in said
