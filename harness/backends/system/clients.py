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

from zab_chaos.harness.backends.system.mistakes import (
    CALL_SECONDS,
    BackendMistake,
    ClientAnswers,
    Unreachable,
    called,
    describe,
    place_of_thread,
    place_of_type,
    shown,
)
from zab_chaos.harness.backends.system.versions import VersionNumbers
from zab_chaos.harness.client.core import Operation
from zab_chaos.harness.client.transaction import Committed, ListTransaction, Outcome, ReadList, Request, Transaction
from zab_chaos.harness.errors import BadInput
from zab_chaos.node.clients.protocol import CLIENT_CLOSED
from zab_chaos.node.core.zxid import ZERO
from zab_chaos.node.tree.outcomes import Failed, Ok, Unknown
from zab_chaos.node.tree.refusal import CONFLICT, ERRORS, NO_LEADER, NO_NODE, STATE_ERRORS
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

    _own_thread: threading.Thread | None = None  # until `__init__` is called

    def __init__(self) -> None:
        self._requests: queue.SimpleQueue[tuple[Request, ThenOrRaised] | None] = queue.SimpleQueue()
        self._asking = False
        self._own_thread = threading.Thread(target=self._run, name="client", daemon=True)
        self._own_thread.start()

    @property
    def _place_of_ask(self) -> str | None:
        """Where in the backend's code `ask` is, in words that may be empty; None if it has returned."""
        return place_of_thread(self._own_thread, "`ask` waits in") if self._own_thread and self._asking else None

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
            self._asking = True
            try:
                outcome: Outcome | Exception = self.ask(request)
            except Exception as error:
                outcome = error
            except SystemExit as error:  # it would end the thread without a word
                outcome = RuntimeError(repr(error)).with_traceback(error.__traceback__)
            self._asking = False
            then(outcome)


class AsyncClient(Client):
    """A client that uses asyncio: `connect`, `ask` and `hang_up` run in an event loop, in the client's own thread."""

    _own_thread: threading.Thread | None = None  # until `__init__` is called

    def __init__(self, timeout: float) -> None:
        """Connect within `timeout` seconds. Raises OSError, also in place of any other exception of `connect`."""
        self._loop = asyncio.new_event_loop()
        self._own_thread = threading.Thread(target=self._run, name="client", daemon=True)
        self._own_thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self._connect_within(timeout), self._loop).result()
        except Exception as error:
            self.close()
            raise error if isinstance(error, OSError) else Unreachable(describe(error)) from error

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

    async def _connect_within(self, timeout: float) -> None:
        async with asyncio.timeout(timeout):
            await self.connect()

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


_DONE = {  # by kind of request: how `done` answers it, and which of its arguments must not be missing
    "get": ("done(value, version)", "value"),
    **dict.fromkeys(("set", "cas", "create", "exists", "check"), ("done(version=...)", "")),
    "sequential": ("done(path=...)", "path"),
    "delete": ("done()", ""),
}


def _wrong(request: Request, outcome: object) -> str | None:
    """Return in words what is wrong with the answer of a backend's client; None if nothing is."""
    if isinstance(outcome, Failed):
        return _wrong_failure(outcome, transaction=isinstance(request, Transaction | ListTransaction))
    if isinstance(outcome, Unknown):
        why: object = outcome.why
        return None if isinstance(why, str) else f"must have a text in Unknown(...), not {shown(why)}"
    if isinstance(request, Transaction | ListTransaction):
        return _wrong_values(request, outcome) if isinstance(outcome, Committed) else _no_outcome("committed", outcome)
    return _wrong_done(_operation_name(request), outcome) if isinstance(outcome, Ok) else _no_outcome("done", outcome)


def _no_outcome(ok: str, outcome: object) -> str:
    return f"must be {ok}(...), Failed(...) or Unknown(...), not {shown(outcome)}"


def _wrong_done(kind: str, outcome: Ok) -> str | None:
    call, required = _DONE.get(kind, ("done(...)", ""))
    arguments: tuple[tuple[str, object, type, str], ...] = (
        ("value", outcome.data, bytes, "bytes"),
        ("version", outcome.version, int, "a whole number from 0 on"),
        ("path", outcome.path, str, "a text"),
    )
    for name, value, form, words in arguments:
        if value is None and name != required:
            continue
        if not isinstance(value, form) or isinstance(value, bool) or (isinstance(value, int) and value < 0):
            missing = "" if (kind, value) != ("get", None) else f". If there is no such key, return Failed({NO_NODE!r})"
            return f"is {call}, in which the {name} must be {words}, not {shown(value)}{missing}"
    return None


def _wrong_failure(outcome: Failed, *, transaction: bool) -> str | None:
    words: object = outcome.words
    if not isinstance(words, str):
        return f"must have texts in Failed(...), not {shown(words)}"
    if outcome.error not in ERRORS:
        errors = ", ".join(map(repr, ERRORS))
        return f"is {shown(outcome)}, but the errors are {errors}; what may have an effect is Unknown"
    if transaction and outcome.error in STATE_ERRORS:
        return (
            f"is {shown(outcome)}, but no key is a reason to refuse a transaction without conditions; if it was rolled "
            f"back, the error is {CONFLICT!r}"
        )
    return None


