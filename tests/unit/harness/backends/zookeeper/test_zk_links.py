"""The links between servers: which toxics are on which stream of which proxy, and how bytes are counted."""

import socket
from pathlib import Path

import pytest

from tests.unit.faults.proxies_in_memory import ProxiesInMemory
from zab_chaos.faults.network import NetworkError, Toxic
from zab_chaos.harness.backends.zookeeper import links
from zab_chaos.harness.backends.zookeeper.links import ByteMeter, QuorumNetwork, read_metrics
from zab_chaos.harness.backends.zookeeper.releases import Release
from zab_chaos.harness.backends.zookeeper.server import Plan, Ports
from zab_chaos.harness.machine.connections import TcpConnection, connections

PLAN = Plan(
    release=Release("3.9.4", (), Path("byteman.jar")),
    java="java",
    ports={node: Ports(100 * node, 100 * node + 1, 100 * node + 2, 100 * node + 3) for node in (1, 2, 3)},
)
BOTH_WAYS = [(1, 2), (2, 1)]


def streams_with_toxics(server: ProxiesInMemory) -> dict[str, list[str]]:
    """Return the streams with toxics, by proxy."""
    found = {name: sorted(one["stream"] for one in it.toxics.values()) for name, it in server.there.items()}
    return {name: streams for name, streams in found.items() if streams}


@pytest.fixture
def server() -> ProxiesInMemory:
    return ProxiesInMemory()


@pytest.fixture
def network(server: ProxiesInMemory) -> QuorumNetwork:
    made = QuorumNetwork("nowhere:0")
    made._proxies = server
    made.create(PLAN)
    return made


def test_each_ordered_pair_has_two_proxies_with_a_relay_behind_each(
    network: QuorumNetwork, server: ProxiesInMemory
) -> None:
    assert len(server.there) == 6 * 2 * 2
    assert (server.there["1-2-1"].listen, server.there["1-2-1"].upstream) == ("127.101.1.2:201", "127.102.1.2:201")
    behind = server.there["1-2-1-0"]
    assert (behind.listen, behind.upstream) == ("127.102.1.2:201", "127.0.0.1:201")
    assert server.there["3-1-2"].listen == "127.101.3.1:102"


@pytest.mark.parametrize("how", ["timeout", "stall"])
def test_a_cut_of_one_direction_is_put_on_the_streams_that_carry_it(
    network: QuorumNetwork, server: ProxiesInMemory, how: str
) -> None:
    network.cut([(1, 2)], how)
    there, back = ["upstream"], ["downstream"]
    assert streams_with_toxics(server) == {"1-2-1": there, "1-2-2": there, "2-1-1": back, "2-1-2": back}
    assert network.broken() == {(1, 2): ["cut"]}
    network.heal([(1, 2)])
    assert streams_with_toxics(server) == {}
    assert network.broken() == {}
    assert network.take_foreign_changes() == []


def test_two_cut_directions_are_healed_separately(network: QuorumNetwork, server: ProxiesInMemory) -> None:
    network.cut(BOTH_WAYS)
    assert network.broken() == {(1, 2): ["cut"], (2, 1): ["cut"]}
    network.heal([(2, 1)])
    assert network.broken() == {(1, 2): ["cut"]}
    assert streams_with_toxics(server)["2-1-1"] == ["downstream"]
    assert all(state.enabled for state in server.there.values())


def test_both_directions_must_be_disabled_together(network: QuorumNetwork, server: ProxiesInMemory) -> None:
    with pytest.raises(NetworkError, match="1-2 can't be disabled alone"):
        network.cut([(1, 2)], "disable")
    network.cut(BOTH_WAYS, "disable")
    assert {name for name, state in server.there.items() if not state.enabled} == {"1-2-1", "1-2-2", "2-1-1", "2-1-2"}
    network.heal(BOTH_WAYS)
    assert all(state.enabled for state in server.there.values())


def test_an_unknown_kind_of_cut_is_refused(network: QuorumNetwork) -> None:
    with pytest.raises(NetworkError, match="no way to cut a link"):
        network.cut([(1, 2)], "scissors")


def test_a_link_has_the_toxics_that_are_on_all_its_streams(network: QuorumNetwork, server: ProxiesInMemory) -> None:
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
        TcpConnection(("127.0.0.1", 9), ("127.102.1.2", 201), 11, ""),  # 1 has called 2: what goes to 2
        TcpConnection(("127.101.1.2", 201), ("127.0.0.1", 8), 20, ""),  # and what comes back
        TcpConnection(("127.0.0.1", 8), ("127.101.1.2", 201), 99, ""),  # what has not passed the proxy yet
        TcpConnection(("127.0.0.1", 7), ("127.0.0.1", 201), 98, ""),  # what has passed it before
    ]
    monkeypatch.setattr(links, "connections", lambda: iter(there))
    assert meter.totals() == {(1, 2): 15, (1, 3): 0, (2, 1): 20, (2, 3): 0, (3, 1): 0, (3, 2): 0}
    assert meter.received(2) == {1: 15, 3: 0}


def test_a_servers_new_life_counts_from_zero(metrics: Metrics, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that was down when a link was cut, and starts behind the cut, has received nothing."""
    meter = ByteMeter(PLAN, "nowhere:0", None)
    there = [TcpConnection(("127.0.0.1", 9), ("127.102.1.2", 201), 11, "")]
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
            TcpConnection(("127.0.0.1", port), ("127.102.1.2", 201), 1 + count, "") for port, count in enumerate(counts)
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
