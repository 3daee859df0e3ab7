"""Clients of a foreign system: the base classes for a backend's client, and the client through which the harness uses it."""

import asyncio
import queue
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any

from zab_chaos.harness.backends.system.mistakes import BackendMistake, called, describe
from zab_chaos.harness.backends.system.versions import VersionNumbers
from zab_chaos.harness.client.core import Operation
from zab_chaos.harness.client.transaction import Committed, ListTransaction, Outcome, ReadList, Request, Transaction
from zab_chaos.harness.errors import BadInput
from zab_chaos.node.clients.protocol import CLIENT_CLOSED
from zab_chaos.node.core.zxid import ZERO
from zab_chaos.node.tree.outcomes import Failed, Ok, Unknown
from zab_chaos.node.tree.refusal import CONFLICT, ERRORS, NO_LEADER, STATE_ERRORS
from zab_chaos.node.tree.requests import ANY, Create, Get, Set

HANG_UP_SECONDS = 1.0
Then = Callable[[Operation, Any], None]  # called with the outcome; only that of a transaction is a Committed
ThenOrRaised = Callable[[Outcome | Exception], None]


def done(value: bytes | None = None, version: int | str | None = None, path: str | None = None) -> Ok:
    """Return the outcome of a request that was carried out; for a transaction see `committed`.

    `value` is what a read found. `version` is the key's version afterwards, if the system has versions: from 0 at its creation
    or, with `opaque_versions`, anything that names one write of the key. `path` is the key that a sequential creation has made.
    """
    return Ok(ZERO, version=version, data=value, path=path)  # type: ignore[arg-type]  # the line turns text into a number


def committed(values: Sequence[bytes | None] | Sequence[Sequence[int]] = ()) -> Committed:
    """Return the outcome of a transaction that took effect. `values`: what each of its reads found, None if no such key.

    Of a transaction on lists that is, for each `ReadList`, the elements of the list in their order, from the first one.
    """
    return Committed(values)


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
    deadline: float
    answers: "queue.SimpleQueue[Outcome | Exception]" = field(default_factory=queue.SimpleQueue)


def _require_valid(request: Request, outcome: object) -> None:
    """Raise TypeError if a backend's client returned something that is no outcome, ValueError if the error is unknown."""
    expected, ok = (Committed, "committed") if isinstance(request, Transaction | ListTransaction) else (Ok, "done")
    if not isinstance(outcome, expected | Failed | Unknown):
        raise TypeError(
            f"a client's answer to {_operation_name(request)} must be {ok}(...), Failed(...) or Unknown(...), not {outcome!r}"
        )
    if isinstance(request, Transaction | ListTransaction):
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


def _require_valid_transaction(request: Transaction | ListTransaction, outcome: object) -> None:
    if isinstance(outcome, Committed):
        lists = isinstance(request, ListTransaction)
        reads = sum(isinstance(step, Get | ReadList) for step in request.steps)
        what, fits = ("a list of ints", _is_list) if lists else ("a value", _is_value)
        allowed = "which is empty for a key without a list" if lists else "bytes or None"
        values = outcome.values
        if not isinstance(values, list | tuple) or len(values) != reads or not all(map(fits, values)):
            raise TypeError(f"committed(...) must have {what} for each of the {reads} reads, {allowed}, not {values!r}")
    if isinstance(outcome, Failed) and outcome.error in STATE_ERRORS:
        raise ValueError(
            f"{outcome!r}: no key is a reason to refuse a transaction without conditions; if it was rolled back, "
            f"the error is {CONFLICT!r}"
        )


def _is_value(value: object) -> bool:
    return isinstance(value, bytes | None)


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple) and all(type(element) is int for element in value)


def _operation_name(request: Request) -> str:
    """Return the name that a scenario's mix and a backend's `operations` have for a request."""
    if isinstance(request, Transaction | ListTransaction):
        return request.op
    if isinstance(request, Set) and request.version != ANY:
        return "cas"
    if isinstance(request, Create) and request.sequential:
        return "sequential"
    return type(request).__name__.lower()


