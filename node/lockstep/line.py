"""The process's end of the conversation with the harness: a request comes, an answer goes, never two at a time."""

import select
import sys
from typing import Any

import zmq

from node.config import NodeConfig
from node.lockstep.wire import Answer, Request, decode_request, encode
from node.net import keys

LEAVING_MS = 5000  # the last answer gets so long to leave the process


class Alone(Exception):
    """The harness is gone."""


class Line:
    """A DEALER socket, named after the life, so that the harness knows who is there."""

    def __init__(self, config: NodeConfig, life: int, address: str) -> None:
        self._context: zmq.Context[Any] = zmq.Context()
        self._socket: zmq.Socket[Any] = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.IDENTITY, f"{config.id}-{life}".encode())
        keys.load(config.secret_file).client(self._socket)
        self._socket.connect(f"tcp://{address}")
        self._poller = zmq.Poller()
        self._poller.register(self._socket, zmq.POLLIN)
        if config.parent is not None and sys.stdin is not None and not sys.stdin.closed:
            self._poller.register(sys.stdin.fileno(), select.POLLIN)  # closed by the harness's end

    def send(self, answer: Answer) -> None:
        self._socket.send(encode(answer))

    def receive(self) -> Request:
        """Waits. Raises Alone."""
        while True:
            woken = dict(self._poller.poll())
            if self._socket in woken:
                return decode_request(self._socket.recv())
            if woken:
                raise Alone

    def close(self) -> None:
        """What was sent leaves the process first."""
        self._socket.close(linger=LEAVING_MS)
        self._context.term()
