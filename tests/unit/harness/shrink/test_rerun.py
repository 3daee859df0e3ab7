"""Shrinking on the backend of the failed run. Here a fake backend only pretends to run the candidates."""

import json
import math
import multiprocessing
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from zab_chaos.faults.scenario import Scenario, load, parse
from zab_chaos.harness.backends.backend import RunOptions
from zab_chaos.harness.cli.app import main
from zab_chaos.harness.cli.explore import command_to_shrink
from zab_chaos.harness.errors import Interrupted
from zab_chaos.harness.explore.workers import LocalWorkers
from zab_chaos.harness.results import run_folder
from zab_chaos.harness.runs.run import FinishedRun
from zab_chaos.harness.shrink import rerun, search
from zab_chaos.harness.shrink.failure import FailingCase
from zab_chaos.harness.shrink.rerun import CandidateRuns
from zab_chaos.harness.shrink.search import Failure
from zab_chaos.model.verdict import Judgement, Outcome, Property, Verdict

SOURCE = """
[scenario]
name = "three"
nodes = 3
duration = 9

[workload]
clients = 1
keys = 1

[[operation]]
at = 1

[[fault]]
at = 1
do = "latency"
target = "leader"
ms = 2
for = 1

[[fault]]
at = 3
do = "crash"
target = "node-2"
for = 1

[[fault]]
at = 6
do = "pause"
target = "node-3"
for = 1

[expect]
min_acked = 100

[ticket]
id = "ZOOKEEPER-1"
violates = ["durability"]
fails = ["3.9.4"]
passes = []
"""
DURABILITY = Failure(verdict="VIOLATION", property="durability")
Runs = Callable[[Scenario, RunOptions], FinishedRun]


def verdict(*violated: str) -> Verdict:
    properties = [
        Property(name=name, source="-", statement="-", verdict=Judgement.VIOLATION, checked=1) for name in violated
    ]
    outcome = Outcome.VIOLATION if violated else Outcome.PASS
    return Verdict(verdict=outcome, exit=outcome.exit_code, properties=properties, reasons=[], metrics={})


def crashes(scenario: Scenario) -> bool:
    return any(step.do == "crash" for step in scenario.faults)


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Scenario], tuple[str, ...]]], list[RunOptions]]:
    """Return a function that fakes all runs.

    Its argument returns the properties that a run of a scenario violates. It returns the list of the options of all runs.
    """

    def pretend(violated: Callable[[Scenario], tuple[str, ...]]) -> list[RunOptions]:
        asked: list[RunOptions] = []

        def run(scenario: Scenario, options: RunOptions) -> FinishedRun:
            asked.append(options)
            folder = run_folder.create(options.results, scenario.name, options.seed)
            folder.file("ops.jsonl").write_text("")
            return FinishedRun(folder, verdict(*violated(scenario)), interrupted=False)

        monkeypatch.setattr(rerun, "run_quietly", run)
        return asked

    return pretend


def runs(results: Path, source: str = SOURCE, times: int = 1) -> CandidateRuns:
    case = FailingCase(
        scenario=parse(source),
        seed=1,
        folder=None,
        preferred=("durability",),
        on="zookeeper",
        release="3.9.4",
        to="3.9.5",
    )
    return CandidateRuns(case=case, results=results, times=times)


def test_candidates_run_on_the_runs_backend_and_count_only_with_the_same_property(
    tmp_path: Path, pretended: Callable[..., list[RunOptions]]
) -> None:
    asked = pretended(lambda scenario: ("durability",) if crashes(scenario) else ("recovery",))
    again = runs(tmp_path)
    start = again.start(LocalWorkers(1))
    assert start is not None
    assert start.failure == DURABILITY
    assert {(options.on, options.release, options.to) for options in asked} == {("zookeeper", "3.9.4", "3.9.5")}
    assert again.try_candidate(DURABILITY, start.scenario) is not None
    assert again.try_candidate(DURABILITY, parse(SOURCE.replace('"crash"', '"stop"'))) is None


