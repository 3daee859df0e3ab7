"""Clients of a system that is not ours: what a backend brings, and the line that the harness asks through."""

import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from zab_chaos.harness.backends.system.history import History
from zab_chaos.harness.client.transport import CLOSED
from zab_chaos.node.core.zxid import ZERO
from zab_chaos.node.tree.outcomes import Failed, Ok, Outcome, Unknown
from zab_chaos.node.tree.refusal import ERRORS, NO_LEADER
from zab_chaos.node.tree.requests import Request

Then = Callable[[Outcome], None]


def done(value: bytes | None = None, version: int | None = None, path: str | None = None) -> Ok:
    """It was done. `value`: what a read found; `version`: of the key afterwards, if the system counts any, from 0 when it is
    made; `path`: what a sequential creation has made."""
    return Ok(ZERO, version=version, data=value, path=path)


class Client(ABC):
    """One client of one node. The harness asks one thing at a time, and gives a client up that has not answered in time."""

    @abstractmethod
    def submit(self, request: Request, then: Then) -> None:
        """Send it; `then` is called once, from any thread, with what became of it.

        `Failed` is for what certainly has no effect, now or later; whatever may have, or may yet, is `Unknown`.
        """

    @abstractmethod
    def close(self) -> None: ...


class BlockingClient(Client):
    """A client that waits for its answer: `ask` is called in a thread of its own."""

    def __init__(self) -> None:
        self._asked: queue.SimpleQueue[tuple[Request, Then] | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="client", daemon=True).start()

    @abstractmethod
    def ask(self, request: Request) -> Outcome:
        """What becomes of it. An OSError, or any other error, means that nobody can tell."""

    def hang_up(self) -> None:
        """End the connection, also under a waiting `ask`."""

    def submit(self, request: Request, then: Then) -> None:
        self._asked.put((request, then))

    def close(self) -> None:
        self._asked.put(None)
        self.hang_up()

    def _run(self) -> None:
        while (asked := self._asked.get()) is not None:
            request, then = asked
            try:
                outcome = self.ask(request)
            except Exception as error:
                outcome = Unknown(f"{type(error).__name__}: {error}")
            then(outcome)


@dataclass(slots=True)
class _Asked:
    seq: int
    then: Then
    deadline: float
    answers: "queue.SimpleQueue[Outcome]"


def _must_be_one(outcome: object) -> None:
    """Raises TypeError, ValueError: the backend's client has answered with something else, or refused with another word."""
    if not isinstance(outcome, Ok | Failed | Unknown):
        raise TypeError(f"a client's answer must be done(...), Failed(...) or Unknown(...), not {outcome!r}")
    if isinstance(outcome, Failed) and outcome.error not in ERRORS:
        raise ValueError(
            f"{outcome!r}: a client's errors are {', '.join(map(repr, ERRORS))}; what may have an effect is Unknown"
        )


class SystemLine:
    """Implements `zab_chaos.harness.client.session.Line`: one session, which goes to another node when its own fails it."""

    def __init__(
        self, connect: Mapping[int, Callable[[], Client]], number: int, node: int, timeout: float, history: History
    ) -> None:
        """`connect`: makes a client, by node."""
        self.number = number
        self.node = node
        self._connect = connect
        self._timeout = timeout
        self._history = history
        self._client: Client | None = None
        self._seq = 0
        self._waiting: list[_Asked] = []
        self._closed = False

    def submit(self, request: Request, then: Then) -> None:
        self.ask(request, then)

    def ask(self, request: Request, then: Then, due_ns: int | None = None) -> None:
        """`due_ns`: when the open loop owed it, if that was earlier."""
        if self._closed:
            raise ValueError(CLOSED)
        self._seq += 1
        asked = _Asked(self._seq, then, time.monotonic() + self._timeout, queue.SimpleQueue())
        self._history.invoke(self.number, self._seq, self.node, request, due_ns)
        self._waiting.append(asked)
        try:
            if self._client is None:
                self._client = self._connect[self.node]()
        except OSError as error:
            asked.answers.put(Failed(NO_LEADER, f"node {self.node} can't be reached: {error}"))
            return
        self._client.submit(request, asked.answers.put)

    def move(self, node: int) -> None:
        """Go on with another node."""
        if node != self.node:
            self._drop()
            self.node = node

    def wait(self, known: Callable[[], bool], seconds: float) -> None:
        end = time.monotonic() + seconds
        while not known() and self._waiting:
            left = min(end, self._waiting[0].deadline) - time.monotonic()
            self._take(max(0.0, left))
            if time.monotonic() >= end:
                return

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._drop()
        while self._waiting:
            self._known(Unknown("the client was closed"))

    def _take(self, seconds: float) -> None:
        """The first answer; it is given up when its time is over."""
        asked = self._waiting[0]
        try:
            outcome = asked.answers.get(timeout=seconds) if seconds else asked.answers.get_nowait()
        except queue.Empty:
            if time.monotonic() < asked.deadline:
                return
            outcome = Unknown(f"no answer within {self._timeout:g} s")
        _must_be_one(outcome)
        self._known(outcome)
        if isinstance(outcome, Unknown) or (isinstance(outcome, Failed) and outcome.error == NO_LEADER):
            self._go_on()

    def _known(self, outcome: Outcome) -> None:
        asked = self._waiting.pop(0)
        self._history.complete(self.number, asked.seq, self.node, outcome)
        asked.then(outcome)

    def _go_on(self) -> None:
        """The node has failed us; the next one may not."""
        nodes = sorted(self._connect)
        self.move(nodes[(nodes.index(self.node) + 1) % len(nodes)])

    def _drop(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()
