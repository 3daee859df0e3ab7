"""Channels between the nodes, with the properties that Zab's proof needs (DSN 2011, section II).

Integrity: what is received was sent, by that node to this one. Prefix: when a message is received, all that was sent
before it has been. Single iteration: what is received belongs to one iteration. Plain ZeroMQ gives none of the last
two (measured with a cut of 2 s: 384 of 859 frames lost without an error at the sender). Here `Session` decides which
frames count, and `Links` moves them: one PULL socket takes the frames of all peers, and every session sends through a
PUSH socket of its own. Heartbeats and silence are not a link's business: the core pings, and asks for a reset.

Hooks for known-bad variants: `session_type` (which frames count), `immediate` (whether frames wait for a connection),
`redial` (what a new session does to the socket) and `disconnected` (what a connection's end does to the session).
"""

import time
from collections import deque
from collections.abc import Collection
from typing import Any

import msgspec
import zmq

from zab_chaos.node.channel.header import Header, Kind
from zab_chaos.node.channel.runs import ChannelRun, Runs
from zab_chaos.node.channel.session import Session
from zab_chaos.node.config import Limits
from zab_chaos.node.events import LinkDown, LinkEvent, LinkUp, Received, Refused
from zab_chaos.node.net import frame
from zab_chaos.node.net.address import AddressError, AddressInUse, bind
from zab_chaos.node.net.dial import Dial
from zab_chaos.node.net.frame import BadFrame
from zab_chaos.node.net.keys import Keys
from zab_chaos.node.net.refusals import Refusals
from zab_chaos.node.net.strangers import Strangers

__all__ = [
    "AddressError",
    "AddressInUse",
    "ChannelRun",
    "LinkDown",
    "LinkEvent",
    "LinkUp",
    "Links",
    "Received",
    "Refused",
]

# A killed peer's last frames and the end of its connections arrive on different sockets. So the frames get this long
# to be taken before the session is closed; meanwhile nothing is sent in it.
_LAST_FRAMES_NS = 10_000_000
_NO_CONNECTION_NS = 5_000_000  # the pause before a HELLO that could not leave is tried again


