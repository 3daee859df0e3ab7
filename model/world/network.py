"""Simulated links: they treat frames between two nodes as ZeroMQ's sockets, TCP and toxiproxy do.

Link (i, j) carries what i sends to j, through a proxy of its own (`SimProxy`), which can be cut, slowed or deleted. A
`SimPipe` is the socket through which i's session sends; it keeps up one connection at a time. A connection delivers in
order. When it breaks, it loses what is on its way, and it delivers nothing afterwards.
"""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from heapq import heappush
from typing import TYPE_CHECKING

import msgspec

from zab_chaos.model.world.world import World

if TYPE_CHECKING:
    from zab_chaos.model.world.server import SimServer

MS = 1_000_000
HANDSHAKE_NS = 1000 * MS  # a handshake without an answer is tried again after this time (zab_chaos.node.net.pipe)
RECONNECT_NS = 20 * MS  # the first pause between two attempts to connect; each further pause is twice as long ...
RECONNECT_MAX_NS = 200 * MS  # ... up to this
RESUME_POLL_NS = 20 * MS  # how often a start or handshake that waits for a stopped process looks whether it was resumed


class SimToxic(msgspec.Struct, frozen=True):
    """A toxic of toxiproxy, with its names of kinds, streams and attributes."""

    kind: str
    stream: str
    attributes: dict[str, int]


