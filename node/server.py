"""The server: one loop around the core. Frames, clients and commands in; the core's obligations out; answers last.

One thread does everything. While it waits for its disk, frames gather, and the next round takes them all at once: that is
the group commit of LADIS 2008, and nobody ever waits for a batch to fill.
"""

from typing import Any

import msgspec
import zmq

from node.application import Application
from node.clock import Clock
from node.commands import Commands
from node.config import NodeConfig
from node.core.machine import MS, Settings
from node.core.messages import Message
from node.core.ready import Recovered
from node.crash import CrashPoints
from node.driver import Driver
from node.net import keys
from node.net.clients import ClientGone, ClientPort, ClientRequests, ClientUp
from node.net.control import ControlPort
from node.net.link import LinkDown, Links, LinkUp, Received, Refused
from node.parts import Parts
from node.recording import Recording
from node.store.store import Store
from node.trace import Trace
from node.tree.forwarding import Answer, Forward

POLL_MS = 10  # the longest sleep: the core's clock ticks at least this often
FRAMES = 1000  # taken in one round
DRAIN_SECONDS = 1.0  # how long a crash point waits for frames to a peer that does not take them


class Server:
    """One life of one node. `run` returns the exit code 0, or raises what ends the life."""

    def __init__(
        self,
        config: NodeConfig,
        life: int,
        parts: Parts,
        store: Store,
        recovered: Recovered,
        trace: Trace,
        crash: CrashPoints,
        disk: Any,
    ) -> None:
        self.config = config
        self.life = life
        self.clock = Clock()
        self.trace = trace
        self.store = store
        self.crash = crash
        self.stopping: str | None = None
        self.watched: int | None = None  # a pipe that its holder closes by ending: so does this node
        self.context: zmq.Context[Any] = zmq.Context()
        timing, limits = config.timing, config.limits
        secret = keys.load(config.secret_file)
        self.links: Links = parts.links(
            self.context,
            me=config.id,
            cluster=config.cluster,
            incarnation=life,
            listen=config.listen,
            peers=config.peers,
            keys=secret,
            limits=limits,
            heartbeat_ms=timing.heartbeat_ms,
            decoder=msgspec.msgpack.Decoder(list[Message | Forward | Answer]),
        )
        self.application = Application(
            config.id,
            life,
            waiting=limits.waiting,
            request_bytes=limits.request_bytes,
            patience=timing.timeout_ms * MS,
        )
        if recovered.snapshot is not None:
            self.application.tree.load(recovered.snapshot[2], recovered.snapshot[0])
        settings = Settings(
            me=config.id,
            members=tuple(config.members),
            heartbeat=timing.heartbeat_ms * MS,
            timeout=timing.timeout_ms * MS,
            finalize=timing.finalize_ms * MS,
            sync_timeout=timing.sync_timeout_ms * MS,
            outstanding=limits.outstanding,
        )
        recording = Recording(config.record, config.id, life) if config.record else None
        if recording is not None:
            recording.add("boot", settings, recovered)
        self.machine = parts.peer(settings, recovered)
        self.driver = Driver(
            self.machine, store, self.links, self.application, trace, recording, crash, limits.snapshot_bytes
        )
        self.clients = ClientPort(self.context, config.client, secret, limits)
        self.commands = Commands(self, disk, crash)
        self.control = ControlPort(self.context, config.control, secret, self.commands.handle)
        crash.settle = self.settle
        self.poller = zmq.Poller()
        self.links.register(self.poller)
        self.clients.register(self.poller)
        self.control.register(self.poller)

    def stop(self, why: str) -> None:
        """End after this round."""
        self.stopping = why

    def settle(self) -> None:
        """Return when what was sent has left the process: a crash point comes after what came before it."""
        for peer in self.config.peers:
            self.links.drain(peer, DRAIN_SECONDS)

    def watch_disk(self) -> None:
        """Let the store stop at the disk's crash points, or run at full speed when none is armed."""
        self.store.crash = self.crash.hit if self.crash.on_disk else None

    def run(self) -> None:
        """The loop. Raises Aborted, DiskFailed."""
        self.driver.start(self.clock.now_ns())
        self.driver.fulfil()
        while self.stopping is None:
            ready = self.poller.poll(0 if self.links.pending else POLL_MS)
            if self.watched is not None and any(source == self.watched for source, _ in ready):
                self.stop("the process that started this node is gone")
            self.round()
        self.close()

    def round(self) -> None:
        """Take what has come, let the core move, do what it asks, answer."""
        driver, application, machine = self.driver, self.application, self.machine
        self.take_frames()
        self.take_clients()
        self.control.serve()
        now = self.clock.now_ns()
        self.commands.due(now)
        driver.tick(now)
        self.links.tick(now)
        application.follow_machine(machine, now)
        forward, txns = application.pass_on(machine)
        for peer, answer in application.answers_for_nodes():
            self.links.send(peer, [answer])
        if forward is not None and machine.leader is not None:
            self.links.send(machine.leader, [forward])
        if txns:
            driver.submit(txns)
        driver.fulfil()
        application.follow_machine(machine, now)
        self.answer_clients()
        self.trace_channels()
        driver.flush()

    def take_frames(self) -> None:
        for event in self.links.receive(FRAMES):
            if type(event) is Received:
                for message in event.messages:
                    if type(message) is Forward:
                        self.application.forwarded(event.peer, message, self.machine)
                    elif type(message) is Answer:
                        self.application.refused(message)
                    else:
                        self.driver.step(event.peer, message)
            elif type(event) is LinkUp:
                self.trace.add("link", {"peer": event.peer, "state": "opened", "session": event.session, "why": ""})
                self.driver.link_up(event.peer)
            elif type(event) is LinkDown:
                fields = {"peer": event.peer, "state": "closed", "session": event.session, "why": event.why}
                self.trace.add("link", fields)
                self.driver.link_down(event.peer, event.why)
            elif type(event) is Refused:
                self.refused(event.what, event.why, event.peer, event.count)

    def take_clients(self) -> None:
        sessions = self.application.sessions
        for event in self.clients.receive(FRAMES):
            if type(event) is ClientRequests:
                why = sessions.receive(event.client, event.items)
                if why is not None:
                    self.clients.drop(event.client, why)
                    self.client_gone(event.client)
            elif type(event) is ClientUp:
                self.trace.add("client", {"state": "connected", "client": event.client})
                sessions.hello(event.client, event.seen)
            elif type(event) is ClientGone:
                self.client_gone(event.client)
            elif type(event) is Refused:
                self.refused(event.what, event.why, event.peer, event.count)

    def client_gone(self, client: int) -> None:
        self.trace.add("client", {"state": "gone", "client": client})
        self.application.sessions.gone(client)

    def answer_clients(self) -> None:
        """Tell the clients what was traced before."""
        answers = self.application.sessions.answers()
        if answers:
            self.driver.flush()
            for client, outcomes in answers:
                self.clients.send(client, outcomes)

    def refused(self, what: str, why: str, peer: int | None, count: int) -> None:
        self.trace.add("refused", {"what": what, "why": why, "peer": peer, "count": count})

    def trace_channels(self) -> None:
        for run in self.links.runs():
            self.trace.add(
                "channel",
                {
                    "peer": run.peer,
                    "incarnation": run.incarnation,
                    "session": run.session,
                    "first": run.first,
                    "last": run.last,
                    "ended": run.ended,
                },
            )

    def close(self) -> None:
        """End by own decision: say goodbye to nobody, but leave complete traces."""
        self.links.close()
        self.trace_channels()
        self.clients.close()
        self.control.close()
        self.context.term()
        self.driver.flush()
        if self.driver.recording is not None:
            self.driver.recording.close()
