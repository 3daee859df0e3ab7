"""One address for each node, for systems whose nodes tell each other their addresses.

Each link has a proxy of its own, but such a system wants one address at which all others reach a node. So the harness listens
there. It finds out which node has opened a connection, and sends it through the proxy of that link.
"""

import asyncio
import socket
import struct
import threading
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from functools import partial

from zab_chaos.harness.backends.processes.deployment import Link
from zab_chaos.harness.machine.connections import host_and_port

CHUNK = 1 << 16
ACCEPT_PAUSE_SECONDS = 1.0

# Returns the node that has opened the connection between these two ports (its own, the other), or None if nobody has it.
FindOpener = Callable[[int, int], int | None]


class SharedAddresses:
    """Listens at the shared addresses of the nodes, from `__enter__` (which raises OSError) to `__exit__`.

    `shared`: the nodes' shared addresses; `proxies`: those of the links; `own`: those at which the nodes listen themselves,
    for a node that connects to itself. A connection that no node has opened is closed.
    """

    def __init__(
        self, shared: Mapping[int, str], proxies: Mapping[Link, str], own: Mapping[int, str], opener: FindOpener
    ) -> None:
        self._shared = shared
        self._routes = {**proxies, **{(node, node): address for node, address in own.items()}}
        self._opener = opener
        self._loop = asyncio.new_event_loop()
        self._serving = threading.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._stack = ExitStack()

    def __enter__(self) -> "SharedAddresses":
        with ExitStack() as stack:
            listening = {
                node: stack.enter_context(socket.create_server(host_and_port(address)))
                for node, address in self._shared.items()
            }
            thread = threading.Thread(target=self._serve, args=(listening,), name="shared addresses", daemon=True)
            thread.start()
            self._serving.wait()  # before that the loop must not be stopped
            stack.callback(thread.join)
            stack.callback(self._loop.call_soon_threadsafe, self._loop.stop)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.close()

    def _serve(self, listening: Mapping[int, socket.socket]) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:  # which cancels all tasks in the end
            for node, one in listening.items():
                one.setblocking(False)
                self._listen(node, one)
            self._serving.set()
            runner.get_loop().run_forever()
            for one in listening.values():
                self._loop.remove_reader(one)

    def _listen(self, node: int, listening: socket.socket) -> None:
        """Accept connections from now on. asyncio's own server loses those that it is just accepting when it is closed."""
        self._loop.add_reader(listening, self._accept, node, listening)

    def _accept(self, node: int, listening: socket.socket) -> None:
        try:
            accepted, _ = listening.accept()
        except BlockingIOError:  # its other end is gone already
            return
        except OSError:  # such as too many open files
            self._loop.remove_reader(listening)
            self._loop.call_later(ACCEPT_PAUSE_SECONDS, self._listen, node, listening)
            return
        accepted.setblocking(False)
        task = self._loop.create_task(self._serve_connection(node, accepted))
        self._tasks.add(task)  # the loop itself does not keep it
        task.add_done_callback(partial(self._ended, accepted))

    def _ended(self, accepted: socket.socket, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if task.cancelled():  # perhaps before it had begun
            accepted.close()

    async def _serve_connection(self, target: int, accepted: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=accepted)
        with closing(writer):
            await self._join(target, reader, writer)

    async def _join(self, target: int, reader: StreamReader, writer: StreamWriter) -> None:
        """Connect a new connection with the proxy of the link from the node that has opened it."""
        (_, theirs, *_), (_, ours, *_) = writer.get_extra_info("peername"), writer.get_extra_info("sockname")
        source = await asyncio.to_thread(self._opener, theirs, ours)
        route = self._routes.get((source, target)) if source is not None else None
        if route is not None:
            try:
                onward_reader, onward_writer = await asyncio.open_connection(*host_and_port(route))
            except OSError:  # refused: the link is disabled
                route = None
        if route is None:
            _reset(writer)
            return
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_copy(reader, onward_writer))
                both.create_task(_copy(onward_reader, writer))
        except* OSError:  # one end was reset, so the other is, too
            _reset(writer)
            _reset(onward_writer)
        finally:
            onward_writer.close()


async def _copy(reader: StreamReader, writer: StreamWriter) -> None:
    """Copy everything, and then the end of the stream."""
    while data := await reader.read(CHUNK):
        writer.write(data)
        await writer.drain()
    writer.write_eof()


def _reset(writer: StreamWriter) -> None:
    """Close a connection with a reset, as if it had been refused or its other end had died. It may have been reset already."""
    if writer.transport.is_closing():
        return
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