class SimProxy:
    """The proxy of one link. `others`: the nodes that are at neither of its ends."""

    def __init__(self, world: World, source: int, target: int, others: Sequence[int] = ()) -> None:
        self.world = world
        self.source, self.target = source, target
        self.others = others
        self.enabled = True
        self.toxics: dict[str, SimToxic] = {}
        self.met: Counter[str] = Counter()  # frames that passed a toxic, by its kind, for kinds that hit single frames
        self.hit: Counter[str] = Counter()  # how many of these frames were hit
        self._without_hit: set[str] = set()  # toxics that have hit no frame yet
        self.clear = True  # there are no toxics
        self.connections: list[SimConnection] = []
        self._held: list[tuple[SimConnection, bytes]] = []  # frames held by a stall
        self._delayed: deque[tuple[SimConnection, bytes]] = deque()  # frames that a toxic is delaying
        self.delayed_until = 0  # when the last delayed frame gets through
        self._unreported: list[SimConnection] = []  # broken, but the cut link does not let the other end know
        self._bandwidth_free_at = 0
        self.server_at: Callable[[int], SimServer | None] = lambda node: None  # the server that is up on a node, if any

    # ---- requests to the proxy server ----

    def add(self, name: str, toxic: SimToxic) -> None:
        """Add a toxic. As in toxiproxy, the toxic before it then lets the frame through that it is just delaying."""
        if self._delayed:
            self._pass_cut(self._delayed.popleft())
        self.toxics[name] = toxic
        self._without_hit.add(name)
        self._changed()
        if toxic.kind == "reset_peer":
            for connection in list(self.connections):
                self.world.call_later(toxic.attributes["timeout"] * MS, connection.reset)

    def remove(self, name: str) -> None:
        self.toxics.pop(name, None)
        self._changed()

    def delete(self) -> None:
        """Delete the proxy, with its connections and all frames that are in it."""
        self._held.clear()
        self._delayed.clear()
        self.toxics.clear()
        self._bandwidth_free_at = self.delayed_until = 0
        self.disable()
        self._changed()

    def disable(self) -> None:
        self.enabled = False
        for connection in list(self.connections):
            connection.reset()

    def enable(self) -> None:
        self.enabled = True

    def _changed(self) -> None:
        """After a change of the toxics: release what none of them holds back any more."""
        self.clear = not self.toxics
        if not self.cut:
            unreported, self._unreported = self._unreported, []
            for connection in unreported:
                connection.report_broken()
        if not self._stalls:
            held, self._held = self._held, []
            for passing in held:
                self._pass_cut(passing)

    # ---- effects of the toxics ----

    def attribute(self, kind: str, name: str) -> list[int]:
        """Return this attribute of all toxics of a kind."""
        return [toxic.attributes[name] for toxic in self.toxics.values() if toxic.kind == kind]

    @property
    def latency(self) -> int:
        """The nanoseconds that all frames take longer, without jitter."""
        return sum(self.attribute("latency", "latency")) * MS if self.toxics else 0

    @property
    def _stalls(self) -> bool:
        return 0 in self.attribute("bandwidth", "rate")

    @property
    def _drops(self) -> bool:
        return any(toxic.kind == "timeout" for toxic in self.toxics.values())

    def _hits(self, kind: str) -> list[SimToxic]:
        """Return the toxics of this kind that hit the present frame. Each hits its first frame, then one in `one_in`."""
        here = {name: toxic for name, toxic in self.toxics.items() if toxic.kind == kind}
        hits = {name: toxic for name, toxic in here.items() if name in self._without_hit or self._drawn(toxic)}
        self._without_hit -= hits.keys()
        self.met[kind] += bool(here)
        self.hit[kind] += bool(hits)
        return list(hits.values())

    def _drawn(self, toxic: SimToxic) -> bool:
        return self.world.chance.up_to(toxic.attributes["one_in"]) == 0

    def _flip(self, frame: bytes) -> bytes:
        """Return the frame with one bit flipped, at a drawn place."""
        at, bit = divmod(self.world.chance.up_to(8 * len(frame)), 8)
        return frame[:at] + bytes((frame[at] ^ 1 << bit,)) + frame[at + 1 :]

    def _misroute(self, frame: bytes) -> None:
        """Deliver the frame to a third node, if there is one, without this link's delays: it ends a session there, which it
        must not do after all links are healed."""
        if self.others:
            node = self.others[self.world.chance.up_to(len(self.others))]
            self.world.call_later(self.world.chance.delay(), self._deliver_outside, (node, frame))

    def _repeat(self, frame: bytes) -> None:
        """Deliver the frame a second time, later, if a toxic of the kind `late` hits it."""
        for toxic in self._hits("late"):
            self.world.call_later(toxic.attributes["delay"] * MS, self._deliver_outside, (self.target, frame))

    def _deliver_outside(self, delivery: tuple[int, bytes]) -> None:
        """Deliver a frame outside of its connection, to the server that is up on a node now, unless the link is cut."""
        node, frame = delivery
        server = self.server_at(node)
        if server is not None and self.enabled and not self.cut:
            server.inbox.append(frame)
            server.poke()

    @property
    def cut(self) -> bool:
        """True if nothing gets through, not even the end of a connection."""
        return bool(self.toxics) and (self._drops or self._stalls)

    def carry(self, connection: "SimConnection", frame: bytes) -> None:
        """Pass a frame through the toxics: first those that delay or hit it, then those that cut the link."""
        if self._drops:
            return
        wait = self._wait(frame)
        carried = self._flip(frame) if self._hits("corrupt") else frame
        if self._hits("misroute"):
            self._misroute(carried)
        elif wait or self._delayed:
            self._delayed.append((connection, carried))
            self.world.call_later(wait, self._pass_delay, self._delayed[-1])
        else:
            self._pass_cut((connection, carried))
        self._repeat(frame)  # not the corrupt one, which would end a session even after all links are healed

    def _pass_delay(self, passing: tuple["SimConnection", bytes]) -> None:
        """Let the first delayed frame through, if it is this one. It may have been let through early (`add`)."""
        if self._delayed and self._delayed[0] is passing:
            self._pass_cut(self._delayed.popleft())

    def _pass_cut(self, passing: tuple["SimConnection", bytes]) -> None:
        """Pass a frame on to its connection, unless a stall holds it or a timeout drops it."""
        connection, frame = passing
        if self._stalls or self._held:
            self._held.append(passing)
        elif not self._drops:
            connection.deliver(frame)

    def _wait(self, frame: bytes) -> int:
        """Return by how many nanoseconds a frame is delayed: at least until the frames before it are through."""
        now, wait = self.world.now, 0
        for rate in filter(None, self.attribute("bandwidth", "rate")):
            self._bandwidth_free_at = max(self._bandwidth_free_at, now) + len(frame) * 1_000_000 // rate
            wait += self._bandwidth_free_at - now
        for toxic in self.toxics.values():
            if toxic.kind == "latency":
                jitter = toxic.attributes["jitter"] * MS
                wait += toxic.attributes["latency"] * MS + self.world.chance.up_to(2 * jitter + 1) - jitter
        if self.world.chance.erratic:
            wait += self.world.chance.wait()
        self.delayed_until = max(self.delayed_until, now + wait)
        return self.delayed_until - now

    def open(self, connection: "SimConnection") -> None:
        """Add a connection. Forget those of closed sockets, unless frames are still on their way in them."""
        now, held = self.world.now, bool(self._held or self._delayed)
        remaining = [one for one in self.connections if held or not one.pipe.closed or one.last_arrival > now]
        self.connections = [*remaining, connection]

    def on_broken(self, connection: "SimConnection") -> None:
        """A connection broke. Report it to the other end, after a delay, or once the link is no longer cut."""
        if self.cut and self.enabled:
            self._unreported.append(connection)
            return
        slow = sum(self.attribute("slow_close", "delay")) * MS
        self.world.call_later(slow + self.world.chance.delay(), connection.report_broken)

    @property
    def held(self) -> int:
        """How many frames a stall holds."""
        return len(self._held)


