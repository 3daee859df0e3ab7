"""Invalid frames: a link counts and reports them, closes the session that they may have broken, and goes on."""

import socket
from typing import Any

import pytest
import zmq

from tests.unit.node.net.conftest import send_unless_turned_away
from zab_chaos.node.channel import frame
from zab_chaos.node.channel.header import FrameKind
from zab_chaos.node.events import LinkDown, LinkUp, Received, Refused
from zab_chaos.node.net.keys import Keys


@pytest.fixture
def greeted(net: Any) -> Any:
    """Node 1 with an open session to a peer 2 that can send anything; there is no peer 3."""
    fake = net.fake()
    net.start(1, {2: net.ports[2]}, frame_bytes=50_000)
    fake.welcome()
    net.until(lambda: net.up(1, 2))
    return fake


def test_frames_in_order_are_handed_out_and_a_gap_closes(net: Any, greeted: Any) -> None:
    for sequence in (0, 1, 3, 4):
        greeted.say(sequence, f"number {sequence}")
    net.until(lambda: bool(net.of(1, LinkDown)))
    assert net.messages(1, 2) == ["number 0", "number 1"]
    assert net.of(1, LinkDown) == [LinkDown(2, 1, "frame 3 came where 2 was due")]
    assert not net.refused(1)  # a gap comes from a broken connection; it is no bad frame


def test_frames_of_an_older_session_are_dropped_and_the_peer_learns_the_new_one(net: Any, greeted: Any) -> None:
    net.links[1].reset(2, "a new iteration")
    before = net.links[1].frames[2]
    greeted.say(0, "too late")
    net.until(lambda: net.links[1].frames[2] == before + 1)
    heard: list[Any] = []
    net.until(lambda: heard.extend(fake_heard(greeted)) or (2, FrameKind.HELLO) in heard)
    assert net.messages(1, 2) == []


def fake_heard(fake: Any) -> list[tuple[int, int]]:
    return [(header.session, header.kind) for header, _ in fake.heard()]


def bad_frames(fake: Any) -> dict[str, tuple[bytes, str, int | None]]:
    """Return frames, the reason in their refusal, and the node whose session they close."""
    good = bytes(frame.pack(fake.header(FrameKind.MESSAGES), ["hello"]))
    return {
        "empty": (b"", "truncated: 0 bytes", None),
        "truncated header": (good[:20], "truncated: 20 bytes", None),
        "noise": (bytes(range(256)), "not a frame of this protocol", None),
        "truncated": (good[:-2], "bytes of payload announced", 2),
        "checksum": (good[:-1] + b"\x00", "the checksum does not fit", 2),
        "foreign": (bytes(frame.pack(fake.header(FrameKind.MESSAGES, cluster=1), [])), "another ensemble", None),
        "misrouted": (bytes(frame.pack(fake.header(FrameKind.MESSAGES, receiver=3), [])), "addressed to node 3", 2),
        "unknown sender": (bytes(frame.pack(fake.header(FrameKind.MESSAGES, sender=9), [])), "node 9 is no peer", None),
        "from myself": (bytes(frame.pack(fake.header(FrameKind.MESSAGES, sender=1), [])), "node 1 is no peer", None),
        "undecodable": (bytes(frame.pack(fake.header(FrameKind.MESSAGES), [[1.5]])), "cannot be decoded", 2),
        "oversized": (bytes(frame.pack(fake.header(FrameKind.MESSAGES), ["x" * 60_000])), "oversized: 60", 2),
    }


KINDS = (
    "empty", "truncated header", "noise", "truncated", "checksum", "foreign", "misrouted", "unknown sender",
    "from myself", "undecodable", "oversized",
)  # fmt: skip


@pytest.mark.parametrize("what", KINDS)
def test_a_bad_frame_is_refused_and_closes_the_claimed_senders_session(net: Any, greeted: Any, what: str) -> None:
    data, words, peer = bad_frames(greeted)[what]
    greeted.out.send(data)
    net.until(lambda: bool(net.refused(1)))
    (refused,) = net.refused(1)
    assert (refused.what, refused.peer, refused.count) == ("frame", peer, 1)
    assert words in refused.why
    if peer is None:
        greeted.say(0, "the link is as it was")
        net.until(lambda: bool(net.of(1, Received)))
        assert not net.of(1, LinkDown)
    else:
        net.until(lambda: bool(net.of(1, LinkDown)))
        assert words in net.of(1, LinkDown)[0].why
        assert not net.of(1, Received)


