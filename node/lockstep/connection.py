"""A process's end of a conversation with the harness: a request comes, an answer goes, never two at a time."""

import select
import sys
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec
import zmq

from zab_chaos.node.net.keys import Keys

LEAVING_MS = 5000  # the last answer gets so long to leave the process
_encode = msgspec.msgpack.Encoder().encode
Asked = TypeVar("Asked")


class HarnessGone(Exception):
    """The harness is gone."""


class HarnessConnection(Generic[Asked]):
    """A DEALER socket, named, so that the harness knows who is there. `decode` raises msgspec.DecodeError.

    `tied`: stdin is a pipe that the harness holds; that it is closed says that the harness is gone.
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
        """Waits. Raises HarnessGone."""
        while True:
            woken = dict(self._poller.poll())
            if self._socket in woken:
                return self._decode(self._socket.recv())
            if woken:
                raise HarnessGone

    def close(self) -> None:
        """What was sent leaves the process first."""
        self._socket.close(linger=LEAVING_MS)
        self._context.term()
