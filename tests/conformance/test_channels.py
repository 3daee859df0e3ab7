"""The properties that Zab's proof needs of a channel (DSN 2011, section II), tested on real and simulated links alike."""

from collections.abc import Callable
from random import Random

import pytest

from tests.conformance.channels import Channels
from zab_chaos.faults.network import Toxic
from zab_chaos.node.events import LinkDown, LinkUp, Received

CUTS = ("timeout", "stall", "disable")
THERE = (1, 2)


def check(channels: Channels) -> None:
    """Assert prefix and single iteration.

    The messages that a node received in a session are a prefix of those sent in it, and session numbers only grow. Only
    valid for nodes that were not restarted.
    """
    for me in (1, 2):
        channels.collect(me)
        runs = channels.took[me]
        assert all(run.first == 0 and run.ended in ("closed", "exit") for run in runs), runs
        assert [run.session for run in runs] == sorted({run.session for run in runs})
        taken = taken_by_session(channels, me)
        for session, messages in taken.items():
            sent = [message for number, message in channels.sent[3 - me] if number == session]
            assert messages == sent[: len(messages)], f"session {session}: node {me} took {messages} of {sent}"


def taken_by_session(channels: Channels, me: int) -> dict[int, list[object]]:
    """Return the received messages by session. Assert that none arrived outside a session."""
    taken: dict[int, list[object]] = {}
    session = None
    for event in channels.told[me]:
        if isinstance(event, LinkUp):
            session = event.session
        elif isinstance(event, LinkDown):
            session = None
        elif isinstance(event, Received):
            assert session is not None, f"node {me} received {event} outside a session"
            taken.setdefault(session, []).extend(event.messages)
    return taken


def test_two_fresh_nodes_agree_on_the_first_session(channels: Channels) -> None:
    assert channels.told == {1: [LinkUp(2, 1)], 2: [LinkUp(1, 1)]}


def test_messages_arrive_once_and_in_order(channels: Channels) -> None:
    for number in range(300):
        channels.send(1, number)
        channels.send(2, -number)
    channels.until(lambda: len(channels.messages(2)) == len(channels.messages(1)) == 300)
    channels.settle()
    assert channels.messages(2) == list(range(300))
    assert channels.messages(1) == [-number for number in range(300)]
    assert not channels.of(1, LinkDown)
    assert not channels.of(2, LinkDown)


def test_a_reset_opens_one_new_session_at_both_ends(channels: Channels) -> None:
    channels.talk(1, "before")
    channels.links(1).reset(2, "a new iteration")
    channels.send(1, "between")
    channels.until(lambda: channels.session(1) == 2 and channels.both_up())
    channels.talk(1, "after")
    channels.talk(2, "back")
    assert "between" not in channels.messages(2)
    assert [event.why for event in channels.of(1, LinkDown)] == ["a new iteration"]
    assert [event.why for event in channels.of(2, LinkDown)] == ["the peer opened a new session"]
    check(channels)


def test_each_run_of_frames_is_one_session(channels: Channels) -> None:
    for word in ("one", "two", "three"):
        before = channels.session(1)
        channels.talk(1, word)
        channels.talk(2, word)
        channels.links(1).reset(2, "again")
        channels.until(lambda before=before: channels.session(1) > before and channels.both_up())  # type: ignore[misc]
    for me in (1, 2):
        channels.collect(me)
        assert [(run.session, run.first, run.last) for run in channels.took[me]] == [(1, 0, 0), (2, 0, 0), (3, 0, 0)]
    check(channels)


@pytest.mark.parametrize("how", CUTS)
def test_a_cut_blocks_one_direction_and_not_the_other(channels: Channels, how: str) -> None:
    channels.talk(1, "before")
    channels.network.cut([THERE], how)
    channels.settle()  # greetings that were under way have arrived, too
    frames = channels.links(2).frames[1]
    for _ in range(3):
        channels.send(1, "lost")
    if how != "disable":  # there the session ends, and both nodes know it
        channels.talk(2, "the other way")
    channels.settle()
    assert channels.links(2).frames[1] == frames
    channels.network.heal([THERE])
    channels.talk(1, "after")
    channels.talk(2, "back")
    assert "lost" not in channels.messages(2)
    check(channels)


