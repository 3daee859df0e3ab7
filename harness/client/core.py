"""The client, sans-I/O: one session with the ensemble, with many operations outstanding, on one node at a time.

An operation ends as `Ok`, `Failed` (certainly without effect) or `Unknown` (it was sent, and not answered when the node went
away or the timeout was over). When its node goes away, or has had no leader for a while, the client moves to the next one
under the same number. It sends that node the last zxid that it has seen, so that it never reads an older state, and its
fence, the highest number of its writes with an unknown outcome, so that none of these takes effect after any answer of the
new node. Operations that were not sent yet move with it.

The driver passes in the time and the frames that arrived, and opens the connections: `zab_chaos.harness.client.client` over
ZeroMQ, `zab_chaos.harness.backends.simulator.client` in the simulated world. Times are nanoseconds of a monotonic clock.
"""

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import msgspec

from zab_chaos.harness.client.leaderless import Leaderless
from zab_chaos.node.clients.protocol import (
    BATCH_BYTES,
    CLIENT_CLOSED,
    NO_ANSWER,
    REFUSED,
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
from zab_chaos.node.tree.requests import READS, Create, Multi, Request, Set

BATCH_REQUESTS = 500  # requests in one message at most
REQUEST_BYTES = 64  # more than a request has in a message beside its path and data
CONNECT_NS = 1_000_000_000  # a node that has not sent WELCOME by then is passed over
RETRY_NS = 50_000_000  # between two attempts while no node can be reached
SECONDS_MAX = 1e9  # thirty years, for no timeout
SHOWN_MAX = 200  # characters of a request in an error message


class Operation(msgspec.Struct, eq=False):
    """A submitted request and its outcome. Times are nanoseconds of the client's clock.

    `node`: the node that it was sent to; None if it was not sent. `outcome`: None until it is known.
    """

    seq: int
    request: Request
    submitted_ns: int
    then: "Then | None" = None
    node: int | None = None
    outcome: Outcome | None = None
    completed_ns: int = 0


Then = Callable[[Operation, Outcome], None]  # called when an operation's outcome is known


class RecordedClient(Protocol):
    """What a record says of the client: its number, and the node that it is connected to or tries to reach."""

    @property
    def number(self) -> int: ...
    @property
    def node(self) -> int: ...


class Connection(Protocol):
    """A connection to one node, used once. It must not reconnect by itself, since it would send what was queued for the
    old session into a new one."""

    def send(self, frame: bytes) -> bool:
        """Send a frame. Return False if the connection accepts no more for now."""

    def close(self, linger_ms: int = 0) -> None:
        """Close the connection. Frames that have not left within `linger_ms` are dropped."""


class ClientCore:
    """A session's state machine.

    `addresses`: host:port of each node, by id; `node` is tried first. `dial` opens a connection to a node. `number` (u64)
    names the session. An operation is unknown after `timeout_ns`.
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
        self.connected = False  # a node has sent WELCOME
        self._addresses = dict(addresses)
        self._dial = dial
        self._timeout_ns = timeout_ns
        self._late = f"{NO_ANSWER} {timeout_ns / 1e9:g} s"
        self.node = min(addresses) if node is None else self._known(node)  # connected to it, or trying to reach it
        self._leaderless = Leaderless()
        self._now = 0
        self._opened_ns = 0
        self._retry_ns = 0
        self._seqs = itertools.count(1)
        self._unsent: deque[Operation] = deque()
        self._sent: dict[int, Operation] = {}
        self._closed = False

    @property
    def outstanding(self) -> int:
        """The number of operations whose outcome is not known yet."""
        return len(self._sent) + len(self._unsent)

    def submit(self, request: Request, now: int, then: Then | None = None) -> Operation:
        """Enqueue an operation, which `turn` or `flush` sends. `turn` calls `then` when its outcome is known."""
        self._now = now
        operation = Operation(next(self._seqs), request, now, then)
        self._unsent.append(operation)
        return operation

    def turn(self, now: int, arrived: Iterable[bytes] = (), broken: str | None = None) -> None:
        """Do everything that is due at `now`. `arrived`: frames from the connection; `broken`: why the connection is over."""
        self._now = now
        if self.connection is not None:
            self._process_arrived(arrived, broken)
        elif now >= self._retry_ns and not self._closed:
            self._open()
        if (
            not self._sent and self._should_leave
        ):  # answers to sent requests are awaited: else they became unknown needlessly
            self._move_on(f"node {self.node} has no leader")
        self._expire()
        if self._unsent:
            self.flush()

    def wakes_at(self) -> int | None:
        """Return the time at which `turn` has something to do even if nothing arrives; None if there is no such time."""
        oldest = next(iter(self._sent.values())) if self._sent else self._unsent[0] if self._unsent else None
        expires = oldest.submitted_ns + self._timeout_ns if oldest is not None else None
        if self.connected or self._closed:
            return expires
        due = self._retry_ns if self.connection is None else self._opened_ns + CONNECT_NS
        return due if expires is None else min(due, expires)

    def flush(self) -> None:
        """Send what was submitted, as far as the connection accepts it."""
        while self._unsent and self.connected and self.connection is not None and not self._should_leave:
            batch = self._batch()
            try:
                frame = encode(Requests([(each.seq, each.request) for each in batch]))
            except (TypeError, ValueError, OverflowError):
                self._fail_unencodable(batch)
                continue
            if not self.connection.send(frame):
                return
            for operation in batch:
                operation.node = self.node
                self._sent[operation.seq] = operation
                self._unsent.popleft()

    def move(self, node: int, now: int) -> None:
        """Move to another node without BYE. What was sent and is not answered becomes unknown; the rest is sent there.

        Raises ValueError if there is no such node.
        """
        self._now = now
        self._go_to(self._known(node), "the client moved")

    def begin_new_session(self, number: int, now: int) -> None:
        """End the session, and begin another one at the same node, without the state that this one has seen."""
        self.close(now)
        self.number, self.seen, self.fence = number, ZERO, 0
        self._seqs = itertools.count(1)
        self._retry_ns = now
        self._closed = False

    def close(self, now: int) -> None:
        """Send BYE and close the connection, for good. Outstanding operations become unknown."""
        self._now = now
        self._closed = True
        if self.connection is not None and self.connected:
            self.connection.send(encode(Bye()))
        self._disconnect(CLIENT_CLOSED, linger_ms=100)
        while self._unsent:
            self._complete(self._unsent.popleft(), Unknown(CLIENT_CLOSED))

    # ---- the connection ----

    def _known(self, node: int) -> int:
        if node not in self._addresses:
            raise ValueError(f"there is no node {node}; the nodes are {', '.join(map(str, sorted(self._addresses)))}")
        return node

    @property
    def _should_leave(self) -> bool:
        return self._leaderless.given_up and len(self._addresses) > 1

    def _open(self) -> None:
        self.connection = self._dial(self.node)
        self.connection.send(encode(Hello(VERSION, self.number, self.seen, self.fence)))
        self._opened_ns = self._now

    def _process_arrived(self, arrived: Iterable[bytes], broken: str | None) -> None:
        connection = self.connection
        try:
            for frame in arrived:
                message = decode_from_node(frame)
                if isinstance(message, Answers):
                    self._answered(message.items)
                elif isinstance(message, Welcome):
                    self.connected = True
                else:
                    self.connected = False  # so that the next attempt waits for RETRY_NS
                    broken = broken or f"node {self.node} {REFUSED}: {message.why}"
        except msgspec.DecodeError as error:
            broken = f"node {self.node} sent something that is not in the clients' protocol: {error}"
        if self.connection is not connection:
            return  # whoever was told an outcome has closed or moved the client
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
                self._leaderless.note_answer(operation.request, outcome, self._now)
                self._complete(operation, outcome)

    def _expire(self) -> None:
        """Leave the node if the oldest request has timed out: it answers in order, so it is stuck. Expire unsent requests."""
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

    # ---- batches ----

    def _batch(self) -> list[Operation]:
        """Return the requests to send in the next message: one, or as many as have at most BATCH_BYTES together."""
        if len(self._unsent) == 1:
            return [self._unsent[0]]
        batch: list[Operation] = []
        size = 0
        for operation in itertools.islice(self._unsent, BATCH_REQUESTS):
            size += _bytes_at_most(operation.request)
            if batch and size > BATCH_BYTES:
                break
            batch.append(operation)
        return batch

    def _fail_unencodable(self, batch: list[Operation]) -> None:
        """Fail the requests that MessagePack can't encode (a lone surrogate in a path, a number beyond 64 bits)."""
        for operation in batch:
            try:
                encode(operation.request)
            except (TypeError, ValueError, OverflowError):
                self._unsent.remove(operation)
                self._complete(operation, unencodable(operation.request))


def _bytes_at_most(request: Request) -> int:
    """Return a bound for the bytes that a request has in a message: with its number, the lengths and the version."""
    if type(request) is Multi:
        return REQUEST_BYTES + sum(map(_bytes_at_most, request.steps))
    path = request.path
    size = REQUEST_BYTES + (len(path) if path.isascii() else 4 * len(path))
    return size + len(request.data) if type(request) is Create or type(request) is Set else size


def nanoseconds(timeout: float) -> int:
    """Return a timeout of so many seconds, infinity included, in nanoseconds. Raises ValueError for a negative one, and NaN."""
    if not timeout >= 0:
        raise ValueError(f"a timeout is a number of seconds, not {timeout}")
    return int(min(timeout, SECONDS_MAX) * 1e9)


def unencodable(request: Request) -> Failed:
    """Return the outcome of a request that MessagePack can't encode."""
    return Failed(
        BAD_REQUEST,
        f"{shortened(request)} can't be sent: a path must be text that UTF-8 can encode, and a version must fit into 64 bits",
    )


def shortened(request: object) -> str:
    """Return a request as text for an error message."""
    shown = repr(request)
    return shown if len(shown) <= SHOWN_MAX else f"{shown[:SHOWN_MAX]}..."
