"""The confirmation of a shrunk scenario on real processes; here the runs are only pretended."""

import io
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from rich.console import Console

from zab_chaos.faults.scenario import Scenario, load, parse
from zab_chaos.harness.cli import shrink
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.harness.runs.options import RunOptions
from zab_chaos.harness.runs.run import FinishedRun
from zab_chaos.harness.shrink.search import Failure, OtherSeeds
from zab_chaos.model.verdict import Judgement, Outcome, Property, Verdict
from zab_chaos.node.config import Limits

SCENARIO = parse('[scenario]\nname = "x"\nabout = "y"\nduration = 1\n')

DURABILITY = Failure(verdict="VIOLATION", property="durability")


def verdict(*violated: str) -> Verdict:
    properties = [
        Property(name=name, source="-", statement="-", verdict=Judgement.VIOLATION, checked=1) for name in violated
    ]
    outcome = Outcome.VIOLATION if violated else Outcome.UNKNOWN
    return Verdict(verdict=outcome, exit=outcome.exit_code, properties=properties, reasons=[], metrics={})


@pytest.fixture
def confirm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., tuple[dict[str, Any], str]]:
    """Return a function that pretends runs with these verdicts, and returns the JSON answer and what was printed.

    It appends the scenario and the options of each run to `ran`.
    """

    def confirmed(
        *verdicts: Verdict,
        quiet: bool = False,
        scenario: Scenario = SCENARIO,
        ran: list[Any] | None = None,
        failure: Failure = DURABILITY,
    ) -> tuple[dict[str, Any], str]:
        coming = iter(verdicts)

        def run(scenario: Scenario, options: RunOptions, _terminal: object) -> FinishedRun:
            if ran is not None:
                ran.extend((scenario, options))
            return FinishedRun(RunFolder(tmp_path), next(coming), interrupted=False)

        monkeypatch.setattr(shrink, "run_quietly", run)
        start: Any = SimpleNamespace(failure=failure)
        out = io.StringIO()
        file = tmp_path / "shrunk.toml"
        return shrink._confirm(scenario, start, file, tmp_path, Console(file=out), quiet=quiet), out.getvalue()

    return confirmed


def test_another_violation_is_named_because_it_does_not_count(
    confirm: Callable[..., tuple[dict[str, Any], str]],
) -> None:
    answer, out = confirm(verdict("agreement", "total order"), verdict(), verdict("agreement"))
    assert not answer["confirmed"]
    assert "(VIOLATION of agreement, total order; UNKNOWN; VIOLATION of agreement): in none" in out
    assert "durability is violated" in out


def test_each_run_is_announced(confirm: Callable[..., tuple[dict[str, Any], str]]) -> None:
    answer, out = confirm(verdict(), verdict("durability"))
    assert (answer["confirmed"], answer["tries"]) == (True, 2)
    assert [line for line in out.splitlines() if line.startswith("confirming")] == [
        "confirming on real processes, run 1 of at most 3",
        "confirming on real processes, run 2 of at most 3",
    ]
    assert "confirming" not in confirm(verdict("durability"), quiet=True)[1]


def test_a_result_that_processes_cannot_run_is_not_tried(
    confirm: Callable[..., tuple[dict[str, Any], str]],
) -> None:
    answer, out = confirm(scenario=replace(SCENARIO, erratic_network=True))
    assert (answer["confirmed"], answer["tries"], answer["run"]) == (False, 0, None)
    assert "not tried on real processes: erratic_network = true can't be done on processes" in " ".join(out.split())


def test_a_crash_state_of_the_simulator_is_not_tried(confirm: Callable[..., tuple[dict[str, Any], str]]) -> None:
    answer, out = confirm(failure=Failure(verdict="VIOLATION", property="disk", milestones=frozenset({"crash-state"})))
    assert (answer["confirmed"], answer["tries"], answer["run"]) == (False, 0, None)
    assert "only the simulator tries crash states" in " ".join(out.split())


def test_why_runs_could_not_be_judged_is_shown(confirm: Callable[..., tuple[dict[str, Any], str]]) -> None:
    unsure = msgspec.structs.replace(verdict(), reasons=["the healing of fault 1 was not confirmed"])
    answer, out = confirm(unsure, verdict(), unsure)
    assert "UNKNOWN: the healing of fault 1 was not confirmed" in answer["why"]
    assert "UNKNOWN: the healing of fault 1 was not confirmed" in " ".join(out.split())


def test_real_queues_are_not_short(confirm: Callable[..., tuple[dict[str, Any], str]], tmp_path: Path) -> None:
    """The run then has another scenario than the file of the result, and its command names that scenario."""
    short = parse(SCENARIO.source + "[limits]\nqueue_frames = 1\n")
    ran: list[Any] = []
    assert confirm(verdict("durability"), scenario=short, ran=ran)[0]["confirmed"]
    scenario, options = ran
    assert scenario.limits == Limits()
    command = shlex.split(options.command)
    assert load(command[2]).limits == Limits()
    assert command[2] != str(tmp_path / "shrunk.toml")


@pytest.mark.parametrize(
    ("out_of_budget", "tried", "words"),
    [
        (True, 0, "a larger --budget may find a smaller scenario; 20 of 20 other seeds were not tried"),
        (True, 20, "a larger --budget may find a smaller scenario"),
        (False, 15, "5 of 20 other seeds were not tried"),
    ],
)
def test_what_a_used_up_budget_has_left_out_is_told(out_of_budget: bool, tried: int, words: str) -> None:
    search: Any = None
    result = shrink._Result(
        scenario=SCENARIO,
        after=None,
        search=search,
        out_of_budget=out_of_budget,
        others=OtherSeeds(tried, {}),
        seconds=1,
    )
    assert shrink._left_out(result) == words
