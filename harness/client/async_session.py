"""A session for asyncio: many requests outstanding, each an awaitable, no thread. See `zab_chaos.harness.client.connect_async`.

The event loop watches the sockets of an ordinary `zab_chaos.harness.client.client.Client`. Outcomes are those of
`zab_chaos.harness.client.session`: `Done` is returned, `Failed` and `Unknown` are raised. A request that is not awaited any
more (a cancelled task, a time limit) is sent all the same, and may take effect.
"""

import asyncio
from collections.abc import Awaitable
from types import TracebackType
from typing import Any, Self

import zmq

from zab_chaos.harness.client.session import Done, Verbs, read_outcome, refusal_of
from zab_chaos.harness.client.transport import SocketLine
from zab_chaos.node.tree import outcomes
from zab_chaos.node.tree.requests import Children, Exists, Request

BUSY_MS = 20  # between two looks at the clock while requests are outstanding or no node is connected
IDLE_MS = 500  # otherwise


class AsyncSession(Verbs[Awaitable[Done]]):
    """A session whose methods are awaited, and raise Failed or Unknown. `submit` returns a future at once.

    `poller`: a zmq.asyncio.Poller with which the line's client keeps its sockets registered.
    """

    def __init__(self, line: SocketLine, poller: zmq.Poller) -> None:
        self._line = line
        self._poller: Any = poller
        self._pump: asyncio.Task[None] | None = None
        self._awaited: set[asyncio.Future[Done]] = set()  # of the requests whose outcome is not known yet
        self._error: Exception | None = None  # why the session works no more
        self._turn_scheduled = False  # the event loop will call `_turn`, which sends what was submitted until then

    async def __aenter__(self) -> Self:
        self._pump = asyncio.create_task(self._run(), name="zab client")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        assert self._pump is not None
        self._pump.cancel()
        try:
            await asyncio.wait([self._pump])  # unlike `await self._pump`, it tells apart who was cancelled
        finally:
            self._line.close()
        if self._error is not None and error is None:
            raise self._error

    @property
    def number(self) -> int:
        """The session's number, its `client` in ops.jsonl."""
        return self._line.number

    @property
    def node(self) -> int:
        """The node that the session is connected to, or tries to reach."""
        return self._line.node

    @property
    def outstanding(self) -> int:
        """The number of requests whose outcome is not known yet."""
        return self._line.client.outstanding

    def submit(self, request: Request) -> "asyncio.Future[Done]":
        """Submit a request (`zab_chaos.node.tree.requests`), and return a future of its outcome.

        Requests are sent together when the caller next awaits. They take effect in the order in which they were submitted.
        Raises TypeError for a value of a wrong type. If the session fails (a record that can't be written), this raises the
        error, and so does every future that is waited for.
        """
        refusal = refusal_of(request)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Done] = loop.create_future()

        def known(outcome: outcomes.Outcome) -> None:
            self._awaited.discard(future)
            if future.done():  # cancelled, or the session has failed
                return
            read = read_outcome(outcome)
            if isinstance(read, Done):
                future.set_result(read)
            else:
                future.set_exception(read)

        if self._pump is None:
            raise ValueError("enter the session first: async with connect_async(...) as client")
        if self._error is not None:
            raise self._error
        if refusal is not None:
            known(refusal)
            return future
        self._line.enqueue(request, known)
        self._awaited.add(future)
        if not self._turn_scheduled:
            self._turn_scheduled = True
            loop.call_soon(self._turn)
        return future

    def ask(self, request: Request) -> Awaitable[Done]:
        return self.submit(request)

    async def exists(self, path: str) -> bool:
        return (await self.ask(Exists(path))).version is not None

    async def children(self, path: str) -> list[str]:
        return (await self.ask(Children(path))).children or []

    def _turn(self) -> None:
        """Send, and receive what has arrived: sending on a ZeroMQ socket may consume the event that would wake the loop."""
        self._turn_scheduled = False
        if self._pump is not None and not self._pump.done():
            try:
                self._line.client.flush()
                self._line.client.poll()
            except Exception as error:
                self._fail(error)

    async def _run(self) -> None:
        """Poll the client whenever its sockets are readable, or a timeout may be over."""
        client = self._line.client
        try:
            while self._error is None:
                client.poll()
                idle = client.connected and not client.outstanding
                await self._poller.poll(IDLE_MS if idle else BUSY_MS)
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        """Raise an error wherever somebody waits for an outcome: no other outcome will arrive."""
        self._error = error
        for future in self._awaited:
            if not future.done():
                future.set_exception(error)
