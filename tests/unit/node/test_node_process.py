"""One real process of a node that is alone: its ends with their codes and reasons, and the health check."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq

from zab_chaos.harness.machine.ports import free_ports, release_ports
from zab_chaos.harness.machine.waiting import wait_until
from zab_chaos.node import health
from zab_chaos.node.clients.protocol import VERSION, Answers, Hello, Requests, Welcome, decode_from_node, encode
from zab_chaos.node.config import NodeConfig, Timing
from zab_chaos.node.core.zxid import ZERO
from zab_chaos.node.net import keys
from zab_chaos.node.net.control import ControlClient
from zab_chaos.node.tree.outcomes import Failed, Outcome
from zab_chaos.node.tree.refusal import NO_LEADER
from zab_chaos.node.tree.requests import Create, Get

pytestmark = pytest.mark.slow

PATIENCE = 30.0  # seconds; only a failing test waits that long


class Alone:
    """Node 1 of an ensemble of one, unless `changes` gives it peers. Its folder is also the harness's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = free_ports(4)
        listen, client, control, self.nobody = (f"127.0.0.1:{port}" for port in self.ports)
        files = keys.create_files(folder)
        self.config = NodeConfig(
            id=1, cluster="c", listen=listen, client=client, control=control, peers={},
            link_keys=str(files.links), control_keys=str(files.control), client_keys=str(files.clients),
            data=str(folder / "data"), trace=str(folder), parent=os.getpid(),
        )  # fmt: skip
        self.file = folder / "config.json"
        self.process: subprocess.Popen[str] | None = None

    def start(self, *options: str, **changes: Any) -> "subprocess.Popen[str]":
        self.config = msgspec.structs.replace(self.config, **changes)
        self.file.write_bytes(msgspec.json.encode(self.config))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "zab_chaos.node", "--config", str(self.file), "--life", "1", *options],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        return self.process

    def command(self, name: str, **arguments: Any) -> dict[str, Any]:
        client = ControlClient(self.config.control, keys.load(self.folder / "control.json"))
        try:
            return client.call(name, PATIENCE, **arguments)
        finally:
            client.close()

    def established(self) -> bool:
        return bool(self.command("status")["established"])

    def lines(self) -> list[str]:
        """Return the lines of its trace."""
        return (self.folder / "node-1-1.jsonl").read_text().splitlines()

    def last_event(self) -> dict[str, Any]:
        last: dict[str, Any] = json.loads(self.lines()[-1])
        return {key: last.get(key) for key in ("event", "code", "why")}

    @contextmanager
    def client(self) -> "Iterator[zmq.Socket[Any]]":
        """Connect a client that the node greets."""
        context: zmq.Context[Any] = zmq.Context()
        with context, context.socket(zmq.DEALER) as client:
            client.linger, client.rcvtimeo = 0, int(1000 * PATIENCE)
            keys.load(self.folder / "clients.json").client(client)
            client.connect(f"tcp://{self.config.client}")
            client.send(encode(Hello(VERSION, 1, ZERO)))
            assert decode_from_node(client.recv()) == Welcome()
            yield client


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Alone]:
    alone = Alone(tmp_path)
    yield alone
    if alone.process is not None:
        alone.process.kill()
        with alone.process:  # closes the pipes and waits
            pass
    release_ports(alone.ports)


@pytest.mark.parametrize(
    ("code", "options", "changes", "why"),
    [
        (75, [], {"client": "control"}, "cannot listen on {control} for control: another process does already"),
        (78, [], {"client": "nonsense"}, "cannot listen on nonsense for clients: Invalid argument"),
        (78, [], {"link_keys": "/no/key"}, "/no/key: the key file cannot be read: No such file or directory"),
        (78, ["--crash-at", "after-sync:NOTHING"], {}, "NOTHING"),
    ],
)
def test_a_node_that_cannot_start_says_why(
    alone: Alone, code: int, options: list[str], changes: dict[str, Any], why: str
) -> None:
    changes = {key: alone.config.control if value == "control" else value for key, value in changes.items()}
    process = alone.start("--bootstrap", *options, **changes)
    assert process.communicate(timeout=PATIENCE)[1].splitlines()[-1].startswith("node: ")
    assert process.returncode == code
    event = alone.last_event()
    assert (event["event"], event["code"]) == ("exit", code)
    assert why.format(control=alone.config.control) in event["why"]


def test_a_configuration_that_cannot_be_read(alone: Alone) -> None:
    process = alone.start(id="one")
    assert "Expected `int`, got `str`" in process.communicate(timeout=PATIENCE)[1]
    assert process.returncode == 78


def test_an_error_of_the_program_is_traced_as_an_abort_with_its_traceback(alone: Alone) -> None:
    process = alone.start("--bootstrap", defect="nonsense")
    assert "Traceback" in process.communicate(timeout=PATIENCE)[1]
    events = [json.loads(line)["event"] for line in alone.lines()]
    assert events == ["abort", "exit"]
    assert process.returncode == 70
    assert alone.last_event()["why"] == "ModuleNotFoundError: No module named 'nonsense'"