def test_no_run_of_a_candidate_is_kept(tmp_path: Path, pretended: Callable[..., list[RunOptions]]) -> None:
    """A search may take thousands of runs."""
    pretended(lambda scenario: ("durability",))
    again = runs(tmp_path)
    start = again.start(LocalWorkers(1))
    assert start is not None
    assert again.try_candidate(DURABILITY, start.scenario) is not None
    assert list(tmp_path.rglob("ops.jsonl")) == []


@pytest.mark.parametrize(("times", "fails"), [(2, False), (3, True)])
def test_one_failing_run_of_several_is_enough(
    tmp_path: Path, pretended: Callable[..., list[RunOptions]], times: int, fails: bool
) -> None:
    asked: list[RunOptions] = []
    asked = pretended(lambda scenario: ("durability",) if len(asked) == 3 else ())
    assert (runs(tmp_path, times=times).try_candidate(DURABILITY, parse(SOURCE)) is not None) is fails
    assert len(asked) == times


def test_a_candidate_that_the_backend_cannot_run_is_not_run(
    tmp_path: Path, pretended: Callable[..., list[RunOptions]]
) -> None:
    asked = pretended(lambda scenario: ("durability",))
    skewed = SOURCE + '[[fault]]\nat = 7\ndo = "clock-jump"\ntarget = "node-3"\nms = 5\n'
    assert runs(tmp_path).try_candidate(DURABILITY, parse(skewed)) is None
    assert asked == []


def failed_run(results: Path, defect: str | None = None) -> Path:
    folder = run_folder.create(results, "three", 1)
    folder.file("scenario.toml").write_text(SOURCE)
    folder.file("ops.jsonl").write_text("")
    facts: dict[str, Any] = {"backend": "zookeeper", "evidence": "logs", "versions": {"zookeeper": "3.9.4"}}
    folder.write_run({**facts, "seed": 1, "nodes": 3, "defect": defect})
    folder.store(verdict("durability"), keep_data=False)
    return folder.path


def test_the_command_finds_the_fault_that_matters(
    tmp_path: Path, pretended: Callable[..., list[RunOptions]], capsys: pytest.CaptureFixture[str]
) -> None:
    pretended(lambda scenario: ("durability",) if crashes(scenario) else ())
    folder = failed_run(tmp_path / "r")
    assert main(["shrink", str(folder), "--json", "--quiet"]) == 0
    answer = json.loads(capsys.readouterr().out)
    small = load(folder / "shrunk.toml")
    assert [step.do for step in small.faults] == ["crash"]
    assert answer["command"].endswith("--on zookeeper --zookeeper 3.9.4")
    assert answer["complete"]
    assert answer["other_seeds"] == {"tried": 0, "failed": None}
    assert small.ticket is None  # the schedule is not the ticket's any more


def test_a_defect_of_another_system_is_set_in_every_run(
    tmp_path: Path, pretended: Callable[..., list[RunOptions]], capsys: pytest.CaptureFixture[str]
) -> None:
    asked = pretended(lambda scenario: ("durability",) if crashes(scenario) else ())
    folder = failed_run(tmp_path / "r", "no-force-sync")
    assert main(["shrink", str(folder), "--json", "--quiet"]) == 0
    assert {options.defect for options in asked} == {("no-force-sync", "forceSync=no")}
    assert json.loads(capsys.readouterr().out)["command"].endswith("--zookeeper 3.9.4 --defect no-force-sync")


