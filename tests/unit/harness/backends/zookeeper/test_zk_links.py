"""The links between servers: which toxics are on which stream of which proxy, and how bytes are counted."""

import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from zab_chaos.faults.network import NetworkError, Toxic
from zab_chaos.faults.proxies import ProxyState
from zab_chaos.harness.backends.zookeeper import links
from zab_chaos.harness.backends.zookeeper.links import ByteMeter, QuorumNetwork, read_metrics
from zab_chaos.harness.backends.zookeeper.releases import Release
from zab_chaos.harness.backends.zookeeper.server import Plan, Ports
from zab_chaos.harness.backends.zookeeper.sockets import TcpConnection, connections

PLAN = Plan(
    release=Release("3.9.4", (), Path("byteman.jar")),
    java="java",
    ports={node: Ports(100 * node, 100 * node + 1, 100 * node + 2, 100 * node + 3) for node in (1, 2, 3)},
)
BOTH_WAYS = [(1, 2), (2, 1)]


class Server:
    """A fake toxiproxy that keeps proxies and toxics."""

    def __init__(self) -> None:
        self.proxies: dict[str, ProxyState] = {}

    def create(self, name: str, listen: str, upstream: str, enabled: bool = True) -> None:
        self.proxies[name] = ProxyState(listen, upstream, enabled, {})

    def delete(self, name: str) -> None:
        self.proxies.pop(name, None)

    def add(self, name: str, toxic: str, kind: str, stream: str, attributes: dict[str, int]) -> None:
        wanted = {"type": kind, "stream": stream, "toxicity": 1.0, "attributes": attributes}
        self._change(name, toxics={**self.proxies[name].toxics, toxic: wanted})

    def remove(self, name: str, toxic: str) -> None:
        self._change(name, toxics={key: value for key, value in self.proxies[name].toxics.items() if key != toxic})

    def disable(self, name: str) -> None:
        self._change(name, enabled=False)

    def enable(self, name: str) -> None:
        self._change(name, enabled=True)

    def states(self) -> dict[str, ProxyState]:
        return dict(self.proxies)

    def toxics(self, name: str) -> dict[str, Any]:
        return dict(self.proxies[name].toxics)

    def _change(self, name: str, **changes: Any) -> None:
        self.proxies[name] = replace(self.proxies[name], **changes)

    def lying(self) -> dict[str, list[str]]:
        """Return the streams with toxics, by proxy."""
        found = {name: sorted(one["stream"] for one in it.toxics.values()) for name, it in self.proxies.items()}
        return {name: streams for name, streams in found.items() if streams}


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def network(server: Server) -> QuorumNetwork:
    made = QuorumNetwork("nowhere:0")
    made._proxies = server  # type: ignore[assignment]
    made.create(PLAN)
    return made


def test_each_ordered_pair_has_two_proxies_with_a_relay_behind_each(network: QuorumNetwork, server: Server) -> None:
    assert len(server.proxies) == 6 * 2 * 2
    assert (server.proxies["1-2-1"].listen, server.proxies["1-2-1"].upstream) == ("127.101.1.2:201", "127.102.1.2:201")
    behind = server.proxies["1-2-1-0"]
    assert (behind.listen, behind.upstream) == ("127.102.1.2:201", "127.0.0.1:201")
    assert server.proxies["3-1-2"].listen == "127.101.3.1:102"


@pytest.mark.parametrize("how", ["timeout", "stall"])
def test_a_cut_of_one_direction_is_put_on_the_streams_that_carry_it(
    network: QuorumNetwork, server: Server, how: str
) -> None:
    network.cut([(1, 2)], how)
    there, back = ["upstream"], ["downstream"]
    assert server.lying() == {"1-2-1": there, "1-2-2": there, "2-1-1": back, "2-1-2": back}
    assert network.broken() == {(1, 2): ["cut"]}
    network.heal([(1, 2)])
    assert server.lying() == {}
    assert network.broken() == {}
    assert network.take_foreign_changes() == []


def test_two_cut_directions_are_healed_separately(network: QuorumNetwork, server: Server) -> None:
    network.cut(BOTH_WAYS)
    assert network.broken() == {(1, 2): ["cut"], (2, 1): ["cut"]}
    network.heal([(2, 1)])
    assert network.broken() == {(1, 2): ["cut"]}
    assert server.lying()["2-1-1"] == ["downstream"]
    assert all(state.enabled for state in server.proxies.values())


def test_both_directions_must_be_disabled_together(network: QuorumNetwork, server: Server) -> None:
    with pytest.raises(NetworkError, match="1-2 can't be disabled alone"):
        network.cut([(1, 2)], "disable")
    network.cut(BOTH_WAYS, "disable")
    assert {name for name, state in server.proxies.items() if not state.enabled} == {"1-2-1", "1-2-2", "2-1-1", "2-1-2"}
    network.heal(BOTH_WAYS)
    assert all(state.enabled for state in server.proxies.values())


def test_an_unknown_kind_of_cut_is_refused(network: QuorumNetwork) -> None:
    with pytest.raises(NetworkError, match="no way to cut a link"):
        network.cut([(1, 2)], "scissors")


