"""Clients of a foreign system: the base classes for a backend's client, and the line through which the harness uses it."""

import asyncio
import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from zab_chaos.harness.backends.system.history import HistoryFile
from zab_chaos.harness.backends.system.mistakes import describe
from zab_chaos.harness.backends.system.versions import VersionNumbers
from zab_chaos.harness.client.core import Operation
from zab_chaos.harness.client.transaction import Committed, Outcome, Request, Transaction
from zab_chaos.harness.client.transport import CLOSED
from zab_chaos.harness.errors import BadInput
from zab_chaos.node.clients.protocol import CLIENT_CLOSED
from zab_chaos.node.core.zxid import ZERO
from zab_chaos.node.tree.outcomes import Failed, Ok, Unknown
from zab_chaos.node.tree.refusal import CONFLICT, ERRORS, NO_LEADER, STATE_ERRORS
from zab_chaos.node.tree.requests import ANY, Create, Get, Set

HANG_UP_SECONDS = 1.0
Then = Callable[[Any], None]  # called with the outcome; only that of a transaction is a Committed
ThenOrRaised = Callable[[Outcome | Exception], None]


def done(value: bytes | None = None, version: int | str | None = None, path: str | None = None) -> Ok:
    """Return the outcome of a request that was carried out; for a transaction see `committed`.

    `value` is what a read found. `version` is the key's version afterwards, if the system has versions: from 0 at its creation
    or, with `opaque_versions`, anything that names one write of the key. `path` is the key that a sequential creation has made.
    """
    return Ok(ZERO, version=version, data=value, path=path)  # type: ignore[arg-type]  # the line turns text into a number


def committed(values: Sequence[bytes | None] = ()) -> Committed:
    """Return the outcome of a transaction that took effect. `values`: what each of its reads found, None if no such key."""
    return Committed(list(values))


class Client(ABC):
    """A client of one node. The harness sends one request at a time, and closes a client that does not answer in time."""

    @abstractmethod
    def submit(self, request: Request, then: ThenOrRaised) -> None:
        """Send a request. Call `then` once, from any thread, with the outcome, or with the exception that there was instead.

        `Failed` is only for a request that certainly has no effect, now or later. If it may have one, the outcome is `Unknown`.
        """

    @abstractmethod
    def close(self) -> None: ...


class BlockingClient(Client):
    """A client that blocks until the answer comes: `ask` is called in the client's own thread."""

    def __init__(self) -> None:
        self._requests: queue.SimpleQueue[tuple[Request, ThenOrRaised] | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="client", daemon=True).start()

    @abstractmethod
    def ask(self, request: Request) -> Outcome:
        """Send a request, and return its outcome. An OSError, or any other exception, makes the outcome `Unknown`."""

    def hang_up(self) -> None:
        """Close the connection, also while `ask` is waiting in another thread."""

    def submit(self, request: Request, then: ThenOrRaised) -> None:
        self._requests.put((request, then))

    def close(self) -> None:
        self._requests.put(None)
        self.hang_up()

    def _run(self) -> None:
        while (submitted := self._requests.get()) is not None:
            request, then = submitted
            try:
                outcome: Outcome | Exception = self.ask(request)
            except Exception as error:
                outcome = error
            then(outcome)