def test_a_recovery_is_timed_in_microseconds(alone: Alone) -> None:
    before = time.monotonic_ns()
    alone.start("--bootstrap")
    alone.command("status")
    events = [json.loads(line) for line in alone.lines()]
    (recovery,) = (event for event in events if event["event"] == "recovery")
    assert 0 < recovery["micros"] * 1000 < recovery["t"] - before


def test_ctrl_c_does_not_end_a_node_and_sigterm_does(alone: Alone) -> None:
    process = alone.start("--bootstrap")
    assert wait_until(alone.established, PATIENCE)
    process.send_signal(signal.SIGINT)
    assert alone.established()
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0
    assert alone.last_event() == {"event": "exit", "code": 0, "why": "SIGTERM"}


def test_a_node_ends_when_its_stdin_closes(alone: Alone) -> None:
    process = alone.start("--bootstrap")
    alone.command("status")
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(PATIENCE) == 0
    assert alone.last_event()["why"] == "the process that started this node is gone"


def test_a_node_without_a_parent_does_not_depend_on_its_stdin(alone: Alone) -> None:
    process = alone.start("--bootstrap", parent=None)
    alone.command("status")
    assert process.stdin is not None
    process.stdin.close()
    for _ in range(2):  # a node that is going to end may answer once more
        alone.command("status")


def test_a_node_that_nobody_asks_ends(alone: Alone) -> None:
    process = alone.start("--bootstrap", silence_ms=300)
    assert process.wait(PATIENCE) == 0
    assert alone.last_event()["why"].startswith("nobody has asked for this node for too long")


def test_a_power_cut_happens_in_time_without_unsynced_bytes(alone: Alone) -> None:
    process = alone.start("--bootstrap")
    assert wait_until(alone.established, PATIENCE)
    alone.command("power-cut", variant="plain", seed=1, within_ms=1)
    assert process.wait(PATIENCE) == -signal.SIGKILL
    fault = json.loads(alone.lines()[-1])
    assert (fault["event"], fault["do"], fault["state"]) == ("fault", "power-cut", "fired")


def test_a_node_whose_parent_is_gone_already_does_not_start(alone: Alone) -> None:
    process = alone.start("--bootstrap", parent=os.getppid())
    assert "the process that started this one is gone" in process.communicate(timeout=PATIENCE)[1]
    assert process.returncode == 1
    assert not (alone.folder / "node-1-1.jsonl").exists()


def test_the_health_check_asks_for_an_established_leader(alone: Alone, capsys: pytest.CaptureFixture[str]) -> None:
    alone.start("--bootstrap")
    assert wait_until(alone.established, PATIENCE)
    assert health.main([str(alone.file)]) == 0
    assert capsys.readouterr().err == ""


def test_the_health_check_fails_without_a_leader(alone: Alone, capsys: pytest.CaptureFixture[str]) -> None:
    alone.start("--bootstrap", peers={2: alone.nobody})
    alone.command("status")
    assert health.main([str(alone.file)]) == 1
    assert capsys.readouterr().err == "node 1 is LOOKING, in ELECTION, and knows no established leader\n"


def test_the_health_check_fails_without_a_configuration_or_a_node(
    alone: Alone, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert health.main([str(alone.file)]) == 1
    assert "No such file" in capsys.readouterr().err
    monkeypatch.setattr(health, "ANSWER_SECONDS", 0.05)
    alone.file.write_bytes(msgspec.json.encode(alone.config))
    assert health.main([str(alone.file)]) == 1
    assert capsys.readouterr().err == f"{alone.config.control} cannot be reached: status was not sent\n"


def test_a_node_that_crashes_after_an_answer_has_sent_all_of_it(alone: Alone) -> None:
    process = alone.start("--bootstrap", "--crash-at", "after-send:REPLY#2")
    assert wait_until(alone.established, PATIENCE)
    with alone.client() as client:
        client.send(encode(Requests([(1, Create("/a", bytes(2**20 - 100)))])))
        client.recv()
        client.send(encode(Requests([(seq, Get("/a")) for seq in range(2, 10)])))  # one answer of 8 MiB
        assert len(client.recv()) > 8 * (2**20 - 100)
    assert process.wait(PATIENCE) == -signal.SIGKILL


def test_the_fault_of_a_clock_reaches_the_timeouts_of_the_protocol(alone: Alone) -> None:
    """Without a leader a write waits for one. It is refused when that takes too long, by the clock of its node."""
    alone.start("--bootstrap", peers={2: alone.nobody}, timing=Timing(timeout_ms=1_000_000))
    outcomes: list[Outcome] = []

    def answered() -> bool:
        told = decode_from_node(client.recv())
        assert isinstance(told, Answers)  # an empty one each second: the node looks whether its client is there
        outcomes.extend(outcome for _, outcome in told.items)
        return bool(outcomes)

    with alone.client() as client:
        client.send(encode(Requests([(1, Create("/a"))])))
        alone.command("clock-jump", ms=2_000_000)
        assert wait_until(answered, PATIENCE)
    assert [outcome.error for outcome in outcomes if isinstance(outcome, Failed)] == [NO_LEADER]
