"""Two nodes and the links between them, on two backends: ZeroMQ through toxiproxy, and the simulated links.

A test may do the same on both: start, kill, pause and resume nodes, send, reset, and break links with the calls of
`zab_chaos.faults.network`. It sees only the events of the nodes and the runs of frames that they received.
"""

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import zmq

from zab_chaos.faults.defects.channels import RawChannels
from zab_chaos.faults.network import Network
from zab_chaos.harness.backends.simulator.ensemble import SimNetwork
from zab_chaos.harness.backends.toxiproxy.server import ToxiproxyServer
from zab_chaos.harness.machine.ports import free_ports, release_ports
from zab_chaos.model.world.links import SimLinks
from zab_chaos.model.world.network import SimNet, SimPipe
from zab_chaos.model.world.world import SimPlan, World
from zab_chaos.node.channel.channels import ChannelSet
from zab_chaos.node.channel.runs import ChannelRun
from zab_chaos.node.components import Components
from zab_chaos.node.config import Limits, Timing
from zab_chaos.node.events import LinkDown, LinkUp, Received
from zab_chaos.node.net import keys
from zab_chaos.node.net.link import Links

HEARTBEAT_MS = 20
DECODER = msgspec.msgpack.Decoder(list[int | str])
MS = 1_000_000


class Channels(ABC):
    """The interface of both backends. `raw`: links without sessions, which must fail the checks."""

    network: Network

    def __init__(self, *, raw: bool = False, **limits: int) -> None:
        self.type = RawChannels if raw else ChannelSet
        self.limits = Limits(**limits)
        self.told: dict[int, list[Any]] = {1: [], 2: []}
        self.sent: dict[int, list[tuple[int, Any]]] = {1: [], 2: []}  # by node: (session, message)
        self.took: dict[int, list[ChannelRun]] = {1: [], 2: []}
        self.lives = {1: 0, 2: 0}

    # ---- different on each backend ----

    @abstractmethod
    def links(self, me: int) -> ChannelSet: ...

    @abstractmethod
    def start(self, me: int) -> None:
        """Start a new life of the node."""

    @abstractmethod
    def kill(self, me: int) -> None:
        """Kill the node as SIGKILL does: what has not left the process is lost."""

    @abstractmethod
    def pause(self, me: int) -> None: ...

    @abstractmethod
    def resume(self, me: int) -> None: ...

    @abstractmethod
    def step(self) -> None:
        """Let a little time pass."""

    @abstractmethod
    def until(self, condition: Callable[[], bool]) -> None:
        """Let time pass until the condition holds. Fail when that takes too long."""

    @abstractmethod
    def settle(self) -> None:
        """Let everything happen that is under way."""

    @abstractmethod
    def close(self) -> None: ...

    # ---- the same on both ----

    def up(self, me: int) -> bool:
        states = [event for event in self.told[me] if isinstance(event, LinkUp | LinkDown)]
        return bool(states) and isinstance(states[-1], LinkUp)

    def both_up(self) -> bool:
        """Return whether both nodes are in the same session."""
        return self.up(1) and self.up(2) and self.session(1) == self.session(2)

    def session(self, me: int) -> int:
        """Return the session of the last LinkUp; 0 before the first."""
        return max((event.session for event in self.told[me] if isinstance(event, LinkUp)), default=0)

    def of(self, me: int, kind: type) -> list[Any]:
        return [event for event in self.told[me] if isinstance(event, kind)]

    def messages(self, me: int) -> list[Any]:
        return [message for event in self.of(me, Received) for message in event.messages]

    def send(self, me: int, message: Any) -> None:
        self.sent[me].append((self.session(me), message))
        self.links(me).send(3 - me, [message])

    def talk(self, me: int, word: str) -> None:
        """Send the text once in each session until it arrives: the node may not know yet that a session is broken."""
        said_in = 0

        def said() -> bool:
            nonlocal said_in
            if self.up(me) and self.session(me) != said_in:
                said_in = self.session(me)
                self.send(me, word)
            return word in self.messages(3 - me)

        self.until(said)

    def collect(self, me: int) -> None:
        self.took[me] += self.links(me).runs.fetch()


