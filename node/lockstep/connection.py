"""A process's end of the connection to the harness: requests and answers alternate."""

import select
import sys
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec
import zmq

from zab_chaos.node.net.keys import Keys

LEAVING_MS = 5000  # how long the last answer may take to leave the process
_encode = msgspec.msgpack.Encoder().encode
Asked = TypeVar("Asked")


class HarnessGone(Exception):
    """The harness has ended."""


class HarnessConnection(Generic[Asked]):
    """A DEALER socket whose name tells the harness which process it is. `decode` raises msgspec.DecodeError.

    `tied`: stdin is a pipe that the harness holds. When it closes, the harness is gone.
    """

    def __init__(self, name: str, keys: Keys, address: str, decode: Callable[[bytes], Asked], *, tied: bool) -> None:
        self._decode = decode
        self._context: zmq.Context[Any] = zmq.Context()
        self._socket: zmq.Socket[Any] = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.IDENTITY, name.encode())
        keys.client(self._socket)
        self._socket.connect(f"tcp://{address}")
        self._poller = zmq.Poller()
        self._poller.register(self._socket, zmq.POLLIN)
        if tied:
            self._poller.register(sys.stdin.fileno(), select.POLLIN)

    def send(self, answer: Any) -> None:
        self._socket.send(_encode(answer))

    def receive(self) -> Asked:
        """Wait for a request. Raises HarnessGone."""
        while True:
            woken = dict(self._poller.poll())
            if self._socket in woken:
                return self._decode(self._socket.recv())
            if woken:
                raise HarnessGone

    def close(self) -> None:
        """Close the connection, after the last answer has left the process."""
        self._socket.close(linger=LEAVING_MS)
        self._context.term()
