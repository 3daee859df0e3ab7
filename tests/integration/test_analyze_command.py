"""The command `zab analyze`: its output, and its error messages."""

import csv
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.integration.analyzed import Analyzed
from tests.integration.damage import saved
from zab_chaos.harness.cli.app import main
from zab_chaos.pipeline import analysis
from zab_chaos.pipeline.analysis import Analysis
from zab_chaos.pipeline.campaign import select_campaign, summary
from zab_chaos.pipeline.folders import SourceFolder

pytestmark = pytest.mark.timeout(600)
ROOT = Path(__file__).resolve().parents[2]


def test_an_interrupt_of_sparks_work_is_one_line_and_leaves_no_files(tmp_path: Path) -> None:
    """Spark's own messages are in its log file and not on the screen."""
    saved(tmp_path / "run")
    temporary, javas = tmp_path / "temporary", tmp_path / "javas"
    for folder in (temporary, javas):
        folder.mkdir()
    options = f"{os.environ['SPARK_SUBMIT_OPTS']} -Djava.io.tmpdir={javas}"
    command = [sys.executable, "-m", "zab_chaos.harness", "analyze", tmp_path / "run", "--out", tmp_path / "out"]
    with subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, "TMPDIR": str(temporary), "SPARK_SUBMIT_OPTS": options},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        while not process.stdout.readline().startswith("reading runs"):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err.count("\n"), err[:19]) == (2, 1, "Error: interrupted;"), err
    assert [*temporary.iterdir(), *javas.iterdir()] == []
    assert (tmp_path / "out" / "spark.log").stat().st_size


def test_two_campaigns_are_compared(
    analyze_here: Callable[..., int],
    analyzed: Analyzed,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Their runs were analyzed before. `tests/integration/test_research_page.py` does both in one command."""
    before, after = analyzed.campaigns

    def analyze(_spark: Any, campaigns: Mapping[str, Sequence[SourceFolder]], *_: Any) -> Analysis:
        assert list(campaigns) == [str(before), str(after)]
        judged = analyzed.analysis.verdicts
        verdicts = [it for name, folders in campaigns.items() for it in select_campaign(judged, name, folders)]
        assert [Path(it.path).parent for it in verdicts] == 8 * [before] + 8 * [after]
        return replace(analyzed.analysis, verdicts=verdicts, summary=summary(verdicts))

    monkeypatch.setattr(analysis, "analyze", analyze)
    out = tmp_path / "out"
    assert analyze_here("--compare", before, after, "--fail-if-worse", "--out", out, "--json") == 1
    answer, told = capsys.readouterr()
    said = json.loads(answer)
    assert said == json.loads((out / "comparison.json").read_text())
    assert (said["before"], said["after"]) == (str(before), str(after))
    worse = {row["what"]: row for row in said["compared"] if row["change"] == "worse"}
    assert (worse["VIOLATION"]["before"], worse["VIOLATION"]["after"], worse["VIOLATION"]["runs"]) == (0, 1, [8, 8])
    assert said["verdicts"] == [{"scenario": "(no name)", "before": {"PASS": 8}, "after": {"VIOLATION": 8}}]
    assert "0 of 8 runs, then 8 of 8 runs" in told
    assert "✗ worse" in (out / "comparison.html").read_text()
    with (out / "report.csv").open() as file:
        assert Counter(row["campaign"] for row in csv.DictReader(file)) == {str(before): 8, str(after): 8}
    assert f"all runs {out / 'report.html'}" in told


@pytest.mark.parametrize("where", ["JAVA_HOME", "PATH"])
def test_without_java_the_error_names_the_command_that_installs_it(
    tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = saved(tmp_path / "run")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv(where, str(tmp_path))
    assert main(["analyze", str(run), "--out", str(tmp_path / "out")]) == 3
    err = capsys.readouterr().err
    assert "the pipeline needs Java 17 or newer" in err
    assert "nstall" in err


def test_a_master_that_does_not_answer(tmp_path: Path) -> None:
    """In a process of its own, because Spark keeps its first session in a process."""
    run, out = saved(tmp_path / "run"), tmp_path / "out"
    command = [sys.executable, "-m", "zab_chaos.harness", "analyze", run, "--out", out, "--master", "k8s://nowhere"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 3
    assert "Spark did not start on k8s://nowhere" in done.stderr
    assert str(out / "spark.log") in done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_without_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    assert main(["analyze", str(tmp_path / "empty"), "--out", str(tmp_path / "out")]) == 4
    assert "there is no run.json in or below it" in capsys.readouterr().err
