"""A client in the simulated world: it drives a `zab_chaos.harness.client.core.ClientCore` over simulated connections."""

from collections.abc import Callable, Iterable, Sequence

from zab_chaos.harness.client.core import ClientCore, Operation, Then
from zab_chaos.model.world.client_connection import ClientConnection
from zab_chaos.model.world.machine import SimNode
from zab_chaos.model.world.world import World
from zab_chaos.node.tree.requests import Request


class SimClient:
    """A simulated client. `node` is tried first; `number` names the session.

    `after_turn` is called after each turn and may submit operations. It returns when it wants to be called again even if
    nothing arrives, or None.
    """

    def __init__(
        self,
        world: World,
        machines: Sequence[SimNode],
        node: int,
        number: int,
        timeout_ns: int,
        after_turn: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._world = world
        self._machines = {machine.id: machine for machine in machines}
        self._after_turn = after_turn
        self._wake_at: int | None = None
        self._closed = False
        addresses = {node: f"simulated:{node}" for node in self._machines}
        self.core = ClientCore(addresses, self._dial, node=node, number=number, timeout_ns=timeout_ns)
        self._wake_by(world.now)

    def submit(self, request: Request, then: Then | None = None) -> Operation:
        """Enqueue an operation, which the next `turn` sends."""
        return self.core.submit(request, self._world.stamp(), then)

    def turn(self, arrived: Iterable[bytes] = (), broken: str | None = None) -> None:
        """Do everything that is due, and have the world call `turn` again when more is due."""
        if self._closed:
            return
        self.core.turn(self._world.now, arrived, broken)
        self._wake_by(self._after_turn())
        self.core.flush()
        self._wake_by(self.core.wakes_at())

    def close(self) -> None:
        """Close the client. Outstanding operations become unknown."""
        self._closed = True
        self.core.close(self._world.now)

    def _dial(self, node: int) -> ClientConnection:
        return ClientConnection(
            self._world, self._machines[node], lambda frame: self.turn((frame,)), lambda why: self.turn((), why)
        )

    def _wake_by(self, due: int | None) -> None:
        if due is not None and (self._wake_at is None or due < self._wake_at):
            self._wake_at = due
            self._world.call_later(max(1, due - self._world.now), self._wake, due)

    def _wake(self, due: int) -> None:
        if due == self._wake_at:
            self._wake_at = None
            self.turn()
