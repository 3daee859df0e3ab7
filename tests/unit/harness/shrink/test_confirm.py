"""The confirmation of a shrunk scenario on real processes; here the runs are only pretended."""

import io
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from zab_chaos.faults.scenario import Scenario, parse
from zab_chaos.harness.cli import shrink
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.harness.runs.run import FinishedRun
from zab_chaos.harness.shrink.search import Failure
from zab_chaos.model.verdict import Judgement, Outcome, Property, Verdict

SCENARIO = parse('[scenario]\nname = "x"\nabout = "y"\nduration = 1\n')


def verdict(*violated: str) -> Verdict:
    properties = [
        Property(name=name, source="-", statement="-", verdict=Judgement.VIOLATION, checked=1) for name in violated
    ]
    outcome = Outcome.VIOLATION if violated else Outcome.UNKNOWN
    return Verdict(verdict=outcome, exit=outcome.exit_code, properties=properties, reasons=[], metrics={})


@pytest.fixture
def confirm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., tuple[dict[str, Any], str]]:
    """Return a function that pretends runs with these verdicts, and returns the JSON answer and what was printed."""

    def confirmed(*verdicts: Verdict, quiet: bool = False) -> tuple[dict[str, Any], str]:
        coming = iter(verdicts)

        def run(_scenario: Scenario, _options: object, _terminal: object) -> FinishedRun:
            return FinishedRun(RunFolder(tmp_path), next(coming), interrupted=False)

        monkeypatch.setattr(shrink, "run_quietly", run)
        start: Any = SimpleNamespace(failure=Failure(verdict="VIOLATION", property="durability"))
        out = io.StringIO()
        file = tmp_path / "shrunk.toml"
        return shrink._confirm(SCENARIO, start, file, tmp_path, Console(file=out), quiet=quiet), out.getvalue()

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
