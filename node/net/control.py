"""The control port: the harness asks a node for its state, arms crash points and faults, and stops it.

A request is a MessagePack map `{"command": str, ...}`, an answer `{"ok": true, ...}` or `{"ok": false, "error": str}`. Each
follows a request id that the client chose, so that a late answer is never taken for the answer to another request.
"""

import time
from collections.abc import Callable
from itertools import count
from typing import Any

import msgspec
import zmq

from zab_chaos.node.events import Refused
from zab_chaos.node.net.address import bind
from zab_chaos.node.net.failed_handshakes import FailedHandshakes
from zab_chaos.node.net.keys import Keys
from zab_chaos.node.refusal_counter import REPORT_NS, RefusalCounter

_REQUEST_BYTES = 2**20
_ALIVE_CHECK_MS = 20  # how often a waiting client checks that the node is alive
_ROUND = 64  # most requests in one call of `serve`, so that a flood can't block the node
_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(dict[str, Any])

Handler = Callable[[str, dict[str, Any]], dict[str, Any]]


class ControlError(Exception):
    """A command could not be executed; the text is for people. Raised by a handler, and again at the client."""


class ControlTimeout(ControlError):
    """No answer in time. The command may have been executed, may still be, or never will be."""


class ControlPort:
    """Answers requests with `handler(command, arguments)`. Raises AddressInUse, AddressError."""

    def __init__(self, context: zmq.Context[Any], address: str, keys: Keys, handler: Handler) -> None:
        self.refused = 0  # number of malformed requests so far
        self._handler = handler
        self._refusals = RefusalCounter()
        self._tick_ns = 0
        self._socket: zmq.Socket[Any] = context.socket(zmq.ROUTER)
        self._socket.linger = 0
        self._socket.maxmsgsize = _REQUEST_BYTES
        keys.server(self._socket)
        bind(self._socket, address, "control")
        self._failed_handshakes = FailedHandshakes(context, self._socket, "control ports")

    @property
    def socket(self) -> zmq.Socket[Any]:
        """The socket, for a poller. If it is readable, `serve` has something."""
        return self._socket

    def register(self, poller: zmq.Poller) -> None:
        """Let `poller` wake up for requests."""
        poller.register(self._socket, zmq.POLLIN)

    def serve(self) -> list[Refused]:
        """Answer the requests that have come, without blocking. Return what was refused, for the trace.

        Errors of a handler other than ControlError propagate.
        """
        refused, why = 0, ""
        for _ in range(_ROUND):
            try:
                parts = self._socket.recv_multipart(zmq.DONTWAIT)
            except zmq.Again:
                break
            try:
                command, arguments = _request(parts)
                answer = {"ok": True, **self._handler(command, arguments)}
            except _Malformed as error:
                refused, why = refused + 1, str(error)
                answer = {"ok": False, "error": f"refused: {error}"}
            except ControlError as error:
                answer = {"ok": False, "error": str(error)}
            if len(parts) == 3:
                self._socket.send_multipart([*parts[:2], _ENCODER.encode(answer)])
        self.refused += refused
        return [Refused("request", why, None, refused)] if refused else []

    def tick(self, now_ns: int) -> list[Refused]:
        """Once a second, return for the trace how many handshakes failed for lack of the key."""
        if now_ns < self._tick_ns:
            return []
        self._tick_ns = now_ns + REPORT_NS
        return self._failed_handshakes.refused(self._refusals) + self._refusals.due(now_ns)

    def close(self) -> None:
        """Close the port. Answers that have not left yet get 200 ms."""
        self._failed_handshakes.stop()
        self._socket.close(linger=200)


class _Malformed(Exception):
    """The received parts are not a request."""


def _request(parts: list[bytes]) -> tuple[str, dict[str, Any]]:
    if len(parts) != 3:
        raise _Malformed(f"a request has two parts, an id and a map, not {len(parts) - 1}")
    try:
        arguments = _DECODER.decode(parts[2])
    except Exception as error:  # no input may end the node
        raise _Malformed(f"a request is a MessagePack map with text as keys: {error}") from None
    command = arguments.pop("command", None)
    if not isinstance(command, str):
        raise _Malformed('a request has a "command", which is text')
    return command, arguments


class ControlClient:
    """Sends commands to one node, one at a time, from one thread. It survives the node's restarts."""

    def __init__(self, address: str, keys: Keys) -> None:
        self._address = address
        self._keys = keys
        self._context: zmq.Context[Any] = zmq.Context.instance()
        self._ids = count(1)
        self._socket: zmq.Socket[Any] | None = None

    def call(
        self, command: str, timeout: float = 2.0, alive: Callable[[], bool] | None = None, **arguments: Any
    ) -> dict[str, Any]:
        """Return the node's answer without its `ok`, within `timeout` seconds. Raises ControlTimeout, ControlError.

        A request waits for a connection here, never in a queue: a node that is started later must not get commands for its
        former life. `alive`: stop waiting as soon as this returns False. The node may have ended before the command was sent,
        and the command itself may kill or pause it before it can answer.
        """
        deadline = time.monotonic() + timeout
        request = next(self._ids).to_bytes(8, "big")
        socket = self._connected()
        message = [request, _ENCODER.encode({"command": command, **arguments})]
        if not (_ready(socket, zmq.POLLOUT, deadline, alive) and _send(socket, message)):
            raise self._timed_out(f"{self._address} cannot be reached: {command} was not sent")
        while _ready(socket, zmq.POLLIN, deadline, alive):
            parts = socket.recv_multipart()
            if len(parts) == 2 and parts[0] == request:
                return _answer(parts[1])
        if _milliseconds(deadline):
            raise self._timed_out(f"{self._address} ended or was paused before it answered {command}")
        raise self._timed_out(f"{self._address} did not answer {command} within {timeout:g} s")

    def close(self) -> None:
        """Drop the connection; the next call makes a new one."""
        if self._socket is not None:
            self._socket.close(linger=0)
            self._socket = None

    def _connected(self) -> zmq.Socket[Any]:
        if self._socket is None:
            self._socket = self._context.socket(zmq.DEALER)
            self._socket.immediate = True
            self._socket.handshake_ivl = 1000
            self._socket.reconnect_ivl = 20
            self._socket.reconnect_ivl_max = 200
            self._keys.client(self._socket)
            self._socket.connect(f"tcp://{self._address}")
        return self._socket

    def _timed_out(self, why: str) -> ControlTimeout:
        self.close()  # this drops requests that have not left yet
        return ControlTimeout(why)


def _ready(socket: zmq.Socket[Any], event: int, deadline: float, alive: Callable[[], bool] | None) -> bool:
    """Wait until the socket can be written (POLLOUT) or read (POLLIN). Return False if the node or the time ends before."""
    while (left := _milliseconds(deadline)) and (alive is None or alive()):
        if socket.poll(left if alive is None else min(left, _ALIVE_CHECK_MS), event):
            return True
    return False


def _send(socket: zmq.Socket[Any], message: list[bytes]) -> bool:
    """Send a message. Return False if the connection is gone, although it was there just now: the next one may never come."""
    try:
        socket.send_multipart(message, zmq.NOBLOCK)
    except zmq.Again:
        return False
    return True


def _milliseconds(deadline: float) -> int:
    return max(0, int((deadline - time.monotonic()) * 1000))


def _answer(data: bytes) -> dict[str, Any]:
    answer = _DECODER.decode(data)
    if not answer.pop("ok"):
        raise ControlError(answer["error"])
    return answer
