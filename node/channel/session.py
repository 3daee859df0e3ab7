"""One end of a channel, as logic without sockets: it decides which frames count (DSN 2011, section II).

A channel joins two nodes. Both ends number its iterations, the sessions, and the larger number wins: an end that closes a
session goes on to the next number, and an end that hears of a larger number closes its own session and adopts it. In a
session each end numbers its frames from 0, and the other end accepts exactly the next one. So the frames that an end
accepts in a session are a prefix of those that the other sent in it: in order, once, without a gap, nothing older.

Why that holds: in one life of a node a session's number only grows, and sequence numbers begin again only when it has
grown. So (sender's life, receiver's life, session, sequence) names at most one frame of messages, and a receiver accepts
only the one with its own life, the sender's newest life, its own session and the next sequence number.

A session opens with a handshake like TCP's: HELLO (I am in this session), WELCOME (so am I, and I have received yours),
THANKS (I have received yours, too). It is up for an end that knows that the other end has received its greeting. An arrived
frame alone is not enough: an end that then sent at once, before its own connection was there, would have to close the
session again, and two such ends could go on like that for ever. HELLO and WELCOME are repeated until the session is up, and
ask for an answer; THANKS asks for none. They use up no sequence numbers, because their loss is no gap; but they name the
next one, and so reveal a gap at the end.

Two ends that close at the same time reach the same number, both fresh, and agree at once. Otherwise the larger number
wins with the next HELLO. No end closes because of an older frame, so closings do not cause each other.
"""

from dataclasses import dataclass

from zab_chaos.node.channel.header import NUMBERED, FrameHeader, FrameKind


@dataclass(frozen=True, slots=True)
class FrameOutcome:
    """The effects of a frame. `closed`: why the session was replaced by a new one, which precedes the other effects."""

    closed: str | None = None
    opened: bool = False  # the session is up now
    accepted: bool = False  # the frame's messages count; they follow `opened`
    answer: bool = False  # the peer asks for a greeting, `ChannelSession.greeting`


_MESSAGES = int(FrameKind.MESSAGES)  # an int, because comparing with the enumeration is slow
IGNORED = FrameOutcome()
ACCEPTED = FrameOutcome(accepted=True)


@dataclass(slots=True, eq=False)
class ChannelSession:
    """This node's end of the channel with one peer."""

    own_life: int  # this node's life, larger than all earlier ones
    peer_life: int = 0  # the newest known life of the peer; 0 = none yet
    number: int = 1
    sent: int = 0  # frames sent in this session, and so the next sequence number
    expected: int = 0  # the next sequence number from the peer
    heard: bool = False  # a frame of the peer arrived in this session
    up: bool = False  # and the peer has received one from this node

    @property
    def greeting(self) -> FrameKind:
        """The greeting to send to a peer that asks, or unasked while the session is not up."""
        if self.up:
            return FrameKind.THANKS
        return FrameKind.WELCOME if self.heard else FrameKind.HELLO

    def close(self, number: int = 0) -> None:
        """End the session and begin the next one, or number `number` if that is larger."""
        self.number = max(self.number + 1, number)
        self.sent = self.expected = 0
        self.heard = self.up = False

    def receive(self, header: FrameHeader) -> FrameOutcome:
        """Judge a well-formed frame from the peer."""
        if (
            self.up
            and header.kind == _MESSAGES
            and header.sequence == self.expected
            and header.session == self.number
            and header.incarnation == self.peer_life
            and header.to == self.own_life
        ):
            self.expected += 1
            return ACCEPTED
        if header.incarnation < self.peer_life:
            return IGNORED  # from an earlier life of the peer
        closed = self._learn_life(header)
        if header.to not in (0, self.own_life):
            return FrameOutcome(closed)  # to an earlier life of this node, but the sender is alive
        closed = self._adopt_number(header) or closed
        if header.session < self.number:
            return FrameOutcome(closed)  # of an older session; if this one is not up, our HELLOs tell the peer
        if header.to == 0 and header.kind != FrameKind.HELLO:
            return self._close_broken("the peer does not know this node yet, and sent more than HELLO")
        self.heard = True
        if header.kind in NUMBERED:
            return self._receive_messages(header, closed)
        return self._receive_greeting(header, closed)

    def _learn_life(self, header: FrameHeader) -> str | None:
        """Learn of a newer life of the peer. Return why that closed the session, or None.

        Frames to an earlier life of this node count here too. Otherwise: both nodes restart; each receives an old frame
        from the other's former life; each then sends to that former life, and both wait for ever.
        """
        if header.incarnation == self.peer_life:
            return None
        met, self.peer_life = self.peer_life != 0, header.incarnation
        if not met:
            return None
        self.close()
        return "the peer has started again"

    def _adopt_number(self, header: FrameHeader) -> str | None:
        """Adopt a larger session number. Return why that closed the session, or None."""
        if header.session <= self.number:
            return None
        self.close(header.session)
        return "the peer opened a new session"

    def _receive_messages(self, header: FrameHeader, closed: str | None) -> FrameOutcome:
        if header.sequence != self.expected:
            return self._close_broken(f"frame {header.sequence} came where {self.expected} was due")
        opened, self.up = not self.up, True  # a peer sends messages only after it got our greeting
        self.expected += 1
        return FrameOutcome(closed, opened, accepted=True)

    def _receive_greeting(self, header: FrameHeader, closed: str | None) -> FrameOutcome:
        if header.sequence > self.expected:
            return self._close_broken(f"frames {self.expected} to {header.sequence - 1} are missing")
        opened = header.kind != FrameKind.HELLO and not self.up
        self.up = self.up or opened
        return FrameOutcome(closed, opened, answer=header.kind != FrameKind.THANKS)

    def _close_broken(self, why: str) -> FrameOutcome:
        self.close()
        return FrameOutcome(why)
