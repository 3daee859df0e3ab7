"""`zab results`: which runs are listed and in which order, and the report whose path is printed."""

import json
import os
from pathlib import Path

import pytest

from tests.corpus.conduct import steady_state
from tests.corpus.delivery import agreement_fork
from zab_chaos.harness.cli.app import main
from zab_chaos.harness.runs.judgement import judge


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Three runs of two scenarios, one of which was not judged."""
    for name, story, scenario in (
        ("good/20250101T000000Z-1", steady_state(), "good"),
        ("forks/20250301T101112Z-7", agreement_fork(), "a-rather-long-name-of-a-scenario-that-forks"),
        ("good/20250201T000000Z-2", steady_state(), "good"),
    ):
        folder = tmp_path / "results" / name
        story.run |= {"scenario": scenario, "seed": int(name[-1])}
        story.save(folder)
        if not name.endswith("2"):
            folder.joinpath("verdict.json").write_bytes(judge(folder).to_json())
    (tmp_path / "results" / "latest").symlink_to("good/20250101T000000Z-1")
    return tmp_path / "results"


def list_runs(results: Path, capsys: pytest.CaptureFixture[str], *words: str) -> list[tuple[str, str, int]]:
    assert main(["results", "--results", str(results), "--json", *words]) == 0
    return [(one["made"][:10], one["verdict"], one["seed"]) for one in json.loads(capsys.readouterr().out)]


def test_each_run_is_listed_once_the_newest_first(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    march, february, january = (
        ("2025-03-01", "VIOLATION", 7),
        ("2025-02-01", "NOT-JUDGED", 2),
        ("2025-01-01", "PASS", 1),
    )
    assert list_runs(results, capsys) == [march, february, january]
    assert list_runs(results, capsys, "--last", "1") == [march]
    assert list_runs(results, capsys, "--scenario", "goo") == [february, january]
    assert list_runs(results, capsys, "--verdict", "pass") == [january]
    assert list_runs(results, capsys, "--verdict", "UNKNOWN") == []


def test_a_folder_name_with_digits_that_are_no_time(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = results / "good" / "99999999T999999Z-1"
    results.joinpath("good", "20250201T000000Z-2").rename(folder)
    os.utime(folder / "run.json", (0, 0))
    assert list_runs(results, capsys)[-1] == ("1970-01-01", "NOT-JUDGED", 2)


def test_the_list_shows_what_identifies_a_run(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["results", "--results", str(results), "--last", "1"]) == 0
    told = capsys.readouterr().out
    assert "\n1  2025-03-01 10:11:12  VIOLATION  a-rather" in told
    assert "  20250301T" in told
    assert "and 2 older; --last 3 lists all" in told
    assert "add its number to this command" in told


def test_a_report_is_made_if_it_is_missing_or_older_than_the_verdict(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = results / "forks" / "20250301T101112Z-7"
    page = folder / "report.html"
    assert main(["results", "1", "--results", str(results)]) == 0
    assert capsys.readouterr().out == f"{page}\n"
    assert "agreement" in page.read_text()
    made = page.stat().st_mtime_ns
    assert main(["results", "forks/20250301T101112Z-7", "--results", str(results)]) == 0
    assert page.stat().st_mtime_ns == made
    page.write_text("old")
    later = folder.joinpath("verdict.json").stat().st_mtime - 10
    os.utime(page, (later, later))
    assert main(["results", "1", "--results", str(results)]) == 0
    assert page.read_text() != "old"


def test_unknown_runs_and_verdicts_are_mistakes_and_an_empty_list_is_not(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["results", "4", "--results", str(results)]) == 4
    assert "there are 3 runs in the list of " in capsys.readouterr().err
    assert main(["results", "nothing", "--results", str(results)]) == 4
    assert main(["results", "--verdict", "GOOD", "--results", str(results)]) == 4
    assert "it needs one of PASS, VIOLATION" in capsys.readouterr().err
    assert main(["results", "--results", str(tmp_path / "none")]) == 0
    assert capsys.readouterr().out == f"there is no run in {tmp_path / 'none'}\n"
    assert main(["results", "--results", str(results), "--scenario", "none"]) == 0
    assert capsys.readouterr().out == f"there is no such run in {results}\n"


def test_a_number_of_many_digits_is_no_run(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["results", "9" * 5000, "--results", str(results)]) == 4
    assert "there are 3 runs in the list of " in capsys.readouterr().err