@pytest.mark.parametrize("how", CUTS)
def test_a_cut_drops_frames_that_a_slow_link_still_holds(channels: Channels, how: str) -> None:
    channels.talk(1, "before")
    channels.network.disturb([THERE], [Toxic("latency", "upstream", (("jitter", 0), ("latency", 1000)))], "slow")
    channels.send(1, "first")  # may be what is just being delayed: a toxic that is added lets go of that
    channels.send(1, "last" + 100_000 * ".")
    channels.network.cut([THERE], how)
    for _ in range(6):
        channels.settle()
    channels.network.heal([THERE])
    channels.network.heal([THERE], "slow")
    channels.until(lambda: channels.both_up() and channels.session(1) > 1)
    channels.talk(1, "after")
    assert channels.messages(2) in (["before", "after"], ["before", "first", "after"])
    check(channels)


def test_a_released_stall_loses_nothing(channels: Channels) -> None:
    channels.network.cut([THERE], "stall")
    for number in range(20):
        channels.send(1, number)
    channels.settle()
    assert channels.messages(2) == []
    channels.network.heal([THERE], release=True)
    channels.until(lambda: len(channels.messages(2)) == 20)
    assert channels.messages(2) == list(range(20))
    assert not channels.of(2, LinkDown)


def test_a_gap_left_by_a_cut_ends_the_session(channels: Channels) -> None:
    """The bytes vanish and the connection stays, so only the sequence numbers reveal the gap."""
    channels.talk(1, "before")
    channels.network.cut([THERE], "timeout")
    channels.send(1, "lost")
    channels.settle()
    assert channels.up(1)
    assert channels.up(2)  # silence is not a link's business
    channels.network.heal([THERE])
    channels.send(1, "behind the hole")
    channels.until(lambda: bool(channels.of(2, LinkDown)))
    channels.until(channels.both_up)
    channels.talk(1, "after")
    assert channels.messages(2) == ["before", "after"]
    check(channels)


def test_links_without_sessions_deliver_frames_behind_the_gap(make: Callable[..., Channels]) -> None:
    """The check fails without sessions, on both backends."""
    channels = make(raw=True)
    channels.start(1)
    channels.start(2)
    channels.until(lambda: channels.up(1) and channels.up(2))
    channels.talk(1, "before")
    channels.network.cut([THERE], "timeout")
    channels.send(1, "lost")
    channels.settle()
    channels.network.heal([THERE])
    channels.send(1, "behind the hole")
    channels.until(lambda: "behind the hole" in channels.messages(2))
    assert channels.messages(2) == ["before", "behind the hole"]
    with pytest.raises(AssertionError):
        check(channels)


def test_a_broken_connection_ends_the_session_at_both_ends(channels: Channels) -> None:
    channels.network.cut([THERE], "disable")
    channels.until(lambda: not channels.up(1))
    channels.network.heal([THERE])
    channels.until(lambda: channels.both_up() and channels.session(1) > 1)
    assert channels.of(1, LinkDown)
    assert channels.of(2, LinkDown)
    channels.talk(1, "after")
    check(channels)


def test_a_restarted_peer_gets_a_new_session_and_no_old_frames(channels: Channels) -> None:
    channels.talk(1, "to the first life")
    channels.kill(2)
    channels.until(lambda: not channels.up(1))
    channels.send(1, "to nobody")
    channels.told[2].clear()
    channels.start(2)
    channels.until(lambda: channels.both_up())
    channels.talk(1, "to the second life")
    assert channels.messages(2) == ["to the second life"]
    assert channels.session(1) > 1


