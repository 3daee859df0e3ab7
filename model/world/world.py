"""The simulated world: a virtual clock and what happens next, machines with disks, links between them.

Nothing happens but what stands on one heap, ordered by time and, at one time, by the order in which it was put there. All
chance comes from one seed, there is no other clock and no other randomness, and nothing depends on the order of a set or on
a hash: the same seed and the same calls give the same trace, byte for byte. Time that nothing happens in costs nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, Protocol

from zab_chaos.model.world.chance import Chance
from zab_chaos.node.channel.channels import ChannelSet
from zab_chaos.node.clients.application import Layers
from zab_chaos.node.config import Limits, NodeConfig, Timing
from zab_chaos.node.core.digest import NEWEST
from zab_chaos.node.core.peer import Peer
from zab_chaos.node.crash_points import CrashPoints
from zab_chaos.node.replica import Replica
from zab_chaos.node.store.store import Store

BEGINNING = 1_000_000_000  # the first instant: 0 would be mistaken for "never"
Line = tuple[int, int, str, dict[str, Any]]  # t, n, event, fields


class Sink(Protocol):
    """Where the nodes' traces and recordings go."""

    def trace(self, node: int, life: int, lines: Sequence[Line]) -> None:
        """Lines of one life, as `results/README.md` has them; called before their effects leave the node."""

    def recording(self, node: int, life: int) -> Any:
        """A new life's recording (`zab_chaos.node.recording`), or None."""

    def ended(self, node: int, life: int, code: int, armed: bool) -> None:
        """A life ended without being asked to; `armed`: it died where it was told to."""

    def crash_state(self, node: int, life: int, why: str) -> None:
        """The node's disk could hold now what loses something, or what no store starts with (`crash_states`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the simulated ensemble is built of. The types are the parts that a known bug may replace."""

    nodes: int
    cluster: str = "simulated"
    timing: Timing = field(default_factory=Timing)
    limits: Limits = field(default_factory=Limits)
    faithful: bool = True
    defect: str | None = None
    peer_type: type[Peer] = Peer
    store_type: type[Store] = Store
    channels: type[ChannelSet] = ChannelSet
    layers: Layers = field(default_factory=Layers)
    replica_type: type[Replica] = Replica
    crash_type: type[CrashPoints] = CrashPoints

    def config(self, node: int) -> NodeConfig:
        """What a node is told; addresses mean nothing here."""
        return NodeConfig(
            id=node, cluster=self.cluster, listen="", client="", control="", data="", trace="",
            link_keys="", control_keys="", client_keys="",
            peers={peer: "" for peer in range(1, self.nodes + 1) if peer != node},
            faithful=self.faithful, timing=self.timing, limits=self.limits, digest=NEWEST,
        )  # fmt: skip


class World:
    """Time, chance, and what is to come."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.now = BEGINNING
        self.chance = Chance(seed)
        self.heap: list[tuple[int, int, Callable[[Any], None], Any]] = []
        self.order = 0
        self.stamped = 0  # the latest stamp

    def at(self, delay: int, action: Callable[[Any], None], argument: Any = None) -> None:
        """Let `action(argument)` happen `delay` nanoseconds from now."""
        self.order += 1
        heappush(self.heap, (self.now + delay, self.order, action, argument))

    def stamp(self) -> int:
        """The time for something that is written down: later than all that was written before."""
        stamp = self.stamped + 1
        if stamp < self.now:
            stamp = self.now
        self.stamped = stamp
        return stamp

    def pass_time(self, nanoseconds: int) -> None:
        """Let everything happen that is due until then."""
        end = self.now + nanoseconds
        heap = self.heap
        while heap and heap[0][0] <= end:
            self.now, _, action, argument = heappop(heap)
            action(argument)
        self.now = end

    def until(self, condition: Callable[[], bool], nanoseconds: int) -> bool:
        """Let things happen until the condition holds, which is looked at after each; False if it did not in time."""
        end = self.now + nanoseconds
        heap = self.heap
        while not condition():
            if not heap or heap[0][0] > end:
                self.now = end
                return condition()
            self.now, _, action, argument = heappop(heap)
            action(argument)
        return True
