"""What a clean-up of the engine removes: everything of runs that are over, and nothing of others."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from docker.models.containers import Container

from zab_chaos.harness.backends.containers import leftovers
from zab_chaos.harness.backends.containers.labels import HARNESS, HOST, RUN, this_host

NOBODY = f"{1 << 23} 0.0"  # a process that is not there


class Stopped(Container):
    """A container that has ended, as the engine's client shows it."""

    labels = {RUN: "t", HOST: this_host(), HARNESS: NOBODY}  # noqa: RUF012 - a property there
    name = "zab-t-node-1-1"


@pytest.fixture
def engine() -> Any:
    """An engine with one container, which has ended. It lists such containers only if it is asked for all."""
    there: list[Any] = [Stopped()]
    there[0].remove = lambda force: there.clear()  # type: ignore[method-assign]
    nothing = SimpleNamespace(list=lambda **_: [])
    containers = MagicMock()
    containers.list = lambda all=False, **_: list(there) if all else []
    return SimpleNamespace(containers=containers, networks=nothing, volumes=nothing)


def test_a_container_that_has_ended_is_removed_too(engine: Any) -> None:
    assert list(leftovers.remove_over(engine).values()) == [["zab-t-node-1-1"]]
    assert leftovers.runs(engine) == []


def test_a_run_of_another_machine_is_never_over(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its harness is no process here, whether it lives or not."""
    monkeypatch.setitem(Stopped.labels, HOST, "elsewhere")
    assert leftovers.remove_over(engine) == {}
    assert [(run.ours, run.over) for run in leftovers.runs(engine)] == [(False, False)]
