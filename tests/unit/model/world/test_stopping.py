"""Stopping a call in its middle."""

import pytest

from zab_chaos.model.world.suspension import SuspendableCall


def test_it_goes_on_where_it_stopped() -> None:
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


def test_what_it_raises_is_raised_by_go() -> None:
    def call() -> None:
        raise KeyError("inside")

    with pytest.raises(KeyError, match="inside"):
        SuspendableCall(call).go()


def test_an_abandoned_call_never_goes_on() -> None:
    seen: list[str] = []

    def call() -> None:
        stoppable.stop()
        seen.append("never")

    stoppable = SuspendableCall(call)
    stoppable.go()
    stoppable.abandon()
    assert seen == []
    assert stoppable.finished
