"""A client of ZooKeeper's servers: `zab_chaos.harness.client.client` with kazoo as its transport.

It is connected to one server at a time. It changes to another one when the caller says so, or when the server is gone or
silent, and keeps its session. kazoo's thread turns answers into frames of our clients' protocol, which wait for the caller's
thread. A request counts as sent once kazoo has it: if the connection is lost then, its outcome is unknown.
"""

import contextlib
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import zmq

from zab_chaos.harness.backends.zookeeper import answers
from zab_chaos.harness.backends.zookeeper.connection import (
    OnWrongAnswer,
    check_answers,
    connected_address,
    drop_connection,
    silent,
)
from zab_chaos.harness.client.client import PolledClient
from zab_chaos.harness.errors import HarnessError
from zab_chaos.harness.extras import extra
from zab_chaos.node.clients.protocol import Answers, FromNode, Requests, Welcome, decode_from_client, encode
from zab_chaos.node.core.zxid import ZERO, Zxid
from zab_chaos.node.tree.outcomes import Failed, Outcome, Unknown
from zab_chaos.node.tree.refusal import BAD_REQUEST
from zab_chaos.node.tree.requests import Request

with extra("zookeeper", "a client of ZooKeeper"):
    from kazoo.client import KazooClient, KazooState
    from kazoo.exceptions import SessionExpiredError
    from kazoo.protocol.serialization import CloseInstance

CLOSE_SECONDS = 1.0  # for the server to confirm the end of the session
STOP_SECONDS = 10.0  # for kazoo's thread to end
QUEUED_MAX = 100  # requests that kazoo has not sent yet; beyond that, requests wait where their time limit counts
RETRY_SECONDS = 0.05
RETRY = {"max_tries": -1, "delay": 0.02, "max_delay": 0.2, "backoff": 2, "max_jitter": 0.0, "ignore_expire": True}