class RealChannels(Channels):
    """`zab_chaos.node.net.link` over sockets; link (i, j) goes through the proxy `i-j` of a real toxiproxy.

    Nodes are driven from here, so a paused node is simply not driven: its sockets keep receiving from the kernel, as those
    of a stopped process do with less room.
    """

    PATIENCE_S = 30.0  # only a failing test waits that long
    SILENCE_S = 0.3  # long against the microseconds that a frame takes on loopback

    def __init__(self, folder: Path, server: ToxiproxyServer, *, raw: bool = False, **limits: int) -> None:
        super().__init__(raw=raw, **limits)
        self._context: zmq.Context[Any] = zmq.Context()
        self._keys = keys.create(folder / "secret")
        self._ports = free_ports(4)
        self._listen = {1: self._ports[0], 2: self._ports[1]}
        self._proxy = {(1, 2): self._ports[2], (2, 1): self._ports[3]}
        self._links: dict[int, Links] = {}
        self._pollers: dict[int, zmq.Poller] = {}
        self._paused: set[int] = set()
        self.network = Network(server.client)
        self.network.create_links(
            {pair: (f"127.0.0.1:{port}", f"127.0.0.1:{self._listen[pair[1]]}") for pair, port in self._proxy.items()}
        )

    def links(self, me: int) -> ChannelSet:
        return self._links[me].channels

    def start(self, me: int) -> None:
        self.lives[me] += 1
        self._pollers[me] = zmq.Poller()
        self._links[me] = Links(
            self._context,
            self._pollers[me],
            self.type,
            me=me,
            cluster="conformance",
            incarnation=self.lives[me],
            listen=f"127.0.0.1:{self._listen[me]}",
            peers={3 - me: f"127.0.0.1:{self._proxy[me, 3 - me]}"},
            keys=self._keys,
            limits=self.limits,
            heartbeat_ms=HEARTBEAT_MS,
            decoder=DECODER,
        )

    def kill(self, me: int) -> None:
        self._paused.discard(me)
        links = self._links[me]
        links.close()
        self.collect(me)
        del self._links[me], self._pollers[me]

    def pause(self, me: int) -> None:
        self._paused.add(me)

    def resume(self, me: int) -> None:
        self._paused.discard(me)

    def step(self) -> None:
        for me, links in self._links.items():
            if me not in self._paused:
                self._pollers[me].poll(0 if links.pending else 2)
                self.told[me] += links.receive(100)
                links.tick(time.monotonic_ns())

    def until(self, condition: Callable[[], bool]) -> None:
        give_up = time.monotonic() + self.PATIENCE_S
        while not condition():
            assert time.monotonic() < give_up, f"not reached; told so far: {self.told}"
            self.step()

    def settle(self) -> None:
        end = time.monotonic() + self.SILENCE_S
        while time.monotonic() < end:
            self.step()

    def close(self) -> None:
        for me in list(self._links):
            self.kill(me)
        self._context.destroy(linger=0)
        self.network.close()
        release_ports(self._ports)


class SimEnd:
    """A process, as the simulated links see it: an inbox and a clock."""

    def __init__(self, number: int, world: World, net: SimNet, plan: SimPlan, ends: Mapping[int, "SimEnd"]) -> None:
        self.id, self.world, self.net, self.plan = number, world, net, plan
        self.alive = self.booted = True
        self.stopped = False
        self.inbox: deque[bytes] = deque()
        self.connection_changes: list[tuple[SimPipe, bool]] = []
        self._ends = ends

    def poke(self) -> None:
        """Do nothing: frames are taken when the node is driven."""

    def wake_in(self, _nanoseconds: int) -> None:
        """Do nothing: the node is driven anyway."""

    def on_connection(self, pipe: SimPipe, connected: bool) -> None:
        self.connection_changes.append((pipe, connected))

    def server_of(self, peer: int) -> "SimEnd | None":
        end = self._ends.get(peer)
        return end if end is not None and end.alive else None


class SimChannels(Channels):
    """`zab_chaos.model.world.links` over a simulated network."""

    PATIENCE_NS = 60_000 * MS
    STEP_NS = MS

    def __init__(self, seed: int, *, raw: bool = False, **limits: int) -> None:
        super().__init__(raw=raw, **limits)
        timing = Timing(heartbeat_ms=HEARTBEAT_MS)
        self._plan = SimPlan(nodes=2, timing=timing, limits=self.limits, parts=Components(channels=self.type))
        self._world = World(seed)
        self._net = SimNet(self._world, 2)
        self._ends: dict[int, SimEnd] = {}
        self._links: dict[int, SimLinks] = {}
        self.network = SimNetwork(self._net)

    def links(self, me: int) -> ChannelSet:
        return self._links[me].channels

    def start(self, me: int) -> None:
        self.lives[me] += 1
        end = self._ends[me] = SimEnd(me, self._world, self._net, self._plan, self._ends)
        self._links[me] = SimLinks(end, [3 - me], self.lives[me], DECODER)  # type: ignore[arg-type]
        self._links[me].channels.open()

    def kill(self, me: int) -> None:
        end = self._ends[me]
        end.alive = False
        self._links[me].channels.close()
        self.collect(me)
        self._links[me].process_ended(self._world.chance.up_to(200_000))
        self._net.process_ended(end)  # type: ignore[arg-type]
        del self._links[me]

    def pause(self, me: int) -> None:
        self._ends[me].stopped = True

    def resume(self, me: int) -> None:
        self._ends[me].stopped = False

    def step(self) -> None:
        self._world.run_for(self.STEP_NS)
        for me, links in self._links.items():
            if not self._ends[me].stopped:
                end = self._ends[me]
                self.told[me] += links.channels.receive(end.inbox)
                links.connection_changes, end.connection_changes = end.connection_changes, []
                links.apply_connection_changes()
                links.channels.tick(self._world.now, self._world.now)

    def until(self, condition: Callable[[], bool]) -> None:
        give_up = self._world.now + self.PATIENCE_NS
        while not condition():
            assert self._world.now < give_up, f"not reached; told so far: {self.told}"
            self.step()

    def settle(self) -> None:
        end = self._world.now + 1000 * MS
        while self._world.now < end:
            self.step()

    def close(self) -> None:
        for me in list(self._links):
            self.kill(me)