def test_an_interrupted_search_writes_the_smallest_scenario_so_far(
    tmp_path: Path, pretended: Callable[..., list[RunOptions]], capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[RunOptions] = []

    def violated(scenario: Scenario) -> tuple[str, ...]:
        if len(asked) > 6:
            raise Interrupted("interrupted")
        return ("durability",) if crashes(scenario) else ()

    asked = pretended(violated)
    folder = failed_run(tmp_path / "r")
    assert main(["shrink", str(folder), "--quiet"]) == 2
    small = load(folder / "shrunk.toml")
    assert crashes(small)
    assert small.nodes < 3
    assert small.expect.min_acked == 1  # a run of so small a scenario may not reach 100
    assert "the smallest failing scenario so far" in capsys.readouterr().out


def test_an_interruption_before_anything_failed_names_no_run_that_is_not_kept(
    tmp_path: Path, pretended: Callable[..., list[RunOptions]], capsys: pytest.CaptureFixture[str]
) -> None:
    def violated(scenario: Scenario) -> tuple[str, ...]:
        raise Interrupted("interrupted; the last run is /tmp/gone")

    pretended(violated)
    assert main(["shrink", str(failed_run(tmp_path / "r")), "--quiet"]) == 2
    assert capsys.readouterr().err == "Error: interrupted; no smaller scenario was found, and the runs are not kept\n"


@pytest.mark.parametrize("violated", [(), ("recovery",)], ids=["passes", "fails otherwise"])
def test_a_run_that_does_not_fail_again_is_unknown(
    tmp_path: Path,
    pretended: Callable[..., list[RunOptions]],
    capsys: pytest.CaptureFixture[str],
    violated: tuple[str, ...],
) -> None:
    asked = pretended(lambda scenario: violated)
    assert main(["shrink", str(failed_run(tmp_path / "r")), "--quiet", "--times", "2"]) == 2
    assert len(asked) % 2 == 0
    assert "did not fail again on zookeeper; --times raises the tries" in " ".join(capsys.readouterr().out.split())


def test_a_command_that_takes_real_runs_has_a_budget(tmp_path: Path) -> None:
    folder = run_folder.RunFolder(failed_run(tmp_path))
    assert command_to_shrink(folder) == f"zab shrink {folder.path} --budget 20m"
    folder.write_run({"backend": "processes"})  # the simulator can run these nodes
    assert command_to_shrink(folder) == f"zab shrink {folder.path}"


def test_rerun_needs_the_folder_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "three.toml").write_text(SOURCE)
    assert main(["shrink", str(tmp_path / "three.toml"), "--rerun"]) == 4
    assert "--rerun is for the folder of a failed run" in " ".join(capsys.readouterr().err.split())


def test_a_candidate_must_fail_with_every_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    def simulated(task: Any, seed: int) -> Any:
        violated = ["durability"] if seed == 1 else ["recovery"]
        return SimpleNamespace(verdict="VIOLATION", violated=violated, shown=())

    monkeypatch.setattr(search, "simulate_seed", simulated)
    assert search.fails_with_all(None, DURABILITY, [1], math.inf, parse(SOURCE)) is not None
    assert search.fails_with_all(None, DURABILITY, [1, 2], math.inf, parse(SOURCE)) is None


@pytest.mark.slow
def test_candidates_that_run_at_the_same_time_give_the_same_result(
    tmp_path: Path, pretended: Callable[..., list[RunOptions]], capsys: pytest.CaptureFixture[str]
) -> None:
    pretended(lambda scenario: ("durability",) if crashes(scenario) else ())
    answers = {}
    for jobs in "13":
        folder = failed_run(tmp_path / jobs)
        assert main(["shrink", str(folder), "--jobs", jobs, "--json", "--quiet"]) == 0
        answer = json.loads(capsys.readouterr().out)
        del answer["file"], answer["command"]  # they name the folder
        answers[jobs] = (answer, (folder / "shrunk.toml").read_text())
    assert answers["1"] == answers["3"]


def test_two_candidates_run_at_the_same_time(
    tmp_path: Path, pretended: Callable[..., list[RunOptions]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Each of the first two runs waits for the other. They would wait for ever if one followed the other."""
    meeting = multiprocessing.get_context("fork").Barrier(2)
    met = multiprocessing.get_context("fork").Event()

    def violated(scenario: Scenario) -> tuple[str, ...]:
        if not met.is_set():
            meeting.wait(60)
            met.set()
        return ()

    pretended(violated)
    asked = ["shrink", str(failed_run(tmp_path / "r")), "--jobs", "2", "--times", "2", "--quiet"]
    assert main(asked) == 2
    assert met.is_set()
    assert "candidates" not in capsys.readouterr().out
