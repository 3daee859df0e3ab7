"""A client: one session with the ensemble, many operations outstanding, on one node at a time.

The core is single-threaded: `submit` takes an operation, `poll` does everything else. An operation ends as `Ok`,
`Failed` (certainly without effect) or `Unknown` (whatever was sent and not answered when the node went away or time was
up). When its node goes away, or goes on saying that it has no leader, the client goes on with the next one, under the
same number, and tells it the last zxid it has seen, so that it never reads backwards, and up to which of its writes the
outcome is unknown, so that none of these takes effect after anything that it is told from there. What was not sent yet
moves on with it.
"""

import itertools
import secrets
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import msgspec
import zmq

from zab_chaos.harness.client.connection import Connection
from zab_chaos.harness.client.leaderless import Leaderless
from zab_chaos.node.core.zxid import ZERO, Zxid
from zab_chaos.node.net.keys import Keys
from zab_chaos.node.net.protocol import VERSION, Answers, Bye, Hello, Requests, Welcome, encode
from zab_chaos.node.tree.outcomes import Failed, Ok, Outcome, Unknown
from zab_chaos.node.tree.refusal import BAD_REQUEST
from zab_chaos.node.tree.requests import (
    ANY,
    READS,
    Check,
    Children,
    Create,
    Delete,
    Exists,
    Get,
    Multi,
    Request,
    Set,
    Step,
    weight,
)

BATCH_REQUESTS = 500  # requests in one message at most
BATCH_BYTES = 2**18  # and a message is closed when it has so many bytes: it stays well below what a node takes
CONNECT_NS = 1_000_000_000  # a node that has not said WELCOME by then is passed over
RETRY_NS = 50_000_000  # between two attempts while no node can be reached

__all__ = ["Client", "Failed", "Ok", "Operation", "Outcome", "Then", "Unknown"]


@dataclass(slots=True, eq=False)
class Operation:
    """One request on its way. Times are nanoseconds of the monotonic clock.

    `node` is the node that it was sent to (None: it never left). `outcome` is None until it is known.
    """

    seq: int
    request: Request
    submitted_ns: int
    then: "Then | None" = None
    node: int | None = None
    outcome: Outcome | None = None
    completed_ns: int = 0


Then = Callable[[Operation, Outcome], None]  # what to do when an operation's outcome is known


