"""A client, sans-I/O: one session with the ensemble, many operations outstanding, on one node at a time.

An operation ends as `Ok`, `Failed` (certainly without effect) or `Unknown` (whatever was sent and not answered when the
node went away or time was up). When its node goes away, or goes on saying that it has no leader, the client goes on with
the next one, under the same number, and tells it the last zxid it has seen, so that it never reads backwards, and up to
which of its writes the outcome is unknown, so that none of these takes effect after anything that it is told from there.
What was not sent yet moves on with it.

Time, and what a connection brings, come in; outcomes go out, and frames to a connection that whoever drives the client makes:
`zab_chaos.harness.client.client` over ZeroMQ, `zab_chaos.harness.backends.simulator.client` in the simulated world. Times are
nanoseconds of a monotonic clock.
"""

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec

from zab_chaos.harness.client.leaderless import Leaderless
from zab_chaos.node.clients.protocol import (
    VERSION,
    Answers,
    Bye,
    Hello,
    Requests,
    Welcome,
    decode_from_node,
    encode,
)
from zab_chaos.node.core.zxid import ZERO, Zxid
from zab_chaos.node.tree.outcomes import Failed, Outcome, Unknown
from zab_chaos.node.tree.refusal import BAD_REQUEST
from zab_chaos.node.tree.requests import READS, Request, request_size

BATCH_REQUESTS = 500  # requests in one message at most
BATCH_BYTES = 2**18  # and a message is closed when it has so many bytes: it stays well below what a node takes
CONNECT_NS = 1_000_000_000  # a node that has not said WELCOME by then is passed over
RETRY_NS = 50_000_000  # between two attempts while no node can be reached


