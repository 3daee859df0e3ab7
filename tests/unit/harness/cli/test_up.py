"""`zab up` while the ensemble starts. What it does once the ensemble is up is tested in tests/integration/test_up.py."""

import signal
from pathlib import Path

import pytest

from zab_chaos.harness.cli import up
from zab_chaos.harness.live.ensemble import Ensemble
from zab_chaos.harness.machine.interrupt import Stopped, stoppable
from zab_chaos.harness.runs.phases import RunPhases


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
        up.up_command(on="sim", nodes=3, seed=1, defect=None, results=tmp_path, record=False, quiet=True)
    assert len(calls) == call
    (run,) = tmp_path.glob("up/2*/run.json")
    assert '"outcome": "interrupted"' in run.read_text()
