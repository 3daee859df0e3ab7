"""A node's channels over ZeroMQ: one PULL socket receives the frames of all peers, and each session sends through a PUSH
socket of its own. `zab_chaos.node.channel.channels` decides what the frames mean.
"""

import time
from collections import deque
from collections.abc import Collection
from typing import Any

import msgspec
import zmq

from zab_chaos.node.channel.channels import ChannelSet
from zab_chaos.node.config import Limits
from zab_chaos.node.events import LinkEvent
from zab_chaos.node.net.address import bind
from zab_chaos.node.net.failed_handshakes import FailedHandshakes
from zab_chaos.node.net.keys import Keys
from zab_chaos.node.net.pipe import ZmqPipe


class Links:
    """The sockets of one node's channels, for a loop with one thread. `poller` wakes up for them.

    `incarnation` is this node's life, larger than all earlier ones. `listen` and `peers` are host:port. Raises
    AddressInUse, AddressError.
    """

    def __init__(
        self,
        context: zmq.Context[Any],
        poller: zmq.Poller,
        channels: type[ChannelSet] = ChannelSet,
        *,
        me: int,
        cluster: str,
        incarnation: int,
        listen: str,
        peers: dict[int, str],
        keys: Keys,
        limits: Limits,
        heartbeat_ms: int,
        decoder: msgspec.msgpack.Decoder[list[Any]],
    ) -> None:
        self._context, self._poller, self._keys, self._limits = context, poller, keys, limits
        self._peers = dict(peers)
        self._inbox = context.socket(zmq.PULL)
        self._listen(listen)
        self._arrived: deque[bytes] = deque()
        self._pipes: dict[int, ZmqPipe] = {}
        self.channels = channels(
            me=me, cluster=cluster, incarnation=incarnation, peers=peers, limits=limits, heartbeat_ms=heartbeat_ms,
            decoder=decoder, dial=self._dial,
        )  # fmt: skip
        self.channels.open()

    def _listen(self, address: str) -> None:
        self._keys.server(self._inbox)
        self._inbox.linger = 0
        self._inbox.rcvhwm = self._limits.queue_frames
        # Up to this size we can name the sender; beyond it ZeroMQ disconnects.
        self._inbox.maxmsgsize = 2 * self._limits.frame_bytes
        bind(self._inbox, address, "peers")
        self._failed_handshakes = FailedHandshakes(self._context, self._inbox, "links")
        self._poller.register(self._inbox, zmq.POLLIN)
        self._poller.register(self._failed_handshakes.socket, zmq.POLLIN)

    def _dial(self, peer: int) -> ZmqPipe:
        dial = self._pipes[peer] = ZmqPipe(
            self._context, self._poller, self._peers[peer], self._keys, self._limits.queue_frames,
            self.channels.immediate,
        )  # fmt: skip
        return dial

    @property
    def pending(self) -> bool:
        """Whether `receive` or `tick` has something to do that no poller shows: then poll with a timeout of 0."""
        return bool(self._arrived or self.channels.unreported or self.channels.losing)

    def receive(self, max_frames: int, woken: Collection[Any] | None = None) -> list[LinkEvent]:
        """Return what has happened, in order, from at most `max_frames` new frames. Never blocks.

        `woken`: the sockets that a poll found readable. None: all sockets are tried.
        """
        if woken is None or self._inbox in woken:
            self._receive_frames(max_frames)
        events = self.channels.receive(self._arrived)
        if self._arrived:
            return events
        # Connection events come after the frames that arrived before them: a killed peer's last frames count.
        for peer, dial in list(self._pipes.items()):
            if woken is None or dial.monitor.socket in woken:
                self._connection_events(peer, dial.monitor.read())
        if woken is None or self._failed_handshakes.socket in woken:
            self.channels.report(*self._failed_handshakes.refused(self.channels.refusals))
        return events

    def _receive_frames(self, max_frames: int) -> None:
        receive, take = self._inbox.recv, self._arrived.append
        try:
            for _ in range(max_frames - len(self._arrived)):
                take(receive(zmq.DONTWAIT))
        except zmq.Again:
            return

    def _connection_events(self, peer: int, events: list[int]) -> None:
        for event in events:
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self.channels.connected(peer)
            elif event == zmq.EVENT_DISCONNECTED:
                self.channels.lost(peer, time.monotonic_ns())

    def tick(self, now_ns: int) -> None:
        """Do what is due at `now_ns`, by the node's clock."""
        self.channels.tick(now_ns, time.monotonic_ns())

    def drain(self, peer: int, seconds: float) -> None:
        """Wait until everything sent to `peer` has left the process, for at most `seconds`. Then nothing more can be sent."""
        self._pipes[peer].drain(int(seconds * 1000))

    def close(self) -> None:
        """Close all sockets; queued frames are dropped."""
        self.channels.close()
        self._poller.unregister(self._inbox)
        self._poller.unregister(self._failed_handshakes.socket)
        self._failed_handshakes.stop()
        self._inbox.close()
