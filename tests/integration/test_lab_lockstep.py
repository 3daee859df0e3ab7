"""`zab lab --on lockstep`: the published hashes, out of one process a node."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from zab_chaos.harness.backends.lockstep import lab_node
from zab_chaos.harness.backends.lockstep import lab_wire as wire
from zab_chaos.harness.backends.lockstep.hub import Hub
from zab_chaos.harness.backends.lockstep.lab import lab_in_lockstep
from zab_chaos.model.lab import LabArguments, LabNode, LabSimulator

pytestmark = pytest.mark.processes
ROOT = Path(__file__).resolve().parents[2]
CUT = ["--partition", "0,1,0,2,1,0,2,0"]
PUBLISHED = {
    "A": (42, 3, 1000, 5, [], "16af5aa6dbd5ce09b259755f3339d6cf23966ce115b0e30d9c2990487783047d"),
    "C": (99, 3, 500, 0, [], "8aef7604639fe0f2b349b38d74e10b6da8ac252b626976563bba69c722426296"),
    "D": (1, 1, 200, 5, [], "d4dbb92f91f9a0adf0c4c0b91fa46b2a5145907450897cd6473a02a6279604fd"),
    "E": (42, 3, 1000, 3, CUT, "5e4dbddb605e469c99fb682c00256445dcb2ed07e984f673d4296ef19719979a"),
}


@pytest.mark.parametrize("label", PUBLISHED)
def test_the_published_hash(label: str) -> None:
    seed, nodes, rounds, proposals, more, expected = PUBLISHED[label]
    numbers = {"seed": seed, "nodes": nodes, "rounds": rounds, "proposals": proposals}
    said = [word for name, number in numbers.items() for word in (f"--{name}", str(number))]
    done = subprocess.run(
        [sys.executable, "-m", "zab_chaos.harness", "lab", *said, *more, "--on", "lockstep"],
        cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": str(len(label) + seed)}, capture_output=True, timeout=150,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, expected.encode(), b"")


def test_as_in_one_process_and_nothing_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arguments that are nowhere published; and a message that one process gets wrong is seen in the dump."""
    arguments = LabArguments(seed=2026, nodes=4, rounds=400, proposals=9, partition=frozenset({(3, 0)}))
    expected = LabSimulator(arguments).run()
    before = {child.pid for child in psutil.Process().children()}
    with lab_in_lockstep(arguments) as simulator:
        assert len({child.pid for child in psutil.Process().children()} - before) == 4
        assert simulator.run() == expected
    assert {child.pid for child in psutil.Process().children()} <= before
    ask = Hub.ask
    monkeypatch.setattr(Hub, "ask", lambda hub, node, request: ask(hub, node, changed(request)))
    with lab_in_lockstep(arguments) as simulator:
        assert hashlib.sha256(simulator.run()).digest() != hashlib.sha256(expected).digest()


def changed(request: wire.LabRequest) -> wire.LabRequest:
    """A byte of the first proposal."""
    return (
        wire.LabPropose(b"zab-x", request.now)
        if request == wire.LabPropose(b"zab-0", getattr(request, "now", 0))
        else request
    )


def test_every_request_is_the_nodes_own_input() -> None:
    here, there = LabNode(0, 1, 7), LabNode(0, 1, 7)
    requests = [wire.LabStart(0), wire.LabTick(1), wire.LabPropose(b"x", 2), wire.LabTick(60)]
    sent = [here.start(0), here.tick(1), here.propose(b"x", 2), here.tick(60)]
    assert [lab_node.answer_to(there, request).sent for request in requests] == sent
    state = lab_node.answer_to(there, wire.LabGetState()).state
    assert state is not None
    assert (state.current_epoch, state.history) == (here.current_epoch, here.history)
