"""Real processes in lockstep leave the simulator's bytes, whatever is done to them; and a difference does not pass."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from zab_chaos.faults.defects import DEFECTS
from zab_chaos.faults.scenario import Scenario, load
from zab_chaos.harness.backends.lockstep import replica as remote
from zab_chaos.harness.backends.lockstep.compare import first_difference
from zab_chaos.harness.backends.lockstep.hub import Hub
from zab_chaos.harness.report.progress import Quiet
from zab_chaos.harness.runs import catalogue
from zab_chaos.harness.runs.options import RunOptions
from zab_chaos.harness.runs.run import FinishedRun, run
from zab_chaos.node.lockstep import wire
from zab_chaos.node.net import keys

pytestmark = pytest.mark.processes
RATE = 20.0  # operations a second: the shipped faults, a twentieth of the work


@pytest.fixture(autouse=True)
def nothing_stays() -> Any:
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    yield
    assert {child.pid for child in psutil.Process().children(recursive=True)} <= before


def light(name: str) -> Scenario:
    scenario = load(catalogue.shipped()[name])
    expect = replace(scenario.expect, min_acked=min(scenario.expect.min_acked, 20))
    return replace(scenario, workload=replace(scenario.workload, rate=RATE), expect=expect)


def wish(folder: Path, seed: int, on: str, defect: str | None = None) -> RunOptions:
    bug = (defect, DEFECTS[defect].path) if defect is not None else None
    return RunOptions(seed=seed, results=folder / on, command=f"on {on}", keep_data=True, on=on, defect=bug)


def both(folder: Path, name: str, seed: int, defect: str | None = None) -> tuple[FinishedRun, FinishedRun]:
    scenario = light(name)
    simulated = run(scenario, wish(folder, seed, "sim", defect), Quiet())
    return simulated, run(scenario, wish(folder, seed, "lockstep", defect), Quiet())


@pytest.mark.parametrize(
    ("name", "seed", "defect"),
    [
        ("power-outage-torn", 1, None),
        ("disk-loss-one", 3, None),
        ("defects/gap-accepted", 1, "gap-accepted"),  # links without sessions: a round's last words come later
    ],
)
def test_the_same_bytes(tmp_path: Path, name: str, seed: int, defect: str | None) -> None:
    simulated, ran = both(tmp_path, name, seed, defect)
    assert ran.folder.read_run()["outcome"] == "finished"
    assert first_difference(simulated.folder.path, ran.folder.path) is None
    assert ran.verdict == simulated.verdict
    names = {str(path.relative_to(ran.folder.path).parent) for path in ran.folder.path.rglob("*") if path.is_file()}
    assert {"trace", "record", "data/node-1", "data/node-2", "data/node-3", "."} <= names
    assert ran.folder.read_run()["dump"] == simulated.folder.read_run()["dump"]
    assert not any(path.exists() for path in keys.files_in(ran.folder.file("config")))


def tampered(change: Callable[[wire.LockstepAnswer], None], at: int) -> Callable[..., wire.LockstepAnswer]:
    """`Hub.ask`, but for the `at`-th answer that sends a frame."""
    ask, seen = Hub.ask, 0

    def ask_tampered(hub: Hub, life: Any, request: wire.LockstepRequest) -> wire.LockstepAnswer:
        nonlocal seen
        answer = ask(hub, life, request)
        if any(isinstance(effect, wire.SendEffect) for effect in answer.effects):
            seen += 1
            if seen == at:
                change(answer)
        return answer

    return ask_tampered


def first_send(answer: wire.LockstepAnswer) -> int:
    return next(i for i, effect in enumerate(answer.effects) if isinstance(effect, wire.SendEffect))


def drop_a_frame(answer: wire.LockstepAnswer) -> None:
    del answer.effects[first_send(answer)]


def flip_a_bit(answer: wire.LockstepAnswer) -> None:
    at = first_send(answer)
    sent = answer.effects[at]
    assert isinstance(sent, wire.SendEffect)
    answer.effects[at] = wire.SendEffect(sent.peer, sent.frame[:-1] + bytes([sent.frame[-1] ^ 1]))


def test_another_decision_is_a_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = light("leader-crash")
    simulated = run(scenario, wish(tmp_path, 1, "sim"), Quiet())
    monkeypatch.setattr(Hub, "ask", tampered(drop_a_frame, 200))
    ran = run(scenario, wish(tmp_path, 1, "lockstep"), Quiet())
    found = first_difference(simulated.folder.path, ran.folder.path)
    assert found is not None
    assert found.file.endswith(".jsonl")
    assert found.t is not None  # of all files, the line that was written first
    assert found.expected != found.got


def test_a_changed_byte_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Hub, "ask", tampered(flip_a_bit, 50))
    ran = run(light("leader-crash"), wish(tmp_path, 1, "lockstep"), Quiet())
    assert ran.verdict.exit == 3
    assert "sent an invalid frame: the checksum does not fit" in ran.folder.read_run()["outcome"]


def test_a_changed_byte_ends_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other way: what reaches a node is checked there, by the code that checks it on a real link."""
    pack, packed = remote.frame.pack, 0

    def spoiled(header: Any, messages: Any) -> bytes:
        nonlocal packed
        data, packed = pack(header, messages), packed + 1
        return data[:-1] + bytes([data[-1] ^ 1]) if packed == 50 else data

    codec = SimpleNamespace(**{**vars(remote.frame), "pack": spoiled})  # not the world's: its wires stay as they are
    monkeypatch.setattr(remote, "frame", codec)
    ran = run(light("leader-crash"), wish(tmp_path, 1, "lockstep"), Quiet())
    assert ran.verdict.exit == 3
    outcome = ran.folder.read_run()["outcome"]
    assert "its process ended unasked with status 1" in outcome
    assert "BadFrame: the checksum does not fit" in outcome


def test_a_process_that_somebody_kills_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ask, asked = Hub.ask, 0

    def ask_or_kill(hub: Hub, life: Any, request: wire.LockstepRequest) -> wire.LockstepAnswer:
        nonlocal asked
        asked += 1
        if asked == 300:
            psutil.Process(life.pid).kill()
        return ask(hub, life, request)

    monkeypatch.setattr(Hub, "ask", ask_or_kill)
    ran = run(light("steady-state"), wish(tmp_path, 1, "lockstep"), Quiet())
    assert ran.verdict.exit == 3
    assert "ended unasked with status -9" in ran.folder.read_run()["outcome"]
