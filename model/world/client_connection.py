"""A simulated client's connection to one node: what a DEALER, TCP and a ROUTER make of frames between the two."""

from collections.abc import Callable

from zab_chaos.model.world.machine import SimNode
from zab_chaos.model.world.world import World
from zab_chaos.node.clients.connections import FRAME_HARD, Delivery, frame_limit
from zab_chaos.node.clients.protocol import SILENCE_MS

REFUSED, BROKE = "the connection was refused", "the connection broke"
SILENCE_NS = SILENCE_MS * 1_000_000


class ClientConnection:
    """Used once: when it is over, the client makes a new one. In order, both ways, until one end is gone.

    `heard` is told each frame that the client gets, `over` why there will be no more.
    """

    def __init__(
        self, world: World, machine: SimNode, heard: Callable[[bytes], None], over: Callable[[str], None]
    ) -> None:
        self.closed = False  # the client's end
        self._world = world
        self._heard = heard
        self._over = over
        self._latest = [0, 0]  # arrivals, there and back
        self._frame_hard = FRAME_HARD * frame_limit(machine.plan.limits)
        self._server = machine.server if machine.up else None
        if self._server is None:
            world.at(world.chance.delay(), self._break, REFUSED)
        else:
            self._server.port.open(self)

    # ---- the client's end ----

    def send(self, frame: bytes) -> bool:
        if len(frame) > self._frame_hard:
            self.end()
        elif self._server is not None:
            self._world.at(self._delay(0), self._server.port.arrive, (self, frame))
        return True

    def close(self, linger_ms: int = 0) -> None:
        """What has left goes on; nothing more will, and nothing comes."""
        self.closed = True

    # ---- the node's end ----

    def deliver(self, frame: bytes) -> Delivery:
        if self.closed:
            return Delivery.GONE
        self._world.at(self._delay(1), self._arrive, frame)
        return Delivery.SENT

    def end(self) -> None:
        """It breaks, behind what is on its way."""
        self._world.at(self._delay(1), self._break, BROKE)

    def fall_silent(self) -> None:
        """The node's process was stopped; if it sleeps on, that shows."""
        self._world.at(SILENCE_NS, self._miss)

    # ---- what happens ----

    def _delay(self, way: int) -> int:
        """How long the next frame takes, so that it arrives behind the one before."""
        now = self._world.now
        arrival = self._latest[way] = max(self._latest[way] + 1, now + self._world.chance.delay())
        return arrival - now

    def _arrive(self, frame: bytes) -> None:
        if not self.closed:
            self._heard(frame)

    def _break(self, why: str) -> None:
        if not self.closed:
            self._over(why)

    def _miss(self, _: object = None) -> None:
        if self._server is not None and self._server.stopped:
            self._break(BROKE)