class Links:
    """All channels of one node, for a loop with one thread.

    `incarnation` is this node's life, larger than all its earlier ones. `listen` and `peers` are host:port.
    Raises AddressInUse, AddressError.
    """

    session_type: type[Session] = Session
    immediate = True

    def __init__(
        self,
        context: zmq.Context[Any],
        *,
        me: int,
        cluster: str,
        incarnation: int,
        listen: str,
        peers: dict[int, str],
        keys: Keys,
        limits: Limits,
        heartbeat_ms: int,
        decoder: msgspec.msgpack.Decoder[list[Any]],
    ) -> None:
        self.frames = dict.fromkeys(peers, 0)  # well-formed frames that arrived so far, by peer, counted or ignored
        self._context, self._keys, self._limits, self._decoder = context, keys, limits, decoder
        self._me, self._peers, self._cluster = me, dict(peers), frame.cluster_hash(cluster)
        self._hello_ns = heartbeat_ms * 1_000_000
        self._inbox = context.socket(zmq.PULL)
        try:
            self._listen(listen)
        except (AddressInUse, AddressError):
            self._inbox.close()
            raise
        self._sessions = {peer: self.session_type(incarnation) for peer in peers}
        self._announced: dict[int, int] = {}  # the session of the last LinkUp that was handed out
        self._events: deque[tuple[LinkEvent, Header | None]] = deque()  # with the frame that a Received came in
        self._refusals, self._runs = Refusals(), Runs()
        self._now_ns = 0
        self._hello_at = dict.fromkeys(peers, 0)
        self._lost_at: dict[int, int] = {}  # when the connection of a session that is up ended
        self._poller: zmq.Poller | None = None
        self._dials = {peer: self._dial(peer) for peer in peers}

    def _listen(self, address: str) -> None:
        self._keys.server(self._inbox)
        self._inbox.linger = 0
        self._inbox.rcvhwm = self._limits.queue_frames
        self._inbox.maxmsgsize = 2 * self._limits.frame_bytes  # up to here we can say who; beyond, ZeroMQ hangs up
        bind(self._inbox, address, "peers")
        self._strangers = Strangers(self._context, self._inbox, "links")

    @property
    def pending(self) -> bool:
        """`receive` or `tick` has something to do that no poller shows: poll with a timeout of 0."""
        return bool(self._events or self._lost_at)

    def register(self, poller: zmq.Poller) -> None:
        """Let `poller` wake up for frames and connections; kept right when sockets are replaced."""
        self._poller = poller
        poller.register(self._inbox, zmq.POLLIN)
        poller.register(self._strangers.socket, zmq.POLLIN)
        for dial in self._dials.values():
            poller.register(dial.monitor.socket, zmq.POLLIN)

    def receive(self, max_frames: int, woken: Collection[Any] | None = None) -> list[LinkEvent]:
        """What has happened, in order, from at most `max_frames` frames. Never blocks.

        `woken`: the sockets that a poll found readable; None asks all of them.

        After a LinkDown nothing but LinkDowns follows in the same list: so what the server still has to say to the
        old session cannot slip into a new one, whose LinkUp only the next call tells.
        """
        out: list[LinkEvent] = []
        for _ in range(max_frames if woken is None or self._inbox in woken else 0):
            if self._events and self._hand_out(out):
                return out
            try:
                data = self._inbox.recv(zmq.DONTWAIT)
            except zmq.Again:
                break
            self._take(data)
        self._hand_out(out)
        # Connections come after the frames that were there before them: a killed peer's last words count.
        for peer, dial in self._dials.items():
            if woken is None or dial.monitor.socket in woken:
                self._connection(peer, dial.monitor.read())
        if woken is None or self._strangers.socket in woken:
            self._events.extend((report, None) for report in self._strangers.refused(self._refusals))
        return out

    def _hand_out(self, out: list[LinkEvent]) -> bool:
        """Move events to `out`; True if that has to stop at what follows a LinkDown."""
        while self._events:
            event, header = self._events[0]
            if out and type(out[-1]) is LinkDown and type(event) is not LinkDown:
                return True
            self._events.popleft()
            if header is not None:
                self._runs.took(header.sender, header.incarnation, header.session, header.sequence)
            elif type(event) is LinkDown:
                self._runs.end(event.peer, "closed")
            elif type(event) is LinkUp:
                self._announced[event.peer] = event.session
            out.append(event)
        return False

    def send(self, peer: int, messages: list[Any]) -> None:
        """Send one frame now. Dropped when the channel is not up. What cannot be queued closes the session."""
        session = self._sessions[peer]
        if not messages or peer in self._lost_at or not session.up or self._announced.get(peer) != session.number:
            return
        data = self._pack(peer, Kind.MESSAGES, messages)
        if len(data) > self._limits.frame_bytes:
            self._close(
                peer, f"a frame to send has {len(data)} bytes, and at most {self._limits.frame_bytes} may be sent"
            )
        elif self._dials[peer].send(data):
            session.sent += 1
        else:
            self._close(peer, "the queue to the peer is full, or its connection is gone")

    def reset(self, peer: int, why: str) -> None:
        """Begin a new iteration. LinkDown comes with the next `receive`; nothing happens if the channel is not up."""
        self._close(peer, why)

    def tick(self, now_ns: int) -> None:
        """Send the HELLOs that are due at `now_ns` (the node's clock); close what lost its connection."""
        self._now_ns = now_ns
        for peer, lost_ns in list(self._lost_at.items()):
            if time.monotonic_ns() - lost_ns >= _LAST_FRAMES_NS:  # no timeout: a wrong clock must not touch it
                self._close(peer, "the connection to the peer ended")
        for peer, session in self._sessions.items():
            if not session.up and now_ns >= self._hello_at[peer]:
                self._greet(peer)
        self._events.extend((report, None) for report in self._refusals.due(now_ns))

    def drain(self, peer: int, seconds: float) -> None:
        """Return when everything sent to `peer` so far has left the process, or after `seconds`. Ends the session."""
        self._unregister(peer)
        self._dials[peer].drain(int(seconds * 1000))
        self._dials[peer] = self._dial(peer)
        self._close(peer, "drained")

    def runs(self) -> list[ChannelRun]:
        """The runs of frames that ended since the last call; after `close`, the ones that were open then, too."""
        return self._runs.fetch()

    def close(self) -> None:
        """Close all sockets; what is queued is dropped."""
        self._runs.end_all()
        for peer, dial in self._dials.items():
            self._unregister(peer)
            dial.close()
        if self._poller is not None:
            self._poller.unregister(self._inbox)
            self._poller.unregister(self._strangers.socket)
        self._strangers.stop()
        self._inbox.close()

    # What a known-bad variant may override.

    def redial(self, peer: int) -> None:
        """A session was closed: the new one gets a new socket."""
        self._unregister(peer)
        self._dials[peer].close()
        self._dials[peer] = self._dial(peer)

    def disconnected(self, peer: int) -> None:
        """The connection of a session that is up has ended: so will the session, when the last frames are taken."""
        self._lost_at.setdefault(peer, time.monotonic_ns())

    # Frames that arrive.

    def _take(self, data: bytes) -> None:
        try:
            header = frame.parse(data, self._cluster, self._me, self._limits.frame_bytes)
            session = self._sessions.get(header.sender)
            if session is None:
                raise BadFrame(f"node {header.sender} is no peer of this node", header.sender)
            self.frames[header.sender] += 1
            self._judge(header, session, data)
        except BadFrame as bad:
            peer = bad.sender if bad.sender in self._sessions else None
            self._refuse("frame", bad.reason, peer)
            if peer is not None:
                self._close(peer, f"a bad frame: {bad.reason}")

    def _judge(self, header: Header, session: Session, data: bytes) -> None:
        peer, number, was_up = header.sender, session.number, session.up
        outcome = session.receive(header)
        if outcome.closed is not None:
            self._closed(peer, number if was_up else None, outcome.closed)
        if outcome.opened:
            self._events.append((LinkUp(peer, session.number), None))
        if outcome.accepted:
            self._events.append((Received(peer, frame.messages(data, header, self._decoder)), header))
        if outcome.answer:
            self._greet(peer)

    def _refuse(self, what: str, why: str, peer: int | None) -> None:
        report = self._refusals.add(what, why, peer)
        if report is not None:
            self._events.append((report, None))

    # Sessions and their sockets.

    def _close(self, peer: int, why: str) -> None:
        """Close the session if it is up: one that is not is new already."""
        session = self._sessions[peer]
        if session.up:
            number = session.number
            session.close()
            self._closed(peer, number, why)

    def _closed(self, peer: int, number: int | None, why: str) -> None:
        """A session was closed: `number`, if it was up."""
        if number is not None:
            # What was taken but not handed out yet is not received any more: a suffix is lost, which is legal.
            self._events = deque(e for e in self._events if e[1] is None or e[1].sender != peer)
            self._events.append((LinkDown(peer, number, why), None))
        self._lost_at.pop(peer, None)
        self._hello_at[peer] = self._now_ns
        self.redial(peer)

    def _greet(self, peer: int) -> None:
        """HELLO, WELCOME or THANKS."""
        sent = self._dials[peer].send(self._pack(peer, self._sessions[peer].greeting, []))
        self._hello_at[peer] = self._now_ns + (self._hello_ns if sent else _NO_CONNECTION_NS)

    def _connection(self, peer: int, events: list[int]) -> None:
        for event in events:
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED and not self._sessions[peer].up:
                self._greet(peer)
            elif event == zmq.EVENT_DISCONNECTED and self._sessions[peer].up:
                self.disconnected(peer)

    def _pack(self, peer: int, kind: Kind, messages: list[Any]) -> bytearray:
        session = self._sessions[peer]
        header = Header(
            self._cluster, kind, self._me, peer, session.mine, session.theirs, session.number, session.sent, 0
        )
        return frame.pack(header, messages)

    def _dial(self, peer: int) -> Dial:
        dial = Dial(self._context, self._peers[peer], self._keys, self._limits.queue_frames, self.immediate)
        if self._poller is not None:
            self._poller.register(dial.monitor.socket, zmq.POLLIN)
        return dial

    def _unregister(self, peer: int) -> None:
        if self._poller is not None:
            self._poller.unregister(self._dials[peer].monitor.socket)
