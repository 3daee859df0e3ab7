"""Changes of the links by others are found by comparison with the requested state, reported, and undone."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.faults.conftest import Play
from tests.unit.faults.proxies_in_memory import ProxiesInMemory
from zab_chaos.faults.network import Network, NetworkError, Toxic
from zab_chaos.faults.proxies import ProxyState, WedgedError
from zab_chaos.faults.scheduler import Scheduler

RESET = Toxic("reset_peer", "upstream", (("timeout", 100),))
LATENCY = Toxic("latency", "upstream", (("jitter", 0), ("latency", 5)))


@pytest.fixture
def server() -> ProxiesInMemory:
    return ProxiesInMemory()


@pytest.fixture
def network(server: ProxiesInMemory) -> Network:
    made = Network(server)
    made.create_links({(1, 2): ("a:1", "b:2"), (2, 1): ("a:3", "b:4")})
    return made


def evil(server: ProxiesInMemory) -> None:
    server.create("evil", "0.0.0.0:79", "b:22")


CHANGES = {
    "link 1-2: enabled is False and was asked to be True": lambda it: it.disable("1-2"),
    "link 1-2: its proxy is gone": lambda it: it.delete("1-2"),
    "link 1-2: its upstream address is 'b:22' and was asked to be 'b:2'": lambda it: it.change("1-2", upstream="b:22"),
    "link 1-2: its listen address is '0:1' and was asked to be 'a:1'": lambda it: it.change("1-2", listen="0:1"),
    "link 2-1: the toxic 'x' was not asked for": lambda it: it.add("2-1", "x", "timeout", "upstream", {"timeout": 0}),
    "link 1-2: the toxic 'slow.latency.upstream' is missing": lambda it: it.remove("1-2", "slow.latency.upstream"),
    "a proxy 'evil' from 0.0.0.0:79 to b:22, which was not asked for": evil,
}


@pytest.mark.parametrize("words", CHANGES)
def test_a_foreign_change_is_reported_once_and_undone(network: Network, server: ProxiesInMemory, words: str) -> None:
    network.disturb([(1, 2)], [LATENCY], "slow")
    asked = server.states()
    CHANGES[words](server)
    assert server.states() != asked
    network.heal_all()
    assert network.take_foreign_changes() == [words]
    assert server.states() == {"1-2": ProxyState("a:1", "b:2", True, {}), "2-1": ProxyState("a:3", "b:4", True, {})}
    network.heal_all()
    assert network.take_foreign_changes() == []


def test_a_changed_toxic_is_reported(network: Network, server: ProxiesInMemory) -> None:
    network.disturb([(1, 2)], [LATENCY], "slow")
    server.add("1-2", "slow.latency.upstream", "latency", "upstream", {"latency": 9, "jitter": 0})
    network.heal([(1, 2)], "slow")
    assert "'latency': 9" in network.take_foreign_changes()[0]


@pytest.mark.parametrize("how", ["timeout", "stall", "disable"])
def test_requested_changes_are_not_reported(network: Network, server: ProxiesInMemory, how: str) -> None:
    network.cut([(1, 2)], how, "first")
    network.disturb([(1, 2), (2, 1)], [LATENCY], "slow")
    network.compare()
    network.heal([(1, 2)], "first", release=True)
    network.compare()
    network.heal_all()
    network.compare()
    assert network.take_foreign_changes() == []


@pytest.mark.parametrize(("other", "removed"), [(LATENCY, 2), (RESET, 0)])
def test_a_stall_is_not_released_while_connections_are_reset(
    network: Network, server: ProxiesInMemory, monkeypatch: pytest.MonkeyPatch, other: Toxic, removed: int
) -> None:
    """toxiproxy deadlocks if a connection ends while a toxic of it is removed. So the proxy is made anew."""
    removals: list[str] = []
    monkeypatch.setattr(server, "remove", lambda _, toxic: removals.append(toxic))
    network.cut([(1, 2)], "stall", "first")
    network.disturb([(1, 2)], [other], "second")
    network.heal([(1, 2)], "first", release=True)
    assert len(removals) == removed
    assert network.broken() == {(1, 2): ["second"]}


def test_a_failed_change_of_our_own_is_not_reported(
    network: Network, server: ProxiesInMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise NetworkError("no")

    with monkeypatch.context() as patched:
        patched.setattr(server, "add", refuse)
        with pytest.raises(NetworkError):
            network.disturb([(1, 2)], [LATENCY], "slow")
    network.heal_all()
    assert network.take_foreign_changes() == []
    assert server.there["1-2"].toxics == {}


def test_a_wedged_server_is_not_reported_but_an_unreachable_one_is(network: Network, server: ProxiesInMemory) -> None:
    server.silent = WedgedError("no answer")
    network.compare()
    assert network.take_foreign_changes() == []
    server.silent = NetworkError("connection refused")
    network.compare()
    assert network.take_foreign_changes() == ["the links can't be compared with what was asked for: connection refused"]


class Nobody:
    """An ensemble without nodes."""

    nodes: tuple[int, ...] = ()


def test_the_scheduler_logs_foreign_changes(network: Network, server: ProxiesInMemory, tmp_path: Path) -> None:
    log = tmp_path / "faults.jsonl"
    with Scheduler(Nobody(), network, [], 1, log) as scheduler:  # type: ignore[arg-type]
        scheduler.heal_all()
        assert log.read_text() == ""
        server.disable("1-2")
    (line,) = [json.loads(line) for line in log.read_text().splitlines()]
    assert (line["type"], line["id"], line["confirmed"]) == ("heal", 0, False)
    assert line["evidence"] == {"tampered": ["link 1-2: enabled is False and was asked to be True"]}


def test_links_that_cannot_be_healed_do_not_keep_the_nodes_down(
    network: Network, monkeypatch: pytest.MonkeyPatch, play: Callable[..., Play]
) -> None:
    def broken() -> None:
        raise NetworkError("the server does not answer")

    monkeypatch.setattr(network, "heal_all", broken)
    p = play()
    p.scheduler.network = network
    p.cluster.kill(2)
    p.scheduler.heal_all()
    assert p.cluster.alive(2)
    (line,) = p.lines()
    assert (line["id"], line["confirmed"], line["evidence"]) == (0, False, {"network": "the server does not answer"})
