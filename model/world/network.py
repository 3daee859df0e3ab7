"""Simulated links: what ZeroMQ's sockets, TCP and toxiproxy make of frames between two nodes.

Link (i, j) carries what i sends to j, through a proxy of its own (`Wire`), which can be cut, slowed or taken away. A
`Pipe` is the socket that i's session sends through; it keeps up one connection at a time. A connection delivers in order
what is not lost with it, and nothing after it broke.
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
HANDSHAKE_NS = 1000 * MS  # one that is swallowed is tried again after this time (zab_chaos.node.net.dial)
RECONNECT_NS = 20 * MS  # the first pause between two attempts, doubled from one to the next ...
RECONNECT_MAX_NS = 200 * MS  # ... up to here
LOOK_NS = 20 * MS  # how soon a handshake goes on when a process that was stopped goes on


class Toxic(msgspec.Struct, frozen=True):
    """As toxiproxy has them."""

    kind: str
    stream: str
    attributes: dict[str, int]


class Wire:
    """One link's proxy. `others`: the nodes that are at neither of its ends."""

    def __init__(self, world: World, source: int, target: int, others: Sequence[int] = ()) -> None:
        self.world = world
        self.source, self.target = source, target
        self.others = others
        self.enabled = True
        self.toxics: dict[str, Toxic] = {}
        self.met: Counter[str] = Counter()  # frames that met a toxic, so far, by its kind, if that hits single frames
        self.hit: Counter[str] = Counter()  # and how many of them it hit
        self._new: set[str] = set()  # toxics that have hit none yet
        self.clear = True  # nothing lies on it
        self.connections: list[Connection] = []
        self._held: list[tuple[Connection, bytes]] = []  # by a stall
        self._delayed: deque[tuple[Connection, bytes]] = deque()  # on their way through what delays them
        self.through_at = 0  # when the last of these is through
        self._mute: list[Connection] = []  # broken, and the stream that would say so is cut
        self._free_at = 0  # when the bandwidth is free again
        self.server_at: Callable[[int], SimServer | None] = lambda node: None  # who answers at a node's address now

    # ---- what the proxy server is told ----

    def add(self, name: str, toxic: Toxic) -> None:
        """The server wakes the toxic before it, which lets go of what it is just delaying."""
        if self._delayed:
            self._meet_cut(self._delayed.popleft())
        self.toxics[name] = toxic
        self._new.add(name)
        self._changed()
        if toxic.kind == "reset_peer":
            for connection in list(self.connections):
                self.world.at(toxic.attributes["timeout"] * MS, connection.reset)

    def remove(self, name: str) -> None:
        self.toxics.pop(name, None)
        self._changed()

    def delete(self) -> None:
        """With the proxy go its connections and what they held."""
        self._held.clear()
        self._delayed.clear()
        self.toxics.clear()
        self._free_at = self.through_at = 0
        self.disable()
        self._changed()

    def disable(self) -> None:
        self.enabled = False
        for connection in list(self.connections):
            connection.reset()

    def enable(self) -> None:
        self.enabled = True

    def _changed(self) -> None:
        self.clear = not self.toxics
        if not self.cut:
            mute, self._mute = self._mute, []
            for connection in mute:
                connection.tell()
        if not self._stalls:
            held, self._held = self._held, []
            for passing in held:
                self._meet_cut(passing)

    # ---- what that means ----

    def attribute(self, kind: str, name: str) -> list[int]:
        return [toxic.attributes[name] for toxic in self.toxics.values() if toxic.kind == kind]

    @property
    def latency(self) -> int:
        """Nanoseconds that everything takes longer, jitter apart."""
        return sum(self.attribute("latency", "latency")) * MS if self.toxics else 0

    @property
    def _stalls(self) -> bool:
        return 0 in self.attribute("bandwidth", "rate")

    @property
    def _drops(self) -> bool:
        return any(toxic.kind == "timeout" for toxic in self.toxics.values())

    def _hits(self, kind: str) -> list[Toxic]:
        """The toxics of this kind that hit the present frame: each the first one that it meets, then one in some."""
        here = {name: toxic for name, toxic in self.toxics.items() if toxic.kind == kind}
        hits = {name: toxic for name, toxic in here.items() if name in self._new or self._drawn(toxic)}
        self._new -= hits.keys()
        self.met[kind] += bool(here)
        self.hit[kind] += bool(hits)
        return list(hits.values())

    def _drawn(self, toxic: Toxic) -> bool:
        return self.world.chance.up_to(toxic.attributes["one_in"]) == 0

    def _flip(self, frame: bytes) -> bytes:
        """The frame with one bit flipped, anywhere."""
        at, bit = divmod(self.world.chance.up_to(8 * len(frame)), 8)
        return frame[:at] + bytes((frame[at] ^ 1 << bit,)) + frame[at + 1 :]

    def _misroute(self, frame: bytes, wait: int) -> None:
        """To another node, if there is one."""
        if self.others:
            node = self.others[self.world.chance.up_to(len(self.others))]
            self.world.at(wait + self.world.chance.delay(), self._bring, (node, frame))

    def _repeat(self, frame: bytes) -> None:
        """Some frames come once more, later."""
        for toxic in self._hits("late"):
            self.world.at(toxic.attributes["delay"] * MS, self._bring, (self.target, frame))

    def _bring(self, brought: tuple[int, bytes]) -> None:
        """A frame, outside of its connection, to whoever lives at a node now, if anything gets through."""
        node, frame = brought
        server = self.server_at(node)
        if server is not None and self.enabled and not self.cut:
            server.inbox.append(frame)
            server.poke()

    @property
    def cut(self) -> bool:
        """Nothing gets through, not even the end of a connection."""
        return bool(self.toxics) and (self._drops or self._stalls)

    def through(self, connection: "Connection", frame: bytes) -> None:
        """A frame meets the toxics: those that delay or hit it, and then what cuts the link."""
        if self._drops:
            return
        wait = self._wait(frame)
        carried = self._flip(frame) if self._hits("corrupt") else frame
        if self._hits("misroute"):
            self._misroute(carried, wait)
        elif wait or self._delayed:
            self._delayed.append((connection, carried))
            self.world.at(wait, self._pass, self._delayed[-1])
        else:
            self._meet_cut((connection, carried))
        self._repeat(frame)  # as it was sent: a bad one ends a session, also when all links are healed

    def _pass(self, passing: tuple["Connection", bytes]) -> None:
        """The first of those that are delayed is through, unless it was before its time."""
        if self._delayed and self._delayed[0] is passing:
            self._meet_cut(self._delayed.popleft())

    def _meet_cut(self, passing: tuple["Connection", bytes]) -> None:
        connection, frame = passing
        if self._stalls or self._held:
            self._held.append(passing)
        elif not self._drops:
            connection.deliver(frame)

    def _wait(self, frame: bytes) -> int:
        """How much longer a frame takes; never less than those before it still take."""
        now, wait = self.world.now, 0
        for rate in filter(None, self.attribute("bandwidth", "rate")):
            self._free_at = max(self._free_at, now) + len(frame) * 1_000_000 // rate
            wait += self._free_at - now
        for toxic in self.toxics.values():
            if toxic.kind == "latency":
                jitter = toxic.attributes["jitter"] * MS
                wait += toxic.attributes["latency"] * MS + self.world.chance.up_to(2 * jitter + 1) - jitter
        self.through_at = max(self.through_at, now + wait)
        return self.through_at - now

    def open(self, connection: "Connection") -> None:
        """Those of closed sockets stay as long as they bring something: a cut takes that too."""
        now, held = self.world.now, bool(self._held or self._delayed)
        kept = [one for one in self.connections if held or not one.pipe.closed or one.latest > now]
        self.connections = [*kept, connection]

    def notice(self, connection: "Connection") -> None:
        """A connection broke: its other end hears of it, sooner or later."""
        if self.cut and self.enabled:
            self._mute.append(connection)
            return
        slow = sum(self.attribute("slow_close", "delay")) * MS
        self.world.at(slow + self.world.chance.delay(), connection.tell)

    @property
    def held(self) -> int:
        return len(self._held)


