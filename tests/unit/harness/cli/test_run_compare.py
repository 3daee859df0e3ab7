"""`zab run --compare`: an interruption of the first run ends the command, and a difference is reported to CI, too."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from zab_chaos.harness.cli import run as command
from zab_chaos.harness.cli.app import main
from zab_chaos.harness.runs.run import FinishedRun, run_shown

SCENARIO = """
[scenario]
name = "short"
about = "Nothing happens."
nodes = 3
duration = 0.5
"""


def test_an_interrupted_simulated_run_is_shown_and_the_second_does_not_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    began = []

    def interrupted(scenario: Any, options: Any, console: Any, *, quiet: bool) -> FinishedRun:
        began.append(options.on)
        return replace(run_shown(scenario, options, console, quiet=quiet), interrupted=True)

    monkeypatch.setattr(command, "run_shown", interrupted)
    file = tmp_path / "short.toml"
    file.write_text(SCENARIO)
    main(["run", str(file), "--on", "lockstep", "--compare", "--results", str(tmp_path)])
    assert began == ["sim"]
    out = capsys.readouterr().out
    assert "EQUAL" not in out
    assert str(tmp_path / "short") in out


def test_a_difference_is_an_error_in_the_junit_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def other_seed(scenario: Any, options: Any, console: Any, *, quiet: bool) -> FinishedRun:
        seed = options.seed + (options.on == "lockstep")
        return run_shown(scenario, replace(options, on="sim", seed=seed), console, quiet=quiet)

    monkeypatch.setattr(command, "run_shown", other_seed)
    (tmp_path / "short.toml").write_text(SCENARIO)
    words = ["run", str(tmp_path / "short.toml"), "--on", "lockstep", "--compare", "--results", str(tmp_path)]
    assert main([*words, "--junit", str(tmp_path / "junit.xml")]) == 1
    assert "the run differs from the simulated one: " in (tmp_path / "junit.xml").read_text()
