"""A client's connection to one node: a ZeroMQ DEALER that is used once and never reconnects by itself.

A socket that reconnects would send what was queued for the old session into a new one. So a broken connection is closed,
with its queue, and the client opens a new one.
"""

import re
from typing import Any

import zmq
from zmq.utils.monitor import recv_monitor_message

from zab_chaos.node.clients.protocol import BROKE, HEARTBEAT_MS, SILENCE_MS
from zab_chaos.node.net.keys import Keys

_BROKEN = {
    zmq.Event.DISCONNECTED: BROKE,
    zmq.Event.CLOSED: "the connection was refused",
    zmq.Event.CONNECT_RETRIED: "the connection was refused",
    zmq.Event.HANDSHAKE_FAILED_NO_DETAIL: "the handshake failed",
    zmq.Event.HANDSHAKE_FAILED_PROTOCOL: "the handshake failed: the peer has another protocol",
    zmq.Event.HANDSHAKE_FAILED_AUTH: "the handshake failed: the peer has another key",
}

_ADDRESS = re.compile(r"[^\s/]+:([0-9]{1,5})")


def check_address(address: str) -> None:
    """Raise ValueError if this is not host:port."""
    match = _ADDRESS.fullmatch(address)
    if match is None or not 0 < int(match[1]) < 65536:
        raise ValueError(f"{address!r} is not an address; use host:port, such as 127.0.0.1:20001")


class Connection:
    """A connection to `address` (host:port). The constructor does not wait until it is established.

    Its sockets are registered with `poller`. Implements `zab_chaos.harness.client.client.PolledConnection`.
    """

    def __init__(self, context: zmq.Context[Any], poller: zmq.Poller, address: str, keys: Keys) -> None:
        self._poller = poller
        self._address = address
        self._socket: zmq.Socket[Any] = context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.RECONNECT_IVL, -1)
        self._socket.setsockopt(zmq.HEARTBEAT_IVL, HEARTBEAT_MS)
        self._socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, SILENCE_MS)
        self._monitor = self._socket.get_monitor_socket(sum(_BROKEN))
        poller.register(self._socket, zmq.POLLIN)
        poller.register(self._monitor, zmq.POLLIN)
        try:
            keys.client(self._socket)
            self._socket.connect(f"tcp://{address}")
        except zmq.ZMQError:
            self.close()
            raise

    def send(self, frame: bytes) -> bool:
        """Send a frame. Return False if the connection accepts no more for now."""
        try:
            self._socket.send(frame, zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def receive(self) -> list[bytes]:
        """Return all frames that have arrived."""
        frames: list[bytes] = []
        while True:
            try:
                frames.append(self._socket.recv(zmq.NOBLOCK))
            except zmq.Again:
                return frames

    def broken(self) -> str | None:
        """Return why the connection is over, in words, or None."""
        try:
            event = recv_monitor_message(self._monitor, zmq.NOBLOCK)["event"]
        except zmq.Again:
            return None
        return f"{_BROKEN.get(event, 'the connection is over')} ({self._address})"

    def close(self, linger_ms: int = 0) -> None:
        self._poller.unregister(self._socket)
        self._poller.unregister(self._monitor)
        self._socket.disable_monitor()
        self._monitor.close(0)
        self._socket.close(linger_ms)
