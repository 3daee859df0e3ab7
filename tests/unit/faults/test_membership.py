"""Nodes that are removed from the members are confirmed by the configuration that the ensemble has committed."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.unit.faults.conftest import Play, Sleepers
from zab_chaos.faults.cluster import ClusterError
from zab_chaos.faults.kind import FaultContext, FaultError
from zab_chaos.faults.membership import RemoveMember
from zab_chaos.faults.scenario import ScenarioError, parse

REMOVED_AND_KILLED = """
[scenario]
name = "removed"

[[fault]]
at = 1
do = "remove-member"
target = "node-3"

[[fault]]
at = 2
do = "crash"
target = "node-3"
"""


class Members(Sleepers):
    """Nodes some of which are members. `stuck`: those that can't be removed or added."""

    members: set[int]
    stuck: Sequence[int] = ()

    def remove_members(self, nodes: Sequence[int], seconds: float) -> list[int]:
        self.members -= {*nodes} - {*self.stuck}
        return sorted(self.members)

    def add_members(self, nodes: Sequence[int], seconds: float) -> list[int]:
        if not all(self.alive(node) for node in nodes):
            raise ClusterError("not up")
        self.members |= {*nodes} - {*self.stuck}
        return sorted(self.members)


@pytest.fixture
def cluster(sleepers: Callable[..., Any]) -> Members:
    made = sleepers(3, kind=Members)
    assert isinstance(made, Members)
    made.members = {*made.nodes}
    return made


def test_the_nodes_are_removed_and_added_again(cluster: Members) -> None:
    fault = RemoveMember(FaultContext(cluster, None), [1, 3], {})
    fault.inject()
    assert (fault.injected().confirmed, fault.injected().evidence) == (True, {"members": [2]})
    fault.heal()
    assert (fault.recovered().confirmed, fault.recovered().evidence) == (True, {"members": [1, 2, 3]})


@pytest.mark.parametrize("stuck", [[3], [1, 3]])
def test_each_node_must_be_gone_and_come_back(stuck: list[int], cluster: Members) -> None:
    fault = RemoveMember(FaultContext(cluster, None), [1, 3], {})
    cluster.stuck = stuck
    fault.inject()
    assert not fault.injected().confirmed
    cluster.stuck = ()
    fault.inject()
    cluster.stuck = stuck
    fault.heal()
    assert not fault.recovered().confirmed


def test_a_node_is_added_when_it_is_up_again(play: Callable[..., Play]) -> None:
    """A fault that began later has killed it."""
    steps = parse(REMOVED_AND_KILLED).schedule()
    played = play(*steps)
    members = played.cluster
    members.__class__ = Members
    members.members = {1, 2, 3}
    played.scheduler.due(102.5)
    assert members.members == {1, 2}
    assert not members.alive(3)
    played.scheduler.heal_all()
    assert members.members == {1, 2, 3}
    assert played.told() == [("inject", 1, True), ("inject", 2, True), ("heal", 2, True), ("heal", 1, True)]


DRAWN = """
[scenario]
name = "drawn"
nodes = 5
duration = 60

[nemesis]
faults = {{ remove-member = 1, crash = 1 }}
keep_quorum = {}
"""


def test_drawn_members_are_added_again() -> None:
    steps = [step for step in parse(DRAWN.format("true")).schedule(1) if step.do == "remove-member"]
    assert len({str(step.target) for step in steps}) > 1
    assert all(step.lasts is not None for step in steps)


def test_members_are_drawn_only_while_there_is_a_quorum_that_can_add_them_again() -> None:
    with pytest.raises(ScenarioError, match=r"without a quorum .*Allowed: remove-member with keep_quorum = true"):
        parse(DRAWN.format("false"))


def test_other_nodes_have_no_members(sleepers: Callable[..., Any]) -> None:
    with pytest.raises(FaultError, match="--on zookeeper"):
        RemoveMember(FaultContext(sleepers(3), None), [1], {})
