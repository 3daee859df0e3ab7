"""`zab explore --on processes`: many seeds on real nodes; each seed is a run with a folder."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from zab_chaos.harness.cli.app import main

pytestmark = [pytest.mark.processes, pytest.mark.toxiproxy]


def test_each_seed_leaves_a_run_folder(short: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results, junit = tmp_path / "r", tmp_path / "junit.xml"
    words = ["explore", short, "--on", "processes", "--seeds", "1..2", "--results", str(results), "--junit", str(junit)]
    assert main([*words, "--json"]) == 0
    told = capsys.readouterr()
    answer = json.loads(told.out)
    assert (answer["seeds"], answer["verdicts"], answer["kept"]) == (2, {"PASS": 2}, 2)
    assert answer["faults"] == {"crash": 2}
    assert answer["operations"]["acked"] > 0
    assert "simulated_seconds" not in answer
    assert "2/2 seeds, 0 failed, 0 unknown" in told.err
    runs = sorted(results.glob("short/2*/run.json"))
    facts = [json.loads(path.read_text()) for path in runs]
    assert sorted((one["seed"], one["backend"]) for one in facts) == [(1, "processes"), (2, "processes")]
    cases = [case.get("name") for case in ElementTree.parse(junit).iter("testcase")]
    assert len(cases) == 2
    assert main(["verify", "--quiet", *(str(path.parent) for path in runs)]) == 0


def test_the_first_failing_run_is_shown_and_nothing_is_run_again(
    short: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "r"
    words = ["explore", short, "--on", "processes", "--seeds", "3..9", "--defect", "commit-without-quorum"]
    assert main([*words, "--results", str(results), "--json"]) == 1
    told = capsys.readouterr()
    answer = json.loads(told.out)
    (failed,) = answer["failed"]
    (run,) = results.glob("short/2*/run.json")
    assert (failed["seed"], failed["folder"]) == (3, str(run.parent))
    assert "quorum durability" in failed["violated"]
    assert answer["command"] == f"zab run {short} --seed 3 --defect commit-without-quorum"
    assert f"zab shrink {run.parent}" in told.err


def test_several_runs_at_a_time_are_told_in_the_order_of_their_seeds(
    short: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "r"
    words = ["explore", short, "--on", "processes", "--seeds", "1..3", "--jobs", "2", "--results", str(results)]
    junit = tmp_path / "junit.xml"
    assert main([*words, "--json", "--junit", str(junit)]) == 0
    told = capsys.readouterr()
    answer = json.loads(told.out)
    assert (answer["seeds"], answer["verdicts"], answer["kept"]) == (3, {"PASS": 3}, 3)
    runs = [json.loads(path.read_text()) for path in results.glob("short/2*/run.json")]
    times = {one["seed"]: (one["started"], one["ended"]) for one in runs}
    assert max(times[1][0], times[2][0]) < min(times[1][1], times[2][1])  # they ran at the same time
    assert times[3][0] > min(times[1][1], times[2][1])  # there were two at a time
    names = [case.get("name") or "" for case in ElementTree.parse(junit).iter("testcase")]
    assert [name.count(f"seed {seed}") for seed, name in enumerate(names, 1)] == [1, 1, 1]


def test_the_drawn_scenario_of_a_swarm_seed_is_a_file(short: str, tmp_path: Path) -> None:
    results = tmp_path / "r"
    words = ["explore", short, "--on", "processes", "--swarm", "--seeds", "5", "--results", str(results)]
    assert main(words) == 0
    (run,) = results.glob("short/2*/run.json")
    drawn = results / "swarm" / "short-5.toml"
    assert json.loads(run.read_text())["command"] == f"zab run {drawn} --seed 5"
    assert (run.parent / "scenario.toml").read_text() == drawn.read_text()
