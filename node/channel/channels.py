"""All channels of one node, without sockets. They have the properties that Zab's proof needs (DSN 2011, section II).

Integrity: a received message was sent, by that node to this one. Prefix: when a message is received, all that were sent
before it have been. Single iteration: received messages belong to one iteration. Plain ZeroMQ has neither of the last two
(measured with a cut of 2 s: 384 of 859 frames lost without an error at the sender). `ChannelSession` decides which frames
count. `ChannelSet` has a session for each peer, and a `Pipe` for each session.

Time and frames come in, events go out. ZeroMQ drives it in a real node (`zab_chaos.node.net.link`), the simulated network
in the simulator (`zab_chaos.model.world.links`). Heartbeats and silent peers are handled by the core, which sends PINGs and
asks for resets.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import msgspec

from zab_chaos.node.channel import frame
from zab_chaos.node.channel.frame import HEADER_BYTES, BadFrame
from zab_chaos.node.channel.header import FrameHeader, FrameKind
from zab_chaos.node.channel.runs import FrameRuns
from zab_chaos.node.channel.session import ACCEPTED, ChannelSession
from zab_chaos.node.config import Limits
from zab_chaos.node.events import BAD_FRAME, FRAME_TOO_LARGE, LinkDown, LinkEvent, LinkUp, Received, Refused
from zab_chaos.node.refusal_counter import RefusalCounter

# The last frames of a killed peer and the end of its connection arrive by different sockets. So frames are received for this
# long before the session is closed; meanwhile nothing is sent in it.
LAST_FRAMES_NS = 10_000_000
AGAIN_NS = 5_000_000  # the pause before a greeting that a new connection did not accept is sent again
NEVER = 2**62

_MESSAGES, _PART = int(FrameKind.MESSAGES), int(FrameKind.PART)
# Messages with more bytes are sent in parts. If the largest frame had too many parts of this size for half of the queue to a
# peer, the parts are larger.
PART_BYTES = 2**16


class Pipe(Protocol):
    """The outgoing connection of one session. It reconnects by itself until it is closed."""

    def send(self, data: bytes) -> bool:
        """Queue one frame. Return False if the queue is full or there is no connection."""

    def close(self) -> None:
        """Drop the queued frames and the connection."""


class ChannelSet:
    """The channels of one life of node `me`.

    `incarnation` is this life, larger than all earlier ones. `dial` makes a new pipe to a peer. `decoder` reads the
    messages of a frame. Times are nanoseconds: `now_ns` of the node's clock, `host_ns` of the host's clock, which no fault
    changes. While there are `unreported` events, `receive` returns some even without a frame.

    Hooks for defects: `session_type` (which frames count), `immediate` (whether frames are queued without a connection),
    `redial` (what a new session does to the pipe) and `disconnected` (what the end of a connection does to the session).
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
        self.unreported: deque[tuple[LinkEvent, FrameHeader | None]] = (
            deque()
        )  # with the header of its frame, for Received
        self.runs = FrameRuns()
        self._me, self._cluster, self._frame_bytes = me, frame.cluster_hash(cluster), limits.frame_bytes
        self._part_bytes = max(PART_BYTES, 2 * limits.frame_bytes // limits.queue_frames)
        self._parts: dict[int, list[bytes]] = {}  # by peer: the PARTs of which the end has not arrived yet
        self._hello_ns = heartbeat_ms * 1_000_000
        self._decoder = decoder
        self._dial = dial
        self._pipes: dict[int, Pipe] = {}
        self._sessions = {peer: self.session_type(incarnation) for peer in self.frames}
        self._announced: dict[int, int] = {}  # by peer: the session of the last LinkUp that was handed out
        self._starts: dict[int, bytes] = {}  # by peer: how that session's MESSAGES begin
        self._connected: set[int] = set()
        self._now_ns = 0
        self._hello_at = dict.fromkeys(self.frames, 0)
        self._lost_at: dict[int, int] = {}  # when (host's clock) the connection of a session that is up ended

    def open(self) -> None:
        """Dial every peer."""
        for peer in self.frames:
            self._pipes[peer] = self._dial(peer)

    @property
    def losing(self) -> bool:
        """Whether a connection has ended whose session `tick` will soon close."""
        return bool(self._lost_at)

    # ---- input ----

    def receive(self, frames: deque[bytes]) -> list[LinkEvent]:
        """Return what has happened, in order. Takes frames from the left; those that it leaves are for the next call.

        After a LinkDown only LinkDowns follow in the same list. So what the server still sends to the old session can't get
        into a new one, whose LinkUp only the next call returns.
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
        """Take note that the peer's pipe now has a connection."""
        self._connected.add(peer)
        if not self._sessions[peer].up:
            self._greet(peer)

    def lost(self, peer: int, host_ns: int) -> None:
        """Take note that the connection of the peer's pipe has ended."""
        self._connected.discard(peer)
        if self._sessions[peer].up:
            self.disconnected(peer, host_ns)

    def report(self, *reports: Refused | None) -> None:
        """Return these events with the next `receive`."""
        self.unreported.extend((report, None) for report in reports if report is not None)
        self.quiet = False

    # ---- requests ----

    def send(self, peer: int, messages: Any) -> None:
        """Send messages now, in one frame or, if they are long, in parts.

        They are dropped if the channel is not up. If they can't be queued, the session is closed.
        """
        session = self._sessions[peer]
        if not messages or peer in self._lost_at or not session.up or self._announced.get(peer) != session.number:
            return
        payload = frame.encode(messages)
        size = HEADER_BYTES + len(payload)
        if size > self._frame_bytes:
            self.reset(peer, f"{FRAME_TOO_LARGE} {size} bytes, and at most {self._frame_bytes} may be sent")
            return
        rest = 0
        while len(payload) - rest > self._part_bytes:
            part = payload[rest : rest + self._part_bytes]
            if not self._send_numbered(peer, session, self._start(peer, _PART), part):
                return
            rest += self._part_bytes
        self._send_numbered(peer, session, self._starts[peer], payload[rest:] if rest else payload)

    def _send_numbered(self, peer: int, session: ChannelSession, start: bytes, payload: bytes) -> bool:
        """Send the next frame of a session that is up. Return False if it can't be queued: then the session is closed."""
        if not self._pipes[peer].send(frame.pack_rest(start, session.sent, payload)):
            self.reset(peer, "the queue to the peer is full, or its connection is gone")
            return False
        session.sent += 1
        return True

    def reset(self, peer: int, why: str) -> None:
        """Begin a new iteration; the next `receive` returns the LinkDown.

        If the channel is not up, nothing happens: its session is a new one already.
        """
        session = self._sessions[peer]
        if session.up:
            number = session.number
            session.close()
            self._session_closed(peer, number, why)

    def tick(self, now_ns: int, host_ns: int) -> None:
        """Send the HELLOs that are due, and close sessions whose connection was lost."""
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
        """Return when, by the node's clock, `tick` will have something to do; `losing` is not included."""
        if self.quiet:
            return NEVER
        due = [self._hello_at[peer] for peer, session in self._sessions.items() if not session.up]
        return min(due, default=NEVER)

    def close(self) -> None:
        """Close all pipes, because the process ends by its own decision. Queued frames are dropped."""
        self.runs.end_all()
        for pipe in self._pipes.values():
            pipe.close()

    # ---- hooks for defects ----

    def redial(self, peer: int) -> None:
        """Replace the pipe of a session that was closed, and drop what it held."""
        self._connected.discard(peer)
        self._pipes[peer].close()
        self._pipes[peer] = self._dial(peer)

    def disconnected(self, peer: int, host_ns: int) -> None:
        """Schedule the end of a session whose connection has ended; its last frames are received before."""
        self._lost_at.setdefault(peer, host_ns)
        self.quiet = False

    # ---- frames that arrive ----

    def _receive_frame(self, header: FrameHeader, data: bytes, session: ChannelSession, out: list[LinkEvent]) -> None:
        """Process a well-formed frame. Raises BadFrame."""
        peer, number, was_up = header.sender, session.number, session.up
        self.frames[peer] += 1
        outcome = session.receive(header)
        if outcome is ACCEPTED and not (out and type(out[-1]) is LinkDown):  # most frames; nothing else is unreported
            out.append(self._received(header, data))
            self.runs.add(peer, header.incarnation, header.session, header.sequence)
            return
        if outcome.closed is not None:
            self._session_closed(peer, number if was_up else None, outcome.closed)
        if outcome.opened:
            self.unreported.append((LinkUp(peer, session.number), None))
        if outcome.accepted:
            self.unreported.append((self._received(header, data), header))
        if outcome.answer:
            self._greet(peer)

    def _received(self, header: FrameHeader, data: bytes) -> Received:
        """Return the event of an accepted frame. A PART brings no messages before its end has arrived. Raises BadFrame."""
        peer = header.sender
        if header.kind == _MESSAGES:
            parts = self._parts.pop(peer, ()) if self._parts else ()
            return Received(peer, frame.messages(data, header, self._decoder, parts))
        parts = self._parts.setdefault(peer, [])
        parts.append(data[HEADER_BYTES:])
        if (size := sum(map(len, parts))) > self._frame_bytes:
            raise BadFrame(f"oversized: {size} bytes in parts, and a frame has at most {self._frame_bytes}", peer)
        return Received(peer, [])

    def _bad_frame(self, bad: BadFrame) -> None:
        """Refuse a frame, and close the session of the node that it claims to be from."""
        peer = bad.sender if bad.sender in self._sessions else None
        self.report(self.refusals.add("frame", bad.reason, peer))
        if peer is not None:
            self.reset(peer, f"{BAD_FRAME}: {bad.reason}")

    def _hand_out(self, out: list[LinkEvent]) -> bool:
        """Move unreported events to `out`. Return True if it had to stop after a LinkDown."""
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
                self._announce(event.peer, event.session)
            out.append(event)
        return False

    # ---- sessions and their pipes ----

    def _announce(self, peer: int, number: int) -> None:
        """Take note that the server is told of a session that is up: it may send in it."""
        self._announced[peer] = number
        self._starts[peer] = self._start(peer, _MESSAGES)

    def _start(self, peer: int, kind: int) -> bytes:
        """Return how the frames of this kind in the present session begin."""
        s = self._sessions[peer]
        return frame.pack_start(self._cluster, kind, self._me, peer, s.own_life, s.peer_life, s.number)

    def _session_closed(self, peer: int, number: int | None, why: str) -> None:
        """React to a closed session. `number`: its number if it was up, else None."""
        if number is not None:
            # Frames that were accepted but not handed out yet are dropped: losing a suffix is legal.
            self.unreported = deque(e for e in self.unreported if e[1] is None or e[1].sender != peer)
            self.unreported.append((LinkDown(peer, number, why), None))
        self.quiet = False
        self._parts.pop(peer, None)
        self._lost_at.pop(peer, None)
        self._hello_at[peer] = self._now_ns
        self.redial(peer)

    def _greet(self, peer: int) -> None:
        """Send HELLO, WELCOME or THANKS. Without a connection, it is sent once there is one."""
        session = self._sessions[peer]
        sent = self._pipes[peer].send(frame.pack_rest(self._start(peer, session.greeting), session.sent, frame.EMPTY))
        pause = self._hello_ns if sent else AGAIN_NS if peer in self._connected else NEVER
        self._hello_at[peer] = self._now_ns + pause
