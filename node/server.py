"""The server: a loop around a replica. Frames, clients' requests and commands come in; answers go out.

One thread does everything. While it waits for its disk, frames gather, and the next round processes them all at once: that
is the group commit of LADIS 2008, and nothing waits for a batch to fill.
"""

from typing import Any

import zmq

from zab_chaos.node.boot import BootedNode
from zab_chaos.node.clock import Clock
from zab_chaos.node.commands import CommandError, Commands
from zab_chaos.node.components import Components
from zab_chaos.node.config import NodeConfig
from zab_chaos.node.net import keys
from zab_chaos.node.net.clients import ClientPort
from zab_chaos.node.net.control import ControlError, ControlPort
from zab_chaos.node.net.link import Links
from zab_chaos.node.recording import Recording
from zab_chaos.node.replica import DECODER, Replica
from zab_chaos.node.trace import Trace
from zab_chaos.node.watchdog import Watchdog

POLL_MS = 10  # longest wait in one poll, so that the core ticks at least this often
FRAMES = 1000  # most frames in one round
DRAIN_SECONDS = 1.0  # how long a crash point waits for a peer that does not receive its frames


class Server:
    """One life of one node. `run` returns when the life is to end, or raises the error that ends it."""

    def __init__(
        self,
        config: NodeConfig,
        life: int,
        parts: Components,
        booted: BootedNode,
        trace: Trace,
        disk: Any,
    ) -> None:
        self.config = config
        self.clock = Clock()
        self.trace = trace
        self.stopping: str | None = None
        self.watchdog = Watchdog(config.silence_ms) if config.silence_ms is not None else None
        self.watched: int | None = None  # file descriptor of a pipe; the node ends when its other end closes
        self.context: zmq.Context[Any] = zmq.Context()
        self.poller = zmq.Poller()
        self.links = Links(
            self.context,
            self.poller,
            parts.channels,
            me=config.id,
            cluster=config.ensemble,
            incarnation=life,
            listen=config.listen,
            peers=config.peers,
            keys=keys.load(config.link_keys),
            limits=config.limits,
            heartbeat_ms=config.timing.heartbeat_ms,
            decoder=DECODER,
        )
        self.clients = ClientPort(self.context, config.client, keys.load(config.client_keys), config.limits)
        recording = Recording(config.record, config.id, life) if config.record else None
        self.replica = Replica(
            config, life, parts, booted, trace, recording, self.links.channels, self.clients.connections
        )
        self.commands = Commands(self.replica, self.clock, disk, self.stop)
        self.control = ControlPort(self.context, config.control, keys.load(config.control_keys), self.command)
        booted.crash.settle = self.settle
        self.clients.register(self.poller)
        self.control.register(self.poller)

    def stop(self, why: str) -> None:
        """End after this round. The first of several reasons counts."""
        self.stopping = self.stopping or why

    def command(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Handle a command of the control port."""
        try:
            return self.commands.handle(name, arguments)
        except CommandError as error:
            raise ControlError(str(error)) from None

    def settle(self) -> None:
        """Wait until what was sent has left the process: a crash point must come after what was sent before it."""
        for peer in self.config.peers:
            self.links.drain(peer, DRAIN_SECONDS)
        self.clients.drain(DRAIN_SECONDS)

    def run(self) -> None:
        """Run the loop. Raises Aborted, DiskFailed."""
        for _ in self.replica.start(self.clock.now_ns()):
            pass
        while self.stopping is None:
            woken = {source for source, _ in self.poller.poll(0 if self.links.pending else POLL_MS)}
            if self.watched in woken:
                self.stop("the process that started this node is gone")
            self.round(woken)
            if self.watchdog is not None and self.watchdog.expired(contacted=self.control.socket in woken):
                self.stop("nobody has asked for this node for too long; whoever started it is gone")
        self.close()

    def round(self, woken: set[Any]) -> None:
        """Do one turn of the loop.

        `woken`: the readable sockets. The others are not tried, because that is slow.
        """
        frames = self.links.receive(FRAMES, woken)
        clients = self.clients.receive(FRAMES, woken)
        for refused in self.control.serve() if self.control.socket in woken else ():
            self.replica.trace_refused(refused)
        now = self.clock.now_ns()
        self.commands.due(now)
        self.links.tick(now)
        self.clients.tick(now)
        for refused in self.control.tick(now):
            self.replica.trace_refused(refused)
        for _ in self.replica.round(now, frames, clients):
            pass  # the disk is writing
        self.replica.trace_channels(self.links.channels.runs.fetch())

    def close(self) -> None:
        """End by this node's own decision: peers are not told, but the traces are complete."""
        self.links.close()
        self.replica.close(self.links.channels.runs.fetch())
        self.clients.close()
        self.control.close()
        self.context.term()