class Client:
    """`addresses`: host:port of each node, by id, or a list for the nodes 1, 2, ...; `node` is tried first.

    `number` (u64) names the session; drawn if not given. `timeout`: seconds after which an operation is unknown.
    `poller`: one that sleeps for this client too; the client keeps its current sockets registered there.
    """

    def __init__(
        self,
        addresses: dict[int, str] | Sequence[str],
        keys: Keys,
        node: int | None = None,
        *,
        number: int | None = None,
        timeout: float = 10.0,
        context: zmq.Context[Any] | None = None,
        poller: zmq.Poller | None = None,
    ) -> None:
        self._addresses = dict(addresses) if isinstance(addresses, dict) else dict(enumerate(addresses, 1))
        if not self._addresses:
            raise ValueError("a client needs the address of at least one node")
        if node is not None and node not in self._addresses:
            raise ValueError(f"there is no node {node}; the nodes are {', '.join(map(str, sorted(self._addresses)))}")
        self._keys = keys
        self.number = secrets.randbits(63) if number is None else number
        self.seen: Zxid = ZERO
        self.fence = 0  # the highest seq of the writes whose outcome is unknown
        self._timeout_ns = int(timeout * 1e9)
        self._own_context: zmq.Context[Any] | None = zmq.Context() if context is None else None
        self._context = context or self._own_context
        self._poller = poller or zmq.Poller()
        self._node = min(self._addresses) if node is None else node
        self._connection: Connection | None = None
        self._welcome = False
        self._leaderless = Leaderless()
        self._opened_ns = 0
        self._retry_ns = 0
        self._seqs = itertools.count(1)
        self._unsent: deque[Operation] = deque()
        self._sent: dict[int, Operation] = {}
        self.last_trouble = ""  # why the last connection ended, in words

    @property
    def node(self) -> int:
        """The node that the client is connected to, or tries to reach."""
        return self._node

    @property
    def connected(self) -> bool:
        return self._welcome

    @property
    def outstanding(self) -> int:
        """Operations whose outcome is not known."""
        return len(self._sent) + len(self._unsent)

    def submit(self, request: Request, then: Then | None = None) -> Operation:
        """Take an operation; `poll` or `flush` sends it. `then` is called, from within `poll`, when it is known."""
        operation = Operation(next(self._seqs), request, time.monotonic_ns(), then)
        self._unsent.append(operation)
        return operation

    def poll(self, timeout: float = 0.0) -> None:
        """Send, receive, reconnect; sleep at most `timeout` seconds while there is nothing to do."""
        self._turn()
        if timeout > 0:
            self._poller.poll(max(1, int(timeout * 1000)))
            self._turn()

    def wait(self, operation: Operation) -> Outcome:
        """The operation's outcome; comes in `timeout` seconds at the latest, then as Unknown."""
        while operation.outcome is None:
            self.poll(0.05)
        return operation.outcome

    def connect(self, timeout: float) -> bool:
        """Wait until a node has said WELCOME; False if none has in `timeout` seconds."""
        end = time.monotonic() + timeout
        while not self._welcome and time.monotonic() < end:
            self.poll(0.02)
        return self._welcome

    def create(self, path: str, data: bytes = b"", sequential: bool = False) -> Outcome:
        return self.wait(self.submit(Create(path, data, sequential)))

    def set(self, path: str, data: bytes, version: int = ANY) -> Outcome:
        return self.wait(self.submit(Set(path, data, version)))

    def delete(self, path: str, version: int = ANY) -> Outcome:
        return self.wait(self.submit(Delete(path, version)))

    def check(self, path: str, version: int = ANY) -> Outcome:
        return self.wait(self.submit(Check(path, version)))

    def multi(self, steps: Sequence[Step]) -> Outcome:
        return self.wait(self.submit(Multi(list(steps))))

    def get(self, path: str) -> Outcome:
        return self.wait(self.submit(Get(path)))

    def exists(self, path: str) -> Outcome:
        return self.wait(self.submit(Exists(path)))

    def children(self, path: str) -> Outcome:
        return self.wait(self.submit(Children(path)))

    def flush(self) -> None:
        """Send what was submitted, as far as the connection takes it."""
        while self._unsent and self._welcome and self._connection is not None and not self._leaves:
            batch = self._batch()
            try:
                frame = encode(Requests([(each.seq, each.request) for each in batch]))
            except (TypeError, ValueError, OverflowError):
                self._weed(batch)
                continue
            if not self._connection.send(frame):
                return
            for operation in batch:
                operation.node = self._node
                self._sent[operation.seq] = operation
                self._unsent.popleft()

    def move(self, node: int) -> None:
        """Leave for that node without a word. What was sent and is not answered becomes unknown, the rest moves along."""
        if node not in self._addresses:
            raise ValueError(f"there is no node {node}; the nodes are {', '.join(map(str, sorted(self._addresses)))}")
        self._go_to(node, "the client moved", time.monotonic_ns())

    def close(self) -> None:
        """Say BYE. Whatever is outstanding becomes unknown."""
        if self._connection is not None and self._welcome:
            self._connection.send(encode(Bye()))
        self._disconnect("the client was closed", linger_ms=100)
        while self._unsent:
            self._complete(self._unsent.popleft(), Unknown("the client was closed"))
        if self._own_context is not None:
            self._own_context.term()
            self._own_context = None

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _turn(self) -> None:
        now = time.monotonic_ns()
        if self._connection is None:
            if now >= self._retry_ns:
                self._open(now)
        else:
            self._listen(self._connection, now)
        if self._leaves and not self._sent:  # what was sent is waited for: it would become unknown without need
            self._move_on(f"node {self._node} has no leader", now)
        self._expire(now)
        self.flush()

    @property
    def _leaves(self) -> bool:
        return self._leaderless.given_up and len(self._addresses) > 1

    def _open(self, now: int) -> None:
        assert self._context is not None
        self._connection = Connection(self._context, self._addresses[self._node], self._keys)
        self._connection.register(self._poller)
        self._connection.send(encode(Hello(VERSION, self.number, self.seen, self.fence)))
        self._opened_ns = now

    def _listen(self, connection: Connection, now: int) -> None:
        broken = connection.broken()  # asked first: what had arrived before that still counts
        try:
            for message in connection.receive():
                if isinstance(message, Answers):
                    self._answered(message.items, now)
                elif isinstance(message, Welcome):
                    self._welcome = True
                else:
                    self._welcome = False  # it was reached, but not to be asked again at once
                    broken = broken or f"node {self._node} does not serve this client: {message.why}"
        except msgspec.DecodeError as error:
            broken = f"node {self._node} sent something that is not in the clients' protocol: {error}"
        if broken is None and not self._welcome and now - self._opened_ns > CONNECT_NS:
            broken = f"node {self._node} does not answer at {self._addresses[self._node]}"
        if broken is not None:
            self._move_on(broken, now)

    def _answered(self, items: list[tuple[int, Outcome]], now: int) -> None:
        for seq, outcome in items:
            if not isinstance(outcome, Unknown) and outcome.zxid > self.seen:
                self.seen = outcome.zxid
            operation = self._sent.pop(seq, None)
            if operation is not None:
                self._leaderless.heard(operation.request, outcome, now)
                self._complete(operation, outcome)

    def _expire(self, now: int) -> None:
        """Time is up for the oldest: the node is stuck, since it answers in order. Leave it."""
        limit = now - self._timeout_ns
        words = f"no answer within {self._timeout_ns / 1e9:g} s"
        oldest = next(iter(self._sent.values()), None)
        if oldest is not None and oldest.submitted_ns <= limit:
            self._move_on(f"node {self._node}: {words}", now)
        while self._unsent and self._unsent[0].submitted_ns <= limit:
            self._complete(self._unsent.popleft(), Unknown(words))

    def _move_on(self, why: str, now: int) -> None:
        nodes = sorted(self._addresses)
        self._go_to(nodes[(nodes.index(self._node) + 1) % len(nodes)], why, now)

    def _go_to(self, node: int, why: str, now: int) -> None:
        reached = self._welcome
        self._disconnect(why)
        self._node = node
        self._retry_ns = now if reached else now + RETRY_NS

    def _disconnect(self, why: str, linger_ms: int = 0) -> None:
        if self._connection is not None:
            self._connection.close(self._poller, linger_ms)
        self._connection = None
        self._welcome = False
        self._leaderless = Leaderless()
        self.last_trouble = why
        lost, self._sent = self._sent, {}
        for operation in lost.values():
            self._complete(operation, Unknown(why))

    def _complete(self, operation: Operation, outcome: Outcome) -> None:
        operation.outcome = outcome
        operation.completed_ns = time.monotonic_ns()
        if isinstance(outcome, Unknown) and operation.node is not None and not isinstance(operation.request, READS):
            self.fence = max(self.fence, operation.seq)
        if operation.then is not None:
            operation.then(operation, outcome)

    def _batch(self) -> list[Operation]:
        batch: list[Operation] = []
        size = 0
        for operation in itertools.islice(self._unsent, BATCH_REQUESTS):
            batch.append(operation)
            size += 0 if isinstance(operation.request, READS) else weight(operation.request)
            if size >= BATCH_BYTES:
                break
        return batch

    def _weed(self, batch: list[Operation]) -> None:
        """Fail the requests that have no MessagePack (a lone surrogate in a path, a number beyond 64 bits)."""
        for operation in batch:
            try:
                encode(operation.request)
            except (TypeError, ValueError, OverflowError) as error:
                self._unsent.remove(operation)
                self._complete(operation, Failed(BAD_REQUEST, f"the request cannot be sent: {error}"))
