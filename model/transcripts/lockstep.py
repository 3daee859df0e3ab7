"""An ensemble in lockstep: no randomness, messages delivered in a fixed order, and everything that happens told in a line.

Time stands still but for `tick`. After each command messages are delivered until none is left that may be: one of each
channel in turn, channels in the order of (source, target). A disk is done at once unless it is stuck; a node whose disk is
stuck waits for it and takes nothing, as the real one does. PINGs are delivered and not told.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from zab_chaos.model.replay import descriptions as words
from zab_chaos.model.transcripts.disk import recover
from zab_chaos.node.core import zxid as zx
from zab_chaos.node.core.errors import NotLeading
from zab_chaos.node.core.messages import NAMES, Message, Ping
from zab_chaos.node.core.peer import Peer
from zab_chaos.node.core.ready import Deliver, EpochRecord, Event, Install, Ready, Record
from zab_chaos.node.core.settings import MS, Settings
from zab_chaos.node.core.zxid import Zxid

TICK = 10 * MS
MESSAGES_MAX = 10_000  # after one command; more is a livelock
Channel = tuple[int, int]


@dataclass
class Node:
    """A server: its disk, and its core while it is up."""

    disk: list[Record] = field(default_factory=list)
    peer: Peer | None = None
    amnesiac: bool = False
    stuck: bool = False  # the disk
    writing: Ready | None = None  # what the stuck disk has not finished
    snapshot: tuple[Zxid, int, bytes] | None = None
    state: list[str] = field(default_factory=list)  # delivered payloads


class Disagreement(Exception):
    """Two nodes delivered different things."""


class Lockstep:
    """n nodes. Each method is a command of the transcripts; `lines` is what has happened since they were last taken."""

    peer_type: type[Peer] = Peer

    def __init__(self, nodes: int, **settings: int) -> None:
        self.members = tuple(range(1, nodes + 1))
        self.settings: dict[str, Any] = dict(settings)
        self.now = 0
        self.nodes = {i: Node() for i in self.members}
        self.session: dict[Channel, int] = {}  # by (end, other): which session that end has open
        self.sessions = 0
        self.queues: dict[Channel, deque[tuple[int, Message]]] = {
            (a, b): deque() for a in self.members for b in self.members if a != b
        }
        self.cut: set[Channel] = set()
        self.holed: set[tuple[Channel, int]] = set()  # (channel, session) in which something was lost
        self.held: set[tuple[str, Channel]] = set()
        self.lines: list[str] = []

    def begins(self, step: str) -> None:
        """The next step of a transcript, for whoever draws it."""

    # ---- commands ----

    def begin(self) -> None:
        """A new ensemble, up to an established epoch; only that is told."""
        self.quietly(lambda: self.start(*self.members))
        self.show(*self.members)

    def quietly(self, act: Callable[[], None]) -> None:
        """Do it, and tell nothing of it."""
        act()
        self.lines.clear()

    def start(self, *ids: int) -> None:
        for i in ids:
            node = self.nodes[i]
            recovered = recover(node.disk, node.snapshot, node.amnesiac)
            node.peer = self.peer_type(Settings(me=i, members=self.members, **self.settings), recovered)
            node.state = recovered.snapshot[2].decode().split() if recovered.snapshot else []
            node.peer.start(self.now)
            self.fulfil(i)
        self.settle()

    def crash(self, *ids: int) -> None:
        """Power off: what is not durable is gone."""
        for i in ids:
            node = self.nodes[i]
            node.peer, node.writing, node.stuck = None, None, False
            for other in self.members:
                self.session.pop((i, other), None)
                if other != i:
                    self.lose((i, other))
                    self.lose((other, i))
                    if (i, other) not in self.cut:
                        self.down(other, i, "closed")
        self.settle()

    def wipe(self, *ids: int) -> None:
        """The disk of a node that is down is lost."""
        for i in ids:
            self.nodes[i] = Node(amnesiac=True)

    def promise(self, i: int, epoch: int) -> None:
        """On the disk of a node that is down: a promise that it once made to a leader that came to nothing."""
        self.nodes[i].disk.append(EpochRecord(epoch))

    def isolate(self, *ids: int) -> None:
        """Nothing passes between these nodes and the others, and nobody is told."""
        for a, b in self.queues:
            if (a in ids) != (b in ids):
                self.cut.add((a, b))
                if self.queues[a, b]:
                    self.holed.add(((a, b), self.session[a, b]))
                    self.lose((a, b))
        self.settle()

    def heal(self) -> None:
        """All links are whole. A session in which something was lost is over at both ends."""
        cut, self.cut = sorted(self.cut), set()
        for a, b in cut:
            if self.session.get((a, b)) != self.session.get((b, a)) or self.is_holed(a, b) or self.is_holed(b, a):
                self.down(a, b, "closed")
                self.down(b, a, "closed")
        self.settle()

    def hold(self, name: str, *pairs: Channel) -> None:
        """Messages of this name, and what comes behind them, wait in these channels (or in all)."""
        self.held |= {(name, pair) for pair in pairs or self.queues}

    def release(self, *names: str) -> None:
        """Messages of these names (without any: all) wait no more."""
        self.held = {(name, pair) for name, pair in self.held if names and name not in names}
        self.settle()

    def stick(self, *ids: int) -> None:
        """The disks of these nodes write nothing until `unstick`."""
        for i in ids:
            self.nodes[i].stuck = True

    def unstick(self, *ids: int) -> None:
        for i in ids:
            node = self.nodes[i]
            node.stuck = False
            if node.writing is not None:
                ready, node.writing = node.writing, None
                self.finish(i, ready)
                self.take_all(i)
                self.fulfil(i)
        self.settle()

    def submit(self, i: int, *payloads: str) -> None:
        self.peer(i).submit([payload.encode() for payload in payloads])
        self.fulfil(i)
        self.settle()

    def refuses(self, i: int, payload: str) -> None:
        """What is submitted at a node that is no primary is refused."""
        try:
            self.peer(i).submit([payload.encode()])
        except NotLeading as error:
            self.tell(i, f"refuses: {error}")

    def snapshot(self, *ids: int) -> None:
        """These nodes store their delivered state, and let go of the log below their previous snapshot."""
        for i in ids:
            node, peer = self.nodes[i], self.peer(i)
            node.snapshot = (peer.delivered, peer.digest, " ".join(node.state).encode())
            peer.snapshot_taken(*node.snapshot)
            self.tell(i, f"snapshot taken at {zx.show(peer.delivered)}")

    def tick(self, milliseconds: int) -> None:
        end = self.now + milliseconds * MS
        while self.now < end:
            self.now += TICK
            for i in self.members:
                if self.takes(i):
                    self.peer(i).tick(self.now)
                    self.fulfil(i)
            self.settle()

    def show(self, *ids: int) -> None:
        for i in ids or self.members:
            peer = self.nodes[i].peer
            if peer is None:
                self.tell(i, "is down")
                continue
            leader = f" {peer.leader}" if peer.leader not in (None, i) else ""
            amnesiac = ", amnesiac" if peer.amnesiac else ""
            self.tell(
                i,
                f"is {peer.role.name}{leader} in {peer.phase.name}, f.p={peer.accepted_epoch} f.a={peer.current_epoch}, "
                f"history to {zx.show(peer.history.last)}, delivered {' '.join(self.nodes[i].state) or 'nothing'}{amnesiac}",
            )

    def check(self) -> None:
        """Whatever a transcript shows: of two delivered sequences one is a prefix of the other. Raises Disagreement."""
        longest = max((node.state for node in self.nodes.values()), key=len)
        for i, node in self.nodes.items():
            if node.state != longest[: len(node.state)]:
                raise Disagreement(f"node {i} delivered {node.state}, another {longest}")

    # ---- what happens then ----

    def settle(self) -> None:
        """Open what may open, deliver what may be delivered, until there is nothing left."""
        delivered = 0
        while self.open_all() or self.deliver_one_each():
            delivered += 1
            assert delivered < MESSAGES_MAX, "this never ends:\n" + "\n".join(self.lines[-30:])

    def open_all(self) -> bool:
        """New sessions between nodes that are up, can reach each other, and have none. Both ends learn it at once."""
        pairs = [
            (a, b)
            for a in self.members
            for b in self.members
            if a < b and not {(a, b), (b, a)} & (self.cut | self.session.keys()) and self.takes(a) and self.takes(b)
        ]
        for a, b in pairs:
            self.sessions += 1
            self.session[a, b] = self.session[b, a] = self.sessions
        for pair in pairs:
            for end, other in (pair, pair[::-1]):
                self.peer(end).link_up(other)
        for i in sorted({i for pair in pairs for i in pair}):
            self.fulfil(i)
        return bool(pairs)

    def deliver_one_each(self) -> bool:
        moved = False
        for source, target in self.queues:
            if self.takes(target) and self.arrive(source, target):
                self.fulfil(target)
                moved = True
        return moved

    def take_all(self, i: int) -> None:
        """What has gathered while the node waited for its disk comes in one round, before it does anything else."""
        for source in self.members:
            while source != i and self.arrive(source, i):
                pass

    def arrive(self, source: int, target: int) -> bool:
        """The channel's next message, if there is one that may be delivered."""
        queue = self.queues[source, target]
        if not queue or (NAMES[type(queue[0][1])], (source, target)) in self.held:
            return False
        session, message = queue.popleft()
        if not isinstance(message, Ping):
            self.lines.append(f"{source}->{target} {words.message(message)}")
        if self.session.get((target, source)) == session:
            self.peer(target).step(source, message)
        return True

    def takes(self, i: int) -> bool:
        """Whether the node is up and not waiting for its disk."""
        return self.nodes[i].peer is not None and self.nodes[i].writing is None

    def peer(self, i: int) -> Peer:
        peer = self.nodes[i].peer
        assert peer is not None, f"node {i} is down"
        return peer

    # ---- a core's obligations (zab_chaos.node.core.ready) ----

    def fulfil(self, i: int) -> None:
        while self.takes(i) and (ready := self.peer(i).ready()) is not None:
            for other in ready.resets:
                self.reset(i, other)
            self.tell_events(i, ready.events)
            self.send(i, ready.messages)
            if ready.records and self.nodes[i].stuck:
                self.nodes[i].writing = ready
                return
            self.finish(i, ready)

    def finish(self, i: int, ready: Ready) -> None:
        node = self.nodes[i]
        if ready.records:
            node.disk += ready.records
            self.peer(i).synced(ready.upto)
        self.tell_events(i, ready.events_after_sync)
        self.send(i, ready.messages_after_sync)
        for delivery in ready.deliveries:
            self.apply(i, delivery)
        if ready.abort is not None:
            self.tell(i, f"aborts: {ready.abort}")
            node.peer = None

    def apply(self, i: int, delivery: Deliver | Install) -> None:
        node = self.nodes[i]
        if isinstance(delivery, Deliver):
            payloads = [txn.decode() for txn in delivery.txns]
            node.state += payloads
            self.tell(i, f"deliver {words.span(delivery.first, len(payloads))}: {' '.join(payloads)}")
        else:
            node.state = delivery.state.decode().split()
            self.tell(i, f"restored from the snapshot at {zx.show(delivery.zxid)}: {' '.join(node.state)}")

    def send(self, i: int, messages: Iterable[tuple[int, Message]]) -> None:
        for other, message in messages:
            session = self.session.get((i, other))
            if session is None:
                continue
            if (i, other) in self.cut or ((i, other), session) in self.holed:
                self.holed.add(((i, other), session))
                self.lost(i, other, message)
            else:
                self.queues[i, other].append((session, message))

    def reset(self, i: int, other: int) -> None:
        """The core has closed its end; the other end learns of it if it can."""
        self.session.pop((i, other), None)
        self.lose((i, other))
        self.lose((other, i))
        if (i, other) not in self.cut:
            self.down(other, i, "closed")

    def down(self, end: int, other: int, why: str) -> None:
        if self.session.pop((end, other), None) is not None and self.nodes[end].peer is not None:
            self.peer(end).link_down(other, why)
            self.fulfil(end)

    def is_holed(self, a: int, b: int) -> bool:
        return ((a, b), self.session.get((a, b), 0)) in self.holed

    def lose(self, channel: Channel) -> None:
        queue = self.queues[channel]
        while queue:
            self.lost(*channel, queue.popleft()[1])

    def lost(self, source: int, target: int, message: Message) -> None:
        if not isinstance(message, Ping):
            self.lines.append(f"{source}-x{target} {words.message(message)}")

    # ---- telling ----

    def tell(self, i: int, said: str) -> None:
        self.lines.append(f"{i}: {said}")

    def tell_events(self, i: int, events: Iterable[Event]) -> None:
        for event in events:
            self.tell(i, EVENTS[event.name](event.fields))


