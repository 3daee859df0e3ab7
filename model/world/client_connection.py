"""A simulated client's connection to one node. It behaves as a DEALER socket, TCP and a ROUTER socket together do."""

from collections.abc import Callable

from zab_chaos.model.world.machine import SimNode
from zab_chaos.model.world.world import World
from zab_chaos.node.clients.connections import FRAME_HARD, Delivery, frame_limit
from zab_chaos.node.clients.protocol import BROKE, SILENCE_MS

REFUSED = "the connection was refused"
SILENCE_NS = SILENCE_MS * 1_000_000


class ClientConnection:
    """One connection. It carries frames in order, both ways, until one end is gone. Afterwards the client opens a new one.

    `on_frame` is called with each frame that reaches the client, `on_broken` with the reason when the connection breaks, and
    `on_room` when the connection accepts frames again. `capacity`: how many frames may be on their way in one direction, those
    included that have arrived and were not read; None: any number. Whoever reads frames says so with `read`.
    """

    def __init__(
        self, world: World, machine: SimNode, on_frame: Callable[[bytes], None], on_broken: Callable[[str], None],
        on_room: Callable[[], None], capacity: int | None,
    ) -> None:  # fmt: skip
        self.closed = False  # by the client
        self._on_room = on_room
        self._capacity = capacity
        self._unread = [0, 0]  # frames to the node, to the client
        self._refused = False  # whether the client could not send a frame, and waits for room
        self._world = world
        self._on_frame = on_frame
        self._on_broken = on_broken
        self._last_arrival = [0, 0]  # at the node, at the client
        self._frame_hard = FRAME_HARD * frame_limit(machine.plan.limits)
        self._server = machine.server if machine.up else None
        if self._server is None:
            world.call_later(world.chance.delay(), self._break, REFUSED)
        else:
            self._server.port.open(self)

    # ---- called by the client ----

    def send(self, frame: bytes) -> bool:
        if self._server is not None and self._is_full(0):
            self._refused = True
            return False
        if len(frame) > self._frame_hard:
            self.break_off()
        elif self._server is not None:
            self._unread[0] += 1
            self._world.call_later(self._delay(0), self._server.port.arrive, (self, frame))
        return True

    def close(self, linger_ms: int = 0) -> None:
        """Send and receive nothing more. Frames that were sent before still arrive at the node."""
        self.closed = True

    # ---- called by the node ----

    def deliver(self, frame: bytes) -> Delivery:
        if self.closed:
            return Delivery.GONE
        if self._is_full(1):
            return Delivery.FULL
        self._unread[1] += 1
        self._world.call_later(self._delay(1), self._arrive, frame)
        return Delivery.SENT

    def break_off(self) -> None:
        """Break the connection. The client notices it after the frames that are on their way to it."""
        self._world.call_later(self._delay(1), self._break, BROKE)

    def node_stopped(self) -> None:
        """The node's process was stopped. If it still is after the client's silence limit, the connection breaks."""
        self._world.call_later(SILENCE_NS, self._check_silence)

    # ---- called by both ----

    def read(self, way: int, frames: int = 1) -> None:
        """Take note that the node (0) or the client (1) has read frames."""
        self._unread[way] -= frames
        if way == 0 and self._refused and not self._is_full(0):
            self._refused = False
            self._world.call_later(self._world.chance.delay(), self._tell_room)

    def _is_full(self, way: int) -> bool:
        return self._capacity is not None and self._unread[way] >= self._capacity

    # ---- what the world calls ----

    def _tell_room(self, _: object) -> None:
        if not self.closed:
            self._on_room()

    def _delay(self, way: int) -> int:
        """Draw the delay of the next frame to the node (0) or the client (1), so that it arrives after the one before."""
        delay, least = self._world.chance.delay(), self._last_arrival[way] + 1 - self._world.now
        delay = delay if delay > least else least
        self._last_arrival[way] = self._world.now + delay
        return delay

    def _arrive(self, frame: bytes) -> None:
        if not self.closed:
            self._on_frame(frame)

    def _break(self, why: str) -> None:
        if not self.closed:
            self._on_broken(why)

    def _check_silence(self, _: object) -> None:
        if self._server is not None and self._server.stopped:
            self._break(BROKE)
