"""A client of ZooKeeper's servers: `zab_chaos.harness.client.client`, its frames carried by kazoo.

It talks to one server at a time, and goes to another one when it is told to, or when its server is gone or silent; the
session goes along. What kazoo's thread hears becomes frames of our clients' protocol, which wait for the caller's thread.
What was given to kazoo counts as sent: when the connection goes, nobody can tell what became of it.
"""

import contextlib
import socket
import struct
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import zmq

from zab_chaos.harness.backends.zookeeper import answers
from zab_chaos.harness.backends.zookeeper.tree import silent
from zab_chaos.harness.client.client import PolledClient
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

GOODBYE_SECONDS = 1.0
END_SECONDS = 10.0
AGAIN_SECONDS = 0.05
RETRY = {"max_tries": -1, "delay": 0.02, "max_delay": 0.2, "backoff": 2, "max_jitter": 0.0, "ignore_expire": True}


class Client(PolledClient):
    """`session`: seconds without a word after which the servers end the session."""

    def __init__(
        self,
        addresses: Mapping[int, str],
        node: int | None = None,
        *,
        number: int | None = None,
        timeout: float = 10.0,
        session: float = 6.0,
        poller: zmq.Poller | None = None,
    ) -> None:
        super().__init__(addresses, node, number=number, timeout=timeout, poller=poller)
        self.sessions: list[int] = []  # whatever ZooKeeper has called this client, in time
        self._closed = False
        self._bell, self._rung = socket.socketpair()
        self._rung.setblocking(False)
        self._poller.register(self._rung, zmq.POLLIN)
        self._kazoo = KazooClient(
            self._addresses[self.node], timeout=session, connection_retry=RETRY, logger=silent, randomize_hosts=False
        )
        self._visit: Visit | None = None
        self._kazoo.add_listener(self._changed)

    def close(self) -> None:
        """End the session. Whatever is outstanding becomes unknown."""
        if self._closed:
            return
        self._closed = True
        super().close()
        if self._visit is not None:
            end_session(self._kazoo)
        self._kazoo.close()
        self._poller.unregister(self._rung)
        self._bell.close()
        self._rung.close()

    def _turn(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._rung.recv(4096):
                pass
        super()._turn()

    def _dial(self, node: int) -> "Visit":
        begun = self._visit is not None
        self._visit = Visit(self._kazoo, self._addresses[node], self._ring)
        self._kazoo.set_hosts(self._addresses[node])
        if begun:
            hang_up(self._kazoo)
        else:
            self._kazoo.start_async()
        return self._visit

    # kazoo's thread

    def _ring(self) -> None:
        with contextlib.suppress(OSError):  # it is closed, or was rung often enough
            self._bell.send(b"!", socket.MSG_DONTWAIT)

    def _changed(self, state: Any) -> None:
        visit = self._visit
        if visit is None:
            return
        if state != KazooState.CONNECTED:
            visit.lost("the session has expired" if state == KazooState.LOST else "the server has gone away")
        elif visit.arrived() and self._kazoo._session_id not in self.sessions:
            self.sessions.append(self._kazoo._session_id)


class Visit:
    """A session's stay at one server. Implements `zab_chaos.harness.client.client.PolledConnection`."""

    def __init__(self, kazoo: Any, address: str, ring: Callable[[], None]) -> None:
        self._kazoo = kazoo
        self._address = address
        self._ring = ring
        self._come: deque[bytes] = deque()
        self._welcome = False
        self._why: str | None = None

    def send(self, frame: bytes) -> bool:
        """Requests go to kazoo, which greets and says goodbye by itself. False if the server is known to be gone."""
        if self._why is not None:
            return False
        message = decode_from_client(frame)
        if isinstance(message, Requests):
            for seq, request in message.items:
                self._ask(seq, request)
        return True

    def _ask(self, seq: int, request: Request) -> None:
        try:
            asked = answers.asked(request)
            asked.serialize()
        except (ValueError, TypeError, AttributeError, struct.error) as error:
            self.answer(seq, Failed(BAD_REQUEST, f"the request cannot be sent: {error}"))
            return
        self._kazoo._call(asked, _Result(self, self._kazoo, seq, request))

    def receive(self) -> list[bytes]:
        return [self._come.popleft() for _ in range(len(self._come))]

    def broken(self) -> str | None:
        return self._why

    def close(self, linger_ms: int = 0) -> None:
        """The session stays; the next visit hangs up."""
        self._welcome = False

    # kazoo's thread

    def arrived(self) -> bool:
        """The session stands: at this server? It may be where the last visit was."""
        with contextlib.suppress(OSError, AttributeError):  # it has gone again already
            host, port = self._kazoo._connection._socket.getpeername()[:2]
            if f"{host}:{port}" == self._address:
                self._welcome = True
                self._tell(Welcome())
                return True
        hang_up(self._kazoo)
        return False

    def lost(self, why: str) -> None:
        """Another server is to be tried at once: this one has hung up, and a paused or dead one would not say so."""
        if self._welcome:
            self._why = f"{why} ({self._address})"
            self._ring()

    def answer(self, seq: int, outcome: Outcome) -> None:
        self._tell(Answers([(seq, outcome)]))

    def _tell(self, message: FromNode) -> None:
        self._come.append(encode(message))
        self._ring()


class _Result:
    """Where kazoo puts what became of a request, in its thread, right after it has read the answer's header."""

    def __init__(self, visit: Visit, kazoo: Any, seq: int, request: Request) -> None:
        self._visit = visit
        self._kazoo = kazoo
        self._seq = seq
        self._request = request

    def set(self, value: Any) -> None:
        self._visit.answer(self._seq, answers.answered(self._request, value, self._zxid))

    def set_exception(self, error: BaseException) -> None:
        if isinstance(error, SessionExpiredError):
            self._visit.answer(self._seq, Unknown("the session has expired"))
        else:
            self._visit.answer(self._seq, answers.refused(self._request, error, self._zxid))

    @property
    def _zxid(self) -> Zxid:
        return Zxid(self._kazoo.last_zxid) if self._kazoo.last_zxid else ZERO


def end_session(kazoo: Any, *, say: bool = True) -> None:
    """As kazoo's own `stop`, which waits for a server that does not answer. Not to `say` so leaves the session to expire.

    kazoo does not ask whether it was stopped between the connection that it makes and the end of that one. So whatever
    connection it still makes is ended, too.
    """
    kazoo._stopped.set()
    if say:
        kazoo._queue.append((CloseInstance, None))
        kazoo._connection._write_sock.send(b"\0")
    patience = GOODBYE_SECONDS if say else 0.0
    while not kazoo._connection.connection_stopped.wait(patience):
        hang_up(kazoo)
        patience = AGAIN_SECONDS
    kazoo.handler.stop()
    kazoo._connection.stop(END_SECONDS)


def hang_up(kazoo: Any) -> None:
    """End kazoo's present connection; it makes another one by itself."""
    there = kazoo._connection._socket
    if there is not None:
        with contextlib.suppress(OSError):
            there.shutdown(socket.SHUT_RDWR)
