"""A small deterministic ensemble around `Peer`: virtual time, FIFO channels that break, disks that lose unsynced data.

Every delivery is checked against one ledger at once, so a test only has to say what fails and when.
"""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from zab_chaos.model.transcripts.disk import recover
from zab_chaos.node.core import digest as dg
from zab_chaos.node.core import zxid as zx
from zab_chaos.node.core.digest import EMPTY, blake2b, fold
from zab_chaos.node.core.peer import Peer
from zab_chaos.node.core.ready import (
    Deliver,
    Install,
    Ready,
    Record,
)
from zab_chaos.node.core.settings import MS, Settings


@dataclass
class Server:
    """One server: its disk, and its core while it is up."""

    peer: Peer | None = None
    durable: list[Record] = field(default_factory=list)
    pending: list[tuple[int, Record]] = field(default_factory=list)
    snapshot: tuple[int, int, bytes] | None = None
    amnesiac: bool = False
    life: int = 0
    held: list[Ready] = field(default_factory=list)
    state: list[int] = field(default_factory=list)  # delivered zxids
    state_digest: int = EMPTY
    taken: int = 0


class Ensemble:
    """n servers under one seed. Times are nanoseconds."""

    def __init__(self, n: int, seed: int = 0, peer_class: type[Peer] = Peer, **settings: int) -> None:
        self.random = random.Random(seed)
        self.members = tuple(range(1, n + 1))
        self.settings = settings
        self.peer_class = peer_class
        self.now = 0
        self.heap: list[tuple[int, int, Callable[[], None]]] = []
        self.order = 0
        self.servers = {i: Server() for i in self.members}
        self.session = {(a, b): 0 for a in self.members for b in self.members if a < b}
        self.view: dict[tuple[int, int], int] = {}  # (end, other end): the open session
        self.holed: set[tuple[int, int, int]] = set()  # (source, target, session) in which a message was lost
        self.arrival: dict[tuple[int, int], int] = {}
        self.cut: set[tuple[int, int]] = set()
        self.ledger: list[tuple[int, bytes]] = []
        self.broadcast: dict[int, int] = {}
        self.established: dict[int, int] = {}
        self.log: list[str] = []
        self.sync_time = 1 * MS
        self.snapshot_every = 0

    # ---- time ----

    def at(self, delay: int, action: Callable[[], None]) -> None:
        self.order += 1
        heapq.heappush(self.heap, (self.now + delay, self.order, action))

    def run(self, milliseconds: int) -> None:
        end = self.now + milliseconds * MS
        while self.heap and self.heap[0][0] <= end:
            self.turn()
        self.now = end

    def until(self, condition: Callable[[], bool], milliseconds: int = 30_000) -> None:
        end = self.now + milliseconds * MS
        while not condition():
            assert self.heap[0][0] <= end, "never happened:\n" + "\n".join(self.log[-60:])
            self.turn()

    def turn(self) -> None:
        """Let the next thing happen."""
        self.now, _, action = heapq.heappop(self.heap)
        action()

    # ---- servers ----

    def start(self, *nodes: int) -> None:
        for node in nodes or self.members:
            server = self.servers[node]
            server.life += 1
            recovered = recover(server.durable, server.snapshot, server.amnesiac)
            server.peer = self.peer_class(Settings(me=node, members=self.members, **self.settings), recovered)
            server.state = []
            server.state_digest = EMPTY
            if recovered.snapshot:
                self.install(node, recovered.snapshot[0], recovered.snapshot[1])
            server.peer.start(self.now)
            self.pump(node)
            self.tick(node, server.life)
            for other in self.members:
                self.reopen(node, other)

    def crash(self, *nodes: int) -> None:
        """Cut the power: what is not durable is lost."""
        for node in nodes:
            server = self.servers[node]
            server.peer = None
            server.pending.clear()
            server.held.clear()
            self.view = {pair: session for pair, session in self.view.items() if pair[0] != node}
            for other in self.members:
                self.reopen(node, other)

    def wipe(self, node: int) -> None:
        server = self.servers[node]
        assert server.peer is None
        server.durable, server.snapshot, server.amnesiac = [], None, True

    def tick(self, node: int, life: int) -> None:
        server = self.servers[node]
        if server.peer is None or server.life != life:
            return
        server.peer.tick(self.now)
        self.pump(node)
        self.at(20 * MS, lambda: self.tick(node, life))

    def submit(self, node: int, *payloads: bytes) -> int:
        peer = self.servers[node].peer
        assert peer is not None
        first = peer.submit(list(payloads))
        self.pump(node)
        return first

    def leader(self) -> int | None:
        best = [(p.current_epoch, i) for i, s in self.servers.items() if (p := s.peer) and p.primary]
        return max(best)[1] if best else None

    # ---- channels ----

    def key(self, a: int, b: int) -> tuple[int, int]:
        return (a, b) if a < b else (b, a)

    def reopen(self, a: int, b: int) -> None:
        """Close the session of a pair. Both ends learn of it, and a new session opens when both can communicate."""
        if a == b:
            return
        key = self.key(a, b)
        self.session[key] += 1
        session = self.session[key]
        for end, other in (key, key[::-1]):
            self.at(self.random.randint(0, 2) * MS, lambda e=end, o=other: self.down(e, o, session))
        self.at(5 * MS, lambda: self.try_open(key, session))

    def down(self, end: int, other: int, session: int) -> None:
        peer = self.servers[end].peer
        if peer is not None and self.session[self.key(end, other)] == session:
            self.view.pop((end, other), None)
            peer.link_down(other, "closed")
            self.pump(end)

    def try_open(self, key: tuple[int, int], session: int) -> None:
        if self.session[key] != session:
            return
        a, b = key
        if not all(self.servers[x].peer for x in key) or (a, b) in self.cut or (b, a) in self.cut:
            self.at(50 * MS, lambda: self.try_open(key, session))
            return
        for end, other in (key, key[::-1]):
            peer = self.servers[end].peer
            assert peer is not None
            peer.link_down(other, "closed")
            self.view[end, other] = session
            peer.link_up(other)
        for end in key:
            self.pump(end)

    def partition(self, *pairs: tuple[int, int]) -> None:
        """Block a -> b for each pair from now on."""
        self.cut = set(pairs)

    def isolate(self, node: int) -> None:
        self.partition(*((a, b) for a in self.members for b in self.members if a != b and node in (a, b)))

    def heal(self) -> None:
        cut, self.cut = self.cut, set()
        for a, b in cut:
            self.reopen(a, b)

    def send(self, source: int, target: int, message: object) -> None:
        session = self.view.get((source, target))
        if session is None:
            return
        if (source, target) in self.cut:
            self.holed.add((source, target, session))
        if (source, target, session) in self.holed:
            return  # a channel delivers a prefix: nothing after a loss
        when = max(self.now + self.random.randint(100_000, 2 * MS), self.arrival.get((source, target), 0) + 1)
        self.arrival[source, target] = when
        self.at(when - self.now, lambda: self.receive(source, target, message, session))

    def receive(self, source: int, target: int, message: object, session: int) -> None:
        peer = self.servers[target].peer
        if peer is None or self.view.get((target, source)) != session:
            return
        peer.step(source, message)  # type: ignore[arg-type]
        self.pump(target)

    # ---- the driver ----

    def pump(self, node: int) -> None:
        server = self.servers[node]
        peer = server.peer
        assert peer is not None
        while (ready := peer.ready()) is not None:
            assert ready.abort is None, f"node {node}: {ready.abort}\n" + "\n".join(self.log[-40:])
            for other in ready.resets:
                self.view.pop((node, other), None)
                self.reopen(node, other)
                server.held = [self.without(r, other) for r in server.held]
            for event in ready.events:
                self.note(node, event.name, event.fields)
            for other, message in ready.messages:
                self.send(node, other, message)
            first = ready.upto - len(ready.records)
            server.pending += [(first + i + 1, r) for i, r in enumerate(ready.records)]
            for delivery in ready.deliveries:
                self.deliver(node, delivery)
            if ready.records:
                life = server.life
                self.at(
                    self.random.randint(1, 3) * self.sync_time, lambda u=ready.upto, li=life: self.sync(node, li, u)
                )
            if ready.messages_after_sync or ready.events_after_sync:
                server.held.append(ready)
            self.release(node)

    @staticmethod
    def without(ready: Ready, other: int) -> Ready:
        ready.messages_after_sync = [m for m in ready.messages_after_sync if m[0] != other]
        return ready

    def sync(self, node: int, life: int, upto: int) -> None:
        server = self.servers[node]
        if server.peer is None or server.life != life:
            return
        server.durable += [r for i, r in server.pending if i <= upto]
        server.pending = [(i, r) for i, r in server.pending if i > upto]
        server.peer.synced(upto)
        self.release(node)
        self.pump(node)

    def release(self, node: int) -> None:
        server = self.servers[node]
        oldest = server.pending[0][0] if server.pending else None
        while server.held and (oldest is None or server.held[0].upto < oldest):
            ready = server.held.pop(0)
            for event in ready.events_after_sync:
                self.note(node, event.name, event.fields)
            for other, message in ready.messages_after_sync:
                self.send(node, other, message)

    def note(self, node: int, name: str, fields: dict[str, object]) -> None:
        self.log.append(f"{self.now / MS:9.2f} node {node}: {name} {fields}")
        if name == "broadcast":
            for i, digest in enumerate(dg.read_all(fields["digests"])):  # type: ignore[arg-type, var-annotated]
                z = zx.zxid(fields["epoch"], fields["first"] + i)  # type: ignore[arg-type, operator]
                assert z not in self.broadcast, f"{zx.show(z)} was broadcast twice"
                self.broadcast[z] = digest
        if name == "established":
            epoch = int(fields["epoch"])  # type: ignore[call-overload]
            assert self.established.setdefault(epoch, node) == node, f"two leaders of epoch {epoch}"

    # ---- deliveries ----

    def deliver(self, node: int, delivery: Deliver | Install) -> None:
        server = self.servers[node]
        if isinstance(delivery, Install):
            self.install(node, delivery.zxid, delivery.digest)
            return
        for i, data in enumerate(delivery.txns):
            z = delivery.first + i
            assert self.broadcast.get(z) == blake2b(data), f"{zx.show(z)} was never broadcast like this"
            place = len(server.state)
            if place < len(self.ledger):
                assert self.ledger[place] == (z, data), f"node {node} delivers {zx.show(z)} where another was delivered"
            else:
                assert not self.ledger or self.ledger[-1][0] < z
                self.ledger.append((z, data))
            server.state.append(z)
            server.state_digest = fold(server.state_digest, z, blake2b(data))
        assert server.state_digest == delivery.digest
        self.maybe_snapshot(node)

    def install(self, node: int, z: int, digest: int) -> None:
        server = self.servers[node]
        server.state = [x for x, _ in self.ledger if x <= z]
        assert server.state[-1] == z
        server.state_digest = EMPTY
        for x, data in self.ledger[: len(server.state)]:
            server.state_digest = fold(server.state_digest, x, blake2b(data))
        assert server.state_digest == digest

    def maybe_snapshot(self, node: int) -> None:
        server = self.servers[node]
        if not self.snapshot_every or len(server.state) - server.taken < self.snapshot_every:
            return
        server.taken = len(server.state)
        peer = server.peer
        assert peer is not None
        snapshot = (server.state[-1], server.state_digest, b"state")
        if peer.delivered == snapshot[0]:
            server.snapshot = snapshot
            peer.snapshot_taken(zx.Zxid(snapshot[0]), snapshot[1], snapshot[2])

    def converged(self) -> bool:
        """Return whether every server is up, in broadcast, a member, and has delivered the whole ledger."""
        return all(
            s.peer is not None
            and s.peer.in_broadcast
            and not s.peer.amnesiac
            and len(s.state) == len(self.ledger)
            and s.peer.delivered == s.peer.history.last
            for s in self.servers.values()
        )
