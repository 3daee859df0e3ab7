"""The harness's end of the connections to processes in lockstep: one ROUTER socket on 127.0.0.1."""

import time
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

import msgspec
import zmq

from zab_chaos.harness.errors import HarnessError
from zab_chaos.harness.machine.waiting import wait_until
from zab_chaos.node.net.keys import Keys

ANSWER_SECONDS = 60.0  # limit for one step of a node, its start included; a busy machine may be slow
END_SECONDS = 2.0  # limit from the end of a process's connection to its exit status
POLL_MS = 200  # how often a process that does not answer is checked for its end
_encode = msgspec.msgpack.Encoder().encode
AnswerT = TypeVar("AnswerT")


class OutOfStep(HarnessError):
    """A process did not do what the world requested, so the run cannot go on."""


class RemoteProcess(Protocol):
    """The process at the other end of a connection."""

    node: int
    life: int

    @property
    def code(self) -> int | None: ...
    def last_words(self) -> str: ...


class Hub(Generic[AnswerT]):
    """Sends requests to processes and receives their answers, one request at a time; only the starts of processes overlap.

    `address`: the address that the processes connect to. `decode`: decodes an answer, or raises msgspec.DecodeError.
    """

    def __init__(self, keys: Keys, decode: Callable[[bytes], AnswerT]) -> None:
        self._decode = decode
        self._context: zmq.Context[Any] = zmq.Context()
        self._socket: zmq.Socket[Any] = self._context.socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        keys.server(self._socket)
        self.address = f"127.0.0.1:{self._socket.bind_to_random_port('tcp://127.0.0.1')}"
        self._arrived: dict[
            bytes, bytes
        ] = {}  # messages that arrived while another process was waited for, by socket name
        self.broken = False  # set once a process was out of step

    def ask(self, process: RemoteProcess, request: Any) -> AnswerT:
        """Send a request and return the answer. Raises OutOfStep."""
        try:
            self._socket.send_multipart([socket_name(process).encode(), _encode(request)])
        except zmq.ZMQError as error:
            # The sockets of a process are closed before its exit status is available.
            ended = wait_until(lambda: process.code is not None, END_SECONDS)
            words = f"ended unasked with status {process.code}" if ended else f"cannot be asked: {error}"
            raise self.out_of_step(process, words) from None
        return self.receive(process)

    def receive(self, process: RemoteProcess) -> AnswerT:
        """Return the next message of the process. Raises OutOfStep."""
        name, deadline = socket_name(process).encode(), time.monotonic() + ANSWER_SECONDS
        while name not in self._arrived:
            if self._socket.poll(POLL_MS):
                other, data = self._socket.recv_multipart()
                self._arrived[other] = data
            elif process.code is not None:
                raise self.out_of_step(process, f"ended unasked with status {process.code}")
            elif time.monotonic() > deadline:
                raise self.out_of_step(process, f"did not answer within {ANSWER_SECONDS:g} s")
        try:
            return self._decode(self._arrived.pop(name))
        except msgspec.DecodeError as error:
            raise self.out_of_step(process, f"gave an answer that is not valid: {error}") from None

    def out_of_step(self, process: RemoteProcess, what: str) -> OutOfStep:
        """Return the error to raise about a process, and set `broken`."""
        self.broken = True
        words = process.last_words()
        who = f"node {process.node}, life {process.life}"
        return OutOfStep(f"{who}: its process {what}" + (f"\n{words}" if words else ""))

    def close(self) -> None:
        self._socket.close(linger=0)
        self._context.term()


def socket_name(process: RemoteProcess) -> str:
    """Return a process's name on the socket."""
    return f"{process.node}-{process.life}"
