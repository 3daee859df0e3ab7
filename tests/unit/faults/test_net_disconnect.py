"""A pulled cable is confirmed only if every node is off the network, and by what had arrived until it is plugged in again."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.unit.faults.conftest import Patient, Sleepers
from zab_chaos.faults.containers import NetDisconnect
from zab_chaos.faults.kind import FaultContext


class Cabled(Sleepers):
    """Nodes with a cable. What others wanted to send to them arrives as soon as it is plugged in."""

    off: set[int]
    stuck: Sequence[int] = ()  # nodes whose cable can't be pulled

    def unplug(self, node: int) -> None:
        self.off.update({node} - set(self.stuck))

    def plug_in(self, node: int) -> None:
        self.off.discard(node)
        for other in self.nodes:
            self.frames[other, node] = self.frames.get((other, node), 0) + 1

    def plugged_in(self, node: int) -> bool:
        return node not in self.off

    limit_cpu = cpu_limited = throttled = plug_in  # not used here


@pytest.fixture
def cluster(sleepers: Callable[..., Any]) -> Cabled:
    made = sleepers(3)
    made.__class__ = Cabled
    made.off = set()
    made.frames = {(source, target): 5 for source in made.nodes for target in made.nodes if source != target}
    return made  # type: ignore[no-any-return]


@pytest.fixture
def fault(cluster: Cabled, patient: Patient) -> NetDisconnect:
    return NetDisconnect(FaultContext(cluster, None, host=patient), [1, 2], {})  # type: ignore[arg-type]


def test_frames_that_arrive_after_the_healing_do_not_count(fault: NetDisconnect) -> None:
    fault.inject()
    assert fault.injected().confirmed
    fault.heal()
    assert fault.recovered().confirmed


def test_frames_that_arrive_before_the_healing_refute_the_fault(fault: NetDisconnect, cluster: Cabled) -> None:
    fault.inject()
    cluster.frames[3, 2] += 1
    fault.heal()
    assert not fault.recovered().confirmed


@pytest.mark.parametrize("stuck", [1, 2])
def test_each_of_the_nodes_must_be_off_the_network(fault: NetDisconnect, cluster: Cabled, stuck: int) -> None:
    cluster.stuck = [stuck]
    fault.inject()
    assert not fault.injected().confirmed