class SystemClient:
    """A client of the load, or one that is used by hand. It sends its requests through a backend's clients, one node's at a
    time, and changes to the next node after a failure.

    `connect` has, for each node, a function that returns a new client. `operations`: what the clients can be asked for; None
    means everything. `versions`: those of a system whose versions do not count. It belongs to one thread.

    `lock`: held while an outcome is told; a load, whose clients' threads have one record, sets its own. `mistake`: the latest
    exception of a backend's client, if nothing came so far but exceptions other than OSErrors; else None.
    """

    def __init__(
        self, connect: Mapping[int, Callable[[], Client]], number: int, node: int, timeout: float, *,
        operations: Collection[str] | None = None, versions: VersionNumbers | None = None,
    ) -> None:  # fmt: skip
        self.number = number
        self.node = node
        self.lock: AbstractContextManager[object] = nullcontext()
        self.mistake: Exception | None = None
        self._connect = connect
        self._timeout = timeout
        self._operations = operations
        self._versions = versions
        self._client: Client | None = None
        self._client_node = node
        self._seq = 0
        self._only_mistakes = True
        self._unsent: deque[_PendingRequest] = deque()
        self._waiting: deque[_PendingRequest] = deque()  # also those that are unsent

    @property
    def connected(self) -> bool:
        """Whether the load may send a request: a backend's client has one at a time, and connects when it has one."""
        return not self._waiting

    @property
    def outstanding(self) -> int:
        return len(self._waiting)

    def submit(self, request: Request, then: Then, now: int | None = None) -> Operation:
        """Enqueue a request, which `poll` or `flush` sends. `now`: the time, in nanoseconds; None means now.

        Raises BadInput if the backend's clients do not support the operation.
        """
        name = _operation_name(request)
        if self._operations is not None and name not in self._operations:
            supported = ", ".join(sorted(self._operations))
            raise BadInput(f"the clients of this backend have no {name}; its `operations` are {supported}")
        self._seq += 1
        submitted = time.monotonic_ns() if now is None else now
        # The core of our own client, which has no transactions, uses this class too.
        operation = Operation(self._seq, request, submitted, then, self.node)  # type: ignore[arg-type]
        pending = _PendingRequest(operation, time.monotonic() + self._timeout)
        self._unsent.append(pending)
        self._waiting.append(pending)
        return operation

    def flush(self) -> None:
        """Send what was submitted. If the client is not connected, this takes as long as the backend needs for that."""
        while self._unsent:
            self._send(self._unsent.popleft())

    def poll(self, timeout: float = 0.0) -> None:
        """Send what was submitted, and wait at most `timeout` seconds for the answer to the oldest request."""
        self.flush()
        if not self._waiting:
            return
        pending = self._waiting[0]
        left = pending.deadline - time.monotonic()
        try:
            self._take(pending.answers.get(timeout=max(0.0, min(timeout, left))))
        except queue.Empty:
            if left <= timeout:
                self._take(Unknown(f"no answer within {self._timeout:g} s"))

    def move(self, node: int, now: int) -> None:
        """Use another node for what is sent from now on."""
        self.node = node

    def begin_new_session(self, number: int, now: int) -> None:
        """Use a new client, under another number."""
        self._close_client()
        self.number = number

    def close(self) -> None:
        """Close the backend's client. Outstanding requests become unknown."""
        self._close_client()
        while self._waiting:
            self._complete_first(Unknown(CLIENT_CLOSED))

    def _send(self, pending: _PendingRequest) -> None:
        if self._client_node != self.node:
            self._close_client()
        try:
            if self._client is None:
                client = called("client", self._connect[self.node], os_errors=True)
                if not isinstance(client, Client):
                    raise BackendMistake(
                        f"`client` of the backend must return a BlockingClient or AsyncClient, not {client!r}"
                    )
                self._client, self._client_node = client, self.node
        except OSError as error:
            pending.answers.put(Failed(NO_LEADER, f"node {self.node} can't be reached: {error}"))
            return
        request: Request = pending.operation.request
        self._client.submit(
            self._versions.asked(request) if self._versions is not None else request, pending.answers.put
        )

    def _take(self, outcome: Outcome | Exception) -> None:
        """Take the outcome of the oldest request, or the exception that there was instead."""
        raised = outcome if isinstance(outcome, Exception) else None
        self._only_mistakes &= raised is not None and not isinstance(raised, OSError)
        self.mistake = raised if self._only_mistakes else None
        if isinstance(outcome, Exception):
            outcome = Unknown(describe(outcome))
        if self._versions is not None:
            outcome = self._versions.recorded(outcome)
        _require_valid(self._waiting[0].operation.request, outcome)
        self._complete_first(outcome)
        if isinstance(outcome, Unknown) or (isinstance(outcome, Failed) and outcome.error == NO_LEADER):
            self._move_to_next_node()

    def _complete_first(self, outcome: Outcome) -> None:
        operation = self._waiting.popleft().operation
        operation.completed_ns = time.monotonic_ns()
        with self.lock:
            operation.then(operation, outcome)  # type: ignore[arg-type, misc]  # see `submit`

    def _move_to_next_node(self) -> None:
        """Use a new client, also if there is only one node: the old one's connection may be broken."""
        nodes = sorted(self._connect)
        self._close_client()
        self.node = nodes[(nodes.index(self.node) + 1) % len(nodes)]

    def _close_client(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()