def test_a_killed_peers_frames_in_flight_are_a_prefix(channels: Channels) -> None:
    channels.talk(1, "first")
    for number in range(200):
        channels.send(1, number)
    channels.kill(1)
    channels.until(lambda: not channels.up(2))
    channels.settle()
    numbers = channels.messages(2)[1:]
    assert numbers == list(range(len(numbers)))
    taken = len(channels.messages(2))
    channels.told[1].clear()
    channels.start(1)
    channels.until(channels.both_up)
    channels.talk(1, "the next life")
    assert set(channels.messages(2)[taken:]) == {"the next life"}


def test_a_paused_peer_misses_nothing(channels: Channels) -> None:
    channels.pause(2)
    for number in range(50):
        channels.send(1, number)
    channels.settle()
    assert channels.messages(2) == []
    assert channels.up(1)
    channels.resume(2)
    channels.until(lambda: len(channels.messages(2)) == 50)
    assert channels.messages(2) == list(range(50))
    assert not channels.of(1, LinkDown)


def test_a_frame_that_is_too_large_to_send_closes_the_session(make: Callable[..., Channels]) -> None:
    channels = make(frame_bytes=10_000)
    channels.start(1)
    channels.start(2)
    channels.until(channels.both_up)
    channels.talk(1, "x" * 9_900)
    channels.send(1, "x" * 10_000)
    channels.until(lambda: bool(channels.of(1, LinkDown)) and channels.both_up())
    assert [event.why for event in channels.of(1, LinkDown)] == [
        "a frame to send has 10065 bytes, and at most 10000 may be sent"
    ]
    channels.talk(1, "after")
    assert channels.messages(2) == ["x" * 9_900, "after"]
    check(channels)


def test_a_peer_that_does_not_read_ends_the_session_without_a_gap(make: Callable[..., Channels]) -> None:
    channels = make(queue_frames=2)
    channels.start(1)
    channels.start(2)
    channels.until(channels.both_up)
    channels.pause(2)
    chunk = "x" * 500_000  # what the kernel's buffers take, too, is soon used up
    sent = 0
    while not channels.of(1, LinkDown):
        channels.send(1, f"{sent} {chunk}")
        channels.step()
        sent += 1
        assert sent < 10_000, "nothing bounds what a peer that takes nothing may cost"
    channels.resume(2)
    assert channels.of(1, LinkDown)[0].why == "the queue to the peer is full, or its connection is gone"
    channels.until(channels.both_up)
    channels.talk(1, "after")
    check(channels)


def test_a_slow_handshake_is_repeated_until_the_link_is_fast_again(
    make: Callable[..., Channels],
) -> None:
    """The dialling end needs two round trips, and they may take one second."""
    channels = make()
    channels.network.disturb([THERE], [Toxic("latency", "upstream", (("jitter", 0), ("latency", 700)))], "slow")
    channels.start(1)
    channels.start(2)
    for _ in range(8):
        channels.settle()
    assert not channels.up(1)
    assert not channels.up(2)
    channels.network.heal([THERE], "slow")
    channels.until(channels.both_up)
    channels.network.disturb(
        [THERE], [Toxic("latency", "upstream", (("jitter", 0), ("latency", 200)))], "slow", fresh=True
    )
    channels.until(lambda: bool(channels.of(1, LinkDown)) and channels.both_up())
    channels.talk(1, "after")
    check(channels)


@pytest.mark.parametrize("drawn", range(3))
def test_random_faults_leave_channels_sound(channels: Channels, drawn: int) -> None:
    random = Random(drawn)
    ended = 0
    for number in range(24):
        pair = random.choice([(1, 2), (2, 1)])
        what = random.choice(("reset", "cut", "cut"))
        for each in range(random.randrange(8)):
            channels.send(random.choice((1, 2)), 100 * number + each)
        if what == "reset":
            channels.links(pair[0]).reset(pair[1], "drawn")
        else:
            channels.network.cut([pair], random.choice(CUTS))
            for each in range(8, 8 + random.randrange(8)):
                channels.send(random.choice((1, 2)), 100 * number + each)
            channels.network.heal([pair])
        channels.talk(1, f"there {number}")
        channels.talk(2, f"back {number}")
        ended = len(channels.of(1, LinkDown))
    assert ended > 5, "nothing was broken: the test does not test"
    check(channels)
