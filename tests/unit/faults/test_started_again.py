"""A node that a fault took down, that another fault has started again, and that was gone once more before anybody looked."""

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


def test_who_was_up_and_got_to_its_point_has_come_back_and_is_left_as_it_is(
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


def test_who_has_refused_its_disk_has_not_come_back(crashed_and_started: tuple[Any, Crash]) -> None:
    cluster, fault = crashed_and_started
    cluster.kill(1)
    cluster.refusing.add(1)
    cluster.start(1)
    fault.heal()
    assert not fault.recovered().confirmed


def test_who_answered_and_ended_at_once_has_come_up(
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
