"""The harness's end of the conversations with the nodes: one ROUTER socket on 127.0.0.1."""

import time
from pathlib import Path
from typing import Any

import msgspec
import zmq

from harness.exits import HarnessError
from harness.life import Life
from node.lockstep.wire import Answer, Request, decode_answer, encode
from node.net import keys

ANSWER_SECONDS = 60.0  # for one step of a node, its start included; a busy machine is no failure
LOOK_MS = 200  # how soon it shows that a process is gone


class OutOfStep(HarnessError):
    """A process that did not do what the world asked of it: nothing after that would mean anything."""


class Hub:
    """`address` is where the nodes find it. One request is under way at any time; only the nodes' starts overlap."""

    def __init__(self, secret: Path) -> None:
        self._context: zmq.Context[Any] = zmq.Context()
        self._socket: zmq.Socket[Any] = self._context.socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self.secret = secret
        keys.create(secret).server(self._socket)
        self.address = f"127.0.0.1:{self._socket.bind_to_random_port('tcp://127.0.0.1')}"
        self._there: dict[bytes, bytes] = {}  # what came while another was waited for
        self.exchanges = 0
        self.broken = False  # a process was out of step

    def ask(self, life: Life, request: Request) -> Answer:
        """Raises OutOfStep."""
        self.exchanges += 1
        try:
            self._socket.send_multipart([name_of(life), encode(request)])
        except zmq.ZMQError as error:
            raise self.trouble(life, f"cannot be asked: {error}") from None
        return self.hear(life)

    def hear(self, life: Life) -> Answer:
        """The next that the process says. Raises OutOfStep."""
        name, deadline = name_of(life), time.monotonic() + ANSWER_SECONDS
        while name not in self._there:
            if self._socket.poll(LOOK_MS):
                other, data = self._socket.recv_multipart()
                self._there[other] = data
            elif not life.alive:
                raise self.trouble(life, f"ended unasked with status {life.code}")
            elif time.monotonic() > deadline:
                raise self.trouble(life, f"did not answer within {ANSWER_SECONDS:g} s")
        try:
            return decode_answer(self._there.pop(name))
        except msgspec.DecodeError as error:
            raise self.trouble(life, f"gave an answer that is none: {error}") from None

    def trouble(self, life: Life, what: str) -> OutOfStep:
        """The error to raise when the life's process did not do as it was told."""
        self.broken = True
        words = life.last_words()
        return OutOfStep(f"node {life.node}, life {life.life}: its process {what}" + (f"\n{words}" if words else ""))

    def close(self) -> None:
        self._socket.close(linger=0)
        self._context.term()
        self.secret.unlink(missing_ok=True)  # nobody needs it any more


def name_of(life: Life) -> bytes:
    """A life's name on the socket (node.lockstep.line)."""
    return f"{life.node}-{life.life}".encode()