class Connection:
    """One connection of a pipe, to one life of the target."""

    __slots__ = ("_world", "broken", "endpoint", "latest", "pipe", "unsent_from")

    def __init__(self, pipe: "Pipe", endpoint: "SimServer") -> None:
        self.pipe = pipe
        self._world = pipe.world
        self.endpoint = endpoint
        self.broken = False
        self.latest = 0  # arrival of the latest frame
        self.unsent_from: int | None = None  # the sender was killed: what would arrive from then on had not left it

    def carry(self, frame: bytes) -> None:
        wire = self.pipe.wire
        if wire.clear:
            self.deliver(frame)
        else:
            wire.through(self, frame)

    def deliver(self, frame: bytes) -> None:
        """In order, after the time that it takes."""
        world = self._world
        chance = world.chance
        if chance.loses_frames and chance.loses():
            return
        arrival = world.now + chance.delay()
        if arrival <= self.latest:
            arrival = self.latest + 1
        self.latest = arrival
        world.order += 1
        heappush(world.heap, (arrival, world.order, self.arrive, frame))

    def arrive(self, frame: bytes) -> None:
        endpoint = self.endpoint
        if self.broken or not endpoint.alive or (self.unsent_from is not None and self._world.now > self.unsent_from):
            return
        endpoint.inbox.append(frame)
        endpoint.poke()

    def reset(self, _: object = None) -> None:
        """It breaks: what is under way in it is lost."""
        if not self.broken:
            self.broken = True
            wire = self.pipe.wire
            if self in wire.connections:
                wire.connections.remove(self)
            wire.notice(self)

    def tell(self, _: object = None) -> None:
        self.pipe.lost(self)


