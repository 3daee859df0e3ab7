"""A limit of CPU time is confirmed only if the kernel has it until it is healed, and not any longer."""

from unittest.mock import MagicMock

import pytest

from tests.unit.faults.conftest import Patient
from zab_chaos.faults.cluster import Contained
from zab_chaos.faults.containers import CpuLimit
from zab_chaos.faults.kind import FaultContext


@pytest.fixture
def limits() -> dict[int, float | None]:
    """The limits that the kernel has, by node."""
    return {1: None, 2: None, 3: None}


@pytest.fixture
def cluster(limits: dict[int, float | None]) -> MagicMock:
    cluster = MagicMock(Contained, pid=lambda node: 100 + node, alive=lambda node: True)
    cluster.limit_cpu = limits.__setitem__
    cluster.cpu_limited = lambda node: limits[node] is not None
    cluster.throttled.side_effect = range(100)
    return cluster


@pytest.fixture
def fault(cluster: MagicMock) -> CpuLimit:
    fault = CpuLimit(FaultContext(cluster, None), [2], {"cores": 0.03})
    fault.inject()
    assert fault.injected().confirmed
    return fault


def test_a_limit_that_was_there_and_is_gone_is_confirmed(fault: CpuLimit, limits: dict[int, float | None]) -> None:
    assert limits[2] == 0.03
    fault.heal()
    assert fault.recovered().confirmed
    assert limits[2] is None


def test_a_limit_that_was_lifted_before_is_not_confirmed(fault: CpuLimit, limits: dict[int, float | None]) -> None:
    limits[2] = None
    fault.heal()
    now = fault.recovered()
    assert (now.confirmed, now.evidence["not limited any more"]) == (False, [2])


def test_a_node_that_was_restarted_has_lost_the_limit_rightly(
    fault: CpuLimit, cluster: MagicMock, limits: dict[int, float | None]
) -> None:
    limits[2], cluster.pid = None, lambda node: 200 + node
    fault.heal()
    assert fault.recovered().confirmed


def test_a_limit_that_stays_is_not_confirmed(fault: CpuLimit, cluster: MagicMock) -> None:
    cluster.limit_cpu = lambda node, cores: None
    fault.heal()
    now = fault.recovered()
    assert (now.confirmed, now.evidence["still limited"]) == (False, [2])


@pytest.mark.parametrize("idle", [1, 2])
def test_a_limit_is_confirmed_only_if_each_of_its_nodes_has_reached_it(
    idle: int, cluster: MagicMock, patient: Patient
) -> None:
    cluster.throttled = lambda node: 0 if node == idle else int(patient.time)
    fault = CpuLimit(FaultContext(cluster, None, host=patient), [1, 2], {"cores": 0.03})
    fault.inject()
    assert not fault.injected().confirmed
