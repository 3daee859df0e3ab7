"""All channels of one node, without sockets: the properties that Zab's proof needs (DSN 2011, section II).

Integrity: what is received was sent, by that node to this one. Prefix: when a message is received, all that was sent
before it has been. Single iteration: what is received belongs to one iteration. Plain ZeroMQ gives none of the last
two (measured with a cut of 2 s: 384 of 859 frames lost without an error at the sender). `ChannelSession` decides which frames
count; `ChannelSet` has a session for each peer, and sends through a `Pipe` that each session has for itself.

Time and frames come in, events go out. ZeroMQ drives it in a real node (`zab_chaos.node.net.link`), the simulated network
in the simulator (`zab_chaos.model.world.links`). Heartbeats and silence are none of its business: the core pings, and asks
for a reset.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import msgspec

from zab_chaos.node.channel import frame
from zab_chaos.node.channel.frame import BadFrame
from zab_chaos.node.channel.header import FrameHeader, FrameKind
from zab_chaos.node.channel.runs import FrameRuns
from zab_chaos.node.channel.session import ACCEPTED, ChannelSession
from zab_chaos.node.config import Limits
from zab_chaos.node.events import LinkDown, LinkEvent, LinkUp, Received, Refused
from zab_chaos.node.refusal_counter import RefusalCounter

# A killed peer's last frames and the end of its connection come in separate ways. So the frames get this long to be
# taken before the session is closed; meanwhile nothing is sent in it.
LAST_FRAMES_NS = 10_000_000
AGAIN_NS = 5_000_000  # the pause before a greeting that a new connection did not take is tried again
NEVER = 2**62

_MESSAGES = int(FrameKind.MESSAGES)


class Pipe(Protocol):
    """One session's way to its peer. It connects by itself, again and again, until it is closed."""

    def send(self, data: bytes) -> bool:
        """Queue one frame; False if the queue is full or there is no connection."""

    def close(self) -> None:
        """Drop what is queued, and the connection."""


