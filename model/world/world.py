"""The event loop of the simulator: a virtual clock and a heap of scheduled calls; and what a simulated ensemble is built of.

All that happens is a call on one heap, ordered by time and, at the same time, by the order in which it was scheduled. One seed
is the only source of randomness, there is no other clock, and nothing depends on the order of a set or on a hash: the same
seed and the same calls give the same trace, byte for byte. Time in which nothing happens costs nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, Protocol

from zab_chaos.model.world.chance import Chance
from zab_chaos.node.components import Components
from zab_chaos.node.config import Limits, NodeConfig, Timing
from zab_chaos.node.core.digest import NEWEST
from zab_chaos.node.crash_points import CrashPoints
from zab_chaos.node.replica import Replica

BEGINNING = 1_000_000_000  # nanoseconds at which a world begins. Not 0, which would be mistaken for "never"
Line = tuple[int, int, str, dict[str, Any]]  # t, n, event, fields


class Sink(Protocol):
    """Receives the nodes' traces and recordings, and notices about them."""

    def trace(self, node: int, life: int, lines: Sequence[Line]) -> None:
        """Take trace lines of one life (described in `results/README.md`). Called before their effects leave the node."""

    def recording(self, node: int, life: int) -> Any:
        """Return the recording of a new life (`zab_chaos.node.recording`), or None if the life is not to be recorded."""

    def ended(self, node: int, life: int, code: int, armed: bool) -> None:
        """Take note that a life ended without being asked to. `armed`: it had a crash point and died as if killed."""

    def crash_state(self, node: int, life: int, why: str) -> None:
        """Take note of a crash state of the node's disk that loses records or with which no store starts (`crash_states`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimPlan:
    """What a simulated ensemble is built of: size, settings, and the classes of its parts, which a defect may replace."""

    nodes: int
    cluster: str = "simulated"
    timing: Timing = field(default_factory=Timing)
    limits: Limits = field(default_factory=Limits)
    faithful: bool = True
    defect: str | None = None
    parts: Components = field(default_factory=Components)
    replica_type: type[Replica] = Replica
    crash_type: type[CrashPoints] = CrashPoints

    def config(self, node: int) -> NodeConfig:
        """Return the configuration of one node. Its addresses are empty: nothing in the simulator uses them."""
        return NodeConfig(
            id=node, cluster=self.cluster, listen="", client="", control="", data="", trace="",
            link_keys="", control_keys="", client_keys="",
            peers={peer: "" for peer in range(1, self.nodes + 1) if peer != node},
            faithful=self.faithful, timing=self.timing, limits=self.limits, digest=NEWEST,
        )  # fmt: skip


class World:
    """The virtual clock, the source of randomness, and the heap of scheduled calls. Times are nanoseconds.

    `erratic`: see `Chance`.
    """

    def __init__(self, seed: int, erratic: bool = False) -> None:
        self.seed = seed
        self.now = BEGINNING
        self.chance = Chance(seed, erratic)
        self.heap: list[tuple[int, int, Callable[[Any], None], Any]] = []
        self.order = 0  # calls scheduled so far; orders those that are due at the same time
        self.last_stamp = 0
        self.running = False  # calls are being executed

    def call_later(self, delay: int, action: Callable[[Any], None], argument: Any = None) -> None:
        """Schedule `action(argument)` for `delay` nanoseconds from now."""
        self.order += 1
        heappush(self.heap, (self.now + delay, self.order, action, argument))

    def stamp(self) -> int:
        """Return a timestamp for a record: the time now, or just after the last timestamp. No two are equal."""
        self.last_stamp = stamp = self.now if self.now > self.last_stamp else self.last_stamp + 1
        return stamp

    def run_for(self, nanoseconds: int) -> None:
        """Execute everything that is due in the next `nanoseconds`."""
        end = self.now + nanoseconds
        heap = self.heap
        self.running = True
        try:
            while heap and heap[0][0] <= end:
                self.now, _, action, argument = heappop(heap)
                action(argument)
        finally:
            self.running = False
        self.now = end

    def run_until(self, condition: Callable[[], bool], nanoseconds: int) -> bool:
        """Execute calls until the condition holds, which is checked after each. Return False if it does not hold in time."""
        end = self.now + nanoseconds
        heap = self.heap
        self.running = True
        try:
            while not condition():
                if not heap or heap[0][0] > end:
                    self.now = end
                    return condition()
                self.now, _, action, argument = heappop(heap)
                action(argument)
            return True
        finally:
            self.running = False
