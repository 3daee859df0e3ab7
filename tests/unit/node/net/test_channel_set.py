"""The channels of a node without sockets: when greetings are sent and repeated."""

from collections import deque
from typing import Any

import msgspec

from zab_chaos.node.channel import frame
from zab_chaos.node.channel.channels import AGAIN_NS, LAST_FRAMES_NS, NEVER, ChannelSet
from zab_chaos.node.channel.header import FrameHeader, FrameKind
from zab_chaos.node.config import Limits
from zab_chaos.node.events import LinkDown, LinkUp, Received

MS = 1_000_000
HEARTBEAT_MS = 100


class FakePipe:
    """A pipe. `takes`: whether there is a connection that accepts frames."""

    def __init__(self) -> None:
        self.takes = False
        self.closed = False
        self.sent: list[FrameHeader] = []

    def send(self, data: bytes) -> bool:
        if self.takes:
            self.sent.append(frame.parse(data, frame.cluster_hash("test"), 2, 10_000))
        return self.takes

    def close(self) -> None:
        self.closed = True


class Node:
    """Node 1, and what it receives from node 2."""

    def __init__(self) -> None:
        self.pipes: list[FakePipe] = []
        self.channels = ChannelSet(
            me=1, cluster="test", incarnation=1, peers=[2], limits=Limits(frame_bytes=10_000),
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
        header = (frame.cluster_hash("test"), kind, 2, 1, 1, 1, session, sequence)
        return self.channels.receive(deque([frame.pack(header, list(messages))]))

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
    header = (frame.cluster_hash("test"), FrameKind.WELCOME, 2, 1, 1, 1, 2, 0)
    frames = deque([frame.pack(header, []), frame.pack((*header[:1], FrameKind.MESSAGES, *header[2:]), ["new"])])
    assert node.channels.receive(frames) == [LinkDown(2, 1, "the peer opened a new session")]
    assert len(frames) == 1
    assert node.channels.receive(frames) == [LinkUp(2, 2), Received(2, ["new"])]
    assert not frames