class AsyncClient(Client):
    """A client that uses asyncio: `connect`, `ask` and `hang_up` run in an event loop, in the client's own thread."""

    def __init__(self, timeout: float) -> None:
        """Connect within `timeout` seconds. Raises OSError, also in place of any other exception of `connect`."""
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._run, name="client", daemon=True).start()
        try:
            asyncio.run_coroutine_threadsafe(asyncio.wait_for(self.connect(), timeout), self._loop).result()
        except Exception as error:
            self.close()
            raise error if isinstance(error, OSError) else ConnectionError(describe(error)) from error

    @abstractmethod
    async def connect(self) -> None:
        """Connect to the node."""

    @abstractmethod
    async def ask(self, request: Request) -> Outcome:
        """Send a request, and return its outcome. An OSError, or any other exception, makes the outcome `Unknown`."""

    async def hang_up(self) -> None:
        """Close the connection, also while `ask` is waiting."""

    def submit(self, request: Request, then: ThenOrRaised) -> None:
        asyncio.run_coroutine_threadsafe(self._ask(request, then), self._loop)

    def close(self) -> None:
        """Have the thread hang up and end. It is not waited for."""
        self._loop.call_soon_threadsafe(self._loop.stop)

    async def _ask(self, request: Request, then: ThenOrRaised) -> None:
        try:
            outcome: Outcome | Exception = await self.ask(request)
        except Exception as error:
            outcome = error
        then(outcome)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.get_loop().run_forever()
            # Whatever the library leaves running, such as the connection's reader, is cancelled when the runner is closed.
            with suppress(Exception):
                runner.run(asyncio.wait_for(self.hang_up(), HANG_UP_SECONDS))


@dataclass(frozen=True, slots=True)
class _PendingRequest:
    operation: Operation
    then: Then
    deadline: float
    answers: "queue.SimpleQueue[Outcome | Exception]"


def _require_valid(request: Request, outcome: object) -> None:
    """Raise TypeError if a backend's client returned something that is no outcome, ValueError if the error is unknown."""
    expected, ok = (Committed, "committed") if isinstance(request, Transaction) else (Ok, "done")
    if not isinstance(outcome, expected | Failed | Unknown):
        raise TypeError(
            f"a client's answer to {_operation_name(request)} must be {ok}(...), Failed(...) or Unknown(...), not {outcome!r}"
        )
    if isinstance(request, Transaction):
        _require_valid_transaction(request, outcome)
    if isinstance(outcome, Ok):
        for name, value, kind in (
            ("value", outcome.data, bytes),
            ("version", outcome.version, int),
            ("path", outcome.path, str),
        ):
            if value is not None and not isinstance(value, kind):
                raise TypeError(f"the {name} in done(...) must be {kind.__name__} or None, not {value!r}")
    if isinstance(outcome, Failed) and outcome.error not in ERRORS:
        raise ValueError(
            f"{outcome!r}: a client's errors are {', '.join(map(repr, ERRORS))}; what may have an effect is Unknown"
        )


def _require_valid_transaction(request: Transaction, outcome: object) -> None:
    if isinstance(outcome, Committed):
        reads = sum(isinstance(step, Get) for step in request.steps)
        if len(outcome.values) != reads or not all(isinstance(value, bytes | None) for value in outcome.values):
            raise TypeError(
                f"committed(...) must have a value for each of the {reads} reads, bytes or None, not {outcome.values!r}"
            )
    if isinstance(outcome, Failed) and outcome.error in STATE_ERRORS:
        raise ValueError(
            f"{outcome!r}: no key is a reason to refuse a transaction without conditions; if it was rolled back, "
            f"the error is {CONFLICT!r}"
        )


def _operation_name(request: Request) -> str:
    """Return the name that a scenario's mix and a backend's `operations` have for a request."""
    if isinstance(request, Transaction):
        return request.op
    if isinstance(request, Set) and request.version != ANY:
        return "cas"
    if isinstance(request, Create) and request.sequential:
        return "sequential"
    return type(request).__name__.lower()