def test_a_link_has_the_toxics_that_are_on_all_its_streams(network: QuorumNetwork, server: Server) -> None:
    latency = Toxic("latency", "upstream", (("jitter", 0), ("latency", 5)))
    network.disturb([(1, 2)], [latency], "slow")
    assert network.toxics((1, 2)) == [latency]
    assert network.toxics((2, 1)) == []
    server.remove("2-1-2", "slow.downstream.latency.downstream")
    assert network.toxics((1, 2)) == []
    network.heal([(1, 2)], "slow")
    assert len(network.take_foreign_changes()) == 1


def test_metrics_are_read_by_link_without_those_of_relays() -> None:
    def line(proxy: str, direction: str, count: str) -> str:
        labels = f'direction="{direction}",listener="127.0.0.1:1",proxy="{proxy}",upstream="127.0.0.1:2"'
        return f"toxiproxy_proxy_sent_bytes_total{{{labels}}} {count}"

    text = "\n".join(
        [
            "# TYPE toxiproxy_proxy_sent_bytes_total counter",
            line("1-2-1", "upstream", "100"),
            line("1-2-2", "upstream", "1.5e+06"),
            line("2-1-1", "downstream", "7"),
            line("1-2-1", "downstream", "3"),
            line("1-2-1-0", "upstream", "1000"),
        ]
    )
    assert read_metrics(text) == {(1, 2): 1500107, (2, 1): 3}


def test_the_kernel_counts_the_bytes_sent_on_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        at = listener.getsockname()
        with socket.create_connection(at) as caller, listener.accept()[0] as called:
            caller.sendall(b"x" * 1000)
            called.sendall(b"yes")
            assert caller.recv(3) == b"yes"
            sent = {(one.local, one.remote): one.sent for one in connections()}
            assert sent[at, caller.getsockname()] == 3
            assert sent[caller.getsockname(), at] == 1000 + 1  # and its SYN


class Metrics:
    """A fake of toxiproxy's metrics: `ended` is the bytes of ended connections from 1 to 2."""

    def __init__(self, ended: int) -> None:
        self.ended = ended

    def __enter__(self) -> "Metrics":
        return self

    def __exit__(self, *_: object) -> None: ...

    def raise_for_status(self) -> None: ...

    def get(self, *_: object, **__: object) -> "Metrics":
        return self

    @property
    def text(self) -> str:
        return f'toxiproxy_proxy_sent_bytes_total{{direction="upstream",proxy="1-2-1"}} {self.ended}'


@pytest.fixture
def metrics(monkeypatch: pytest.MonkeyPatch) -> Metrics:
    metrics = Metrics(5)
    monkeypatch.setattr(links.tcp_signature, "session", lambda _: metrics)
    return metrics


def test_bytes_of_open_and_ended_connections_are_added(metrics: Metrics, monkeypatch: pytest.MonkeyPatch) -> None:
    meter = ByteMeter(PLAN, "nowhere:0", None)
    there = [
        TcpConnection(("127.0.0.1", 9), ("127.102.1.2", 201), 11),  # 1 has called 2: what goes to 2
        TcpConnection(("127.101.1.2", 201), ("127.0.0.1", 8), 20),  # and what comes back
        TcpConnection(("127.0.0.1", 8), ("127.101.1.2", 201), 99),  # what has not passed the proxy yet
        TcpConnection(("127.0.0.1", 7), ("127.0.0.1", 201), 98),  # what has passed it before
    ]
    monkeypatch.setattr(links, "connections", lambda: iter(there))
    assert meter.totals() == {(1, 2): 15, (1, 3): 0, (2, 1): 20, (2, 3): 0, (3, 1): 0, (3, 2): 0}
    assert meter.received(2) == {1: 15, 3: 0}


def test_a_servers_new_life_counts_from_zero(metrics: Metrics, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that was down when a link was cut, and starts behind the cut, has received nothing."""
    meter = ByteMeter(PLAN, "nowhere:0", None)
    there = [TcpConnection(("127.0.0.1", 9), ("127.102.1.2", 201), 11)]
    monkeypatch.setattr(links, "connections", lambda: iter(there))
    meter.begin(2)
    assert meter.received(2) == {1: 0, 3: 0}
    metrics.ended = 7
    assert meter.received(2) == {1: 2, 3: 0}


def test_bytes_of_a_closed_connection_that_a_toxic_holds_back_still_count(
    metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    meter = ByteMeter(PLAN, "nowhere:0", None)
    there: list[TcpConnection] = []
    monkeypatch.setattr(links, "connections", lambda: iter(there))

    def passed(*counts: int, ended: int) -> int:
        metrics.ended = ended
        there[:] = [
            TcpConnection(("127.0.0.1", port), ("127.102.1.2", 201), 1 + count) for port, count in enumerate(counts)
        ]
        return meter.totals()[1, 2]

    assert passed(40, ended=5) == 45
    assert passed(ended=5) == 45  # the kernel has it no more, and the proxy server holds it
    assert passed(ended=5) == 45
    assert passed(7, ended=5) == 52  # under the same name as the one before
    assert passed(8, ended=45) == 53  # now it is over
    assert passed(9, ended=45) == 54
    assert passed(3, ended=45) == 57  # another of that name
    assert passed(ended=60) == 60  # the first of the two, which had sent 6 more; the 3 of the second are still to come
    assert passed(ended=63) == 63
    assert passed(ended=64) == 64  # what no connection was seen for
