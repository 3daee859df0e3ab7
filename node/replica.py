"""One life of one server without its sockets: the work of a round of its loop.

The server runs it with ZeroMQ and real time; the simulator runs the same code with virtual time. A round is an iterator
that pauses where the disk writes, so that its caller can let time pass there, or cut the power.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Protocol

import msgspec

from zab_chaos.node.boot import BootedNode
from zab_chaos.node.channel.runs import ChannelRun
from zab_chaos.node.clients.claims import Claims
from zab_chaos.node.components import Components
from zab_chaos.node.config import NodeConfig
from zab_chaos.node.core.digest import HASHES
from zab_chaos.node.core.messages import Message
from zab_chaos.node.core.peer import Peer
from zab_chaos.node.core.ready import Ready
from zab_chaos.node.core.settings import MS, STATE_FORMAT, Settings
from zab_chaos.node.crash_points import REPLY
from zab_chaos.node.driver import Driver, Network
from zab_chaos.node.events import (
    ClientEvent,
    ClientGone,
    ClientRequests,
    ClientUp,
    LinkDown,
    LinkEvent,
    LinkUp,
    Received,
    Refused,
)
from zab_chaos.node.recorded import RecordedCore, RecordedTrace, TraceSink
from zab_chaos.node.recording import Booted, Recording
from zab_chaos.node.tree.forwarding import Answer, Forward
from zab_chaos.node.tree.outcomes import Outcome

Answered = tuple[int, list[tuple[int, Outcome]]]  # client, (seq, outcome) in the order of its requests
DECODER: msgspec.msgpack.Decoder[list[Any]] = msgspec.msgpack.Decoder(list[Message | Forward | Answer])  # of a frame
ROUND_OVER: Iterator[None] = iter(())  # the result of a round that is done


class Clients(Protocol):
    """The client port, as the replica uses it."""

    def send(self, client: int, answers: list[tuple[int, Outcome]]) -> None: ...
    def drop(self, client: int, why: str) -> None: ...


class Replica:
    """A core with its store, its application and its trace."""

    def __init__(
        self,
        config: NodeConfig,
        life: int,
        parts: Components,
        booted: BootedNode,
        trace: TraceSink,
        recording: Recording | None,
        network: Network,
        clients: Clients,
    ) -> None:
        timing, limits, recovered = config.timing, config.limits, booted.recovered
        self.id = config.id
        self.life = life
        self.store = booted.store
        self.recording = recording
        self.crash = booted.crash
        self.network = network
        self.clients = clients
        settings = Settings(
            me=config.id,
            members=tuple(config.members),
            heartbeat=timing.heartbeat_ms * MS,
            timeout=timing.timeout_ms * MS,
            finalize=timing.finalize_ms * MS,
            sync_timeout=timing.sync_timeout_ms * MS,
            outstanding=limits.outstanding,
            counter_max=limits.counter_max,
            digest=config.digest,
            clients_max=limits.clients_max,
            state_format=STATE_FORMAT,
        )
        self.machine = parts.peer(settings, recovered)
        self.core: Peer | RecordedCore = self.machine  # its inputs go here
        self.trace = trace
        if recording is not None:
            recording.add(Booted(life, settings, recovered))
            self.core, self.trace = RecordedCore(self.machine, recording), RecordedTrace(trace, recording)
        self.application = parts.application(
            config.id,
            life,
            parts,
            hash_bytes=HASHES[config.digest],
            clients_max=limits.clients_max,
            waiting=limits.waiting,
            request_bytes=limits.largest_request,
            flight=limits.bytes_in_flight,
            patience=timing.timeout_ms * MS,
        )
        self.in_broadcast = False  # led an established epoch or followed its leader at the last round's end
        self.claims = Claims(timing.timeout_ms * MS)
        if recovered.snapshot is not None:
            self.application.tree.load(recovered.snapshot[2], recovered.snapshot[0])
        self.driver = Driver(
            self.machine,
            self.core,
            self.store,
            network,
            self.application,
            self.trace,
            self.crash,
            limits.snapshot_interval,
        )

    def wakes_at(self, now: int) -> int:
        """Return when the core, or later than `now` the application, will have something to do."""
        core, application = self.machine.wakes_at(), self.application.wakes_at()
        return application if application is not None and now < application < core else core

    def start(self, now: int) -> Iterator[None]:
        """Start the core."""
        self.core.start(now)
        ready = self.core.ready()
        assert ready is not None  # the start of the election is traced
        yield from self.driver.fulfil(ready)

    def round(self, time: int, frames: Sequence[LinkEvent], clients: Sequence[ClientEvent]) -> Iterator[None]:
        """Process input, let the core react, do what it asks, and answer clients. Raises Aborted, DiskFailed.

        All of it is done at once, and the result is `ROUND_OVER`, unless the core asks for something to be made durable:
        then the work is done as the result is iterated. Most rounds have nothing for the disk, and a generator is slower.
        """
        driver, application, core, machine = self.driver, self.application, self.core, self.machine
        if frames:
            self.handle_frames(frames)
        if clients:
            self.handle_clients(clients)
        core.tick(time)
        idle = application.idle(machine)
        if not idle:
            application.follow_machine(machine, time)
            self.forward_writes()
        ready = core.ready()
        if ready is not None:
            if ready.records:
                return self._write(ready, time)
            driver.begin(ready)
            driver.finish(ready)
        elif idle:
            self._end_round(time)
            return ROUND_OVER
        more = self._answer(time)
        if more is not None:
            return self._write(more, time)
        self._end_round(time)
        return ROUND_OVER

    def _write(self, ready: Ready, time: int) -> Iterator[None]:
        more: Ready | None = ready
        while more is not None:
            yield from self.driver.fulfil(more)
            more = self._answer(time)
        self._end_round(time)

    def _answer(self, time: int) -> Ready | None:
        """Answer the clients. Return what the core then asks for, if writes have waited for this delivery."""
        application, machine = self.application, self.machine
        while not application.idle(machine):
            application.follow_machine(machine, time)
            self.answer_clients()
            if not application.pending(machine):
                break
            self.forward_writes()
            ready = self.core.ready()
            if ready is not None:
                return ready
        return None

    def _end_round(self, time: int) -> None:
        if self.claims.open:
            self.drop_clients(self.claims.find_false(self.machine, self.application.tree.zxid, time))
        if self.application.sessions.forgotten:
            self.drop_clients(list(self.application.sessions.forgotten.items()))
        if self.driver.work.due(self.machine.state.phase, time):
            self.trace_work()
        self.in_broadcast = self.machine.in_broadcast
        self.trace.flush()

    def trace_work(self) -> None:
        self.trace.add("work", self.driver.work.fields(self.store.log.syncs))

    def trace_channels(self, runs: list[ChannelRun]) -> None:
        """Trace the runs of frames that have ended, and write the trace."""
        for run in runs:
            self.trace.add("channel", asdict(run))
        self.trace.flush()

    def close(self, runs: list[ChannelRun]) -> None:
        """Write the last lines of a life that ends by its own decision, and close its recording. `runs`: as for
        `trace_channels`."""
        self.trace_channels(runs)
        self.trace_work()
        self.trace.flush()
        if self.recording is not None:
            self.recording.close()

    def forward_writes(self) -> None:
        """Send writes to the leader, refusals to the nodes they came from, and transactions to the core."""
        application, machine = self.application, self.machine
        forward, txns = application.forward_writes(machine)
        for peer, answer in application.answers_for_nodes():
            self.driver.send_alone(peer, answer)
        if forward is not None and machine.leader is not None:
            self.driver.send_alone(machine.leader, forward)
        if txns:
            self.driver.submit(txns, application.primary.summaries())

    def install_disk_hook(self) -> None:
        """Let the store call the crash points of the disk; without an armed one it runs at full speed."""
        self.store.crash = self.crash.hit if self.crash.on_disk else None

    # ---- input ----

    def handle_frames(self, events: Sequence[LinkEvent]) -> None:
        step = self.core.step
        for event in events:
            if type(event) is Received:
                peer = event.peer
                if not event.messages:
                    self.core.heard(peer)
                for message in event.messages:
                    kind = type(message)
                    if kind is Forward:
                        self.application.on_forward(peer, message, self.machine)
                    elif kind is Answer:
                        self.application.on_answer(message)
                    else:
                        step(peer, message)
            elif type(event) is LinkUp:
                self.trace.add("link", {"peer": event.peer, "state": "opened", "session": event.session, "why": ""})
                self.core.link_up(event.peer)
            elif type(event) is LinkDown:
                fields = {"peer": event.peer, "state": "closed", "session": event.session, "why": event.why}
                self.trace.add("link", fields)
                self.core.link_down(event.peer, event.why)
            elif type(event) is Refused:
                self.trace_refused(event)

    def handle_clients(self, events: Sequence[ClientEvent]) -> None:
        sessions = self.application.sessions
        for index, event in enumerate(events):
            if type(event) is ClientRequests:
                why = sessions.receive(event.client, event.items)
                if why is not None:
                    if not _connects(event.client, events[index:]):
                        self.clients.drop(event.client, why)
                    self.client_gone(event.client, why)
            elif type(event) is ClientUp:
                self.trace.add("client", {"state": "connected", "client": event.client})
                sessions.hello(event.client, event.seen, event.fence)
                self.claims.add(event.client, event.seen, self.application.tree.zxid)
            elif type(event) is ClientGone:
                self.client_gone(event.client, event.why)
            elif type(event) is Refused:
                self.trace_refused(event)

    def drop_clients(self, clients: list[tuple[int, str]]) -> None:
        """Drop clients: those that claim to have seen what this ensemble has not, and those that it may have forgotten."""
        for client, why in clients:
            self.clients.drop(client, why)
            self.client_gone(client, why)

    def client_gone(self, client: int, why: str) -> None:
        self.trace.add("client", {"state": "gone", "client": client, "why": why})
        self.application.sessions.gone(client)
        self.claims.remove(client)

    def trace_refused(self, event: Refused) -> None:
        fields = {"what": event.what, "why": event.why, "peer": event.peer, "count": event.count}
        self.trace.add("refused", fields)

    def answer_clients(self) -> None:
        """Send the clients their answers, after what they rest on is traced."""
        answers: list[Answered] = self.application.sessions.answers()
        if answers:
            self.trace.flush()
            for client, outcomes in answers:
                self.reply(client, outcomes)

    def reply(self, client: int, outcomes: list[tuple[int, Outcome]]) -> None:
        if not self.crash.on_send:
            self.clients.send(client, outcomes)
            return
        self.crash.hit("before-send", REPLY)
        self.clients.send(client, outcomes)
        self.crash.hit("after-send", REPLY)


def _connects(client: int, events: Sequence[ClientEvent]) -> bool:
    """Return whether the client has a newer connection, which is not to be dropped for what came over an older one."""
    return any(type(event) is ClientUp and event.client == client for event in events)