def test_a_flood_of_bad_frames_is_reported_once_and_then_counted(net: Any, greeted: Any) -> None:
    for _ in range(300):
        greeted.out.send(b"noise" * 100)
    greeted.say(0, "the end")
    net.until(lambda: bool(net.of(1, Received)))
    first, *others = net.refused(1)
    assert first == Refused("frame", "not a frame of this protocol and version", None, 1)
    links = net.links[1]
    links.tick(1 << 62)  # much later
    net.until(lambda: sum(report.count for report in net.refused(1)) == 300)
    assert len(others) < 10


def test_an_enormous_frame_only_ends_its_connection(net: Any, greeted: Any) -> None:
    greeted.out.send(bytes(200_000))
    before = net.links[1].frames[2]
    net.until(lambda: greeted.welcome() or net.links[1].frames[2] > before)  # ZeroMQ has connected again
    greeted.say(0, "well again")
    net.until(lambda: bool(net.of(1, Received)))
    assert net.messages(1, 2) == ["well again"]
    assert net.refused(1) == []  # the frame was not even received


def test_a_message_before_the_peer_knows_this_node_is_not_accepted(net: Any) -> None:
    fake = net.fake()
    net.start(1, {2: net.ports[2]})
    fake.say(0, "who are you", to=0)
    net.until(lambda: net.links[1].frames[2] == 1)
    fake.say(0, "another life's", to=99)
    net.until(lambda: net.links[1].frames[2] == 2)
    assert not net.of(1, Received)
    assert not net.of(1, LinkUp)


@pytest.mark.parametrize("pair", [None, Keys(*zmq.curve_keypair())], ids=["plain", "another key"])
def test_callers_without_the_key_are_counted_and_send_nothing(net: Any, greeted: Any, pair: Keys | None) -> None:
    with net.context.socket(zmq.PUSH) as stranger:
        stranger.linger = 0
        if pair is not None:
            pair.client(stranger)
        stranger.connect(f"tcp://127.0.0.1:{net.ports[1]}")
        send_unless_turned_away(stranger, frame.pack(greeted.header(FrameKind.MESSAGES), ["let me in"]))
        net.until(lambda: bool(net.refused(1)))
    assert net.refused(1)[0].what == "stranger"
    assert "does not have the run's key for links" in net.refused(1)[0].why
    greeted.say(0, "undisturbed")
    net.until(lambda: bool(net.of(1, Received)))
    assert net.messages(1, 2) == ["undisturbed"]


def test_noise_on_the_port_disturbs_no_session(net: Any, greeted: Any) -> None:
    for noise in (b"", b"GET / HTTP/1.1\r\n\r\n" * 50, b"\xff" + bytes(63), bytes(range(256)) * 16):
        with socket.create_connection(("127.0.0.1", net.ports[1])) as connection:
            connection.sendall(noise)
    greeted.say(0, "undisturbed")
    net.until(lambda: bool(net.of(1, Received)))
    assert not net.of(1, LinkDown)


def test_an_impossible_life_number_does_not_lock_out_the_peer(net: Any, greeted: Any) -> None:
    """A number above every later life would make the peer's frames old for ever."""
    greeted.out.send(frame.pack(greeted.header(FrameKind.HELLO, incarnation=2**64 - 1, to=0), []))
    net.until(lambda: bool(net.refused(1)))
    assert net.refused(1)[0].why == f"life {2**64 - 1} is out of range"
    assert not net.up(1, 2)
    heard: list[Any] = []
    net.until(lambda: bool(heard.extend(greeted.heard()) or heard))
    greeted.session = max(header.session for header, _ in heard) + 1
    net.until(lambda: greeted.welcome() or net.up(1, 2))
