"""The channels of a node without sockets: when greetings are sent and repeated, and how long messages are split."""

from collections import deque
from typing import Any

import msgspec

from zab_chaos.model.oracle.properties.links import GAP
from zab_chaos.node.channel import frame
from zab_chaos.node.channel.channels import AGAIN_NS, LAST_FRAMES_NS, NEVER, PART_BYTES, ChannelSet
from zab_chaos.node.channel.header import FrameHeader, FrameKind
from zab_chaos.node.config import Limits
from zab_chaos.node.events import LinkDown, LinkUp, Received

MS = 1_000_000
HEARTBEAT_MS = 100
FRAME_BYTES = 300_000


class FakePipe:
    """A pipe. `takes`: whether there is a connection that accepts frames."""

    def __init__(self) -> None:
        self.takes = False
        self.closed = False
        self.sent: list[FrameHeader] = []
        self.payloads: list[bytes] = []

    def send(self, data: bytes) -> bool:
        if self.takes:
            self.sent.append(frame.parse(data, frame.cluster_hash("test"), 2, FRAME_BYTES))
            self.payloads.append(data[frame.HEADER_BYTES :])
        return self.takes

    def close(self) -> None:
        self.closed = True


def packed(kind: FrameKind, messages: Any, session: int = 1, sequence: int = 0) -> bytes:
    """Return a frame from node 2 to node 1, each in its first life."""
    return frame.pack(FrameHeader(frame.cluster_hash("test"), kind, 2, 1, 1, 1, session, sequence), messages)


class Node:
    """Node 1, and what it receives from node 2."""

    def __init__(self) -> None:
        self.pipes: list[FakePipe] = []
        self.channels = ChannelSet(
            me=1, cluster="test", incarnation=1, peers=[2], limits=Limits(frame_bytes=FRAME_BYTES),
            heartbeat_ms=HEARTBEAT_MS, decoder=msgspec.msgpack.Decoder(list[str]), dial=self._dial,
        )  # fmt: skip
        self.channels.open()

    def _dial(self, peer: int) -> FakePipe:
        self.pipes.append(FakePipe())
        return self.pipes[-1]

    @property
    def pipe(self) -> FakePipe:
        return self.pipes[-1]

    def hear(self, kind: FrameKind, *messages: str, session: int = 1, sequence: int = 0) -> list[Any]:
        return self.channels.receive(deque([packed(kind, messages, session, sequence)]))

    def hear_payload(self, kind: FrameKind, payload: bytes, sequence: int) -> list[Any]:
        return self.channels.receive(deque([packed(kind, msgspec.Raw(payload), 1, sequence)]))

    def join(self) -> None:
        """Connect, and open the session."""
        self.pipe.takes = True
        self.channels.connected(2)
        assert self.hear(FrameKind.WELCOME) == [LinkUp(2, 1)]


def test_without_a_connection_no_greeting_is_repeated() -> None:
    node = Node()
    node.channels.tick(MS, MS)
    assert node.channels.wakes_at() > NEVER // 2
    node.pipe.takes = True
    node.channels.connected(2)
    assert [header.kind for header in node.pipe.sent] == [FrameKind.HELLO]
    assert node.channels.wakes_at() == MS + HEARTBEAT_MS * MS


def test_a_greeting_that_a_new_connection_refuses_is_repeated_soon() -> None:
    node = Node()
    node.channels.tick(MS, MS)
    node.channels.connected(2)
    assert node.channels.wakes_at() == MS + AGAIN_NS
    node.pipe.takes = True
    node.channels.tick(MS + AGAIN_NS - 1, 0)
    assert not node.pipe.sent
    node.channels.tick(MS + AGAIN_NS, 0)
    assert [header.kind for header in node.pipe.sent] == [FrameKind.HELLO]


