"""Stopping a call in the middle, and resuming or abandoning it."""

import pytest

from zab_chaos.model.world.suspension import SuspendableCall


def test_a_stopped_call_is_resumed_where_it_stopped() -> None:
    seen: list[str] = []

    def call() -> None:
        seen.append("before")
        stoppable.stop()
        seen.append("after")

    stoppable = SuspendableCall(call)
    assert not stoppable.go()
    assert stoppable.stopped
    assert seen == ["before"]
    assert stoppable.go()
    assert seen == ["before", "after"]
    assert stoppable.finished


def test_go_raises_the_error_of_the_call() -> None:
    def call() -> None:
        raise KeyError("inside")

    with pytest.raises(KeyError, match="inside"):
        SuspendableCall(call).go()


def test_an_abandoned_call_is_never_resumed() -> None:
    seen: list[str] = []

    def call() -> None:
        stoppable.stop()
        seen.append("never")

    stoppable = SuspendableCall(call)
    stoppable.go()
    stoppable.abandon()
    assert seen == []
    assert stoppable.finished
