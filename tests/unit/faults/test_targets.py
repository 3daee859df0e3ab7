"""Targets by role, by number and by id; the same seed and state give the same nodes."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from zab_chaos.faults.kind import TargetState
from zab_chaos.faults.registry import KINDS
from zab_chaos.faults.rules import InvalidValueError
from zab_chaos.faults.targets import NoTargetError, read_target, resolve, size, static_nodes


def test_roles_follow_the_leader_of_the_moment(sleepers: Callable[..., Any]) -> None:
    cluster = sleepers(3)
    assert resolve("leader", cluster, TargetState.UP, Random(1)) == [1]
    cluster.leading = 3
    assert resolve("leader", cluster, TargetState.UP, Random(1)) == [3]
    assert {tuple(resolve("follower", cluster, TargetState.UP, Random(seed))) for seed in range(30)} == {(1,), (2,)}


def test_numbers_choose_among_those_in_the_right_state(sleepers: Callable[..., Any]) -> None:
    cluster = sleepers(5)
    cluster.kill_all([2, 4])
    cluster.pause(5)
    assert resolve("all", cluster, TargetState.UP, Random(1)) == [1, 3]
    assert resolve("all", cluster, TargetState.ALIVE, Random(1)) == [1, 3, 5]
    assert resolve("all", cluster, TargetState.DOWN, Random(1)) == [2, 4]
    assert resolve("one", cluster, TargetState.PAUSED, Random(1)) == [5]
    assert resolve("minority", cluster, TargetState.DOWN, Random(1)) == [2, 4]
    assert {len(resolve("majority", cluster, TargetState.ANY, Random(seed))) for seed in range(10)} == {3}
    with pytest.raises(NoTargetError, match="only 2 nodes are down, and the majority is 3"):
        resolve("majority", cluster, TargetState.DOWN, Random(1))


def test_observers_are_in_no_minority_or_majority_and_are_no_followers(sleepers: Callable[..., Any]) -> None:
    cluster = sleepers(5)
    cluster.voters = (1, 2, 3)
    drawn = {word: [resolve(word, cluster, TargetState.UP, Random(seed)) for seed in range(30)]
             for word in ("minority", "majority", "follower", "one", "all")}  # fmt: skip
    assert {tuple(nodes) for nodes in drawn["minority"]} == {(1,), (2,), (3,)}
    assert {tuple(nodes) for nodes in drawn["majority"]} == {(1, 2), (1, 3), (2, 3)}
    assert {tuple(nodes) for nodes in drawn["follower"]} == {(2,), (3,)}
    assert {tuple(nodes) for nodes in drawn["one"]} == {(1,), (2,), (3,), (4,), (5,)}
    assert drawn["all"][0] == [1, 2, 3, 4, 5]
    cluster.voters = (1, 2)
    with pytest.raises(NoTargetError, match="2 nodes that vote have no minority"):
        resolve("minority", cluster, TargetState.UP, Random(1))


@pytest.mark.parametrize(("nodes", "minority", "majority"), [(3, 1, 2), (4, 1, 3), (5, 2, 3), (6, 2, 4)])
def test_without_a_minority_there_is_still_a_majority(
    nodes: int, minority: int, majority: int, sleepers: Callable[..., Any]
) -> None:
    """Also of an even number of nodes. A fault hits as many as the rules of the nemesis expect."""
    cluster = sleepers(nodes)
    for word, expected in (("minority", minority), ("majority", majority)):
        assert len(resolve(word, cluster, TargetState.UP, Random(1))) == expected == size(word, nodes)
    assert nodes - minority >= majority


def test_the_same_seed_chooses_the_same_nodes(sleepers: Callable[..., Any]) -> None:
    cluster = sleepers(5)
    for seed in range(20):
        assert resolve("minority", cluster, TargetState.UP, Random(seed)) == resolve(
            "minority", cluster, TargetState.UP, Random(seed)
        )


def test_a_list_of_targets_hits_different_nodes(sleepers: Callable[..., Any]) -> None:
    cluster = sleepers(3)
    for seed in range(20):
        chosen = resolve(("one", "leader", "node-2"), cluster, TargetState.UP, Random(seed))
        assert chosen == [1, 2, 3]


def test_a_target_that_no_node_fits_is_an_error(sleepers: Callable[..., Any]) -> None:
    cluster = sleepers(3)
    with pytest.raises(NoTargetError, match="node-2 is not down"):
        resolve("node-2", cluster, TargetState.DOWN, Random(1))
    cluster.leading = None
    with pytest.raises(NoTargetError) as caught:
        resolve("leader", cluster, TargetState.UP, Random(1))
    assert caught.value.no_leader, "worth waiting for"


def test_the_nodes_and_sizes_of_targets_that_are_known_before_the_run() -> None:
    assert static_nodes(("node-1", "node-3"), 3) == {1, 3}
    assert static_nodes("all", 3) == {1, 2, 3}
    assert static_nodes(("node-1", "one"), 3) is None
    assert [size(word, 5) for word in ("one", "leader", "minority", "majority", "all")] == [1, 1, 2, 3, 5]
    assert size(("minority", "node-1"), 5) == 3


@pytest.mark.parametrize("value", [7, None, "node-0", "node-01", "node-4", "Leader", ["node-1", 2], {}, [[]]])
def test_an_invalid_target_is_refused(value: object) -> None:
    with pytest.raises(InvalidValueError):
        read_target(value, KINDS["crash"], 3)


def test_two_nodes_have_no_minority() -> None:
    with pytest.raises(InvalidValueError, match="no minority"):
        read_target("minority", KINDS["crash"], 2)
