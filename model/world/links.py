"""All channels of one simulated node: `zab_chaos.node.net.link` over simulated pipes instead of ZeroMQ's sockets.

Which frames count is decided by the same code (`zab_chaos.node.channel.session`); here is only what moves them. The comments
on why things happen in this order are in `zab_chaos.node.net.link`.
"""

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from zab_chaos.model.world.network import Pipe
from zab_chaos.node.channel.header import Header
from zab_chaos.node.channel.runs import ChannelRun, Runs
from zab_chaos.node.channel.session import ACCEPTED, Session
from zab_chaos.node.events import LinkDown, LinkEvent, LinkUp, Received

if TYPE_CHECKING:
    from zab_chaos.model.world.server import SimServer

LAST_FRAMES_NS = 10_000_000  # what a lost connection still brought gets so long to be taken
NEVER = 2**62
_tuple = tuple.__new__


class SimLinks:
    """The channels of one life, as the replica uses them. `inbox` holds frames, and (None, (pipe, connected))."""

    def __init__(self, server: "SimServer", peers: Iterable[int], life: int) -> None:
        plan = server.plan
        self.frames = dict.fromkeys(peers, 0)
        self.pending = False  # something is left for the next `receive`
        self._server = server
        self._me = server.id
        self._hello_ns = plan.timing.heartbeat_ms * 1_000_000
        self._raw = plan.raw
        self.ended_runs = self._raw  # `runs` may have something
        self._sessions: dict[int, Session] = {peer: plan.session_type(life) for peer in self.frames}
        self._announced: dict[int, int] = {}
        self._events: deque[tuple[LinkEvent, Header | None]] = deque()
        self._runs = Runs()
        self._now_ns = 0
        self._hello_at = dict.fromkeys(self.frames, 0)
        self._lost_at: dict[int, int] = {}  # host's clock
        self.quiet = False  # all sessions are up and none has lost its connection: `tick` has nothing to do
        self._pipes: dict[int, Pipe] = {}

    def open(self) -> None:
        for peer in self.frames:
            self._dial(peer)

    def _dial(self, peer: int) -> None:
        server = self._server
        wire = server.net.wires[self._me, peer]
        self._pipes[peer] = Pipe(wire, server, server.plan.limits.queue_frames, server.plan.immediate)

    def receive(self, inbox: deque[tuple[Any, Any]]) -> list[LinkEvent]:
        """See `Links.receive`: after a LinkDown nothing but LinkDowns in one list."""
        if len(inbox) == 1 and inbox[0][0] is not None and not (self._events or self._raw):
            return self._receive_one(*inbox.popleft())
        out: list[LinkEvent] = []
        notices: list[tuple[Pipe, bool]] = []
        self.pending = False
        while inbox:
            if self._events and self._hand_out(out):
                self.pending = True
                break
            header, messages = inbox.popleft()
            if header is None:
                notices.append(messages)
                continue
            peer = header.sender
            self.frames[peer] += 1
            session = self._sessions[peer]
            if not self._events and not (out and type(out[-1]) is LinkDown):
                number, was_up = session.number, session.up
                outcome = session.receive(header)
                if outcome is ACCEPTED:
                    self._runs.took(peer, header.incarnation, header.session, header.sequence)
                    out.append(Received(peer, messages))
                    continue
            else:
                number, was_up = session.number, session.up
                outcome = session.receive(header)
            self._judged(header, messages, session, number, was_up, outcome)
        if self._events and self._hand_out(out):
            self.pending = True
        for pipe, connected in notices:
            self._connection(pipe, connected)
        if self._events:
            self.pending = True
        return out

    def _receive_one(self, header: Header, messages: list[Any]) -> list[LinkEvent]:
        """What comes most often: one frame, and nothing else to tell."""
        peer = header.sender
        self.frames[peer] += 1
        session = self._sessions[peer]
        number, was_up = session.number, session.up
        outcome = session.receive(header)
        if outcome is ACCEPTED:
            self._runs.took(peer, header.incarnation, header.session, header.sequence)
            return [Received(peer, messages)]
        self._judged(header, messages, session, number, was_up, outcome)
        out: list[LinkEvent] = []
        self._hand_out(out)
        self.pending = bool(self._events)
        return out

    def _judged(
        self, header: Header, messages: list[Any], session: Session, number: int, was_up: bool, outcome: Any
    ) -> None:
        peer = header.sender
        if outcome.closed is not None:
            self._closed(peer, number if was_up else None, outcome.closed)
        if outcome.opened:
            self._events.append((LinkUp(peer, session.number), None))
        if outcome.accepted:
            self._events.append((Received(peer, messages), header))
        if outcome.answer:
            self._greet(peer)

    def _hand_out(self, out: list[LinkEvent]) -> bool:
        while self._events:
            event, header = self._events[0]
            if out and type(out[-1]) is LinkDown and type(event) is not LinkDown:
                return True
            self._events.popleft()
            if header is not None:
                self._runs.took(header.sender, header.incarnation, header.session, header.sequence)
            elif type(event) is LinkDown:
                self._runs.end(event.peer, "closed")
                self.ended_runs = True
            elif type(event) is LinkUp:
                self._announced[event.peer] = event.session
            out.append(event)
        return False

    def send(self, peer: int, messages: list[Any]) -> None:
        session = self._sessions[peer]
        number = session.number
        if not session.up or self._announced.get(peer) != number or peer in self._lost_at or not messages:
            return
        fields = (0, 0, self._me, peer, session.mine, session.theirs, number, session.sent, 0)
        header = _tuple(Header, fields)  # what Header(*fields) does, in half the time
        if self._pipes[peer].send((header, messages)):
            session.sent += 1
        else:
            self._close(peer, "the queue to the peer is full, or its connection is gone")

    def reset(self, peer: int, why: str) -> None:
        self._close(peer, why)

    def tick(self, now_ns: int) -> None:
        self._now_ns = now_ns
        if self.quiet:
            return
        host_ns = self._server.world.now
        for peer, lost_ns in list(self._lost_at.items()):
            if host_ns - lost_ns >= LAST_FRAMES_NS:
                self._close(peer, "the connection to the peer ended")
        for peer, session in self._sessions.items():
            if not session.up and now_ns >= self._hello_at[peer]:
                self._greet(peer)
        self.pending = bool(self._events)
        self.quiet = not self._lost_at and all(session.up for session in self._sessions.values())

    def wakes_at(self) -> int:
        """When `tick` will have something to do, in the node's time."""
        if self.quiet:
            return NEVER
        due = [self._hello_at[peer] for peer, session in self._sessions.items() if not session.up]
        return min(due, default=NEVER)

    def runs(self) -> list[ChannelRun]:
        self.ended_runs = self._raw  # there, a gap ends a run without a word
        return self._runs.fetch()

    def close(self) -> None:
        """The process ends by its own decision."""
        self._runs.end_all()

    def die(self, unsent: int) -> None:
        for pipe in self._pipes.values():
            pipe.die(unsent)

    def _close(self, peer: int, why: str) -> None:
        session = self._sessions[peer]
        if session.up:
            number = session.number
            session.close()
            self._closed(peer, number, why)

    def _closed(self, peer: int, number: int | None, why: str) -> None:
        if number is not None:
            self._events = deque(e for e in self._events if e[1] is None or e[1].sender != peer)
            self._events.append((LinkDown(peer, number, why), None))
            self.pending = True
        self.quiet = False
        self._lost_at.pop(peer, None)
        self._hello_at[peer] = self._now_ns
        if not self._raw:
            self._pipes[peer].close()
            self._dial(peer)

    def _greet(self, peer: int) -> None:
        session = self._sessions[peer]
        header = Header(
            0, session.greeting, self._me, peer, session.mine, session.theirs, session.number, session.sent, 0
        )
        sent = self._pipes[peer].send((header, []))
        # Without a connection nothing can leave before there is one, and then `_connection` greets at once.
        self._hello_at[peer] = self._now_ns + self._hello_ns if sent else NEVER

    def _connection(self, pipe: Pipe, connected: bool) -> None:
        peer = pipe.wire.target
        if self._pipes[peer] is not pipe:
            return  # of a socket that is closed by now
        if connected and not self._sessions[peer].up:
            self._greet(peer)
        elif not connected and self._sessions[peer].up and not self._raw:
            self._lost_at.setdefault(peer, self._server.world.now)
            self.quiet = False
            self._server.wake_in(LAST_FRAMES_NS)
