"""`zab up` while the ensemble starts and after its end. What happens in between is tested in tests/integration/test_up.py."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from zab_chaos.harness.cli import up
from zab_chaos.harness.errors import Exit
from zab_chaos.harness.live.ensemble import Ensemble
from zab_chaos.harness.machine import interrupt as interrupts
from zab_chaos.harness.machine.interrupt import Forced, Stopped, stoppable
from zab_chaos.harness.runs import run as runs
from zab_chaos.harness.runs.phases import RunPhases
from zab_chaos.model.verdict import Judgement, Verdict

Started = Callable[[], tuple[int, Verdict]]
OPTIONS: dict[str, Any] = {
    "on": "sim", "zookeeper": None, "nodes": 3, "seed": 1, "defect": None, "disk": "faithful",
}  # fmt: skip


@pytest.mark.parametrize(("part", "name", "call"), [(RunPhases, "start_ensemble", 1), (Ensemble, "until_converged", 2)])
def test_the_first_ctrl_c_ends_the_start(
    part: type, name: str, call: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second call of `until_converged` is that of `zab up` itself."""
    original, calls = getattr(part, name), []

    def interrupted(*arguments: object) -> object:
        calls.append(arguments)
        if len(calls) == call:
            signal.raise_signal(signal.SIGINT)
        return original(*arguments)

    monkeypatch.setattr(part, name, interrupted)
    monkeypatch.setattr(up, "BACKENDS", ("sim",))
    with stoppable(), pytest.raises(Stopped):
        up.up_command(**OPTIONS, results=tmp_path, record=False, quiet=True)
    assert len(calls) == call
    (run,) = tmp_path.glob("up/2*/run.json")
    assert '"outcome": "interrupted"' in run.read_text()


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Started:
    """Return a function that runs `zab up` as if Ctrl-C was pressed when the ensemble had started: (exit code, verdict)."""

    def run() -> tuple[int, Verdict]:
        with stoppable():
            code = up.up_command(**OPTIONS, results=tmp_path, record=True, quiet=True)
        (file,) = tmp_path.glob("up/2*/verdict.json")
        assert file.with_name("manifest.json").exists()
        return code, msgspec.json.decode(file.read_bytes(), type=Verdict)

    monkeypatch.setattr(up, "BACKENDS", ("sim",))
    monkeypatch.setattr(up, "_serve", lambda ensemble, *_, **__: ensemble.client().create("/a", b"1"))
    return run


def interrupted_in(part: object, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Press Ctrl-C in a function, which then takes too long."""

    def interrupted(*_: object, **__: object) -> None:
        signal.raise_signal(signal.SIGINT)
        signal.pause()

    monkeypatch.setattr(part, name, interrupted)


def test_ctrl_c_while_the_nodes_converge_ends_them_and_judges_what_happened(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted_in(RunPhases, "converge", monkeypatch)
    code, verdict = started()
    assert code == Exit.UNKNOWN
    assert "the run did not finish: interrupted" in verdict.reasons
    assert verdict.property("exactly once").verdict is Judgement.PASS


def test_ctrl_c_during_the_replay_shows_what_was_judged_by_then(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted_in(runs, "with_replay", monkeypatch)
    code, verdict = started()
    assert code == Exit.UNKNOWN
    assert verdict.reasons == ["interrupted before the nodes were replayed; `zab verify` does that"]
    assert verdict.property("exactly once").verdict is Judgement.PASS
    assert verdict.property("replay equality").verdict is Judgement.UNKNOWN


def test_ctrl_c_during_the_judgement_leaves_a_run_that_can_be_verified(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted_in(runs.Run, "judge", monkeypatch)
    code, verdict = started()
    assert (code, verdict.properties) == (Exit.UNKNOWN, [])
    assert verdict.reasons == ["interrupted before it was judged; `zab verify` judges what was recorded"]


def test_one_more_ctrl_c_ends_it_at_once(started: Started, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(interrupts, "SAME_SECONDS", 0.0)

    def forced(*_: object) -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(RunPhases, "converge", forced)
    with pytest.raises(Forced):
        started()
    (run,) = tmp_path.glob("up/2*/run.json")
    assert '"outcome": "interrupted"' in run.read_text()
