"""The client port: where clients connect. Bytes become messages here, and nothing that is malformed gets further.

A ROUTER cannot close one client's connection, so a client is "dropped" by telling it why (REJECTED) and forgetting it:
it is told nothing more, and what it sends is refused until it begins again with HELLO. ROUTER_MANDATORY makes a client
that is gone, and one that does not read, show up as an error of `send` instead of as silence. So that they also show up
when there is nothing to tell them, `tick` sends each client an empty answer once a second, and ZeroMQ's heartbeats end
the connection of one whose machine is gone.
"""

import contextlib
from collections.abc import Collection
from typing import Any

import msgspec
import zmq

from zab_chaos.node.config import Limits
from zab_chaos.node.events import ClientEvent, ClientGone, ClientRequests, ClientUp
from zab_chaos.node.net.address import bind
from zab_chaos.node.net.keys import Keys
from zab_chaos.node.net.protocol import (
    VERSION,
    Answers,
    Bye,
    Hello,
    Rejected,
    Requests,
    Welcome,
    decode_from_client,
    encode,
)
from zab_chaos.node.net.strangers import Strangers
from zab_chaos.node.refusals import REPORT_NS, Refusals
from zab_chaos.node.tree.outcomes import Outcome

CLIENTS_MAX = 4096  # connections that are remembered; each costs a queue in ZeroMQ and a session
FRAME_REQUESTS = 4  # a frame holds at most so many times the bytes of the largest request
FRAME_HARD = 4  # and ZeroMQ cuts the connection, without words, at so many times that: it would fill the memory
TICK_NS = REPORT_NS  # a client that is gone is noticed after this time
HEARTBEAT_MS = 500
SILENCE_MS = 2000  # a stopped process or a machine that is gone leaves its connections open; the heartbeats show it
_PROBE = encode(Answers([]))


