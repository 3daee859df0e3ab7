"""A simulated client: `zab_chaos.harness.client.core` over virtual time, one session on one node at a time.

Its connection to a node is an attempt: whatever belongs to an earlier attempt is dropped, on both sides.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from zab_chaos.model.world.machine import SimNode
from zab_chaos.model.world.server import SimServer
from zab_chaos.model.world.world import World
from zab_chaos.node.core.zxid import ZERO, Zxid
from zab_chaos.node.tree.outcomes import Outcome, Unknown
from zab_chaos.node.tree.requests import READS, Request

CONNECT_NS = 1_000_000_000  # a node that has not said WELCOME by then is passed over
RETRY_NS = 50_000_000  # between two attempts while no node can be reached
SILENCE_NS = 2_000_000_000  # after which a connection's heartbeats show that the process is stopped


class SimOperation:
    """One request on its way; times are the world's, `due` is when the open loop owed it."""

    __slots__ = ("due", "node", "outcome", "request", "seq", "submitted_ns")

    def __init__(self, seq: int, request: Request, due: int, submitted_ns: int) -> None:
        self.seq = seq
        self.request = request
        self.due = due
        self.submitted_ns = submitted_ns
        self.node: int | None = None
        self.outcome: Outcome | None = None


class SimClient:
    """`number` names the session; `done` hears of each operation whose outcome is known; `ready` when more could be sent."""

    def __init__(
        self,
        world: World,
        machines: Sequence[SimNode],
        first: int,
        number: int,
        timeout_ns: int,
        done: Callable[[SimOperation, Outcome], None],
        ready: Callable[[], None],
    ) -> None:
        self.number = number
        self.attempt = 0
        self.connected = False
        self.seen: Zxid = ZERO
        self.fence = 0  # the highest seq of its writes whose outcome is unknown
        self._world = world
        self._machines = machines
        self._at = first  # index of the node that it is connected to, or tries to reach
        self._timeout_ns = timeout_ns
        self._done = done
        self._ready = ready
        self._server: SimServer | None = None
        self.last_seq = 0
        self._unsent: deque[SimOperation] = deque()
        self._sent: dict[int, SimOperation] = {}
        self._latest = [0, 0]  # arrivals of this connection, there and back
        self._expiring = False
        self._closed = False
        self._open(0)

    @property
    def node(self) -> int:
        return self._machines[self._at].id

    @property
    def outstanding(self) -> int:
        return len(self._sent) + len(self._unsent)

    def submit(self, request: Request, due: int) -> SimOperation:
        """Take an operation; `flush` sends it."""
        self.last_seq += 1
        operation = SimOperation(self.last_seq, request, due, self._world.stamp())
        self._unsent.append(operation)
        if not self._expiring:
            self._expiring = True
            self._world.at(self._timeout_ns, self._expire)
        return operation

    def flush(self) -> None:
        """Send what was submitted, if there is a connection."""
        if not self.connected or not self._unsent:
            return
        items = []
        for operation in self._unsent:
            operation.node = self.node
            self._sent[operation.seq] = operation
            items.append((operation.seq, operation.request))
        self._unsent.clear()
        self._send("requests", items)

    def move(self, node: int) -> None:
        """Leave for that node without a word. What was sent and is not answered becomes unknown, the rest moves along."""
        self._go_to(
            next(index for index, machine in enumerate(self._machines) if machine.id == node), "the client moved"
        )

    def close(self) -> None:
        """Whatever is outstanding becomes unknown."""
        if self.connected:
            self._send("bye", None)
        self._closed = True
        self._lose("the client was closed")
        self.attempt += 1
        while self._unsent:
            self._complete(self._unsent.popleft(), Unknown("the client was closed"))

    # ---- the connection ----

    def _open(self, attempt: object) -> None:
        if self._closed or attempt != self.attempt:
            return
        self.attempt += 1
        self._latest = [0, 0]
        server = self._machines[self._at].server
        self._server = server if server is not None and server.alive and server.booted else None
        if self._server is None:
            self._world.at(self._world.chance.delay(), self._refused, self.attempt)
            return
        self._server.port.connect(self, self.attempt)
        self._send("hello", (self.seen, self.fence))
        self._world.at(CONNECT_NS, self._unwelcome, self.attempt)

    def _refused(self, attempt: int) -> None:
        if attempt == self.attempt:
            self._move_on("the connection was refused")

    def _unwelcome(self, attempt: int) -> None:
        if attempt == self.attempt and not self.connected:
            self._move_on(f"node {self.node} does not answer")

    def _send(self, what: str, content: Any) -> None:
        assert self._server is not None
        self._world.at(self._in_order(0), self._server.port.arrive, (what, self, self.attempt, content))

    def _in_order(self, way: int) -> int:
        """How long the next message takes, so that it arrives behind the one before."""
        now = self._world.now
        arrival = self._latest[way] = max(self._latest[way] + 1, now + self._world.chance.delay())
        return arrival - now

    def tell(self, attempt: int, what: str, content: Any) -> None:
        """The node, or the machine that it ran on, says something."""
        if attempt == self.attempt and not self._closed:
            self._world.at(self._in_order(1), self._hear, (attempt, what, content))

    def silence(self, attempt: int, server: SimServer) -> None:
        """The node's process was stopped; if it sleeps on, that shows."""
        self._world.at(SILENCE_NS, lambda _: self._missed(attempt, server))

    def _missed(self, attempt: int, server: SimServer) -> None:
        if attempt == self.attempt and server.stopped:
            self._move_on("the connection broke")

    def _hear(self, message: tuple[int, str, Any]) -> None:
        attempt, what, content = message
        if attempt != self.attempt or self._closed:
            return
        if what == "answers":
            self._answered(content)
        elif what == "welcome":
            self.connected = True
            self._ready()
        else:
            self.connected = self.connected and what == "broken"
            self._move_on(content)

    def _move_on(self, why: str) -> None:
        self._go_to((self._at + 1) % len(self._machines), why)

    def _go_to(self, index: int, why: str) -> None:
        reached = self.connected
        self._lose(why)
        self.attempt += 1
        self._at = index
        self._world.at(0 if reached else RETRY_NS, self._open, self.attempt)

    def _lose(self, why: str) -> None:
        self.connected = False
        self._server = None
        lost, self._sent = self._sent, {}
        for operation in lost.values():
            self._complete(operation, Unknown(why))

    # ---- outcomes ----

    def _answered(self, items: list[tuple[int, Outcome]]) -> None:
        for seq, outcome in items:
            if not isinstance(outcome, Unknown) and outcome.zxid > self.seen:
                self.seen = outcome.zxid
            operation = self._sent.pop(seq, None)
            if operation is not None:
                self._complete(operation, outcome)
        self._ready()

    def _complete(self, operation: SimOperation, outcome: Outcome) -> None:
        operation.outcome = outcome
        if isinstance(outcome, Unknown) and operation.node is not None and not isinstance(operation.request, READS):
            self.fence = max(self.fence, operation.seq)
        self._done(operation, outcome)

    def _expire(self, _: object) -> None:
        """Time is up for the oldest: the node is stuck, since it answers in order. Leave it."""
        limit = self._world.now - self._timeout_ns
        oldest = next(iter(self._sent.values()), None)
        if oldest is not None and oldest.submitted_ns <= limit:
            self._move_on(f"node {self.node}: no answer in time")
        while self._unsent and self._unsent[0].submitted_ns <= limit:
            self._complete(self._unsent.popleft(), Unknown("no answer in time"))
        oldest = next(iter(self._sent.values()), self._unsent[0] if self._unsent else None)
        self._expiring = oldest is not None
        if oldest is not None:
            self._world.at(max(1, oldest.submitted_ns + self._timeout_ns - self._world.now), self._expire)
