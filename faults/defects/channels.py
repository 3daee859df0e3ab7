"""Links without sessions."""

from zab_chaos.node.channel.channels import ChannelSet
from zab_chaos.node.channel.header import Header, Kind
from zab_chaos.node.channel.session import Outcome, Session


class RawSession(Session):
    """Every frame counts, whatever its session or number; nothing ever closes."""

    __slots__ = ()

    def receive(self, header: Header) -> Outcome:
        self.theirs = max(self.theirs, header.incarnation)
        self.heard = True
        opened = header.kind != Kind.HELLO and not self.up
        self.up = self.up or opened
        if header.kind == Kind.MESSAGES:
            return Outcome(opened=opened, accepted=True)
        return Outcome(opened=opened, answer=header.kind != Kind.THANKS)

    def close(self, number: int = 0) -> None:
        self.heard = self.up = False


class RawChannels(ChannelSet):
    """Plain ZeroMQ: it reconnects by itself, loses what was on its way, and delivers what it had queued."""

    session_type = RawSession
    immediate = False

    def redial(self, peer: int) -> None:
        pass

    def disconnected(self, peer: int, host_ns: int) -> None:
        pass
