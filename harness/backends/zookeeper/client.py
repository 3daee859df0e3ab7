"""A client of ZooKeeper's servers: what `zab_chaos.harness.client.core.Client` is for our own nodes, over kazoo.

It talks to one server at a time, and goes to another one when it is told to, or when its server is gone or silent; the
session goes along. kazoo's thread puts what comes into a queue; everything else happens in the caller's thread, in `poll`.
What was given to kazoo counts as sent: when the connection goes, nobody can tell what became of it.
"""

import contextlib
import itertools
import secrets
import socket
import struct
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import zmq

from zab_chaos.harness.backends.zookeeper import answers
from zab_chaos.harness.backends.zookeeper.tree import silent
from zab_chaos.harness.client.core import Operation, Then
from zab_chaos.harness.extras import extra
from zab_chaos.node.core.zxid import ZERO, Zxid
from zab_chaos.node.tree.outcomes import Failed, Outcome, Unknown
from zab_chaos.node.tree.refusal import BAD_REQUEST
from zab_chaos.node.tree.requests import Request

with extra("zookeeper", "a client of ZooKeeper"):
    from kazoo.client import KazooClient, KazooState
    from kazoo.exceptions import SessionExpiredError
    from kazoo.protocol.serialization import CloseInstance

CONNECT_NS = 2_000_000_000  # a server that has not taken the session by then is passed over
GOODBYE_SECONDS = 1.0
END_SECONDS = 10.0
RETRY = {"max_tries": -1, "delay": 0.02, "max_delay": 0.2, "backoff": 2, "max_jitter": 0.0, "ignore_expire": True}
MOVED = "the client moved"
CLOSED = "the client was closed"


