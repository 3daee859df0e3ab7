"""A session for asyncio: many requests outstanding, each an awaitable, no thread. See `zab_chaos.harness.client.connect_async`.

It is `zab_chaos.harness.client.core.Client` once more, whose sockets the event loop watches. Outcomes are those of
`zab_chaos.harness.client.session`: done is returned, failed and unknown are raised. A request that its caller does not wait
for any more (a cancelled task, a time limit) is on its way all the same, and may take effect.
"""

import asyncio
import contextlib
from collections.abc import Awaitable
from types import TracebackType
from typing import Any, Self

import zmq

from zab_chaos.harness.client.session import Done, Verbs, read_outcome
from zab_chaos.harness.client.transport import SocketLine
from zab_chaos.node.tree import outcomes
from zab_chaos.node.tree.requests import Children, Exists, Request

BUSY_MS = 20  # between two looks at the clock while something is outstanding, or no node has been reached
IDLE_MS = 500


class AsyncSession(Verbs[Awaitable[Done]]):
    """One client. Every verb is awaited and raises Failed or Unknown; `submit` gives a future at once.

    `poller`: a zmq.asyncio.Poller, with which the line's client keeps its sockets registered.
    """

    def __init__(self, line: SocketLine, poller: zmq.Poller) -> None:
        self._line = line
        self._poller: Any = poller
        self._pump: asyncio.Task[None] | None = None
        self._owed = False  # a turn will come soon, and send what was submitted until then

    async def __aenter__(self) -> Self:
        self._pump = asyncio.create_task(self._run(), name="zab client")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        assert self._pump is not None
        self._pump.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._pump
        self._line.close()

    @property
    def number(self) -> int:
        """What the session is called in ops.jsonl."""
        return self._line.number

    @property
    def node(self) -> int:
        """The node that it is connected to, or tries to reach."""
        return self._line.node

    @property
    def outstanding(self) -> int:
        """Requests whose outcome is not known."""
        return self._line.client.outstanding

    def submit(self, request: Request) -> "asyncio.Future[Done]":
        """A request (`zab_chaos.node.tree.requests`) that leaves when the caller next waits, with all others until then.

        They take effect in the order in which they were submitted.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Done] = loop.create_future()

        def known(outcome: outcomes.Outcome) -> None:
            if future.cancelled():
                return
            read = read_outcome(outcome)
            if isinstance(read, Done):
                future.set_result(read)
            else:
                future.set_exception(read)

        if self._pump is None:
            raise ValueError("enter the session first: async with connect_async(...) as client")
        self._line.take(request, known)
        if not self._owed:
            self._owed = True
            loop.call_soon(self._turn)
        return future

    def ask(self, request: Request) -> Awaitable[Done]:
        return self.submit(request)

    async def exists(self, path: str) -> bool:
        return (await self.ask(Exists(path))).version is not None

    async def children(self, path: str) -> list[str]:
        return (await self.ask(Children(path))).children or []

    def _turn(self) -> None:
        """Send, and look at once what has arrived: sending may have swallowed the signal that would wake the loop."""
        self._owed = False
        if self._pump is not None and not self._pump.done():
            self._line.client.flush()
            self._line.client.poll()

    async def _run(self) -> None:
        """Let the client do its work whenever its sockets have something, or time may be up."""
        client = self._line.client
        while True:
            client.poll()
            calm = client.connected and not client.outstanding
            await self._poller.poll(IDLE_MS if calm else BUSY_MS)
