"""`zab defects --check`: its counts and output; a defect that survives and a correct core that fails are reported."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from zab_chaos.faults.defects import DEFECTS
from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.cli.app import main
from zab_chaos.harness.explore import kill_matrix
from zab_chaos.harness.explore.exploration import SeedResult
from zab_chaos.harness.explore.kill_matrix import DefectResult, DefectRuns, Effort, try_defect
from zab_chaos.harness.runs.options import RunOptions
from zab_chaos.model.verdict import Outcome

CHECK = ["defects", "--check", "--on", "sim", "--seeds", "2", "--jobs", "1"]
QUICK = "unordered-refusal"


def test_a_defect_is_caught_and_the_honest_core_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "matrix.json"
    assert main([*CHECK, "--only", QUICK, "--results", str(tmp_path / "r"), "--out", str(out), "--json"]) == 0
    told = capsys.readouterr()
    answer = json.loads(told.out)
    assert answer == json.loads(out.read_text())
    assert answer["command"].startswith(f"zab defects --check --on sim --seeds 2 --jobs 1 --only {QUICK} ")
    (row,) = answer["defects"]
    assert (row["name"], row["property"], row["survives"]) == (QUICK, "values and versions", False)
    assert row["processes"] is row["swarm"] is None
    sim = row["sim"]
    assert (sim["runs"], sim["caught"], sim["first"], sim["honest_runs"], sim["honest_passes"]) == (2, 2, 1, 2, 2)
    assert f"{QUICK}: caught" in told.err
    assert "2/2 PASS" in told.err


def test_a_survivor_is_exit_1_and_says_what_to_look_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(DEFECTS, QUICK, replace(DEFECTS[QUICK], property="recovery of the dead"))
    assert main([*CHECK, "--only", QUICK, "--results", str(tmp_path / "r")]) == 1
    told = capsys.readouterr().out
    assert f"{QUICK}: SURVIVES" in told
    assert f"zab run defects/{QUICK} --on sim --seed 1 --defect {QUICK}" in told.replace("\n", "")
    assert "0/2" in told
    assert "never" in told


def test_swarm_testing_finds_what_it_finds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "commit-without-quorum"
    arguments = ["--only", name, "--swarm", "30", "--results", str(tmp_path / "r"), "--json"]
    assert main([*CHECK, *arguments]) == 0
    swarm = json.loads(capsys.readouterr().out)["defects"][0]["swarm"]
    assert swarm["seeds"] == 30
    assert 1 <= swarm["first"] <= 30
    assert swarm["violated"]


@pytest.mark.parametrize(
    ("violated", "honest", "certain", "by_chance"),
    [
        ([["a"], ["b", "a"]], ["PASS"], True, True),
        ([["b"], ["a"]], ["PASS"], False, True),  # missed once
        ([["b"], []], ["PASS"], False, False),  # only something else was violated
        ([["a"]], ["PASS", "VIOLATION"], False, False),
        ([["a"]], ["UNKNOWN"], False, False),
    ],
)
def test_when_a_defect_is_killed(violated: list[list[str]], honest: list[str], certain: bool, by_chance: bool) -> None:
    for reason, holds in ((None, certain), ("chance", by_chance)):
        tried = DefectRuns(replace(DEFECTS[QUICK], property="a", probabilistic=reason))
        for names in violated:
            tried.broken.add(ending("VIOLATION", *names), "")
        for word in honest:
            tried.honest.add(ending(word), "")
        assert DefectResult(DEFECTS[QUICK], sim=tried).holds == holds


def ending(word: str, *violated: str) -> SeedResult:
    return SeedResult(
        seed=1, verdict=word, exit=Outcome(word).exit_code, violated=list(violated), reasons=[], seconds=0,
        faults=Counter(), operations={},
    )  # fmt: skip


def test_an_unknown_backend_is_refused_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["defects", "--check", "--on", "sims"]) == 4
    assert "Did you mean sim?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("probabilistic", "caught_in", "runs"),
    [(False, {1, 2}, 2), (False, set(), 2), (True, {1}, 2), (True, {4}, 4), (True, set(), 10)],
)
def test_a_bug_that_shows_by_chance_is_run_on_processes_until_it_is_caught(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, probabilistic: bool, caught_in: set[int], runs: int
) -> None:
    """And as often without it. `caught_in`: the runs, counted from 1, in which it shows."""
    defect = next(one for one in DEFECTS.values() if bool(one.probabilistic) is probabilistic)
    made: list[tuple[str | None, int]] = []

    def run(scenario: Scenario, options: RunOptions) -> SimpleNamespace:
        made.append((scenario.defect, options.seed))
        number = sum(name == scenario.defect for name, _ in made)
        violated = [defect.property] if scenario.defect and number in caught_in else []
        verdict = SimpleNamespace(violated=violated, exit=1 if violated else 0)
        return SimpleNamespace(verdict=verdict, folder=SimpleNamespace(path=Path(f"/runs/{len(made)}")))

    monkeypatch.setattr(kill_matrix, "run_quietly", run)
    row = try_defect(defect, Effort(seeds=0, times=2, swarm=0, jobs=None, results=tmp_path))
    assert row.processes is not None
    broken, honest = row.processes.broken, row.processes.honest
    assert (broken.runs, honest.runs, broken.good) == (runs, runs, len(caught_in))
    assert [name for name, _ in made] == [defect.name, None] * runs
    assert made[0][1] == made[1][1] == made[-1][1] - runs + 1
    assert broken.unexpected == ([] if broken.holds else [f"/runs/{2 * number - 1}" for number in range(1, runs + 1)])
