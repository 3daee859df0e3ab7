"""The harness's end of the conversations with processes in lockstep: one ROUTER socket on 127.0.0.1."""

import time
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

import msgspec
import zmq

from zab_chaos.harness.errors import HarnessError
from zab_chaos.harness.machine.waiting import wait_until
from zab_chaos.node.net.keys import Keys

ANSWER_SECONDS = 60.0  # for one step of a node, its start included; a busy machine is no failure
END_SECONDS = 2.0  # from the end of a process's connection to its exit status
LOOK_MS = 200  # how soon it shows that a process is gone
_encode = msgspec.msgpack.Encoder().encode
Answered = TypeVar("Answered")


class OutOfStep(HarnessError):
    """A process that did not do what the world asked of it: nothing after that would mean anything."""


class RemoteProcess(Protocol):
    """A process at the other end, and what it said on its stderr."""

    node: int
    life: int

    @property
    def code(self) -> int | None: ...
    def last_words(self) -> str: ...


class Hub(Generic[Answered]):
    """`address` is where the processes find it. `decode` makes an answer of bytes, or raises msgspec.DecodeError.

    One request is under way at any time; only that the processes come into being overlaps.
    """

    def __init__(self, keys: Keys, decode: Callable[[bytes], Answered]) -> None:
        self._decode = decode
        self._context: zmq.Context[Any] = zmq.Context()
        self._socket: zmq.Socket[Any] = self._context.socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        keys.server(self._socket)
        self.address = f"127.0.0.1:{self._socket.bind_to_random_port('tcp://127.0.0.1')}"
        self._arrived: dict[bytes, bytes] = {}  # what came while another was waited for
        self.broken = False  # a process was out of step

    def ask(self, process: RemoteProcess, request: Any) -> Answered:
        """Raises OutOfStep."""
        try:
            self._socket.send_multipart([name_of(process).encode(), _encode(request)])
        except zmq.ZMQError as error:
            gone = wait_until(
                lambda: process.code is not None, END_SECONDS
            )  # its sockets close before its status is there
            words = f"ended unasked with status {process.code}" if gone else f"cannot be asked: {error}"
            raise self.out_of_step(process, words) from None
        return self.receive(process)

    def receive(self, process: RemoteProcess) -> Answered:
        """The next that the process says. Raises OutOfStep."""
        name, deadline = name_of(process).encode(), time.monotonic() + ANSWER_SECONDS
        while name not in self._arrived:
            if self._socket.poll(LOOK_MS):
                other, data = self._socket.recv_multipart()
                self._arrived[other] = data
            elif process.code is not None:
                raise self.out_of_step(process, f"ended unasked with status {process.code}")
            elif time.monotonic() > deadline:
                raise self.out_of_step(process, f"did not answer within {ANSWER_SECONDS:g} s")
        try:
            return self._decode(self._arrived.pop(name))
        except msgspec.DecodeError as error:
            raise self.out_of_step(process, f"gave an answer that is none: {error}") from None

    def out_of_step(self, process: RemoteProcess, what: str) -> OutOfStep:
        """The error to raise when a process did not do as it was told."""
        self.broken = True
        words = process.last_words()
        who = f"node {process.node}, life {process.life}"
        return OutOfStep(f"{who}: its process {what}" + (f"\n{words}" if words else ""))

    def close(self) -> None:
        self._socket.close(linger=0)
        self._context.term()


def name_of(process: RemoteProcess) -> str:
    """A process's name on the socket."""
    return f"{process.node}-{process.life}"
