"""One end of a channel, as logic without sockets: which frames count (DSN 2011, section II).

A channel joins two nodes. Both ends number its iterations, the sessions, and the larger number wins: whoever closes
a session goes on to the next number, and who hears of a larger number closes its own and adopts it. In a session
each end numbers its frames from 0, and the other end takes exactly the next one. So what an end takes in a session is
a prefix of what the other sent in it: in order, once, without a hole, nothing older.

Why that holds: in one life of a node a session's number only grows, and sequence numbers begin again only when it has
grown. So (sender's life, receiver's life, session, sequence) names at most one frame of messages, and a receiver takes
only the one with its own life, the sender's newest life, its own session and the next number.

A session opens with a handshake like TCP's: HELLO (I am in this session), WELCOME (so am I, and I have heard you),
THANKS (I have heard you, too). It is up for an end that knows itself heard in it. That a frame arrived is not enough:
an end which then sent at once, its own connection not being there yet, would have to close the session again, and two
such ends could go on like that for ever. HELLO and WELCOME are repeated until the session is up, and ask for an answer;
THANKS asks for none. They use up no sequence numbers, because their loss is no hole; but they name the next one, and so
show a hole at the end.

Two ends that close at the same time reach the same number, both fresh, and agree at once. Otherwise the larger number
wins with the next HELLO. Nobody closes because of an older frame, so closings do not chase each other.
"""

from dataclasses import dataclass

from zab_chaos.node.channel.header import FrameHeader, FrameKind


@dataclass(frozen=True, slots=True)
class FrameOutcome:
    """What a frame changed. `closed` says why the session was replaced by a new one, which happens before all else."""

    closed: str | None = None
    opened: bool = False  # the session is up from now on
    accepted: bool = False  # the frame's messages are to be handed out, after `opened`
    answer: bool = False  # the peer asks for a greeting: `ChannelSession.greeting`


_MESSAGES = int(FrameKind.MESSAGES)  # what every frame is compared with, without a look at the enumeration
IGNORED = FrameOutcome()
ACCEPTED = FrameOutcome(accepted=True)


class ChannelSession:
    """This node's end of the channel with one peer."""

    __slots__ = ("expected", "heard", "number", "own_life", "peer_life", "sent", "up")

    def __init__(self, incarnation: int) -> None:
        self.own_life = incarnation  # this node's life; larger than all its earlier ones
        self.peer_life = 0  # the peer's newest life known; 0 = none yet
        self.number = 1
        self.sent = 0  # frames sent in this session: the next one's sequence number
        self.expected = 0  # the next one from the peer
        self.heard = False  # the peer was heard in this session
        self.up = False  # and it has heard this node in this session

    @property
    def greeting(self) -> FrameKind:
        """What to say to a peer that asks, or, while the session is not up, unasked."""
        if self.up:
            return FrameKind.THANKS
        return FrameKind.WELCOME if self.heard else FrameKind.HELLO

    def close(self, number: int = 0) -> None:
        """End the session and go on to the next one, or to `number` if that is larger."""
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
            return FrameOutcome(closed)  # to an earlier life of this node; but who sent it lives
        closed = self._adopt_number(header) or closed
        if header.session < self.number:
            return FrameOutcome(closed)  # of an older session; while this one is not up, our own HELLOs tell the peer
        if header.to == 0 and header.kind != FrameKind.HELLO:
            return self._close_broken("the peer does not know this node yet, and sent more than HELLO")
        self.heard = True
        if header.kind == FrameKind.MESSAGES:
            return self._receive_messages(header, closed)
        return self._receive_greeting(header, closed)

    def _learn_life(self, header: FrameHeader) -> str | None:
        """Learn of a newer life of the peer; why the session was closed by that, if it was.

        Frames to an earlier life of this node count here, too. Otherwise: both nodes start again; each is reached by
        an old frame of the other's former life; each then sends to that former life, and both wait for ever.
        """
        if header.incarnation == self.peer_life:
            return None
        met, self.peer_life = self.peer_life != 0, header.incarnation
        if not met:
            return None
        self.close()
        return "the peer has started again"

    def _adopt_number(self, header: FrameHeader) -> str | None:
        """Adopt a larger session number; why the session was closed by that, if it was."""
        if header.session <= self.number:
            return None
        self.close(header.session)
        return "the peer opened a new session"

    def _receive_messages(self, header: FrameHeader, closed: str | None) -> FrameOutcome:
        if header.sequence != self.expected:
            return self._close_broken(f"frame {header.sequence} came where {self.expected} was due")
        opened, self.up = not self.up, True  # only a peer that knows itself heard sends messages
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
