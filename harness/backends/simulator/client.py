"""A client in the simulated world: it drives a `zab_chaos.harness.client.core.ClientCore` over simulated connections."""

from collections.abc import Callable, Iterable, Sequence
from random import Random

from zab_chaos.harness.client.core import ClientCore, Operation, Then
from zab_chaos.model.world.chance import MS
from zab_chaos.model.world.client_connection import ClientConnection
from zab_chaos.model.world.machine import SimNode
from zab_chaos.model.world.world import World
from zab_chaos.node.tree.requests import Request


class Stalls:
    """When clients stand still, as a process does while it collects garbage or gets no processor. Times are nanoseconds.

    `rate`: how often per second one of `clients` stands still. `capacity`: the frames that their connections have room for.
    """

    def __init__(self, seed: int, rate: float, clients: int) -> None:
        self.over = False  # set when no client is to stand still any more
        self._random = Random(f"stalls {seed}")
        self._interval = int(clients / rate * 1e9)
        self._longest = self._random.choice((300, 1500, 4000)) * MS
        self.capacity = self._random.choice((1, 1, 2, 4))

    def next_in(self) -> int:
        """Return after what time a client stands still again."""
        return int(self._interval * 2 * self._random.random())

    def length(self) -> int:
        return int(self._longest * self._random.random())


class SimClient:
    """A simulated client. `node` is tried first; `number` names the session.

    `after_turn` is called after each turn and may submit operations. It returns when it wants to be called again even if
    nothing arrives, or None. `stalls`: when the client stands still, if it ever does.
    """

    def __init__(
        self,
        world: World,
        machines: Sequence[SimNode],
        node: int,
        number: int,
        timeout_ns: int,
        after_turn: Callable[[], int | None] = lambda: None,
        stalls: Stalls | None = None,
    ) -> None:
        self._world = world
        self._machines = {machine.id: machine for machine in machines}
        self._after_turn = after_turn
        self._wake_at: int | None = None
        self._closed = False
        self._capacity = stalls.capacity if stalls is not None else None
        self._stalled = False
        self._unread: list[bytes] = []  # frames of the present connection that arrived while the client stood still
        self._broken: str | None = None  # why it broke meanwhile
        self._connection: ClientConnection | None = None
        addresses = {node: f"simulated:{node}" for node in self._machines}
        self.core = ClientCore(addresses, self._dial, node=node, number=number, timeout_ns=timeout_ns)
        self._wake_by(world.now)
        if stalls is not None:
            world.call_later(stalls.next_in(), self._stall, stalls)

    def submit(self, request: Request, then: Then | None = None) -> Operation:
        """Enqueue an operation, which the next `turn` sends."""
        return self.core.submit(request, self._world.stamp(), then)

    def turn(self, arrived: Iterable[bytes] = (), broken: str | None = None) -> None:
        """Do everything that is due, and have the world call `turn` again when more is due."""
        if self._closed or self._stalled:
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
        def arrive(frame: bytes) -> None:
            self._unread.append(frame)
            self._read()

        def end(why: str) -> None:
            self._broken = why
            self._read()

        machine = self._machines[node]
        self._connection = ClientConnection(self._world, machine, arrive, end, self.turn, self._capacity)
        return self._connection

    def _read(self) -> None:
        """Read what has arrived, unless the client stands still."""
        if self._stalled:
            return
        frames, self._unread = self._unread, []
        broken, self._broken = self._broken, None
        if self._connection is not None:
            self._connection.read(1, len(frames))
        self.turn(frames, broken)

    def _stall(self, stalls: Stalls) -> None:
        if self._closed or stalls.over:
            return
        self._stalled = True
        self._world.call_later(stalls.length(), self._resume, stalls)

    def _resume(self, stalls: Stalls) -> None:
        self._stalled = False
        self._read()
        self._world.call_later(stalls.next_in(), self._stall, stalls)

    def _wake_by(self, due: int | None) -> None:
        if due is not None and (self._wake_at is None or due < self._wake_at):
            self._wake_at = due
            self._world.call_later(max(1, due - self._world.now), self._wake, due)

    def _wake(self, due: int) -> None:
        if due == self._wake_at:
            self._wake_at = None
            self.turn()
