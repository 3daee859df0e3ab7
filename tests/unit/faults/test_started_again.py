"""A node that one fault took down and another one restarted, and that had ended again before it was looked at."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from zab_chaos.faults.kind import Confirmation, FaultContext
from zab_chaos.faults.process import Crash


@pytest.fixture
def crashed_and_started(sleepers: Callable[..., Any]) -> tuple[Any, Crash]:
    cluster = sleepers(3)
    fault = Crash(FaultContext(cluster, None, Random(1)), [1], {})
    fault.inject()
    assert not fault.is_over()
    cluster.start(1, crash_at="before-send:ACK-E")
    assert fault.is_over()
    return cluster, fault


def test_a_restarted_node_that_reached_its_point_has_come_back_and_is_left_as_it_is(
    crashed_and_started: tuple[Any, Crash],
) -> None:
    cluster, fault = crashed_and_started
    pid = cluster.pid(1)
    cluster.kill(1)
    fault.heal()
    assert not cluster.alive(1)
    told = fault.recovered()
    assert told.confirmed
    assert told.evidence == {"1": {"pid": pid, "exit": -9}}


def test_a_node_that_refused_its_disk_has_not_come_back(crashed_and_started: tuple[Any, Crash]) -> None:
    cluster, fault = crashed_and_started
    cluster.kill(1)
    cluster.refusing[1] = 65
    cluster.start(1)
    fault.heal()
    assert not fault.recovered().confirmed


def test_a_node_that_answered_and_ended_at_once_has_come_up(
    crashed_and_started: tuple[Any, Crash], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, fault = crashed_and_started
    pid, status = cluster.pid(1), cluster.status

    def answer_and_end(node: int, timeout: float) -> Any:
        answer = status(node, timeout)
        cluster.kill(node)
        return answer

    monkeypatch.setattr(cluster, "status", answer_and_end)
    fault.heal()
    assert fault.recovered() == Confirmation(True, {"1": {"pid": pid}})
