"""An ensemble of cores without randomness: messages are delivered in a fixed order, and each event is logged as a line of text.

Time passes only in `tick`. After each command, messages are delivered until none is left that may be delivered: one from each
channel in turn, in the order of (source, target). A disk writes at once unless it is stuck. A node whose disk is stuck waits
for it and receives nothing, as a real node does. PINGs are delivered but not logged.
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
class ScriptedNode:
    """One node: its disk, and its core while it is up."""

    disk: list[Record] = field(default_factory=list)
    peer: Peer | None = None
    amnesiac: bool = False
    stuck: bool = False  # whether the disk is stuck
    writing: Ready | None = None  # the obligations that wait for the stuck disk
    snapshot: tuple[Zxid, int, bytes] | None = None
    state: list[str] = field(default_factory=list)  # the delivered payloads


class DeliveryDisagreement(Exception):
    """Raised when two nodes have delivered different transactions."""


class ScriptedEnsemble:
    """An ensemble of `nodes` nodes.

    The methods of the first section are the commands of the transcripts. `lines` is the log since it was last cleared.
    """

    peer_type: type[Peer] = Peer

    def __init__(self, nodes: int, **settings: int) -> None:
        self.members = tuple(range(1, nodes + 1))
        self.settings: dict[str, Any] = dict(settings)
        self.now = 0
        self.nodes = {i: ScriptedNode() for i in self.members}
        self.session: dict[Channel, int] = {}  # by (node, peer): the session that the node has open with the peer
        self.sessions_opened = 0
        self.queues: dict[Channel, deque[tuple[int, Message]]] = {
            (a, b): deque() for a in self.members for b in self.members if a != b
        }
        self.cut: set[Channel] = set()
        self.lossy: set[tuple[Channel, int]] = set()  # (channel, session) in which a message was lost
        self.held: set[tuple[str, Channel]] = set()
        self.lines: list[str] = []

    def on_step(self, step: str) -> None:
        """Called before each step of a transcript. A subclass may note the step."""

    # ---- commands ----

    def begin(self) -> None:
        """Start all nodes. Log nothing but their states at the end."""
        self.quietly(lambda: self.start(*self.members))
        self.show(*self.members)

    def quietly(self, act: Callable[[], None]) -> None:
        """Call `act`, and log nothing of it."""
        act()
        self.lines.clear()

    def start(self, *ids: int) -> None:
        """Start nodes, which recover from their disks."""
        for i in ids:
            node = self.nodes[i]
            recovered = recover(node.disk, node.snapshot, node.amnesiac)
            node.peer = self.peer_type(Settings(me=i, members=self.members, **self.settings), recovered)
            node.state = recovered.snapshot[2].decode().split() if recovered.snapshot else []
            node.peer.start(self.now)
            self.fulfil(i)
        self.settle()

    def crash(self, *ids: int) -> None:
        """Cut the power of nodes. They lose everything that is not durable."""
        for i in ids:
            node = self.nodes[i]
            node.peer, node.writing, node.stuck = None, None, False
        for i in ids:
            for other in self.members:
                self.session.pop((i, other), None)
                if other != i:
                    self.drop_queue((i, other))
                    self.drop_queue((other, i))
                    if (i, other) not in self.cut:
                        self.down(other, i, "closed")
        self.settle()

    def wipe(self, *ids: int) -> None:
        """Lose the disks of nodes that are down."""
        for i in ids:
            self.nodes[i] = ScriptedNode(amnesiac=True)

    def promise(self, i: int, epoch: int) -> None:
        """Write to the disk of a node that is down that it accepted an epoch, whose leader was never established."""
        self.nodes[i].disk.append(EpochRecord(epoch))

    def isolate(self, *ids: int) -> None:
        """Cut the links between these nodes and the others, in both directions. No node is told."""
        for a, b in self.queues:
            if (a in ids) != (b in ids):
                self.cut.add((a, b))
                if self.queues[a, b]:
                    self.lossy.add(((a, b), self.session[a, b]))
                    self.drop_queue((a, b))
        self.settle()

    def heal(self) -> None:
        """Restore all links. A session in which a message was lost ends at both ends."""
        cut, self.cut = sorted(self.cut), set()
        for a, b in cut:
            if self.session.get((a, b)) != self.session.get((b, a)) or self.is_lossy(a, b) or self.is_lossy(b, a):
                self.down(a, b, "closed")
                self.down(b, a, "closed")
        self.settle()

    def hold(self, name: str, *pairs: Channel) -> None:
        """Hold back messages of this name, and those behind them, in these channels (or in all)."""
        self.held |= {(name, pair) for pair in pairs or self.queues}

    def release(self, *names: str) -> None:
        """Deliver held messages of these names, or all if there are none."""
        self.held = {(name, pair) for name, pair in self.held if names and name not in names}
        self.settle()

    def stick(self, *ids: int) -> None:
        """Let the disks of these nodes hang until `unstick`."""
        for i in ids:
            self.nodes[i].stuck = True

    def unstick(self, *ids: int) -> None:
        """Let the disks of these nodes write again."""
        for i in ids:
            node = self.nodes[i]
            node.stuck = False
            if node.writing is not None:
                ready, node.writing = node.writing, None
                self.finish(i, ready)
                self.deliver_pending(i)
                self.fulfil(i)
        self.settle()

    def submit(self, i: int, *payloads: str) -> None:
        """Submit transactions to the primary, node i."""
        self.peer(i).submit([payload.encode() for payload in payloads])
        self.fulfil(i)
        self.settle()

    def refuses(self, i: int, payload: str) -> None:
        """Submit a transaction to a node that is not the primary, and log its refusal."""
        try:
            self.peer(i).submit([payload.encode()])
        except NotLeading as error:
            self.log(i, f"refuses: {error}")

    def snapshot(self, *ids: int) -> None:
        """Take a snapshot on these nodes. They drop the log below their previous snapshot."""
        for i in ids:
            node, peer = self.nodes[i], self.peer(i)
            node.snapshot = (peer.delivered, peer.digest, " ".join(node.state).encode())
            peer.snapshot_taken(*node.snapshot)
            self.log(i, f"snapshot taken at {zx.show(peer.delivered)}")

    def tick(self, milliseconds: int) -> None:
        """Let time pass on all nodes."""
        end = self.now + milliseconds * MS
        while self.now < end:
            self.now += TICK
            for i in self.members:
                if self.can_act(i):
                    self.peer(i).tick(self.now)
                    self.fulfil(i)
            self.settle()

    def show(self, *ids: int) -> None:
        """Log the state of these nodes, or of all."""
        for i in ids or self.members:
            peer = self.nodes[i].peer
            if peer is None:
                self.log(i, "is down")
                continue
            leader = f" {peer.leader}" if peer.leader not in (None, i) else ""
            amnesiac = ", amnesiac" if peer.amnesiac else ""
            self.log(
                i,
                f"is {peer.role.name}{leader} in {peer.phase.name}, f.p={peer.accepted_epoch} f.a={peer.current_epoch}, "
                f"history to {zx.show(peer.history.last)}, delivered {' '.join(self.nodes[i].state) or 'nothing'}{amnesiac}",
            )

    def check(self) -> None:
        """Raise DeliveryDisagreement unless of any two delivered sequences one is a prefix of the other."""
        longest = max((node.state for node in self.nodes.values()), key=len)
        for i, node in self.nodes.items():
            if node.state != longest[: len(node.state)]:
                raise DeliveryDisagreement(f"node {i} delivered {node.state}, another {longest}")

    # ---- sessions and messages ----

    def settle(self) -> None:
        """Open sessions and deliver messages until neither is possible any more."""
        delivered = 0
        while self.open_all() or self.deliver_one_each():
            delivered += 1
            assert delivered < MESSAGES_MAX, "this never ends:\n" + "\n".join(self.lines[-30:])

    def open_all(self) -> bool:
        """Open a session between all nodes that can act, reach each other and have none. Return whether there were any."""
        pairs = [
            (a, b)
            for a in self.members
            for b in self.members
            if a < b and not {(a, b), (b, a)} & (self.cut | self.session.keys()) and self.can_act(a) and self.can_act(b)
        ]
        for a, b in pairs:
            self.sessions_opened += 1
            self.session[a, b] = self.session[b, a] = self.sessions_opened
        for pair in pairs:
            for end, other in (pair, pair[::-1]):
                self.peer(end).link_up(other)
        for i in sorted({i for pair in pairs for i in pair}):
            self.fulfil(i)
        return bool(pairs)

    def deliver_one_each(self) -> bool:
        """Deliver one message from each channel. Return whether any was delivered."""
        moved = False
        for source, target in self.queues:
            if self.can_act(target) and self.deliver_next(source, target):
                self.fulfil(target)
                moved = True
        return moved

    def deliver_pending(self, i: int) -> None:
        """Deliver, in one round, all messages that arrived while the node waited for its disk."""
        for source in self.members:
            while source != i and self.deliver_next(source, i):
                pass

    def deliver_next(self, source: int, target: int) -> bool:
        """Deliver the next message of a channel. Return False if there is none that may be delivered."""
        queue = self.queues[source, target]
        if not queue or (NAMES[type(queue[0][1])], (source, target)) in self.held:
            return False
        session, message = queue.popleft()
        if not isinstance(message, Ping):
            self.lines.append(f"{source}->{target} {words.message(message)}")
        if self.session.get((target, source)) == session:
            self.peer(target).step(source, message)
        return True

    def can_act(self, i: int) -> bool:
        """Return whether the node is up and not waiting for its disk."""
        return self.nodes[i].peer is not None and self.nodes[i].writing is None

    def peer(self, i: int) -> Peer:
        """Return the core of node i, which must be up."""
        peer = self.nodes[i].peer
        assert peer is not None, f"node {i} is down"
        return peer

    # ---- the obligations of a core (zab_chaos.node.core.ready) ----

    def fulfil(self, i: int) -> None:
        """Fulfil what the core of node i asks for, up to a write to a stuck disk."""
        while self.can_act(i) and (ready := self.peer(i).ready()) is not None:
            for other in ready.resets:
                self.reset(i, other)
            self.log_events(i, ready.events)
            self.send(i, ready.messages)
            if ready.records and self.nodes[i].stuck:
                self.nodes[i].writing = ready
                return
            self.finish(i, ready)

    def finish(self, i: int, ready: Ready) -> None:
        """Make the records of `ready` durable, and fulfil what had to wait for that."""
        node = self.nodes[i]
        if ready.records:
            node.disk += ready.records
            self.peer(i).synced(ready.upto)
        self.log_events(i, ready.events_after_sync)
        self.send(i, ready.messages_after_sync)
        for delivery in ready.deliveries:
            self.apply(i, delivery)
        if ready.abort is not None:
            self.log(i, f"aborts: {ready.abort}")
            node.peer = None

    def apply(self, i: int, delivery: Deliver | Install) -> None:
        node = self.nodes[i]
        if isinstance(delivery, Deliver):
            payloads = [txn.decode() for txn in delivery.txns]
            node.state += payloads
            self.log(i, f"deliver {words.span(delivery.first, len(payloads))}: {' '.join(payloads)}")
        else:
            node.state = delivery.state.decode().split()
            self.log(i, f"restored from the snapshot at {zx.show(delivery.zxid)}: {' '.join(node.state)}")

    def send(self, i: int, messages: Iterable[tuple[int, Message]]) -> None:
        for other, message in messages:
            session = self.session.get((i, other))
            if session is None:
                continue
            if (i, other) in self.cut or ((i, other), session) in self.lossy:
                self.lossy.add(((i, other), session))
                self.log_lost(i, other, message)
            else:
                self.queues[i, other].append((session, message))

    def reset(self, i: int, other: int) -> None:
        """Close a session, as the core of node i asks. The other node is told unless the link to it is cut."""
        self.session.pop((i, other), None)
        self.drop_queue((i, other))
        self.drop_queue((other, i))
        if (i, other) not in self.cut:
            self.down(other, i, "closed")

    def down(self, end: int, other: int, why: str) -> None:
        """End the session that `end` has open with `other`, and tell it, if it is up."""
        if self.session.pop((end, other), None) is not None and self.nodes[end].peer is not None:
            self.peer(end).link_down(other, why)
            self.fulfil(end)

    def is_lossy(self, a: int, b: int) -> bool:
        return ((a, b), self.session.get((a, b), 0)) in self.lossy

    def drop_queue(self, channel: Channel) -> None:
        """Lose the messages that are on their way in a channel."""
        queue = self.queues[channel]
        while queue:
            self.log_lost(*channel, queue.popleft()[1])

    def log_lost(self, source: int, target: int, message: Message) -> None:
        if not isinstance(message, Ping):
            self.lines.append(f"{source}-x{target} {words.message(message)}")

    # ---- the log ----

    def log(self, i: int, line: str) -> None:
        self.lines.append(f"{i}: {line}")

    def log_events(self, i: int, events: Iterable[Event]) -> None:
        for event in events:
            self.log(i, EVENTS[event.name](event.fields))


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
