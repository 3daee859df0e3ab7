"""How a container has ended, and commands to one that ends."""

from pathlib import Path
from signal import SIGKILL
from typing import Any
from unittest.mock import MagicMock

import docker.errors
import pytest

from zab_chaos.faults.cluster import ClusterError
from zab_chaos.harness.backends.containers import container
from zab_chaos.harness.backends.containers.container import ContainerEnd, ContainerLife
from zab_chaos.harness.backends.containers.engine import EngineError


@pytest.mark.parametrize(
    ("told", "code"),
    [
        *(({"StatusCode": status}, code) for status, code in ((0, 0), (74, 74), (137, -9), (143, -15))),
        (docker.errors.NotFound("no such container"), -SIGKILL),
        (OSError("the engine is gone"), -SIGKILL),
    ],
)
def test_the_end_of_a_container_has_a_code_like_that_of_a_process(told: Any, code: int) -> None:
    """One that is gone without a word was killed: nobody can have seen it end as it was asked to."""
    assert ContainerEnd(MagicMock(**{"wait.side_effect": [told]}), "node-1-1").wait(10.0) == code


@pytest.fixture
def life(monkeypatch: pytest.MonkeyPatch) -> ContainerLife:
    monkeypatch.setattr(container, "ContainerEnd", lambda *_: MagicMock(code=None))
    return ContainerLife(1, 1, Path("log"), None, MagicMock(attrs={"State": {"Pid": 1 << 23}}))


@pytest.mark.parametrize(("status", "tolerated"), [(404, True), (409, True), (500, False)])
def test_only_a_container_that_is_gone_needs_no_signal(life: ContainerLife, status: int, tolerated: bool) -> None:
    life.container.kill.side_effect = docker.errors.APIError("no", MagicMock(status_code=status))
    if tolerated:
        life.signal(SIGKILL)
    else:
        with pytest.raises(EngineError, match="sending SIGKILL to node 1"):
            life.signal(SIGKILL)


def test_a_node_that_dies_while_it_is_frozen_is_not_paused(
    life: ContainerLife, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ContainerLife, "is_halted", lambda _: False)
    life.container.pause.side_effect = lambda: setattr(life._end, "code", 1)
    with pytest.raises(ClusterError, match=r"node 1 .* did not freeze"):
        life.pause()