class ChannelSet:
    """The channels of one life of node `me`.

    `incarnation` is this life, larger than all earlier ones. `dial` makes a new pipe to a peer. `decoder` reads the
    messages of a frame. Times are nanoseconds: `now_ns` of the node's clock, `host_ns` of one that nobody sets wrong.
    `receive` has something to tell, even without a frame, while there is something `unreported`.

    Hooks for known bugs: `session_type` (which frames count), `immediate` (whether frames wait for a connection),
    `redial` (what a new session does to the pipe) and `disconnected` (what a connection's end does to the session).
    """

    session_type: type[ChannelSession] = ChannelSession
    immediate = True

    def __init__(
        self,
        *,
        me: int,
        cluster: str,
        incarnation: int,
        peers: Iterable[int],
        limits: Limits,
        heartbeat_ms: int,
        decoder: msgspec.msgpack.Decoder[Any],
        dial: Callable[[int], Pipe],
    ) -> None:
        self.frames = dict.fromkeys(peers, 0)  # well-formed frames that arrived so far, by peer, counted or ignored
        self.refusals = RefusalCounter()
        self.quiet = False  # `tick` has nothing to do
        self.unreported: deque[tuple[LinkEvent, FrameHeader | None]] = deque()  # with the frame that a Received came in
        self.runs = FrameRuns()
        self._me, self._cluster, self._frame_bytes = me, frame.cluster_hash(cluster), limits.frame_bytes
        self._hello_ns = heartbeat_ms * 1_000_000
        self._decoder = decoder
        self._dial = dial
        self._pipes: dict[int, Pipe] = {}
        self._sessions = {peer: self.session_type(incarnation) for peer in self.frames}
        self._announced: dict[int, int] = {}  # the session of the last LinkUp that was handed out
        self._connected: set[int] = set()
        self._now_ns = 0
        self._hello_at = dict.fromkeys(self.frames, 0)
        self._lost_at: dict[int, int] = {}  # when, by the host's clock, the connection of a session that is up ended

    def open(self) -> None:
        """Dial every peer."""
        for peer in self.frames:
            self._pipes[peer] = self._dial(peer)

    @property
    def losing(self) -> bool:
        """A connection has ended, and `tick` will soon close its session."""
        return bool(self._lost_at)

    # ---- what comes ----

    def receive(self, frames: deque[bytes]) -> list[LinkEvent]:
        """What has happened, in order. Takes frames from the left; what it leaves there is for the next call.

        After a LinkDown nothing but LinkDowns follows in the same list: so what the server still has to say to the
        old session cannot slip into a new one, whose LinkUp only the next call tells.
        """
        out: list[LinkEvent] = []
        while not (self.unreported and self._hand_out(out)) and frames:
            data = frames.popleft()
            try:
                header = frame.parse(data, self._cluster, self._me, self._frame_bytes)
                session = self._sessions.get(header.sender)
                if session is None:
                    raise BadFrame(f"node {header.sender} is no peer of this node", header.sender)
                self._receive_frame(header, data, session, out)
            except BadFrame as bad:
                self._bad_frame(bad)
        return out

    def connected(self, peer: int) -> None:
        """The peer's pipe has a connection now."""
        self._connected.add(peer)
        if not self._sessions[peer].up:
            self._greet(peer)

    def lost(self, peer: int, host_ns: int) -> None:
        """The connection of the peer's pipe has ended."""
        self._connected.discard(peer)
        if self._sessions[peer].up:
            self.disconnected(peer, host_ns)

    def report(self, *reports: Refused | None) -> None:
        """Tell these with the next `receive`."""
        self.unreported.extend((report, None) for report in reports if report is not None)
        self.quiet = False

    # ---- what is asked for ----

    def send(self, peer: int, messages: Any) -> None:
        """Send one frame now. Dropped when the channel is not up. What cannot be queued closes the session."""
        session = self._sessions[peer]
        number = session.number
        if not messages or peer in self._lost_at or not session.up or self._announced.get(peer) != number:
            return
        data = frame.pack(
            (self._cluster, _MESSAGES, self._me, peer, session.own_life, session.peer_life, number, session.sent),
            messages,
        )
        if len(data) > self._frame_bytes:
            self.reset(peer, f"a frame to send has {len(data)} bytes, and at most {self._frame_bytes} may be sent")
        elif self._pipes[peer].send(data):
            session.sent += 1
        else:
            self.reset(peer, "the queue to the peer is full, or its connection is gone")

    def reset(self, peer: int, why: str) -> None:
        """Begin a new iteration. LinkDown comes with the next `receive`; nothing happens if the channel is not up: a
        session that is not is new already."""
        session = self._sessions[peer]
        if session.up:
            number = session.number
            session.close()
            self._session_closed(peer, number, why)

    def tick(self, now_ns: int, host_ns: int) -> None:
        """Send the HELLOs that are due; close what lost its connection."""
        self._now_ns = now_ns
        if self.quiet:
            return
        for peer, lost_ns in list(self._lost_at.items()):
            if host_ns - lost_ns >= LAST_FRAMES_NS:
                self.reset(peer, "the connection to the peer ended")
        all_up = True
        for peer, session in self._sessions.items():
            if not session.up:
                all_up = False
                if now_ns >= self._hello_at[peer]:
                    self._greet(peer)
        if self.refusals.waiting:
            self.report(*self.refusals.due(now_ns))
        self.quiet = all_up and not self._lost_at and not self.refusals.waiting

    def wakes_at(self) -> int:
        """When `tick` will have something to do, by the node's clock, but for `losing`."""
        if self.quiet:
            return NEVER
        due = [self._hello_at[peer] for peer, session in self._sessions.items() if not session.up]
        return min(due, default=NEVER)

    def renew(self, peer: int) -> None:
        """Replace the peer's pipe, and drop what it held."""
        self._connected.discard(peer)
        self._pipes[peer].close()
        self._pipes[peer] = self._dial(peer)

    def close(self) -> None:
        """The process ends by its own decision. What is queued is dropped."""
        self.runs.end_all()
        for pipe in self._pipes.values():
            pipe.close()

    # ---- what a known bug may override ----

    def redial(self, peer: int) -> None:
        """A session was closed: the new one gets a new pipe."""
        self.renew(peer)

    def disconnected(self, peer: int, host_ns: int) -> None:
        """The connection of a session that is up has ended: so will the session, when the last frames are taken."""
        self._lost_at.setdefault(peer, host_ns)
        self.quiet = False

    # ---- frames that arrive ----

    def _receive_frame(self, header: FrameHeader, data: bytes, session: ChannelSession, out: list[LinkEvent]) -> None:
        """Judge a well-formed frame, and do what it changes. Raises BadFrame."""
        peer, number, was_up = header.sender, session.number, session.up
        self.frames[peer] += 1
        outcome = session.receive(header)
        if outcome is ACCEPTED and not (out and type(out[-1]) is LinkDown):  # as for most frames; nothing is unreported
            out.append(Received(peer, frame.messages(data, header, self._decoder)))
            self.runs.add(peer, header.incarnation, header.session, header.sequence)
            return
        if outcome.closed is not None:
            self._session_closed(peer, number if was_up else None, outcome.closed)
        if outcome.opened:
            self.unreported.append((LinkUp(peer, session.number), None))
        if outcome.accepted:
            self.unreported.append((Received(peer, frame.messages(data, header, self._decoder)), header))
        if outcome.answer:
            self._greet(peer)

    def _bad_frame(self, bad: BadFrame) -> None:
        """A frame that is not right closes the session of whom it claims to be from."""
        peer = bad.sender if bad.sender in self._sessions else None
        self.report(self.refusals.add("frame", bad.reason, peer))
        if peer is not None:
            self.reset(peer, f"a bad frame: {bad.reason}")

    def _hand_out(self, out: list[LinkEvent]) -> bool:
        """Move events to `out`; True if that has to stop at what follows a LinkDown."""
        while self.unreported:
            event, header = self.unreported[0]
            if out and type(out[-1]) is LinkDown and type(event) is not LinkDown:
                return True
            self.unreported.popleft()
            if header is not None:
                self.runs.add(header.sender, header.incarnation, header.session, header.sequence)
            elif type(event) is LinkDown:
                self.runs.end(event.peer, "closed")
            elif type(event) is LinkUp:
                self._announced[event.peer] = event.session
            out.append(event)
        return False

    # ---- sessions and their pipes ----

    def _session_closed(self, peer: int, number: int | None, why: str) -> None:
        """A session was closed: `number`, if it was up."""
        if number is not None:
            # What was taken but not handed out yet is not received any more: a suffix is lost, which is legal.
            self.unreported = deque(e for e in self.unreported if e[1] is None or e[1].sender != peer)
            self.unreported.append((LinkDown(peer, number, why), None))
        self.quiet = False
        self._lost_at.pop(peer, None)
        self._hello_at[peer] = self._now_ns
        self.redial(peer)

    def _greet(self, peer: int) -> None:
        """HELLO, WELCOME or THANKS. What cannot leave for want of a connection is said when there is one."""
        session = self._sessions[peer]
        header = (
            self._cluster, session.greeting, self._me, peer, session.own_life, session.peer_life, session.number, session.sent
        )  # fmt: skip
        sent = self._pipes[peer].send(frame.pack(header, []))
        pause = self._hello_ns if sent else AGAIN_NS if peer in self._connected else NEVER
        self._hello_at[peer] = self._now_ns + pause
