"""The pairs that each shape cuts."""

from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zab_chaos.faults import shapes
from zab_chaos.faults.partition import cut_pairs
from zab_chaos.faults.registry import KINDS, concerns_links
from zab_chaos.model.oracle.facts import LINK_FAULTS

# A busy machine is slow, not wrong.
unhurried = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])


def test_isolating_a_node_cuts_all_its_links_and_no_other() -> None:
    assert shapes.isolate([1, 2, 3], [2]) == ((1, 2), (2, 1), (2, 3), (3, 2))


def test_one_way_cuts_only_that_way() -> None:
    assert shapes.touching([1, 2, 3], [1], "out") == ((1, 2), (1, 3))
    assert shapes.touching([1, 2, 3], [1], "in") == ((2, 1), (3, 1))


def test_the_links_of_a_group_are_also_those_between_its_nodes() -> None:
    assert shapes.links_of([1, 2, 3], [1, 2], "out") == ((1, 2), (1, 3), (2, 1), (2, 3))
    assert shapes.links_of([1, 2, 3], [1, 2], "in") == ((1, 2), (2, 1), (3, 1), (3, 2))
    assert len(shapes.links_of([1, 2, 3], [1, 2, 3], "both")) == 6


def test_in_a_ring_every_node_reaches_two_neighbours() -> None:
    cut = set(shapes.ring([1, 2, 3, 4, 5]))
    for node in range(1, 6):
        reached = {peer for peer in range(1, 6) if peer != node and (node, peer) not in cut}
        assert reached == {node % 5 + 1, (node - 2) % 5 + 1}
    assert shapes.ring([1, 2, 3]) == ()


@unhurried
@given(st.integers(2, 9), st.integers(0, 1000))
def test_halves_split_all_nodes_into_two_groups(nodes: int, seed: int) -> None:
    cut = set(shapes.halves(range(1, nodes + 1), Random(seed)))
    groups = {frozenset(b for b in range(1, nodes + 1) if (a, b) not in cut) for a in range(1, nodes + 1)}
    assert sorted(len(group) for group in groups) == [nodes // 2, nodes - nodes // 2]
    assert all((b, a) in cut for a, b in cut)


@unhurried
@given(st.integers(3, 9), st.integers(0, 1000))
def test_the_bridge_reaches_all_and_the_halves_only_it(nodes: int, seed: int) -> None:
    cut = set(shapes.bridge(range(1, nodes + 1), 2, Random(seed)))
    assert not any(2 in pair for pair in cut)
    for node in set(range(1, nodes + 1)) - {2}:
        assert any((node, peer) in cut for peer in range(1, nodes + 1))


@unhurried
@given(st.integers(3, 9), st.data())
def test_the_target_is_on_the_side_of_a_full_minority(nodes: int, data: st.DataObject) -> None:
    minority = (nodes - 1) // 2
    target = data.draw(st.lists(st.integers(1, nodes), min_size=1, max_size=minority, unique=True))
    params = {"shape": "majority-minority", "pairs": None, "direction": "out"}
    cut = set(cut_pairs(params, range(1, nodes + 1), target, Random(1)))
    side = {b for b in range(1, nodes + 1) if (target[0], b) not in cut}
    assert len(side) == minority
    assert set(target) <= side


def test_observers_stay_with_the_majority() -> None:
    params = {"shape": "majority-minority", "pairs": None, "direction": "out"}
    for seed in range(20):
        cut = set(cut_pairs(params, range(1, 8), [2], Random(seed), range(1, 6)))
        side = {b for b in range(1, 8) if (2, b) not in cut}
        assert len(side) == 2
        assert side <= {1, 2, 3, 4, 5}


def test_the_judge_knows_the_faults_that_concern_links_only() -> None:
    """It can't ask the kinds of faults themselves, which are in a layer above it."""
    assert {name for name in KINDS if concerns_links(name)} == LINK_FAULTS
