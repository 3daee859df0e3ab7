"""Links of systems whose connections carry data both ways: a cut of one direction takes it on every connection."""

import pytest

from tests.unit.faults.proxies_in_memory import ProxiesInMemory
from zab_chaos.faults.network import NetworkError, Toxic
from zab_chaos.faults.two_way_network import TwoWayNetwork, Way

PAIRS = [(1, 2), (2, 1)]


@pytest.fixture
def server() -> ProxiesInMemory:
    return ProxiesInMemory()


@pytest.fixture
def network(server: ProxiesInMemory) -> TwoWayNetwork:
    made = TwoWayNetwork(server)
    made.create_links({pair: (f"here:{pair[0]}", f"there:{pair[1]}") for pair in PAIRS})
    return made


@pytest.mark.parametrize("how", ["timeout", "stall"])
def test_what_one_node_sends_is_cut_on_the_connections_of_both(
    network: TwoWayNetwork, server: ProxiesInMemory, how: str
) -> None:
    network.cut([(1, 2)], how)
    streams = {name: [one["stream"] for one in state.toxics.values()] for name, state in server.there.items()}
    assert streams == {"1-2": ["upstream"], "2-1": ["downstream"]}
    assert network.broken() == {(1, 2): ["cut"]}
    network.heal([(1, 2)])
    assert not any(state.toxics for state in server.there.values())
    assert network.take_foreign_changes() == []


def test_a_connection_can_be_refused_only_in_both_directions(network: TwoWayNetwork, server: ProxiesInMemory) -> None:
    with pytest.raises(NetworkError, match="1-2 can't be disabled alone"):
        network.cut([(1, 2)], "disable")
    network.cut(PAIRS, "disable")
    assert not any(state.enabled for state in server.there.values())
    network.heal(PAIRS)
    assert all(state.enabled for state in server.there.values())


def test_a_link_has_the_toxics_that_are_on_all_its_streams(network: TwoWayNetwork, server: ProxiesInMemory) -> None:
    slow = Toxic("latency", "upstream", (("jitter", 0), ("latency", 50)))
    network.disturb([(1, 2)], [slow], "slow")
    assert (network.toxics((1, 2)), network.toxics((2, 1))) == ([slow], [])
    server.change("2-1", toxics={})
    assert network.toxics((1, 2)) == []


def test_a_link_consists_of_all_proxies_of_a_pair_whatever_follows_it_in_their_names(server: ProxiesInMemory) -> None:
    network = TwoWayNetwork(server)
    pairs = [(*pair, *number) for pair in PAIRS for number in ((), (1,))]
    network.create_ways({pair: Way(f"proxy:{pair}", f"relay:{pair}", f"target:{pair}") for pair in pairs})
    network.cut([(1, 2)])
    streams = {name: [one["stream"] for one in state.toxics.values()] for name, state in server.there.items()}
    there, back = ["upstream"], ["downstream"]
    assert {name: found for name, found in streams.items() if found} == {
        "1-2": there,
        "1-2-1": there,
        "2-1": back,
        "2-1-1": back,
    }
    assert network.broken() == {(1, 2): ["cut"]}
