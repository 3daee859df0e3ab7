"""The links between servers: which toxics are on which stream of which proxy."""

from pathlib import Path

import pytest

from tests.unit.faults.proxies_in_memory import ProxiesInMemory
from zab_chaos.faults.network import NetworkError, Toxic
from zab_chaos.faults.two_way_network import TwoWayNetwork
from zab_chaos.harness.backends.zookeeper.links import ways
from zab_chaos.harness.backends.zookeeper.releases import Release
from zab_chaos.harness.backends.zookeeper.server import Plan, Ports

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
def network(server: ProxiesInMemory) -> TwoWayNetwork:
    made = TwoWayNetwork(server)
    made.create_ways(ways(PLAN))
    return made


def test_each_ordered_pair_has_two_proxies_with_a_relay_behind_each(
    network: TwoWayNetwork, server: ProxiesInMemory
) -> None:
    assert len(server.there) == 6 * 2 * 2
    assert (server.there["1-2-1"].listen, server.there["1-2-1"].upstream) == ("127.101.1.2:201", "127.102.1.2:201")
    behind = server.there["1-2-1-0"]
    assert (behind.listen, behind.upstream) == ("127.102.1.2:201", "127.0.0.1:201")
    assert server.there["3-1-2"].listen == "127.101.3.1:102"


@pytest.mark.parametrize("how", ["timeout", "stall"])
def test_a_cut_of_one_direction_is_put_on_the_streams_that_carry_it(
    network: TwoWayNetwork, server: ProxiesInMemory, how: str
) -> None:
    network.cut([(1, 2)], how)
    there, back = ["upstream"], ["downstream"]
    assert streams_with_toxics(server) == {"1-2-1": there, "1-2-2": there, "2-1-1": back, "2-1-2": back}
    assert network.broken() == {(1, 2): ["cut"]}
    network.heal([(1, 2)])
    assert streams_with_toxics(server) == {}
    assert network.broken() == {}
    assert network.take_foreign_changes() == []


def test_two_cut_directions_are_healed_separately(network: TwoWayNetwork, server: ProxiesInMemory) -> None:
    network.cut(BOTH_WAYS)
    assert network.broken() == {(1, 2): ["cut"], (2, 1): ["cut"]}
    network.heal([(2, 1)])
    assert network.broken() == {(1, 2): ["cut"]}
    assert streams_with_toxics(server)["2-1-1"] == ["downstream"]
    assert all(state.enabled for state in server.there.values())


def test_both_directions_must_be_disabled_together(network: TwoWayNetwork, server: ProxiesInMemory) -> None:
    with pytest.raises(NetworkError, match="1-2 can't be disabled alone"):
        network.cut([(1, 2)], "disable")
    network.cut(BOTH_WAYS, "disable")
    assert {name for name, state in server.there.items() if not state.enabled} == {"1-2-1", "1-2-2", "2-1-1", "2-1-2"}
    network.heal(BOTH_WAYS)
    assert all(state.enabled for state in server.there.values())


def test_an_unknown_kind_of_cut_is_refused(network: TwoWayNetwork) -> None:
    with pytest.raises(NetworkError, match="no way to cut a link"):
        network.cut([(1, 2)], "scissors")


def test_a_link_has_the_toxics_that_are_on_all_its_streams(network: TwoWayNetwork, server: ProxiesInMemory) -> None:
    latency = Toxic("latency", "upstream", (("jitter", 0), ("latency", 5)))
    network.disturb([(1, 2)], [latency], "slow")
    assert network.toxics((1, 2)) == [latency]
    assert network.toxics((2, 1)) == []
    server.remove("2-1-2", "slow.downstream.latency.downstream")
    assert network.toxics((1, 2)) == []
    network.heal([(1, 2)], "slow")
    assert len(network.take_foreign_changes()) == 1
