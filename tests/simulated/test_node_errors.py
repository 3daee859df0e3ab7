"""An error that a node's code does not handle ends the node, in every world alike. An error in the world ends the run."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from zab_chaos.faults.scenario import Scenario, Workload
from zab_chaos.harness.backends.lockstep.compare import first_difference
from zab_chaos.harness.backends.simulator.backend import plan_of
from zab_chaos.harness.explore.simulate import simulate
from zab_chaos.harness.report.progress import Quiet
from zab_chaos.harness.runs.options import RunOptions
from zab_chaos.harness.runs.run import run
from zab_chaos.model.world import standstill
from zab_chaos.model.world.client_port import SimClientPort
from zab_chaos.node.components import Components
from zab_chaos.node.config import NodeConfig
from zab_chaos.node.core.broadcast import Broadcasting
from zab_chaos.node.core.messages import Ack
from zab_chaos.node.core.peer import Peer

SCENARIO = Scenario(name="errors", about="-", duration=1.0, workload=Workload(clients=1, keys=1))

BROKEN = """
from zab_chaos.node.core.broadcast import Broadcasting
from zab_chaos.node.core.peer import Peer
from zab_chaos.node.store.store import Store

class Fails(Broadcasting):
    def on_ack(self, source, message):
        super().on_ack(source, None if self.journal.history.last > (1 << 32) + 5 and self.epoch == 1 else message)

class FailsAtAck(Peer):
    broadcasting_type = Fails

class FailsToOpen(Store):
    @classmethod
    def open(cls, *_, **__):
        return cls.no_such_name

class AtAck:
    name = "fails-at-ack"
    def build(self, parts):
        parts.peer = FailsAtAck

class AtStart:
    name = "fails-to-open"
    def build(self, parts):
        parts.store = FailsToOpen

DEFECTS = {"AT_ACK": AtAck(), "AT_START": AtStart()}
"""


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return the name of a module with broken nodes, which this process and its children can import."""
    (tmp_path / "broken_nodes.py").write_text(BROKEN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(__file__).parents[2]}")
    yield "broken_nodes"
    sys.modules.pop("broken_nodes", None)


def test_an_error_in_the_node_is_a_violation_of_sanity() -> None:
    class Fails(Broadcasting):
        def on_ack(self, source: int, message: Ack) -> None:
            nothing: Any = None
            super().on_ack(source, nothing)

    class FailsAtAck(Peer):
        broadcasting_type = Fails

    plan = replace(plan_of(SCENARIO, None), parts=Components(peer=FailsAtAck))
    ran = simulate(SCENARIO, 1, None, plan)
    assert "sanity" in ran.verdict.violated, ran.outcome
    assert any("stopped itself: AttributeError" in reason for reason in ran.verdict.reasons)


def test_a_round_without_end_is_a_violation_of_sanity(monkeypatch: pytest.MonkeyPatch) -> None:
    class Loops(Broadcasting):
        def on_ack(self, source: int, message: Ack) -> None:
            while self.epoch:
                self.supporting()

    class LoopsAtAck(Peer):
        broadcasting_type = Loops

    monkeypatch.setattr(standstill, "LOOK", 0.1)
    ran = simulate(SCENARIO, 1, None, replace(plan_of(SCENARIO, None), parts=Components(peer=LoopsAtAck)))
    assert "sanity" in ran.verdict.violated, ran.outcome
    assert any("computes without end" in reason for reason in ran.verdict.reasons)


def test_an_error_in_the_world_is_a_failure_of_the_harness(monkeypatch: pytest.MonkeyPatch) -> None:
    receive, once = SimClientPort.receive, iter([LookupError("no such client")])

    def fails_once(port: SimClientPort) -> Any:
        for error in once:
            raise error
        return receive(port)

    monkeypatch.setattr(SimClientPort, "receive", fails_once)
    ran = simulate(SCENARIO, 1, None)
    assert ran.verdict.exit == 3
    assert "LookupError: no such client" in ran.outcome


@pytest.mark.processes
def test_a_process_in_lockstep_ends_as_in_the_simulator(broken: str, tmp_path: Path) -> None:
    simulated, ran = (
        run(replace(SCENARIO, source=""), RunOptions(
            seed=1, results=tmp_path / on, command=on, keep_data=True, on=on, defect=("fails-at-ack", f"{broken}:AT_ACK")
        ), Quiet())
        for on in ("sim", "lockstep")
    )  # fmt: skip
    assert "sanity" in simulated.verdict.violated
    assert first_difference(simulated.folder.path, ran.folder.path) is None


def test_a_process_ends_with_code_70_and_its_traceback(broken: str, tmp_path: Path) -> None:
    none = str(tmp_path / "none")
    config = NodeConfig(
        id=1, cluster="c", listen="127.0.0.1:0", peers={}, client="127.0.0.1:0", control="127.0.0.1:0",
        link_keys=none, control_keys=none, client_keys=none, data=str(tmp_path / "data"), trace=str(tmp_path),
        defect=f"{broken}:AT_START",
    )  # fmt: skip
    (tmp_path / "config.json").write_bytes(msgspec.json.encode(config))
    command = [
        sys.executable,
        "-m",
        "zab_chaos.node",
        "--config",
        str(tmp_path / "config.json"),
        "--life",
        "1",
        "--bootstrap",
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 70, ended.stderr
    assert "Traceback" in ended.stderr
    lines = [msgspec.json.decode(line) for line in (tmp_path / "node-1-1.jsonl").read_bytes().splitlines()]
    assert [line["event"] for line in lines] == ["abort", "exit"]
    assert lines[0]["why"] == lines[1]["why"]
    assert lines[0]["why"].startswith("AttributeError: ")
    assert "no_such_name" in lines[0]["why"]
