"""Links on real sockets: sessions open, carry messages in order, end for each possible reason, and open again."""

from typing import Any

import pytest
import zmq

from zab_chaos.node.events import LinkDown, LinkUp, Received
from zab_chaos.node.net.address import AddressInUse


def downs(net: Any, me: int) -> list[str]:
    return [event.why for event in net.of(me, LinkDown)]


def test_two_fresh_nodes_come_up_in_the_same_session_and_talk_in_order(net: Any) -> None:
    one, two = net.pair()
    assert net.of(1, LinkUp) == [LinkUp(2, 1)]
    assert net.of(2, LinkUp) == [LinkUp(1, 1)]
    for i in range(200):
        one.send(2, [i, f"text {i}"])
        two.send(1, [-i])
    net.until(lambda: len(net.messages(2, 1)) == 400 and len(net.messages(1, 2)) == 200)
    assert net.messages(2, 1) == [m for i in range(200) for m in (i, f"text {i}")]
    assert net.messages(1, 2) == [-i for i in range(200)]
    assert two.frames[1] > 200  # greetings are frames, too
    assert not net.of(1, LinkDown)
    assert not net.refused(1)


def test_megabytes_travel_in_one_frame(net: Any) -> None:
    one, _ = net.pair()
    big = "0123456789abcdef" * 300_000
    one.send(2, [big, 1])
    net.until(lambda: len(net.messages(2, 1)) == 2)
    assert net.messages(2, 1) == [big, 1]


def test_messages_sent_while_the_link_is_down_are_dropped(net: Any) -> None:
    one = net.start(1, {2: net.ports[2]})
    one.send(2, ["too early"])
    net.start(2, {1: net.ports[1]})
    net.until(lambda: net.up(1, 2) and net.up(2, 1))
    one.send(2, ["now"])
    net.until(lambda: bool(net.messages(2, 1)))
    assert net.messages(2, 1) == ["now"]


def test_a_session_whose_linkup_was_not_returned_sends_nothing(net: Any) -> None:
    """What the server still sends to an old session must not get into the new one."""
    fake = net.fake()
    one = net.start(1, {2: net.ports[2]})
    fake.welcome()
    net.until(lambda: net.up(1, 2))
    fake.session = 7
    fake.say(0, "first of session 7")  # one frame closes session 1, opens session 7 and carries a message
    net.until(lambda: net.told[1][-1] == LinkDown(2, 1, "the peer opened a new session"))
    one.send(2, ["meant for session 1"])
    net.until(lambda: bool(net.messages(1, 2)))
    assert net.told[1][-2:] == [LinkUp(2, 7), Received(2, ["first of session 7"])]
    heard: list[Any] = []
    while not any(header.session == 7 for header, _ in heard):  # until the new session's connection is there
        fake.welcome()
        net.round()
        heard += fake.heard()
    one.send(2, ["meant for session 7"])
    net.until(lambda: heard.extend(fake.heard()) or any(messages for _, messages in heard))
    assert [messages for _, messages in heard if messages] == [["meant for session 7"]]


def test_a_reset_begins_a_new_session_at_both_ends(net: Any) -> None:
    one, _ = net.pair()
    one.send(2, ["old"])
    one.reset(2, "a new iteration")
    assert one.pending
    one.send(2, ["between"])
    net.until(lambda: len(net.of(1, LinkUp)) == 2 and len(net.of(2, LinkUp)) == 2)
    assert downs(net, 1) == ["a new iteration"]
    assert downs(net, 2) == ["the peer opened a new session"]
    assert net.of(1, LinkUp)[-1].session == net.of(2, LinkUp)[-1].session == 2
    one.send(2, ["new"])
    net.until(lambda: "new" in net.messages(2, 1))
    assert net.messages(2, 1)[-1] == "new"
    assert "between" not in net.messages(2, 1)
    old = net.told[2].index(LinkDown(1, 1, "the peer opened a new session"))
    assert not [e for e in net.told[2][old:] if isinstance(e, Received) and "old" in e.messages]


def test_resets_of_both_ends_at_once_agree(net: Any) -> None:
    one, two = net.pair()
    for _ in range(5):
        one.reset(2, "a")
        two.reset(1, "b")
        net.until(lambda: net.up(1, 2) and net.up(2, 1) and not one.pending and not two.pending)
    one.send(2, ["still there"])
    net.until(lambda: "still there" in net.messages(2, 1))


def test_only_link_downs_follow_a_link_down_in_one_list(net: Any) -> None:
    one, two = net.pair()
    batches: list[list[Any]] = []
    receive = one.receive
    one.receive = lambda n: batches.append(receive(n)) or batches[-1]  # type: ignore[method-assign,func-returns-value]
    for i in range(10):
        two.send(1, [i])
        two.reset(1, "again")
        net.until(lambda: net.up(1, 2) and net.up(2, 1) and not two.pending)
    assert sum(type(e) is LinkDown for batch in batches for e in batch) >= 10
    for batch in batches:
        kinds = [type(event) for event in batch]
        if LinkDown in kinds:
            assert set(kinds[kinds.index(LinkDown) :]) == {LinkDown}