class SimConnection:
    """One TCP connection of a pipe, to one life of the target."""

    __slots__ = ("_world", "broken", "endpoint", "last_arrival", "pipe", "unsent_from")

    def __init__(self, pipe: "SimPipe", endpoint: "SimServer") -> None:
        self.pipe = pipe
        self._world = pipe.world
        self.endpoint = endpoint
        self.broken = False
        self.last_arrival = 0  # when the latest frame arrives
        self.unsent_from: int | None = None  # the sender was killed: frames that would arrive later had not left it

    def deliver(self, frame: bytes) -> None:
        """Deliver a frame after a drawn delay, in order, unless it is lost."""
        world = self._world
        chance = world.chance
        if chance.loses_frames and chance.loses_frame():
            return
        arrival = world.now + chance.delay()
        if arrival <= self.last_arrival:
            arrival = self.last_arrival + 1
        self.last_arrival = arrival
        world.order += 1
        heappush(world.heap, (arrival, world.order, self.arrive, frame))

    def arrive(self, frame: bytes) -> None:
        endpoint = self.endpoint
        if self.broken or not endpoint.alive or (self.unsent_from is not None and self._world.now > self.unsent_from):
            return
        endpoint.inbox.append(frame)
        endpoint.poke()

    def reset(self, _: object = None) -> None:
        """Break the connection. The frames that are on their way in it are lost."""
        if not self.broken:
            self.broken = True
            proxy = self.pipe.proxy
            if self in proxy.connections:
                proxy.connections.remove(self)
            proxy.on_broken(self)

    def report_broken(self, _: object = None) -> None:
        self.pipe.on_broken(self)