def test_a_lost_connection_ends_the_session_after_its_last_frames_by_the_hosts_clock() -> None:
    node = Node()
    node.join()
    node.channels.lost(2, host_ns=0)
    assert node.hear(FrameKind.MESSAGES, "last words") == [Received(2, ["last words"])]
    node.channels.send(2, ["to nobody"])
    node.channels.tick(10**15, LAST_FRAMES_NS - 1)
    assert not node.channels.unreported
    node.channels.tick(1, LAST_FRAMES_NS)
    assert node.channels.receive(deque()) == [LinkDown(2, 1, "the connection to the peer ended")]
    assert node.pipes[0].closed
    assert not node.channels.losing
    assert FrameKind.MESSAGES not in {header.kind for header in node.pipes[0].sent}


def test_frames_behind_a_linkdown_wait_for_the_next_call() -> None:
    node = Node()
    node.join()
    frames = deque([packed(FrameKind.WELCOME, [], session=2), packed(FrameKind.MESSAGES, ["new"], session=2)])
    assert node.channels.receive(frames) == [LinkDown(2, 1, "the peer opened a new session")]
    assert len(frames) == 1
    assert node.channels.receive(frames) == [LinkUp(2, 2), Received(2, ["new"])]
    assert not frames


LONG = ["a" * 150_000]


def test_long_messages_are_sent_in_parts_that_the_queue_can_hold() -> None:
    node = Node()
    node.join()
    node.pipe.sent.clear()
    node.pipe.payloads.clear()
    node.channels.send(2, LONG)
    kinds = [FrameKind.PART, FrameKind.PART, FrameKind.MESSAGES]
    assert [(header.kind, header.sequence) for header in node.pipe.sent] == list(zip(kinds, range(3), strict=True))
    assert max(map(len, node.pipe.payloads)) == PART_BYTES
    assert b"".join(node.pipe.payloads) == frame.encode(LONG)


def test_each_part_is_reported_and_the_last_frame_brings_the_messages() -> None:
    node = Node()
    node.join()
    payload = frame.encode(LONG)
    assert node.hear_payload(FrameKind.PART, payload[:100], 0) == [Received(2, [])]
    assert node.hear_payload(FrameKind.PART, payload[100:200], 1) == [Received(2, [])]
    assert node.hear_payload(FrameKind.MESSAGES, payload[200:], 2) == [Received(2, LONG)]
    assert node.hear(FrameKind.MESSAGES, "short", sequence=3) == [Received(2, ["short"])]


def test_parts_end_with_their_session() -> None:
    node = Node()
    node.join()
    node.hear_payload(FrameKind.PART, b"half of something", 0)
    assert node.hear(FrameKind.MESSAGES, sequence=7)[0] == LinkDown(2, 1, "frame 7 came where 1 was due")
    assert node.hear(FrameKind.WELCOME, session=2) == [LinkUp(2, 2)]
    assert node.hear(FrameKind.MESSAGES, "whole", session=2) == [Received(2, ["whole"])]


def test_a_part_that_is_lost_ends_the_session() -> None:
    node = Node()
    node.join()
    assert node.hear_payload(FrameKind.PART, b"second", 1)[0] == LinkDown(2, 1, "frame 1 came where 0 was due")


def test_the_judge_recognizes_sessions_that_end_for_want_of_frames() -> None:
    """It reads the reasons that the channel gives."""
    for kind in (FrameKind.MESSAGES, FrameKind.WELCOME):
        node = Node()
        node.join()
        down = node.hear(kind, sequence=7)[0]
        assert isinstance(down, LinkDown)
        assert GAP.match(down.why)


def test_parts_are_no_larger_together_than_one_frame() -> None:
    node = Node()
    node.join()
    for sequence in range(2):
        assert node.hear_payload(FrameKind.PART, bytes(150_000), sequence) == [Received(2, [])]
    refused, down = node.hear_payload(FrameKind.PART, b"1", 2)
    assert refused.why == f"oversized: 300001 bytes in parts, and a frame has at most {FRAME_BYTES}"
    assert isinstance(down, LinkDown)