class Client:
    """`addresses`: host:port of each server, by id; `node` is tried first. `number` names the client in ops.jsonl. `timeout`:
    seconds after which an operation is unknown; `session`: seconds without a word after which the servers end the session.
    `poller`: one that sleeps for this client too."""

    def __init__(
        self,
        addresses: dict[int, str],
        node: int | None = None,
        *,
        number: int | None = None,
        timeout: float = 10.0,
        session: float = 6.0,
        poller: zmq.Poller | None = None,
    ) -> None:
        if node is not None and node not in addresses:
            raise ValueError(f"there is no server {node}; the servers are {', '.join(map(str, sorted(addresses)))}")
        self.number = secrets.randbits(63) if number is None else number
        self.sessions: list[int] = []  # whatever ZooKeeper has called this client, in time
        self.last_trouble = ""
        self._addresses = dict(addresses)
        self._node = min(addresses) if node is None else node
        self._timeout_ns = int(timeout * 1e9)
        self._seqs = itertools.count(1)
        self._unsent: deque[Operation] = deque()
        self._sent: dict[int, Operation] = {}
        self._come: deque[Callable[[], None]] = deque()  # what kazoo's thread leaves for the caller's
        self._connected = False
        self._since_ns = time.monotonic_ns()  # when it began to try its server
        self._bell, self._rung = socket.socketpair()
        self._rung.setblocking(False)
        self._poller = poller or zmq.Poller()
        self._poller.register(self._rung, zmq.POLLIN)
        self._closed = False
        self._kazoo = KazooClient(
            self._addresses[self._node], timeout=session, connection_retry=RETRY, logger=silent, randomize_hosts=False
        )
        self._kazoo.add_listener(self._changed)
        self._kazoo.start_async()

    @property
    def node(self) -> int:
        """The server that the client is connected to, or tries to reach."""
        return self._node

    @property
    def connected(self) -> bool:
        return self._connected

    @property
    def outstanding(self) -> int:
        """Operations whose outcome is not known."""
        return len(self._sent) + len(self._unsent)

    def submit(self, request: Request, then: Then | None = None) -> Operation:
        """Take an operation; `poll` or `flush` sends it. `then` is called, from within `poll`, when it is known."""
        operation = Operation(next(self._seqs), request, time.monotonic_ns(), then)
        self._unsent.append(operation)
        return operation

    def poll(self, timeout: float = 0.0) -> None:
        """Send, receive, go to another server; sleep at most `timeout` seconds while there is nothing to do."""
        self._turn()
        if timeout > 0:
            self._poller.poll(max(1, int(timeout * 1000)))
            self._turn()

    def wait(self, operation: Operation) -> Outcome:
        """The operation's outcome; comes in `timeout` seconds at the latest, then as Unknown."""
        while operation.outcome is None:
            self.poll(0.05)
        return operation.outcome

    def connect(self, timeout: float) -> bool:
        """Wait until a server has taken the session; False if none has in `timeout` seconds."""
        end = time.monotonic() + timeout
        while not self._connected and time.monotonic() < end:
            self.poll(0.02)
        return self._connected

    def flush(self) -> None:
        """Send what was submitted."""
        while self._unsent and self._connected:
            operation = self._unsent.popleft()
            try:
                request = answers.asked(operation.request)
                request.serialize()
            except (ValueError, TypeError, AttributeError, struct.error) as error:
                self._complete(operation, Failed(BAD_REQUEST, f"the request cannot be sent: {error}"))
                continue
            operation.node = self._node
            self._sent[operation.seq] = operation
            self._kazoo._call(request, _Result(self, operation))

    def move(self, node: int) -> None:
        """Leave for that server without a word. What was sent and is not answered becomes unknown, the rest moves along."""
        if node not in self._addresses:
            raise ValueError(f"there is no server {node}")
        self._go_to(node, MOVED)

    def close(self) -> None:
        """End the session. Whatever is outstanding becomes unknown."""
        if self._closed:
            return
        self._closed = True
        self._drop(CLOSED)
        while self._unsent:
            self._complete(self._unsent.popleft(), Unknown(CLOSED))
        self._end()
        self._poller.unregister(self._rung)
        self._bell.close()
        self._rung.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The caller's thread

    def _turn(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._rung.recv(4096):
                pass
        while self._come:
            self._come.popleft()()
        self._expire(time.monotonic_ns())
        self.flush()

    def _expire(self, now: int) -> None:
        """Time is up for the oldest, or for the server to take the session: it is stuck, or gone. Leave it."""
        limit = now - self._timeout_ns
        oldest = next(iter(self._sent.values()), None)
        if oldest is not None and oldest.submitted_ns <= limit:
            self._move_on(f"server {self._node}: no answer within {self._timeout_ns / 1e9:g} s")
        elif not self._connected and now - self._since_ns > CONNECT_NS:
            self._move_on(f"server {self._node} takes no session at {self._addresses[self._node]}")
        while self._unsent and self._unsent[0].submitted_ns <= limit:
            self._complete(self._unsent.popleft(), Unknown(f"no server within {self._timeout_ns / 1e9:g} s"))

    def _move_on(self, why: str) -> None:
        nodes = sorted(self._addresses)
        self._go_to(nodes[(nodes.index(self._node) + 1) % len(nodes)], why)

    def _go_to(self, node: int, why: str) -> None:
        self._drop(why)
        self._node = node
        self._since_ns = time.monotonic_ns()
        self._kazoo.set_hosts(self._addresses[node])
        self._hang_up()

    def _drop(self, why: str) -> None:
        """What was sent over the present connection can't be known any more."""
        self._connected = False
        self.last_trouble = why
        lost, self._sent = self._sent, {}
        for operation in lost.values():
            self._complete(operation, Unknown(why))

    def _hang_up(self) -> None:
        there = self._kazoo._connection._socket
        if there is not None:
            with contextlib.suppress(OSError):
                there.shutdown(socket.SHUT_RDWR)

    def _complete(self, operation: Operation, outcome: Outcome) -> None:
        operation.outcome = outcome
        operation.completed_ns = time.monotonic_ns()
        if operation.then is not None:
            operation.then(operation, outcome)

    def _answered(self, operation: Operation, outcome: Outcome) -> None:
        if self._sent.pop(operation.seq, None) is not None:
            self._complete(operation, outcome)

    def _arrived(self, address: str, session: int) -> None:
        """The session stands; at the server where it should, unless the client has moved meanwhile."""
        if address != self._addresses[self._node]:
            self._hang_up()
            return
        self._connected = True
        if session not in self.sessions:
            self.sessions.append(session)

    def _lost(self, why: str) -> None:
        """Another server is tried at once: this one has hung up, and a paused or dead one would not say so."""
        if self._connected:
            self._move_on(why)

    def _end(self) -> None:
        """As kazoo's own `stop`, which waits for a server that does not answer."""
        self._kazoo._stopped.set()
        self._kazoo._queue.append((CloseInstance, None))
        self._kazoo._connection._write_sock.send(b"\0")
        if not self._kazoo._connection.connection_stopped.wait(GOODBYE_SECONDS):
            self._hang_up()
        self._kazoo.handler.stop()
        self._kazoo._connection.stop(END_SECONDS)
        self._kazoo.close()

    # kazoo's thread

    def _leave(self, what: Callable[[], None]) -> None:
        self._come.append(what)
        with contextlib.suppress(OSError):  # it is closed, or was rung often enough
            self._bell.send(b"!", socket.MSG_DONTWAIT)

    def _changed(self, state: Any) -> None:
        why = "the session has expired" if state == KazooState.LOST else f"server {self._node} has gone away"
        if state == KazooState.CONNECTED:
            with contextlib.suppress(OSError):  # it has gone again already
                host, port = self._kazoo._connection._socket.getpeername()[:2]
                session = self._kazoo._session_id
                self._leave(lambda: self._arrived(f"{host}:{port}", session))
                return
        self._leave(lambda: self._lost(why))


class _Result:
    """Where kazoo puts what became of a request, in its thread, right after it has read the answer's header."""

    def __init__(self, client: Client, operation: Operation) -> None:
        self._client = client
        self._operation = operation

    def set(self, value: Any) -> None:
        self._tell(answers.answered(self._operation.request, value, self._zxid))

    def set_exception(self, error: BaseException) -> None:
        if isinstance(error, SessionExpiredError):
            self._tell(Unknown("the session has expired"))
        else:
            self._tell(answers.refused(self._operation.request, error, self._zxid))

    @property
    def _zxid(self) -> Zxid:
        return Zxid(self._client._kazoo.last_zxid) if self._client._kazoo.last_zxid else ZERO

    def _tell(self, outcome: Outcome) -> None:
        client, operation = self._client, self._operation
        client._leave(lambda: client._answered(operation, outcome))
