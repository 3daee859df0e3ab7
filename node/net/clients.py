"""The client port: a ROUTER socket that clients connect to.

`zab_chaos.node.clients.connections` decides what their messages mean. With ROUTER_MANDATORY, a client that is gone and one
that does not read cause an error of `send`. ZeroMQ's heartbeats end the connection of a client whose machine is gone.
"""

from collections import deque
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

UNSENT_BYTES = 256 * 2**20  # of large frames in the queue to one client; small ones are limited by their number


class ClientPort:
    """The listening socket for clients at `address` (host:port; port 0 for a free one). Raises AddressInUse or
    AddressError.

    `limits.request_bytes` limits a frame, `limits.queue_frames` and `UNSENT_BYTES` the queue to one client.
    """

    def __init__(self, context: zmq.Context[Any], address: str, keys: Keys, limits: Limits | None = None) -> None:
        limits = limits or Limits()
        self.connections: Connections[bytes] = Connections(limits, self._deliver)
        self._unsent: dict[bytes, deque[tuple[zmq.MessageTracker, int]]] = {}  # large frames with their sizes
        self._socket: zmq.Socket[Any] = context.socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.HEARTBEAT_IVL, HEARTBEAT_MS)
        self._socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, SILENCE_MS)
        self._socket.setsockopt(zmq.SNDHWM, limits.queue_frames)
        self._socket.setsockopt(zmq.MAXMSGSIZE, FRAME_HARD * frame_limit(limits))
        keys.server(self._socket)
        bind(self._socket, address, "clients")
        self._failed_handshakes = FailedHandshakes(context, self._socket, "clients")

    @property
    def address(self) -> str:
        """host:port, with the port that was chosen."""
        endpoint: str = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)
        return endpoint.removeprefix("tcp://")

    @property
    def socket(self) -> zmq.Socket[Any]:
        """The socket, for a poller. If it is readable, `receive` has something."""
        return self._socket

    def register(self, poller: zmq.Poller) -> None:
        poller.register(self._socket, zmq.POLLIN)

    def receive(self, limit: int = 100, woken: Collection[Any] | None = None) -> list[ClientEvent]:
        """Return the events of at most `limit` frames, and what was noticed otherwise. Never blocks; no input makes it
        raise.

        `woken`: the sockets that a poll found readable. None: the socket is tried.
        """
        for _ in range(limit if woken is None or self._socket in woken else 0):
            try:
                identity, *parts = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            self.connections.receive(identity, parts)
        return self.connections.fetch()

    def tick(self, now_ns: int) -> None:
        """Once a second, find clients that are gone and count refusals. `receive` returns both."""
        if self.connections.tick(now_ns):
            self._unsent = {
                identity: frames for identity, frames in self._unsent.items() if self._unsent_bytes(identity)
            }
            self.connections.report(self._failed_handshakes.refused(self.connections.refusals))

    def drain(self, seconds: float) -> None:
        """Close the socket after all answers have left the process, or after `seconds`."""
        self._socket.close(linger=int(seconds * 1000))
        self._failed_handshakes.wait_stopped(int(seconds * 1000) + 1000)

    def close(self) -> None:
        self._failed_handshakes.stop()
        self._socket.close(linger=0)

    def _deliver(self, identity: bytes, frame: bytes) -> Delivery:
        try:
            if len(frame) < zmq.COPY_THRESHOLD:
                self._socket.send_multipart([identity, frame], zmq.NOBLOCK)
            elif self._unsent_bytes(identity) >= UNSENT_BYTES:
                return Delivery.FULL
            else:
                self._socket.send(identity, zmq.NOBLOCK | zmq.SNDMORE)
                tracker = self._socket.send(frame, zmq.NOBLOCK, copy=False, track=True)
                self._unsent.setdefault(identity, deque()).append((tracker, len(frame)))
        except zmq.Again:
            return Delivery.FULL
        except zmq.ZMQError as error:
            if error.errno != zmq.EHOSTUNREACH:
                raise
            return Delivery.GONE
        return Delivery.SENT

    def _unsent_bytes(self, identity: bytes) -> int:
        """Return the size of the large frames in the queue to a client. ZeroMQ releases a frame when it encrypts it."""
        frames = self._unsent.get(identity, deque())
        while frames and frames[0][0].done:
            frames.popleft()
        return sum(size for _, size in frames)