class SystemLine:
    """Implements `zab_chaos.harness.client.session.Line` with a backend's clients. It changes to the next node after a failure.

    `connect` has, for each node, a function that returns a new client. `operations`: what the clients can be asked for; None
    means everything. `versions`: those of a system whose versions do not count. It belongs to one thread, and any thread may
    close it: an ensemble that ends closes all of its clients.
    """

    def __init__(
        self, connect: Mapping[int, Callable[[], Client]], number: int, node: int, timeout: float, history: HistoryFile,
        operations: Collection[str] | None = None, versions: VersionNumbers | None = None,
    ) -> None:  # fmt: skip
        self.number = number
        self.node = node
        self.raised: Exception | None = None  # what the latest outcome was made of, if it was an exception
        self._connect = connect
        self._timeout = timeout
        self._history = history
        self._operations = operations
        self._versions = versions
        self._client: Client | None = None
        self._seq = 0
        self._waiting: list[_PendingRequest] = []
        self._closed = False
        self._lock = threading.RLock()

    def submit(self, request: Request, then: Then, due_ns: int | None = None) -> None:
        """Record and send a request. `due_ns` is the time at which the open loop had to send it; None means now.

        Raises BadInput if the backend's clients do not support the operation.
        """
        name = _operation_name(request)
        if self._operations is not None and name not in self._operations:
            supported = ", ".join(sorted(self._operations))
            raise BadInput(f"the clients of this backend have no {name}; its `operations` are {supported}")
        with self._lock:
            if self._closed:
                raise ValueError(CLOSED)
            self._send(request, then, due_ns)

    def _send(self, request: Request, then: Then, due_ns: int | None) -> None:
        self._seq += 1
        # The core of our own client, which has no transactions, uses this class too.
        operation = Operation(self._seq, request, time.monotonic_ns(), node=self.node)  # type: ignore[arg-type]
        self._history.invoke(self, operation, due_ns)
        pending = _PendingRequest(operation, then, time.monotonic() + self._timeout, queue.SimpleQueue())
        self._waiting.append(pending)
        try:
            if self._client is None:
                self._client = self._connect[self.node]()
        except OSError as error:
            pending.answers.put(Failed(NO_LEADER, f"node {self.node} can't be reached: {error}"))
            return
        self._client.submit(
            self._versions.asked(request) if self._versions is not None else request, pending.answers.put
        )

    def move(self, node: int) -> None:
        """Use another node from now on."""
        if node != self.node:
            self._reconnect_to(node)

    def wait(self, known: Callable[[], bool], seconds: float) -> None:
        end = time.monotonic() + seconds
        while not known() and self._waiting:
            with self._lock:
                if self._closed:
                    return
                left = min(end, self._waiting[0].deadline) - time.monotonic()
                self._receive(max(0.0, left))
            if time.monotonic() >= end:
                return

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        with self._lock:
            self._close_client()
            while self._waiting:
                self._complete_first(Unknown(CLIENT_CLOSED))

    def _receive(self, seconds: float) -> None:
        """Wait for the answer to the oldest request; after its deadline the outcome is Unknown."""
        pending = self._waiting[0]
        try:
            outcome = pending.answers.get(timeout=seconds) if seconds else pending.answers.get_nowait()
        except queue.Empty:
            if time.monotonic() < pending.deadline:
                return
            outcome = Unknown(f"no answer within {self._timeout:g} s")
        self.raised = outcome if isinstance(outcome, Exception) else None
        if isinstance(outcome, Exception):
            outcome = Unknown(describe(outcome))
        if self._versions is not None:
            outcome = self._versions.recorded(outcome)
        _require_valid(pending.operation.request, outcome)
        self._complete_first(outcome)
        if isinstance(outcome, Unknown) or (isinstance(outcome, Failed) and outcome.error == NO_LEADER):
            self._move_to_next_node()

    def _complete_first(self, outcome: Outcome) -> None:
        pending = self._waiting.pop(0)
        pending.operation.completed_ns = time.monotonic_ns()
        self._history.complete(self, pending.operation, outcome)
        pending.then(outcome)

    def _move_to_next_node(self) -> None:
        """Use a new client, also if there is only one node: the old one's connection may be broken."""
        nodes = sorted(self._connect)
        self._reconnect_to(nodes[(nodes.index(self.node) + 1) % len(nodes)])

    def _reconnect_to(self, node: int) -> None:
        self._close_client()
        self.node = node

    def _close_client(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()
