"""The client port: a ROUTER that clients connect to. What their messages mean is decided in
`zab_chaos.node.clients.connections`.

ROUTER_MANDATORY makes a client that is gone, and one that does not read, show up as an error of `send` instead of as
silence, and ZeroMQ's heartbeats end the connection of one whose machine is gone.
"""

from collections.abc import Collection
from typing import Any

import zmq

from zab_chaos.node.clients.connections import FRAME_HARD, Connections, Delivery, frame_limit
from zab_chaos.node.clients.protocol import HEARTBEAT_MS, SILENCE_MS
from zab_chaos.node.config import Limits
from zab_chaos.node.events import ClientEvent
from zab_chaos.node.net.address import bind
from zab_chaos.node.net.failed_handshakes import FailedHandshakes
from zab_chaos.node.net.keys import Keys


class ClientPort:
    """Listens on `address` (host:port, port 0 for a free one). Raises AddressInUse or AddressError.

    `limits.request_bytes` bounds a frame, `limits.queue_frames` what is queued towards one client.
    """

    def __init__(self, context: zmq.Context[Any], address: str, keys: Keys, limits: Limits | None = None) -> None:
        limits = limits or Limits()
        self.connections: Connections[bytes] = Connections(limits, self._deliver)
        self._socket: zmq.Socket[Any] = context.socket(zmq.ROUTER)
        try:
            self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
            self._socket.setsockopt(zmq.LINGER, 0)
            self._socket.setsockopt(zmq.HEARTBEAT_IVL, HEARTBEAT_MS)
            self._socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, SILENCE_MS)
            self._socket.setsockopt(zmq.SNDHWM, limits.queue_frames)
            self._socket.setsockopt(zmq.MAXMSGSIZE, FRAME_HARD * frame_limit(limits))
            keys.server(self._socket)
            bind(self._socket, address, "clients")
        except BaseException:
            self._socket.close()
            raise
        self._failed_handshakes = FailedHandshakes(context, self._socket, "clients")

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
        """At most `limit` frames' events, and what was noticed otherwise. Never blocks, never raises for what came in.

        `woken`: the sockets that a poll found readable; None asks.
        """
        for _ in range(limit if woken is None or self._socket in woken else 0):
            try:
                identity, *parts = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            self.connections.receive(identity, parts)
        return self.connections.fetch()

    def tick(self, now_ns: int) -> None:
        """Once a second: look which clients are gone, and count who was refused. `receive` tells both."""
        if self.connections.tick(now_ns):
            self.connections.report(self._failed_handshakes.refused(self.connections.refusals))

    def drain(self, seconds: float) -> None:
        """Close, but first let all answers leave the process, or wait for `seconds`."""
        self._socket.close(linger=int(seconds * 1000))
        self._failed_handshakes.wait_stopped(int(seconds * 1000) + 1000)

    def close(self) -> None:
        self._failed_handshakes.stop()
        self._socket.close(linger=0)

    def _deliver(self, identity: bytes, frame: bytes) -> Delivery:
        try:
            self._socket.send_multipart([identity, frame], zmq.NOBLOCK)
        except zmq.Again:
            return Delivery.FULL
        except zmq.ZMQError as error:
            if error.errno != zmq.EHOSTUNREACH:
                raise
            return Delivery.GONE
        return Delivery.SENT