@dataclass(slots=True, eq=False)
class Operation:
    """One request on its way. Times are nanoseconds of the client's clock.

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


class Connection(Protocol):
    """To one node, used once: it does not connect again by itself, since it would send into a new session what was
    queued for the old one."""

    def send(self, frame: bytes) -> bool:
        """False if the connection takes nothing more for now."""

    def close(self, linger_ms: int = 0) -> None:
        """Drop what has not left within that time."""


class ClientCore:
    """`addresses`: host:port of each node, by id; `node` is tried first. `dial` makes a connection to a node.

    `number` (u64) names the session. After `timeout_ns` an operation is unknown.
    """

    def __init__(
        self,
        addresses: Mapping[int, str],
        dial: Callable[[int], Connection],
        *,
        number: int,
        node: int | None = None,
        timeout_ns: int,
    ) -> None:
        if not addresses:
            raise ValueError("a client needs the address of at least one node")
        self.number = number
        self.seen: Zxid = ZERO
        self.fence = 0  # the highest seq of the writes whose outcome is unknown
        self.last_trouble = ""  # why the last connection ended, in words
        self.connection: Connection | None = None
        self.connected = False  # a node has said WELCOME
        self._addresses = dict(addresses)
        self._dial = dial
        self._timeout_ns = timeout_ns
        self._late = f"no answer within {timeout_ns / 1e9:g} s"
        self.node = min(addresses) if node is None else self._known(node)  # it is connected to, or tries to reach
        self._leaderless = Leaderless()
        self._now = 0
        self._opened_ns = 0
        self._retry_ns = 0
        self._seqs = itertools.count(1)
        self._unsent: deque[Operation] = deque()
        self._sent: dict[int, Operation] = {}

    @property
    def outstanding(self) -> int:
        """Operations whose outcome is not known."""
        return len(self._sent) + len(self._unsent)

    def submit(self, request: Request, now: int, then: Then | None = None) -> Operation:
        """Take an operation; `turn` or `flush` sends it. `then` is called, from within `turn`, when it is known."""
        self._now = now
        operation = Operation(next(self._seqs), request, now, then)
        self._unsent.append(operation)
        return operation

    def turn(self, now: int, arrived: Iterable[bytes] = (), broken: str | None = None) -> None:
        """Do everything that is due. `arrived`: what the connection has brought by `now`; `broken`: why it is over."""
        self._now = now
        if self.connection is not None:
            self._listen(arrived, broken)
        elif now >= self._retry_ns:
            self._open()
        if not self._sent and self._leaves:  # what was sent is waited for: it would become unknown without need
            self._move_on(f"node {self.node} has no leader")
        self._expire()
        if self._unsent:
            self.flush()

    def wakes_at(self) -> int | None:
        """When `turn` will have something to do although nothing comes."""
        oldest = next(iter(self._sent.values())) if self._sent else self._unsent[0] if self._unsent else None
        expires = oldest.submitted_ns + self._timeout_ns if oldest is not None else None
        if self.connected:
            return expires
        due = self._retry_ns if self.connection is None else self._opened_ns + CONNECT_NS
        return due if expires is None else min(due, expires)

    def flush(self) -> None:
        """Send what was submitted, as far as the connection takes it."""
        while self._unsent and self.connected and self.connection is not None and not self._leaves:
            batch = self._batch()
            try:
                frame = encode(Requests([(each.seq, each.request) for each in batch]))
            except (TypeError, ValueError, OverflowError):
                self._weed(batch)
                continue
            if not self.connection.send(frame):
                return
            for operation in batch:
                operation.node = self.node
                self._sent[operation.seq] = operation
                self._unsent.popleft()

    def move(self, node: int, now: int) -> None:
        """Leave for that node without a word. What was sent and is not answered becomes unknown, the rest moves along."""
        self._now = now
        self._go_to(self._known(node), "the client moved")

    def begin_anew(self, number: int, now: int) -> None:
        """End the session, and begin another one at the same node, which knows nothing of what this one has seen and done."""
        self.close(now)
        self.number, self.seen, self.fence = number, ZERO, 0
        self._seqs = itertools.count(1)
        self._retry_ns = now

    def close(self, now: int) -> None:
        """Say BYE. Whatever is outstanding becomes unknown."""
        self._now = now
        if self.connection is not None and self.connected:
            self.connection.send(encode(Bye()))
        self._disconnect("the client was closed", linger_ms=100)
        while self._unsent:
            self._complete(self._unsent.popleft(), Unknown("the client was closed"))

    # ---- the connection ----

    def _known(self, node: int) -> int:
        if node not in self._addresses:
            raise ValueError(f"there is no node {node}; the nodes are {', '.join(map(str, sorted(self._addresses)))}")
        return node

    @property
    def _leaves(self) -> bool:
        return self._leaderless.given_up and len(self._addresses) > 1

    def _open(self) -> None:
        self.connection = self._dial(self.node)
        self.connection.send(encode(Hello(VERSION, self.number, self.seen, self.fence)))
        self._opened_ns = self._now

    def _listen(self, arrived: Iterable[bytes], broken: str | None) -> None:
        try:
            for frame in arrived:
                message = decode_from_node(frame)
                if isinstance(message, Answers):
                    self._answered(message.items)
                elif isinstance(message, Welcome):
                    self.connected = True
                else:
                    self.connected = False  # it was reached, but not to be asked again at once
                    broken = broken or f"node {self.node} does not serve this client: {message.why}"
        except msgspec.DecodeError as error:
            broken = f"node {self.node} sent something that is not in the clients' protocol: {error}"
        if broken is None and not self.connected and self._now - self._opened_ns >= CONNECT_NS:
            broken = f"node {self.node} does not answer at {self._addresses[self.node]}"
        if broken is not None:
            self._move_on(broken)

    def _move_on(self, why: str) -> None:
        nodes = sorted(self._addresses)
        self._go_to(nodes[(nodes.index(self.node) + 1) % len(nodes)], why)

    def _go_to(self, node: int, why: str) -> None:
        reached = self.connected
        self._disconnect(why)
        self.node = node
        self._retry_ns = self._now if reached else self._now + RETRY_NS

    def _disconnect(self, why: str, linger_ms: int = 0) -> None:
        if self.connection is not None:
            self.connection.close(linger_ms)
        self.connection = None
        self.connected = False
        self._leaderless = Leaderless()
        self.last_trouble = why
        lost, self._sent = self._sent, {}
        for operation in lost.values():
            self._complete(operation, Unknown(why))

    # ---- outcomes ----

    def _answered(self, items: list[tuple[int, Outcome]]) -> None:
        for seq, outcome in items:
            if type(outcome) is not Unknown and outcome.zxid > self.seen:
                self.seen = outcome.zxid
            operation = self._sent.pop(seq, None)
            if operation is not None:
                self._leaderless.heard(operation.request, outcome, self._now)
                self._complete(operation, outcome)

    def _expire(self) -> None:
        """Time is up for the oldest: the node is stuck, since it answers in order. Leave it."""
        limit = self._now - self._timeout_ns
        if self._sent and next(iter(self._sent.values())).submitted_ns <= limit:
            self._move_on(f"node {self.node}: {self._late}")
        while self._unsent and self._unsent[0].submitted_ns <= limit:
            self._complete(self._unsent.popleft(), Unknown(self._late))

    def _complete(self, operation: Operation, outcome: Outcome) -> None:
        operation.outcome = outcome
        operation.completed_ns = self._now
        if type(outcome) is Unknown and operation.node is not None and type(operation.request) not in READS:
            self.fence = max(self.fence, operation.seq)
        if operation.then is not None:
            operation.then(operation, outcome)

    # ---- what is sent together ----

    def _batch(self) -> list[Operation]:
        batch: list[Operation] = []
        size = 0
        for operation in itertools.islice(self._unsent, BATCH_REQUESTS):
            batch.append(operation)
            size += 0 if type(operation.request) in READS else request_size(operation.request)
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