class ZooKeeperClient(PolledClient):
    """A client with one session at a time. `session` is the session's timeout in seconds."""

    def __init__(
        self,
        addresses: Mapping[int, str],
        node: int | None = None,
        *,
        number: int | None = None,
        timeout: float = 10.0,
        session: float = 6.0,
        poller: zmq.Poller | None = None,
        on_wrong_answer: OnWrongAnswer | None = None,
    ) -> None:
        super().__init__(addresses, node, number=number, timeout=timeout, poller=poller)
        self.sessions: list[int] = []  # all session ids that this client has had, in the order of time
        self._closed = False
        self._wake_sender, self._wake_receiver = socket.socketpair()
        self._wake_receiver.setblocking(False)
        self._poller.register(self._wake_receiver, zmq.POLLIN)
        self._kazoo = new_kazoo(self._addresses[self.node], session, on_wrong_answer)
        self._current: KazooConnection | None = None
        self._kazoo.add_listener(self._state_changed)

    def close(self) -> None:
        """End the session. Whatever is outstanding becomes unknown."""
        if self._closed:
            return
        self._closed = True
        super().close()
        if self._current is not None:
            end_session(self._kazoo)
        self._kazoo.close()
        self._poller.unregister(self._wake_receiver)
        self._wake_sender.close()
        self._wake_receiver.close()

    def give_up(self) -> None:
        """Connect no more: when the servers are gone, `close` then has nothing to wait for. Any thread may call this."""
        self._kazoo._stopped.set()

    def _turn(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._wake_receiver.recv(4096):
                pass
        super()._turn()

    def _dial(self, node: int) -> "KazooConnection":
        started = self._current is not None
        self._current = KazooConnection(self._kazoo, self._addresses[node], self._wake)
        self._kazoo.set_hosts(self._addresses[node])
        if started:
            drop_connection(self._kazoo)
        else:
            self._kazoo.start_async()
        return self._current

    # The following methods run in kazoo's thread.

    def _wake(self) -> None:
        """Wake the caller's thread if it sleeps in `poll`."""
        with contextlib.suppress(OSError):  # the socket is closed, or full of earlier wake-ups
            self._wake_sender.send(b"!", socket.MSG_DONTWAIT)

    def _state_changed(self, state: Any) -> None:
        connection = self._current
        if connection is None:
            return
        if state != KazooState.CONNECTED:
            connection.lost("the session has expired" if state == KazooState.LOST else "the server has gone away")
        elif connection.established() and self._kazoo._session_id not in self.sessions:
            self.sessions.append(self._kazoo._session_id)


class KazooConnection:
    """A connection to one server through kazoo. Implements `zab_chaos.harness.client.client.PolledConnection`.

    `wake` is called when there is something to receive.
    """

    def __init__(self, kazoo: Any, address: str, wake: Callable[[], None]) -> None:
        self._kazoo = kazoo
        self._address = address
        self._wake = wake
        self._received: deque[bytes] = deque()
        self._connected = False
        self._why_broken: str | None = None

    def send(self, frame: bytes) -> bool:
        """Give the requests of a frame to kazoo; return False if the server is known to be gone, or kazoo can't keep up.

        Other messages need not be sent: kazoo opens and closes sessions by itself.
        """
        if self._why_broken is not None or len(self._kazoo._queue) >= QUEUED_MAX:
            return False
        message = decode_from_client(frame)
        if isinstance(message, Requests):
            for seq, request in message.items:
                self._submit(seq, request)
        return True

    def _submit(self, seq: int, request: Request) -> None:
        try:
            kazoo_request = answers.to_kazoo(request)
            kazoo_request.serialize()
        except (ValueError, TypeError, AttributeError, struct.error) as error:
            self._answer(seq, Failed(BAD_REQUEST, f"the request cannot be sent: {error}"))
            return
        result = AsyncResult(partial(self._answered, seq, request), partial(self._failed, seq, request))
        self._kazoo._call(kazoo_request, result)

    def receive(self) -> list[bytes]:
        return [self._received.popleft() for _ in range(len(self._received))]

    def broken(self) -> str | None:
        return self._why_broken

    def close(self, linger_ms: int = 0) -> None:
        """Ignore later losses of the connection. The session stays, and the next KazooConnection drops kazoo's connection."""
        self._connected = False

    # The following methods run in kazoo's thread.

    def established(self) -> bool:
        """Handle that kazoo is connected: return whether it is to this server, and drop the connection if it is not.

        kazoo may still be connected to the server of the previous KazooConnection.
        """
        if connected_address(self._kazoo) == self._address:
            self._connected = True
            self._deliver(Welcome())
            return True
        drop_connection(self._kazoo)
        return False

    def lost(self, why: str) -> None:
        """Report the connection as broken, so that another server is tried at once instead of this one again."""
        if self._connected:
            self._why_broken = f"{why} ({self._address})"
            self._wake()

    def _answered(self, seq: int, request: Request, value: Any) -> None:
        self._answer(seq, answers.from_result(request, value, self._zxid))

    def _failed(self, seq: int, request: Request, error: BaseException) -> None:
        expired = isinstance(error, SessionExpiredError)
        outcome = Unknown("the session has expired") if expired else answers.from_error(request, error, self._zxid)
        self._answer(seq, outcome)

    @property
    def _zxid(self) -> Zxid:
        return Zxid(self._kazoo.last_zxid) if self._kazoo.last_zxid else ZERO

    def _answer(self, seq: int, outcome: Outcome) -> None:
        self._deliver(Answers([(seq, outcome)]))

    def _deliver(self, message: FromNode) -> None:
        self._received.append(encode(message))
        self._wake()


@dataclass(frozen=True, slots=True)
class AsyncResult:
    """The object into which kazoo puts the result of a request, in its thread, right after it has read the answer's header.

    `set` is called with the result, or `set_exception` with the error.
    """

    set: Callable[[Any], None]
    set_exception: Callable[[BaseException], None]


def new_kazoo(hosts: str, session: float, on_wrong_answer: OnWrongAnswer | None = None) -> Any:
    """Return a client of kazoo that is not started; `session` is the session's timeout in seconds."""
    kazoo = KazooClient(hosts, timeout=session, connection_retry=RETRY, logger=silent)
    check_answers(kazoo, on_wrong_answer)
    return kazoo


def end_session(kazoo: Any, *, send_close: bool = True) -> None:
    """Stop kazoo as its own `stop` does, but without waiting for a server that does not answer.

    Without `send_close` the session is left to expire. kazoo checks only between two connections whether it was stopped, so
    each connection that it still makes is dropped, too. Raises HarnessError if kazoo's thread does not end.
    """
    kazoo._stopped.set()
    if send_close:
        kazoo._queue.append((CloseInstance, None))
        kazoo._connection._write_sock.send(b"\0")
    patience = CLOSE_SECONDS if send_close else 0.0
    end = time.monotonic() + patience + STOP_SECONDS
    while not kazoo._connection.connection_stopped.wait(patience):
        if time.monotonic() > end:
            raise HarnessError(f"a client of ZooKeeper has not ended within {STOP_SECONDS:g} s: kazoo's thread hangs")
        drop_connection(kazoo)
        patience = RETRY_SECONDS
    kazoo.handler.stop()
    kazoo._connection.stop(STOP_SECONDS)
