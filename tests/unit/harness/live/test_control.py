"""Requests to a running ensemble: results, mistakes and messages. The ensemble is simulated, the control port is real."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from zab_chaos.harness.cli.inject import parse_fault
from zab_chaos.harness.errors import BadInput
from zab_chaos.harness.live import Ensemble
from zab_chaos.harness.live.control import ControlServer
from zab_chaos.harness.machine.ports import free_ports, release_ports
from zab_chaos.model.verdict import Outcome
from zab_chaos.node.net import keys
from zab_chaos.node.net.control import ControlClient, ControlError


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ControlServer]:
    ports = free_ports(1)
    with Ensemble(on="sim", results=tmp_path, min_acked=0) as ensemble:
        server = ControlServer(ensemble, f"127.0.0.1:{ports[0]}", keys.create(tmp_path / "control.json"))
        try:
            yield server
        finally:
            server.close()
            release_ports(ports)
    assert ensemble.verdict is not None
    assert ensemble.verdict.verdict in (Outcome.PASS, Outcome.UNKNOWN)


def inject(server: ControlServer, words: str) -> dict[str, Any]:
    return server.handle("inject", {"fault": parse_fault(words.split())})


def test_a_fault_is_injected_reported_listed_and_healed(server: ControlServer) -> None:
    said = inject(server, "partition shape=isolate target=node-1")["said"]
    assert said == "4 links cut (timeout): isolate of node 1"
    assert server.handle("faults", {})["faults"][0] | {"fault": ""} == {
        "number": 1,
        "fault": "",
        "nodes": [1],
        "over": False,
    }
    assert server.active_faults()
    assert server.handle("heal", {"number": 1})["said"].startswith("healed: ")
    assert server.handle("faults", {})["faults"][0]["over"]
    assert not server.active_faults()
    assert len(server.messages) == 2


def test_a_wait_is_answered_when_its_state_has_come(server: ControlServer) -> None:
    assert inject(server, "wait target=node-1 state=down") == {"waits": 1}
    assert server.handle("waited", {"number": 1}) == {"waits": 1}
    assert not server.handle("faults", {})["faults"][0]["over"]
    assert not server.active_faults()
    inject(server, "crash target=node-1")
    server._ensemble.sleep(0.2)
    assert server.handle("waited", {"number": 1}) == {"said": "node 1 is down"}
    assert server.handle("faults", {})["faults"][0]["over"]
    assert server.messages == ["until node 1 is down", "node 1 killed", "node 1 is down"]


def test_a_state_that_does_not_come_in_time_is_an_error(server: ControlServer) -> None:
    inject(server, "wait target=node-1 state=down within=1")
    server._ensemble.sleep(1.5)
    with pytest.raises(ControlError, match=r"^the state did not come in time: until node 1 is down; "):
        server.handle("waited", {"number": 1})


def test_a_node_that_refuses_to_start_is_not_reported_as_healed(server: ControlServer) -> None:
    inject(server, "corrupt target=node-1 file=log replace=false")
    with pytest.raises(ControlError, match="healed all faults, but node 1 ended again at the start"):
        server.handle("heal", {})
    assert "node 1 ended again" in server.messages[-1]
    inject(server, "wipe target=node-1")
    assert server.handle("heal", {})["said"] == "healed all faults, and started the nodes that were down"


def test_a_fault_that_cannot_be_injected_is_told_to_both_sides(server: ControlServer) -> None:
    inject(server, "crash target=node-1")
    with pytest.raises(ControlError) as caught:
        inject(server, "pause target=node-1")
    assert server.messages[1:] == [str(caught.value)]


def test_healing_everything_starts_nodes_that_are_down(server: ControlServer) -> None:
    inject(server, "crash target=all")
    with pytest.raises(ControlError, match=r"^pause did not .*: no node was hit; there is no established leader$"):
        inject(server, "pause target=leader")
    inject(server, "restart target=node-1")
    inject(server, "clock-jump target=node-1 ms=10")
    assert [fault["over"] for fault in server.handle("faults", {})["faults"]] == [False, True, True]
    assert len(server.active_faults()) == 1
    server.handle("heal", {})
    assert [fault["over"] for fault in server.handle("faults", {})["faults"]] == [True, True, True]


@pytest.mark.parametrize(
    ("order", "arguments", "words"),
    [
        ("heal", {"number": 3}, "there is no fault 3"),
        ("heal", {"number": 0}, "there is no fault 0"),
        ("heel", {}, "Did you mean heal"),
        ("inject", {"fault": {"do": "crush"}}, "Did you mean crash"),
        ("inject", {"fault": {"do": "crash", "target": "leader", "at": 3}}, "at belongs to a schedule"),
        ("inject", {"fault": {"do": "crash", "target": "leader", "awaits": "A"}}, "awaits belongs to a schedule"),
        (
            "inject",
            {"fault": {"do": "pause", "target": "leader", "until": "A"}},
            "here it lasts for a number of seconds",
        ),
        ("inject", {"fault": {"do": "pause", "target": "nobody", "for": "x"}}, "'x' is not a number"),
    ],
)
def test_invalid_requests_are_answered_with_the_mistake(
    server: ControlServer, order: str, arguments: dict[str, Any], words: str
) -> None:
    assert words in server.handle(order, arguments)["wrong"]
    assert not server.messages


def test_all_mistakes_of_a_fault_are_reported_at_once(server: ControlServer) -> None:
    told = inject(server, "partition shape=isolat target=nobody for=x")["wrong"]
    assert all(wrong in told for wrong in ("'isolat'", "'nobody'", "'x' is not a number"))


@pytest.mark.parametrize("key", ["kind", "self", "table", "lasts", "name", "step", "params"])
def test_an_unknown_key_of_a_fault_is_a_mistake(server: ControlServer, key: str) -> None:
    assert f"{key!r} is no key of pause" in inject(server, f"pause target=node-1 {key}=1")["wrong"]


def test_only_a_client_with_the_key_is_served(server: ControlServer, tmp_path: Path) -> None:
    """Without the key the handshake never completes, so no request is read."""
    address = server._port.socket.last_endpoint.decode().removeprefix("tcp://")
    answers = []

    def ask() -> None:
        friend = ControlClient(address, keys.load(tmp_path / "control.json"))
        answers.append(friend.call("faults", 30.0))
        friend.close()

    stranger = ControlClient(address, keys.create(tmp_path / "other.json"))
    socket = stranger._connected()
    thread = threading.Thread(target=ask)
    thread.start()
    while thread.is_alive():
        server.serve(0.05)
    assert answers == [{"faults": []}]
    assert not socket.poll(0, 2)  # not connected, although the friend, who came later, was
    stranger.close()


@pytest.mark.parametrize(
    ("words", "table"),
    [
        ("crash target=leader", {"do": "crash", "target": "leader"}),
        ("latency ms=50 for=2.5", {"do": "latency", "ms": 50, "for": 2.5}),
        ('partition pairs=[[1,2]] target=["node-1"]', {"do": "partition", "pairs": [[1, 2]], "target": ["node-1"]}),
        ("crash-at point=after-write:NEWLEADER", {"do": "crash-at", "point": "after-write:NEWLEADER"}),
    ],
)
def test_words_are_read_as_a_scenario_s_table(words: str, table: dict[str, Any]) -> None:
    assert parse_fault(words.split()) == table


def test_all_mistakes_in_the_words_are_reported_at_once() -> None:
    with pytest.raises(BadInput) as error:
        parse_fault(["crush", "leader", "for=1", "for=2"])
    assert all(
        wrong in str(error.value) for wrong in ("Did you mean crash", "'leader' is not KEY=VALUE", "for is given twice")
    )