class ClientPort:
    """Listens on `address` (host:port, port 0 for a free one). Raises AddressInUse or AddressError.

    `limits.request_bytes` bounds a frame, `limits.queue_frames` what is queued towards one client.
    """

    def __init__(self, context: zmq.Context[Any], address: str, keys: Keys, limits: Limits | None = None) -> None:
        limits = limits or Limits()
        self._frame_bytes = FRAME_REQUESTS * limits.request_bytes
        self._clients: dict[bytes, int] = {}  # by the identity of the connection
        self._identities: dict[int, bytes] = {}
        self._events: list[ClientEvent] = []
        self._refusals = Refusals()
        self._tick_ns = 0
        self._socket: zmq.Socket[Any] = context.socket(zmq.ROUTER)
        try:
            self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
            self._socket.setsockopt(zmq.LINGER, 0)
            self._socket.setsockopt(zmq.HEARTBEAT_IVL, HEARTBEAT_MS)
            self._socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, SILENCE_MS)
            self._socket.setsockopt(zmq.SNDHWM, limits.queue_frames)
            self._socket.setsockopt(zmq.MAXMSGSIZE, FRAME_HARD * self._frame_bytes)
            keys.server(self._socket)
            bind(self._socket, address, "clients")
        except BaseException:
            self._socket.close()
            raise
        self._strangers = Strangers(context, self._socket, "clients")

    @property
    def address(self) -> str:
        """host:port, with the port that was chosen."""
        endpoint: str = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)
        return endpoint.removeprefix("tcp://")

    @property
    def socket(self) -> zmq.Socket[Any]:
        """For a poller: readable means that `receive` has something."""
        return self._socket

    def register(self, poller: zmq.Poller) -> None:
        poller.register(self._socket, zmq.POLLIN)

    def receive(self, limit: int = 100, woken: Collection[Any] | None = None) -> list[ClientEvent]:
        """At most `limit` frames' events, and what `send` noticed. Never blocks, never raises for what came in.

        `woken`: the sockets that a poll found readable; None asks.

        To be called in every round of the loop, not only when the socket is readable: `send` and `tick` notice things too.
        """
        for _ in range(limit if woken is None or self._socket in woken else 0):
            try:
                frames = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            self._take(frames[0], frames[1:])
        events, self._events = self._events, []
        return events

    def send(self, client: int, answers: list[tuple[int, Outcome]]) -> None:
        """Answer. A client that is gone, or whose queue is full, is dropped: `receive` says so."""
        identity = self._identities.get(client)
        if identity is not None:
            self._send(identity, encode(Answers(answers)))

    def drop(self, client: int, why: str) -> None:
        """Tell a client why it is dropped, and forget it. No event: the caller knows."""
        identity = self._identities.get(client)
        if identity is not None:
            self._count(why)
            self._tell(identity, why)
            self._forget(identity)

    def tick(self, now_ns: int) -> None:
        """Once a second: look which clients are gone, and count who was refused. `receive` tells both."""
        if now_ns < self._tick_ns:
            return
        self._tick_ns = now_ns + TICK_NS
        self._events += self._strangers.refused(self._refusals) + self._refusals.due(now_ns)
        self._sweep()

    def drain(self, seconds: float) -> None:
        """Close, but first let all answers leave the process, or wait for `seconds`."""
        self._socket.close(linger=int(seconds * 1000))
        self._strangers.wait_stopped(int(seconds * 1000) + 1000)

    def close(self) -> None:
        self._strangers.stop()
        self._socket.close(linger=0)

    def _take(self, identity: bytes, frames: list[bytes]) -> None:
        if len(frames) != 1:
            return self._reject(identity, f"a message has {len(frames)} parts; it must have one")
        if len(frames[0]) > self._frame_bytes:
            return self._reject(
                identity, f"a message has {len(frames[0])} bytes; at most {self._frame_bytes} are allowed"
            )
        try:
            message = decode_from_client(frames[0])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return self._reject(identity, f"a message is malformed: {error}")
        if isinstance(message, Hello):
            return self._hello(identity, message)
        client = self._clients.get(identity)
        if client is None:
            if not isinstance(message, Bye):
                self._reject(identity, "requests came before HELLO, or after this node had forgotten the client")
        elif isinstance(message, Requests):
            self._events.append(ClientRequests(client, message.items))
        else:
            self._lose(identity, "it said BYE")
        return None

    def _hello(self, identity: bytes, hello: Hello) -> None:
        if hello.version != VERSION:
            words = f"this node speaks version {VERSION} of the clients' protocol, the client version {hello.version}"
            return self._reject(identity, words)
        if len(self._clients) >= CLIENTS_MAX and identity not in self._clients:
            self._sweep()
        if len(self._clients) >= CLIENTS_MAX and identity not in self._clients:
            return self._reject(identity, f"there are {CLIENTS_MAX} clients already; try another node")
        older = self._identities.get(hello.client)
        if older is not None and older != identity:
            self._tell(older, "the client has connected again")
            self._forget(older)
        if self._clients.get(identity, hello.client) != hello.client:
            self._lose(identity, "the connection changed its client number")
        self._clients[identity] = hello.client
        self._identities[hello.client] = identity
        self._events.append(ClientUp(hello.client, hello.seen, hello.fence))
        self._send(identity, encode(Welcome()))
        return None

    def _reject(self, identity: bytes, why: str) -> None:
        self._count(why)
        self._tell(identity, why)
        self._lose(identity, why)

    def _count(self, why: str) -> None:
        report = self._refusals.add("client", why, None)
        if report is not None:
            self._events.append(report)

    def _tell(self, identity: bytes, why: str) -> None:
        with contextlib.suppress(zmq.ZMQError):  # it is being dropped anyway
            self._socket.send_multipart([identity, encode(Rejected(why))], zmq.NOBLOCK)

    def _send(self, identity: bytes, frame: bytes) -> None:
        try:
            self._socket.send_multipart([identity, frame], zmq.NOBLOCK)
        except zmq.Again:
            self._count("a client does not read its answers; its queue is full")
            self._lose(identity, "it does not read its answers")
        except zmq.ZMQError as error:
            if error.errno != zmq.EHOSTUNREACH:
                raise
            self._lose(identity, "its connection is gone")

    def _lose(self, identity: bytes, why: str) -> None:
        client = self._clients.get(identity)
        if client is not None:
            self._forget(identity)
            self._events.append(ClientGone(client, why))

    def _forget(self, identity: bytes) -> None:
        client = self._clients.pop(identity)
        if self._identities.get(client) == identity:
            del self._identities[client]

    def _sweep(self) -> None:
        """Find clients that left without a word: an empty answer cannot be sent to them."""
        for identity in list(self._clients):
            self._send(identity, _PROBE)