def _wrong_values(request: Transaction | ListTransaction, outcome: Committed) -> str | None:
    lists = isinstance(request, ListTransaction)
    reads = sum(isinstance(step, Get | ReadList) for step in request.steps)
    what, fits = ("a list of ints", _is_list) if lists else ("a value", _is_value)
    allowed = "which is empty for a key without a list" if lists else "bytes or None"
    values = outcome.values
    if not isinstance(values, list | tuple) or len(values) != reads or not all(map(fits, values)):
        return f"must have {what} in committed(...) for each of the {reads} reads, {allowed}, not {shown(values)}"
    return None


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

    `answers`: is told what comes. `lock`: held while an outcome is told; a load, whose clients' threads have one record, sets
    its own.
    """

    def __init__(
        self, connect: Mapping[int, Callable[[], Client]], number: int, node: int, timeout: float, *,
        operations: Collection[str] | None = None, versions: VersionNumbers | None = None,
        answers: ClientAnswers | None = None,
    ) -> None:  # fmt: skip
        self.number = number
        self.node = node
        self.lock: AbstractContextManager[object] = nullcontext()
        self._connect = connect
        self._timeout = timeout
        self._operations = operations
        self._versions = versions
        self._answers = answers or ClientAnswers()
        self._client: Client | None = None
        self._client_node = node
        self.has_connected = False  # to any node, at any time
        self._seq = 0
        self._only_mistakes = True  # nothing came so far but exceptions other than OSErrors, or no answer at all
        self._raised: Exception | None = None  # the latest such exception
        # The first client that did not answer in time, if `ask` had not returned then, and when that was.
        self._overdue: tuple[BlockingClient, float] | None = None
        self._unreachable: BaseException | None = None  # the exception of `client` for which the node can't be reached
        self._unsent: deque[_PendingRequest] = deque()
        self._waiting: deque[_PendingRequest] = deque()  # also those that are unsent

    @property
    def mistake(self) -> str | None:
        """What `ask` of the backend has done, in words, if nothing came so far but exceptions other than OSErrors, or if it
        has not returned long after the first timeout; else None."""
        if not self._only_mistakes:
            return None
        if self._overdue is not None:
            client, since = self._overdue
            where = client._place_of_ask if time.monotonic() - since >= CALL_SECONDS else None
            return None if where is None else f"not returned {CALL_SECONDS:g} s after its timeout{where}"
        return f"raised {describe(self._raised)}" if self._raised is not None else None

    @property
    def unreachable(self) -> str | None:
        """The exception of the latest call of `client`, in words, if it has raised one."""
        return None if self._unreachable is None else describe(self._unreachable)

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
                self._take_none()

    def move(self, node: int, now: int) -> None:
        """Use another node for what is sent from now on."""
        self.node = node

    def begin_new_session(self, number: int, now: int) -> None:
        """Use a new client, under another number."""
        self._close_client()
        self.number = number

    def close(self) -> None:
        """Close the backend's client. Outstanding requests become unknown."""
        try:
            self._close_client()
        finally:
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
                if isinstance(client, BlockingClient | AsyncClient) and client._own_thread is None:
                    raise BackendMistake(
                        f"`__init__` of {type(client).__name__}{place_of_type(client, '__init__')} must call "
                        f"super().__init__({'timeout' if isinstance(client, AsyncClient) else ''})"
                    )
                self._client, self._client_node = client, self.node
                self._unreachable = None
                self.has_connected = True
        except OSError as error:
            self._unreachable = error.__cause__ if isinstance(error, Unreachable) else error
            pending.answers.put(Failed(NO_LEADER, f"node {self.node} can't be reached: {error}"))
            return
        request: Request = pending.operation.request
        self._client.submit(
            self._versions.asked(request) if self._versions is not None else request, pending.answers.put
        )

    def _take(self, outcome: Outcome | Exception) -> None:
        """Take the outcome of the oldest request, or the exception that there was instead. Raises BackendMistake if it is no
        outcome of this request."""
        request: Request = self._waiting[0].operation.request
        raised = outcome if isinstance(outcome, Exception) else None
        self._only_mistakes &= raised is not None and not isinstance(raised, OSError)
        self._raised = raised
        if isinstance(outcome, Exception):
            outcome = Unknown(describe(outcome))
        if self._versions is not None:
            outcome = self._versions.recorded(outcome)
        wrong = _wrong(request, outcome)
        if wrong is not None:
            answered = f"`ask` of the backend{place_of_type(self._client, 'ask')}"
            raise BackendMistake(f"{answered}: the answer to {_operation_name(request)} {wrong}")
        if self._client is None and self._unreachable is not None:
            self._answers.add_unreachable(self._unreachable)
        else:
            self._answers.add(_operation_name(request), outcome, raised)
        self._complete_first(outcome)
        if isinstance(outcome, Unknown) or (isinstance(outcome, Failed) and outcome.error == NO_LEADER):
            self._move_to_next_node()

    def _take_none(self) -> None:
        """The oldest request was not answered in time."""
        where = self._client._place_of_ask if isinstance(self._client, BlockingClient) else None
        if self._overdue is not None and self._overdue[0]._place_of_ask is None:
            self._only_mistakes = False  # it has returned after all
        if isinstance(self._client, BlockingClient) and where is not None:
            self._overdue = self._overdue or (self._client, time.monotonic())
        else:
            self._only_mistakes = False
        self._answers.add_none()
        self._complete_first(Unknown(f"no answer within {self._timeout:g} s{where or ''}"))
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
            with suppress(OSError):  # the connection may be broken already
                called("hang_up", client.close, os_errors=True)
