"""kazoo's connection to a server, with what ZooKeeper's own client does and kazoo does not."""

import contextlib
import logging
import os
import socket
from collections.abc import Callable
from typing import Any

from zab_chaos.harness.extras import extra

with extra("zookeeper", "a client of ZooKeeper"):
    from kazoo.exceptions import EXCEPTIONS
    from kazoo.protocol.connection import ConnectionDropped, ConnectionHandler
    from kazoo.protocol.serialization import Connect

# Errors with which a server says that it has failed: no request and no state of the tree can be the reason.
SERVER_FAILURES = frozenset({-1, -2, -3, -5})  # system error, runtime and data inconsistency, marshalling error

# Gets the host:port of the server, the session, and what is wrong with the answer, in words.
OnWrongAnswer = Callable[[str, int, str], None]

silent = logging.getLogger("zab-chaos.kazoo")  # used because kazoo's own logger would write to the terminal
silent.addHandler(logging.NullHandler())
silent.propagate = False


class CheckedConnection(ConnectionHandler):  # type: ignore[misc]
    """A connection that checks the answers, and has a number for each request that no other request of the session has.

    kazoo itself sets `_xid` to 0 for each new connection. A server takes the session and this number for the request. So one
    that catches up, and commits a request of an earlier connection, would answer a new one of the same number with that.

    A server answers the requests of a connection in their order, and each once. `on_wrong_answer` is called when it does not,
    or answers that it has failed. After an answer to another request the connection is dropped; kazoo's own thread would end.

    `session_timeout`: that of the session in milliseconds, which the server has decided; 0 before there is a session.
    """

    session_timeout = 0

    _last_number = 0
    on_wrong_answer: OnWrongAnswer | None = None

    @property
    def _xid(self) -> int:
        return self._last_number

    @_xid.setter
    def _xid(self, number: int | None) -> None:
        self._last_number = number or self._last_number

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        answer = super()._invoke(timeout, request, xid)
        if isinstance(request, Connect):
            self.session_timeout = answer[0].time_out
        return answer

    def _read_response(self, header: Any, buffer: bytes, offset: int) -> Any:
        pending = self.client._pending
        awaited = pending[0][2] if pending else None
        if header.xid != awaited:
            self._report(f"the answer to request {header.xid}, and {_request(awaited)} was to be answered next")
            raise ConnectionDropped("an answer to another request")
        if header.err in SERVER_FAILURES:
            self._report(f"a {EXCEPTIONS[header.err].__name__} for request {header.xid}")
        return super()._read_response(header, buffer, offset)

    def _report(self, what: str) -> None:
        address = connected_address(self.client)
        if self.on_wrong_answer is not None and address is not None:
            self.on_wrong_answer(address, self.client._session_id, what)


def _request(number: int | None) -> str:
    return "none" if number is None else f"request {number}"


class WakeUps:
    """Stands for both ends of the socket pair with which kazoo's thread is told of requests: a byte for each.

    A socket pair holds 278 of them. While a server does not read, kazoo's thread takes none, and `send` would then block
    whoever submits a request. This one counts instead, and never blocks.
    """

    def __init__(self) -> None:
        self._count = os.eventfd(0, os.EFD_SEMAPHORE | os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def fileno(self) -> int:
        return self._count

    def send(self, data: bytes) -> None:
        os.eventfd_write(self._count, len(data))

    def recv(self, _size: int) -> None:
        """Take one; raises BlockingIOError if there is none."""
        os.eventfd_read(self._count)

    def close(self) -> None:
        """Close it. kazoo calls this for each of the two ends."""
        count, self._count = self._count, -1
        if count >= 0:
            os.close(count)


def check_answers(kazoo: Any, on_wrong_answer: OnWrongAnswer | None = None) -> None:
    """Give a client of kazoo that is not started a CheckedConnection, whose requests are submitted without waiting."""
    kazoo.handler.create_socket_pair = lambda: [WakeUps()] * 2
    kazoo._connection = CheckedConnection(kazoo, kazoo._conn_retry.copy(), logger=silent)
    kazoo._connection.on_wrong_answer = on_wrong_answer


def connected_address(kazoo: Any) -> str | None:
    """Return the host:port at the other end of kazoo's connection; None if the connection is gone."""
    with contextlib.suppress(OSError, AttributeError):  # kazoo may drop the socket at any time
        host, port = kazoo._connection._socket.getpeername()[:2]
        return f"{host}:{port}"
    return None


def drop_connection(kazoo: Any) -> None:
    """Shut kazoo's connection down; unless kazoo was stopped, it makes another one by itself."""
    connected = kazoo._connection._socket
    if connected is not None:
        with contextlib.suppress(OSError):
            connected.shutdown(socket.SHUT_RDWR)
