"""A client, single-threaded: `submit` takes an operation, `poll` does everything else."""

import secrets
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol, Self

import zmq

from zab_chaos.harness.client import core
from zab_chaos.harness.client.connection import Connection
from zab_chaos.harness.client.core import ClientCore, Operation, Then
from zab_chaos.harness.client.session import Verbs
from zab_chaos.node.net.keys import Keys
from zab_chaos.node.tree.outcomes import Outcome
from zab_chaos.node.tree.requests import Children, Exists, Request


class PolledConnection(core.Connection, Protocol):
    """A connection whose news is asked for."""

    def receive(self) -> list[bytes]:
        """All that has arrived."""

    def broken(self) -> str | None:
        """Why the connection is over, in words, or None."""


class PolledClient(Verbs[Outcome]):
    """Base, whatever carries its frames: a subclass says how to `_dial`.

    `number` (u64) names the session; drawn if not given. `timeout`: seconds after which an operation is unknown.
    `poller`: one that sleeps for this client too; the client keeps what it waits for registered there.
    """

    def __init__(
        self, addresses: Mapping[int, str], node: int | None, *, number: int | None, timeout: float,
        poller: zmq.Poller | None,
    ) -> None:  # fmt: skip
        self._addresses = dict(addresses)
        number = secrets.randbits(63) if number is None else number
        self.core = ClientCore(self._addresses, self._dialled, number=number, node=node, timeout_ns=int(timeout * 1e9))
        self._poller = poller or zmq.Poller()
        self._connection: PolledConnection | None = None  # the latest; over unless it is the core's

    @abstractmethod
    def _dial(self, node: int) -> PolledConnection:
        """A new connection to that node."""

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
        """Operations whose outcome is not known."""
        return self.core.outstanding

    @property
    def last_trouble(self) -> str:
        """Why the last connection ended, in words."""
        return self.core.last_trouble

    def submit(self, request: Request, then: Then | None = None) -> Operation:
        """Take an operation; `poll` or `flush` sends it. `then` is called, from within `poll`, when it is known."""
        return self.core.submit(request, time.monotonic_ns(), then)

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
        """Send what was submitted, as far as the connection takes it."""
        self.core.flush()

    def move(self, node: int) -> None:
        """Leave for that node without a word. What was sent and is not answered becomes unknown, the rest moves along."""
        self.core.move(node, time.monotonic_ns())

    def close(self) -> None:
        """Say BYE. Whatever is outstanding becomes unknown."""
        self.core.close(time.monotonic_ns())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _turn(self) -> None:
        arrived, broken = [], None
        if self._connection is not None and self._connection is self.core.connection:
            broken = self._connection.broken()  # asked first: what had arrived before that still counts
            arrived = self._connection.receive()
        self.core.turn(time.monotonic_ns(), arrived, broken)

    def _dialled(self, node: int) -> PolledConnection:
        self._connection = self._dial(node)
        return self._connection


class Client(PolledClient):
    """Over ZeroMQ. `addresses`: host:port of each node, by id, or a list for the nodes 1, 2, ...; `node` is tried first."""

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
        super().__init__(by_id, node, number=number, timeout=timeout, poller=poller)
        self._keys = keys
        self._own_context: zmq.Context[Any] | None = zmq.Context() if context is None else None
        self._context = context or self._own_context

    def close(self) -> None:
        super().close()
        if self._own_context is not None:
            self._own_context.term()
            self._own_context = None

    def _dial(self, node: int) -> Connection:
        assert self._context is not None
        return Connection(self._context, self._poller, self._addresses[node], self._keys)