def _pair(value: list[int]) -> str:
    return zx.show(zx.from_pair(value))


def _span(f: dict[str, Any]) -> str:
    return words.span(zx.zxid(f["epoch"], f["first"]), len(f["digests"]) // 16)


EVENTS: dict[str, Callable[[dict[str, Any]], str]] = {
    "role": lambda f: f"{f['role']}{'' if f['leader'] is None else ' ' + str(f['leader'])} ({f['why']})",
    "phase": lambda f: f"phase {f['phase']}",
    "vote": lambda f: (
        f"vote for {f['leader']} (f.a={f['epoch']} {_pair(f['zxid'])}) round={f['round']}"
        if f["leader"] is not None
        else f"vote for nobody round={f['round']}"
    ),
    "accepted_epoch": lambda f: f"accepted_epoch {f['epoch']}",
    "current_epoch": lambda f: f"current_epoch {f['epoch']}, history to {_pair(f['last_zxid'])}",
    "established": lambda f: f"established e={f['epoch']} by {' '.join(map(str, f['quorum']))}",
    "broadcast": lambda f: f"broadcast {_span(f)}",
    "accept": lambda f: f"accept {_span(f)}",
    "truncate": lambda f: f"truncate from {_pair(f['last'])} to {_pair(f['keep'])}",
    "snapshot": lambda f: f"snapshot {f['kind']} at {_pair(f['zxid'])}",
    "member": lambda f: f"member again in epoch {f['epoch']}, confirmed by {' '.join(map(str, f['quorum']))}",
}