class SimPipe:
    """A PUSH socket. Implements `zab_chaos.node.channel.channels.Pipe`. `immediate`: see `zab_chaos.node.net.pipe`."""

    def __init__(self, proxy: SimProxy, source: "SimServer", queue_frames: int, immediate: bool) -> None:
        self.proxy = proxy
        self.world = proxy.world
        self.closed = False
        self.connection: SimConnection | None = None
        self._source = source
        self._limit = queue_frames
        self._immediate = immediate
        self._waiting: list[bytes] = []
        self._pause = RECONNECT_NS
        self._attempt()

    @property
    def _ended(self) -> bool:
        return self.closed or not self._source.alive

    def _attempt(self, _: object = None) -> None:
        if self._ended or self.connection is not None:
            return
        endpoint = self._source.server_of(self.proxy.target)
        if not self.proxy.enabled or endpoint is None:
            self.world.call_later(self._pause, self._attempt)
            self._pause = min(2 * self._pause, RECONNECT_MAX_NS)
        elif self.proxy.cut:
            self.world.call_later(HANDSHAKE_NS, self._attempt)
        elif endpoint.stopped or self._source.stopped:
            self.world.call_later(RESUME_POLL_NS, self._attempt)
        elif (slow := 2 * self.proxy.latency) > HANDSHAKE_NS:  # the dialling end waits for two round trips
            self.world.call_later(HANDSHAKE_NS, self._attempt)
        else:
            delay = slow + sum(self.world.chance.delay() for _ in range(3))
            self.world.call_later(delay, self._connected, endpoint)

    def _connected(self, endpoint: "SimServer") -> None:
        if self._ended or self.connection is not None:
            return
        if not endpoint.alive or not self.proxy.enabled or self.proxy.cut or endpoint.stopped or self._source.stopped:
            self._attempt()
            return
        self._pause = RECONNECT_NS
        self.connection = SimConnection(self, endpoint)
        self.proxy.open(self.connection)
        for milliseconds in self.proxy.attribute("reset_peer", "timeout"):
            self.world.call_later(milliseconds * MS, self.connection.reset)
        waiting, self._waiting = self._waiting, []
        for frame in waiting:
            self.proxy.carry(self.connection, frame)
        self._source.on_connection(self, connected=True)

    def send(self, frame: bytes) -> bool:
        """Send a frame. Return False if the queue is full, or if there is no connection and the pipe is `immediate`."""
        connection = self.connection
        if connection is None:
            if self._immediate or len(self._waiting) >= self._limit:
                return False
            self._waiting.append(frame)
            return True
        endpoint, proxy, world = connection.endpoint, self.proxy, self.world
        # A stopped process reads nothing and a stalled link passes nothing on: their queues fill.
        if (endpoint.stopped and len(endpoint.inbox) > self._limit) or (not proxy.clear and proxy.held > self._limit):
            return False
        if proxy.clear and world.now >= proxy.delayed_until and not world.chance.erratic:
            connection.deliver(frame)  # as the proxy does then
        else:
            proxy.carry(connection, frame)
        return True

    def on_broken(self, connection: SimConnection) -> None:
        """The broken connection was noticed: connect again."""
        if self.connection is connection:
            self.connection = None
            if not self._ended:
                self._source.on_connection(self, connected=False)
                self.world.call_later(self._pause, self._attempt)

    def close(self) -> None:
        """Send nothing more. Frames that were sent before still arrive."""
        self.closed = True
        self._waiting.clear()

    def process_ended(self, unsent: int) -> None:
        """Close, because the process ended. Frames that would arrive in the last `unsent` nanoseconds had not left it and are
        lost; if `unsent` is negative, none is."""
        if self.connection is not None:
            self.connection.unsent_from = max(self.connection.last_arrival, self.proxy.delayed_until) - unsent
        self.close()


class SimNet:
    """The proxies of all links between the nodes, by (source, target)."""

    def __init__(self, world: World, nodes: int) -> None:
        ids = range(1, nodes + 1)
        self.proxies = {
            (i, j): SimProxy(world, i, j, [node for node in ids if node not in (i, j)])
            for i in ids
            for j in ids
            if i != j
        }

    def process_ended(self, server: "SimServer") -> None:
        """Break all connections to a process that ended."""
        for proxy in self.proxies.values():
            if proxy.target == server.id:
                for connection in [one for one in proxy.connections if one.endpoint is server]:
                    connection.reset()
