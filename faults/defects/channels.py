"""A bug of the channels: links without sessions."""

from zab_chaos.node.channel.channels import ChannelSet
from zab_chaos.node.channel.header import NUMBERED, FrameHeader, FrameKind
from zab_chaos.node.channel.session import ChannelSession, FrameOutcome


class RawSession(ChannelSession):
    """A session that accepts every frame, whatever its session or sequence number, and that never closes."""

    __slots__ = ()

    def receive(self, header: FrameHeader) -> FrameOutcome:
        self.peer_life = max(self.peer_life, header.incarnation)
        self.heard = True
        opened = header.kind != FrameKind.HELLO and not self.up
        self.up = self.up or opened
        if header.kind in NUMBERED:
            return FrameOutcome(opened=opened, accepted=True)
        return FrameOutcome(opened=opened, answer=header.kind != FrameKind.THANKS)

    def close(self, number: int = 0) -> None:
        self.heard = self.up = False


class RawChannels(ChannelSet):
    """Channels on plain ZeroMQ, which reconnects by itself, loses frames in flight, and delivers queued ones later."""

    session_type = RawSession
    immediate = False

    def redial(self, peer: int) -> None:
        pass

    def disconnected(self, peer: int, host_ns: int) -> None:
        pass