class Pipe:
    """A PUSH socket. Implements `zab_chaos.node.channel.channels.Pipe`; `immediate`: see `zab_chaos.node.net.dial`."""

    def __init__(self, wire: Wire, source: "SimServer", queue_frames: int, immediate: bool) -> None:
        self.wire = wire
        self.world = wire.world
        self.closed = False
        self.connection: Connection | None = None
        self._source = source
        self._limit = queue_frames
        self._immediate = immediate
        self._waiting: list[bytes] = []
        self._pause = RECONNECT_NS
        self._attempt()

    @property
    def _over(self) -> bool:
        return self.closed or not self._source.alive

    def _attempt(self, _: object = None) -> None:
        if self._over or self.connection is not None:
            return
        endpoint = self._source.peer_server(self.wire.target)
        if not self.wire.enabled or endpoint is None:
            self.world.at(self._pause, self._attempt)
            self._pause = min(2 * self._pause, RECONNECT_MAX_NS)
        elif self.wire.cut:
            self.world.at(HANDSHAKE_NS, self._attempt)
        elif endpoint.stopped or self._source.stopped:
            self.world.at(LOOK_NS, self._attempt)
        elif (slow := 2 * self.wire.latency) > HANDSHAKE_NS:  # twice in a handshake it is the dialling end's turn
            self.world.at(HANDSHAKE_NS, self._attempt)
        else:
            delay = slow + sum(self.world.chance.delay() for _ in range(3))
            self.world.at(delay, self._connected, endpoint)

    def _connected(self, endpoint: "SimServer") -> None:
        if self._over or self.connection is not None:
            return
        if not endpoint.alive or not self.wire.enabled or self.wire.cut or endpoint.stopped or self._source.stopped:
            self._attempt()
            return
        self._pause = RECONNECT_NS
        self.connection = Connection(self, endpoint)
        self.wire.open(self.connection)
        for milliseconds in self.wire.attribute("reset_peer", "timeout"):
            self.world.at(milliseconds * MS, self.connection.reset)
        waiting, self._waiting = self._waiting, []
        for frame in waiting:
            self.connection.carry(frame)
        self._source.notice(self, connected=True)

    def send(self, frame: bytes) -> bool:
        """False if the queue is full or there is no connection."""
        connection = self.connection
        if connection is None:
            if self._immediate or len(self._waiting) >= self._limit:
                return False
            self._waiting.append(frame)
            return True
        endpoint = connection.endpoint
        if self.wire.clear and not endpoint.stopped:
            connection.deliver(frame)
            return True
        # A process that is stopped takes nothing, a stalled link neither; queues fill.
        if (endpoint.stopped and len(endpoint.inbox) > self._limit) or self.wire.held > self._limit:
            return False
        connection.carry(frame)
        return True

    def lost(self, connection: Connection) -> None:
        """The connection's end was noticed."""
        if self.connection is connection:
            self.connection = None
            if not self._over:
                self._source.notice(self, connected=False)
                self.world.at(self._pause, self._attempt)

    def close(self) -> None:
        """What has left goes on; nothing more will."""
        self.closed = True
        self._waiting.clear()

    def die(self, unsent: int) -> None:
        """The process was killed; `unsent`: nanoseconds of what it sent last have not left it."""
        if self.connection is not None:
            self.connection.unsent_from = max(self.connection.latest, self.wire.through_at) - unsent
        self.close()


class SimNet:
    """All wires of a world."""

    def __init__(self, world: World, nodes: int) -> None:
        ids = range(1, nodes + 1)
        self.wires = {
            (i, j): Wire(world, i, j, [node for node in ids if node not in (i, j)]) for i in ids for j in ids if i != j
        }

    def died(self, server: "SimServer") -> None:
        """A process is gone: so are the connections to it."""
        for wire in self.wires.values():
            if wire.target == server.id:
                for connection in [one for one in wire.connections if one.endpoint is server]:
                    connection.reset()
