"""Simulates the lab's nodes in their surroundings: ticks, messages in flight, cut links, and the clients' proposals."""

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Protocol

from zab_chaos.model.lab.arguments import LabArguments
from zab_chaos.model.lab.dump import DumpedNode, dump
from zab_chaos.model.lab.messages import Message, Role, Txn
from zab_chaos.model.lab.node import LabNode, Outgoing
from zab_chaos.model.lab.splitmix import splitmix64

# Called at each arrival of a message with the tick, source, destination, message, and False if it is lost on a cut link.
ArrivalObserver = Callable[[int, int, int, Message, bool], None]


class LabNodeInterface(DumpedNode, Protocol):
    """A `LabNode`, in this process or in one of its own."""

    @property
    def synced(self) -> bool: ...
    def start(self, now: int) -> Outgoing: ...
    def receive(self, source: int, message: Message, now: int) -> Outgoing: ...
    def tick(self, now: int) -> Outgoing: ...
    def propose(self, payload: bytes, now: int) -> Outgoing: ...
    def committed(self) -> list[Txn]: ...


class LabSimulator:
    """One run. The same arguments give the same dump (db-19, "Simulator loop").

    A message takes 1 to 3 ticks. It is lost if its link is cut at the tick of its arrival. `make_node` makes a node from its
    id, the number of nodes and the seed.
    """

    def __init__(
        self,
        arguments: LabArguments,
        observe: ArrivalObserver | None = None,
        make_node: Callable[[int, int, int], LabNodeInterface] = LabNode,
    ) -> None:
        self.arguments = arguments
        self.nodes = [make_node(i, arguments.nodes, arguments.seed) for i in range(arguments.nodes)]
        self._observe = observe
        # (delivery time, sender, seq, destination, message): seq is unique, so a message is never compared.
        self._flying: list[tuple[int, int, int, int, Message]] = []
        self._seq = 0
        self._cut = arguments.partition
        self._cuts = deque(arguments.schedule)
        self._pending: deque[bytes] = deque()
        self._scheduled = 0  # proposals that have come so far

    def run(self) -> bytes:
        """Execute all rounds and return the canonical dump. Every node enters Looking at tick 0, before the first round."""
        for node in self.nodes:
            self._send(node.id, node.start(0), 0)
        for now in range(self.arguments.rounds):
            self._cut_and_heal(now)
            self._schedule_proposals(now)
            self._inject(now)
            self._deliver(now)
            for node in self.nodes:
                self._send(node.id, node.tick(now), now)
        return dump(self.nodes)

    def _cut_and_heal(self, now: int) -> None:
        while self._cuts and self._cuts[0][0] == now:
            self._cut = self.arguments.partition | self._cuts.popleft()[1]

    def _schedule_proposals(self, now: int) -> None:
        """Add the proposals of this tick. The i-th of K comes at (i + 1) * rounds // (K + 1); several may come at one tick."""
        total, rounds = self.arguments.proposals, self.arguments.rounds
        while self._scheduled < total and (self._scheduled + 1) * rounds // (total + 1) == now:
            self._pending.append(b"zab-%d" % self._scheduled)
            self._scheduled += 1

    def _inject(self, now: int) -> None:
        """Give all waiting proposals to the synced leader with the lowest id. They wait while there is none."""
        if not self._pending:
            return
        leader = next((node for node in self.nodes if node.role is Role.LEADING and node.synced), None)
        while leader and self._pending:
            self._send(leader.id, leader.propose(self._pending.popleft(), now), now)

    def _deliver(self, now: int) -> None:
        flying, nodes, cut, observe = self._flying, self.nodes, self._cut, self._observe
        while flying and flying[0][0] <= now:
            _, source, _, destination, message = heappop(flying)
            arrives = (source, destination) not in cut
            if observe:
                observe(now, source, destination, message, arrives)
            if arrives:
                self._send(destination, nodes[destination].receive(source, message, now), now)

    def _send(self, source: int, out: Outgoing, now: int) -> None:
        """Put messages into flight. Their delay depends only on the seed, the two nodes and the tick."""
        mixed = self.arguments.seed ^ source ^ now
        for destination, message in out:
            self._seq += 1
            arrival = now + 1 + splitmix64(mixed ^ destination) % 3
            heappush(self._flying, (arrival, source, self._seq, destination, message))
