"""Single-threaded clients on real connections: each drives a `zab_chaos.harness.client.core.ClientCore`."""

import secrets
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

import zmq

from zab_chaos.harness.client import core
from zab_chaos.harness.client.connection import Connection, check_address
from zab_chaos.harness.client.core import ClientCore, Operation, Then, nanoseconds
from zab_chaos.harness.client.session import Verbs
from zab_chaos.node.net.keys import Keys
from zab_chaos.node.tree.outcomes import Outcome
from zab_chaos.node.tree.requests import Children, Exists, Request


class PolledConnection(core.Connection, Protocol):
    """A connection that is polled for frames and for its end."""

    def receive(self) -> list[bytes]:
        """Return all frames that have arrived."""

    def broken(self) -> str | None:
        """Return why the connection is over, in words, or None."""


class PolledClient(Verbs[Outcome]):
    """Base of clients on real connections. A subclass opens a connection in `_dial`.

    `submit` enqueues an operation; `poll` does everything else. `number` (u64) names the session and is drawn if it is not
    given. `timeout`: seconds after which an operation is unknown. `poller`: a poller that is shared with other clients;
    the client keeps its sockets registered there.
    """

    def __init__(
        self, addresses: Mapping[int, str], node: int | None, *, number: int | None, timeout: float,
        poller: zmq.Poller | None,
    ) -> None:  # fmt: skip
        self._addresses = dict(addresses)
        number = secrets.randbits(63) if number is None else number
        self.core = ClientCore(
            self._addresses, self._connect_to, number=number, node=node, timeout_ns=nanoseconds(timeout)
        )
        self._poller = poller or zmq.Poller()
        self._connection: PolledConnection | None = None  # the latest one; closed unless it is the core's

    @abstractmethod
    def _dial(self, node: int) -> PolledConnection:
        """Open a new connection to the node."""

    @property
    def number(self) -> int:
        return self.core.number

    @property
    def node(self) -> int:
        """The node that the client is connected to, or tries to reach."""
        return self.core.node

    @property
    def connected(self) -> bool:
        return self.core.connected

    @property
    def outstanding(self) -> int:
        """The number of operations whose outcome is not known yet."""
        return self.core.outstanding

    @property
    def last_trouble(self) -> str:
        """Why the last connection ended, in words."""
        return self.core.last_trouble

    def submit(self, request: Request, then: Then | None = None) -> Operation:
        """Enqueue an operation, which `poll` or `flush` sends. `poll` calls `then` when its outcome is known."""
        return self.core.submit(request, time.monotonic_ns(), then)

    def poll(self, timeout: float = 0.0) -> None:
        """Send, receive, reconnect; sleep at most `timeout` seconds while there is nothing to do."""
        self._turn()
        if timeout > 0:
            self._poller.poll(max(1, int(timeout * 1000)))
            self._turn()

    def wait(self, operation: Operation) -> Outcome:
        """Wait for the operation's outcome and return it. After the client's timeout it is Unknown."""
        while operation.outcome is None:
            self.poll(0.05)
        return operation.outcome

    def connect(self, timeout: float) -> bool:
        """Wait until a node has sent WELCOME. Return False if none has within `timeout` seconds."""
        end = time.monotonic() + timeout
        while not self.connected and time.monotonic() < end:
            self.poll(0.02)
        return self.connected

    def ask(self, request: Request) -> Outcome:
        return self.wait(self.submit(request))

    def exists(self, path: str) -> Outcome:
        return self.ask(Exists(path))

    def children(self, path: str) -> Outcome:
        return self.ask(Children(path))

    def flush(self) -> None:
        """Send what was submitted, as far as the connection accepts it."""
        self.core.flush()

    def move(self, node: int) -> None:
        """Move to another node without BYE. What was sent and is not answered becomes unknown; the rest is sent there."""
        self.core.move(node, time.monotonic_ns())

    def close(self) -> None:
        """Send BYE and close the connection. Outstanding operations become unknown."""
        self.core.close(time.monotonic_ns())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _turn(self) -> None:
        arrived, broken = [], None
        if self._connection is not None and self._connection is self.core.connection:
            broken = self._connection.broken()  # before `receive`, so that frames from before the end still count
            arrived = self._connection.receive()
        self.core.turn(time.monotonic_ns(), arrived, broken)

    def _connect_to(self, node: int) -> PolledConnection:
        self._connection = self._dial(node)
        return self._connection


class Client(PolledClient):
    """A client over ZeroMQ.

    `addresses`: host:port of each node, by id, or a list for the nodes 1, 2, ...; `node` is tried first. Raises ValueError
    for an address of another form, or if there is no such node.
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
        by_id = addresses if isinstance(addresses, dict) else dict(enumerate(addresses, 1))
        for address in by_id.values():
            check_address(address)
        super().__init__(by_id, node, number=number, timeout=timeout, poller=poller)
        self._keys = keys
        self._own_context: zmq.Context[Any] | None = zmq.Context() if context is None else None
        self._context = context or self._own_context

    def close(self) -> None:
        try:
            super().close()
        finally:
            if self._own_context is not None:
                self._own_context.destroy(linger=0)  # `term` would wait for a socket that an error has left open
                self._own_context = None

    def _dial(self, node: int) -> Connection:
        assert self._context is not None
        return Connection(self._context, self._poller, self._addresses[node], self._keys)
