"""The outbox hands out everything that the core asks for, and an effect waits for its own record."""

import pytest

from zab_chaos.node.core.messages import NewEpoch
from zab_chaos.node.core.outbox import Outbox
from zab_chaos.node.core.ready import EpochRecord, Install, Ready
from zab_chaos.node.core.zxid import ZERO

PEER = 2
MESSAGE = NewEpoch(1)
RECORD = EpochRecord(1)
STATE = Install(ZERO, 0, b"")


@pytest.fixture
def out() -> Outbox:
    return Outbox({PEER})


def test_take_returns_none_if_nothing_gathered(out: Outbox) -> None:
    assert out.take() is None


def test_each_obligation_alone_is_handed_out(out: Outbox) -> None:
    out.send(PEER, MESSAGE)
    assert out.take() == Ready(messages=[(PEER, MESSAGE)])
    out.send_after_sync(PEER, MESSAGE)
    assert out.take() == Ready(messages_after_sync=[(PEER, MESSAGE)])
    out.close(PEER)
    assert out.take() == Ready(resets=[PEER])
    out.deliver(STATE)
    assert out.take() == Ready(deliveries=[STATE])
    out.event("vote")
    ready = out.take()
    assert ready is not None
    assert [event.name for event in ready.events] == ["vote"]
    out.event_after_sync("accept")
    ready = out.take()
    assert ready is not None
    assert [event.name for event in ready.events_after_sync] == ["accept"]
    out.abort("wrong")
    assert out.take() == Ready(abort="wrong")
    out.record(RECORD)
    assert out.take() == Ready(records=[RECORD], upto=1)
    assert out.take() is None


def test_an_effects_record_waits_for_the_next_sync(out: Outbox) -> None:
    """An effect writes another record, which is not durable yet."""
    done: list[str] = []

    def more() -> None:
        done.append("first")
        out.record(RECORD, lambda: done.append("second"))

    out.record(RECORD, more)
    ready = out.take()
    assert ready is not None
    out.synced(ready.upto)
    assert done == ["first"]
    assert out.waiting == 1
    ready = out.take()
    assert ready is not None
    out.synced(ready.upto)
    assert done == ["first", "second"]