def test_a_restarted_peer_ends_the_session_and_gets_a_new_one(net: Any) -> None:
    one, _ = net.pair()
    net.stop(2)
    net.until(lambda: not net.up(1, 2))
    one.send(2, ["to nobody"])
    net.told[2].clear()
    net.start(2, {1: net.ports[1]}, life=2)
    net.until(lambda: net.up(1, 2) and net.up(2, 1))
    assert net.of(1, LinkUp)[-1].session == net.of(2, LinkUp)[-1].session > 1
    one.send(2, ["to the new life"])
    net.until(lambda: bool(net.messages(2, 1)))
    assert net.messages(2, 1) == ["to the new life"]


def test_a_dead_peer_is_noticed_without_sending(net: Any) -> None:
    net.pair()
    net.stop(2)
    net.until(lambda: not net.up(1, 2))
    assert downs(net, 1) == ["the connection to the peer ended"]


def test_a_dying_peers_last_frames_are_received(net: Any) -> None:
    _, two = net.pair()
    for i in range(50):
        two.send(1, [i, "x" * 20_000])
    two.drain(1, 20.0)
    net.stop(2)
    net.until(lambda: not net.up(1, 2))
    assert net.messages(1, 2)[::2] == list(range(50))


def test_drain_waits_for_more_than_the_kernel_buffers(net: Any) -> None:
    one, two = net.pair()
    for i in range(8):
        two.send(1, [i, "x" * 2_000_000])
    two.drain(1, 20.0)
    two.close()
    del net.links[2]
    while net.up(1, 2):
        net.told[1] += one.receive(100)
        one.tick(0)
    assert net.messages(1, 2)[::2] == list(range(8))


def test_a_full_queue_closes_the_session_instead_of_dropping(net: Any) -> None:
    one, _ = net.pair(queue_frames=2)
    chunk = "x" * 500_000
    for i in range(200):  # node 2 does not read meanwhile; ZeroMQ itself would queue 1000
        one.send(2, [i, chunk])
        if one.pending:
            break
    net.until(lambda: bool(net.of(1, LinkDown)) and net.up(1, 2) and net.up(2, 1))
    assert downs(net, 1) == ["the queue to the peer is full, or its connection is gone"]
    got = net.messages(2, 1)[::2]
    assert got == list(range(len(got)))


def test_a_frame_that_is_too_large_to_send_closes_the_session_with_a_reason(net: Any) -> None:
    one, _ = net.pair(frame_bytes=10_000)
    one.send(2, ["x" * 10_000])
    net.until(lambda: bool(net.of(1, LinkDown)))
    assert downs(net, 1)[0].startswith("a frame to send has 10")
    assert "at most 10000" in downs(net, 1)[0]


def test_three_nodes_have_links_of_their_own(net: Any) -> None:
    ports = net.ports
    for me in (1, 2, 3):
        net.start(me, {peer: ports[peer] for peer in (1, 2, 3) if peer != me})
    net.until(lambda: all(net.up(a, b) for a in (1, 2, 3) for b in (1, 2, 3) if a != b))
    net.links[1].reset(2, "only this one")
    for me in (1, 2):
        net.links[me].send(3, [f"from {me}"])
    net.until(lambda: len(net.messages(3, 1)) == len(net.messages(3, 2)) == 1 and len(net.of(2, LinkUp)) == 3)
    assert not net.of(3, LinkDown)


def test_an_address_in_use_raises_a_readable_error(net: Any) -> None:
    net.start(1, {2: net.ports[2]})
    net.ports[2] = net.ports[1]
    with pytest.raises(AddressInUse, match=f"cannot listen on 127.0.0.1:{net.ports[1]} for peers: another process"):
        net.start(2, {1: net.ports[1]})


def test_the_poller_follows_the_sockets(net: Any) -> None:
    one, _ = net.pair()
    poller: zmq.Poller = net.pollers[1]
    before = {socket for socket, _ in poller.sockets}
    one.reset(2, "a new socket")
    after = {socket for socket, _ in poller.sockets}
    assert len(after) == len(before) == 3
    assert len(after - before) == 1
    assert not any(socket.closed for socket in after)
    net.stop(1)
    assert poller.sockets == []


def test_max_frames_limits_one_call(net: Any) -> None:
    one, two = net.pair()
    for i in range(20):
        two.send(1, [i])
    two.drain(1, 20.0)  # all of it has left; node 1 receives it in small pieces
    sizes = []
    while len(net.messages(1, 2)) < 20:
        events = one.receive(3)
        sizes.append(len(events))
        net.told[1] += events
    assert max(sizes) == 3
    assert net.messages(1, 2) == list(range(20))
