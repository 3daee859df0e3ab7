"""Drives the core: fulfils each Ready in the order of its contract (`zab_chaos.node.core.ready`), with the real disk and links.

The recording sees exactly what the core sees. Crash points of the send steps live here; those of the disk in the store.
"""

from collections.abc import Iterator
from typing import Any, Protocol

import msgspec
from zlib_ng.zlib_ng import crc32

from zab_chaos.node.clients.application import Application
from zab_chaos.node.core import digest as dg
from zab_chaos.node.core import zxid as zx
from zab_chaos.node.core.messages import NAMES, Confirmed
from zab_chaos.node.core.peer import Peer
from zab_chaos.node.core.ready import Deliver, Install, Ready
from zab_chaos.node.crash_points import CrashPoints
from zab_chaos.node.recording import (
    LinkClosed,
    LinkOpened,
    ReadyTaken,
    Recording,
    SnapshotTaken,
    Started,
    Stepped,
    Submitted,
    Synced,
    Ticked,
    encode_ready,
)
from zab_chaos.node.store.store import Store
from zab_chaos.node.tree.txns import Summary
from zab_chaos.node.work_counters import WorkCounters


class Aborted(Exception):
    """A sanity check failed (LADIS 2008, section 2): the server stops."""


class Network(Protocol):
    """The links, as the driver uses them."""

    frames: dict[int, int]  # frames taken so far, by peer

    def send(self, peer: int, messages: list[Any]) -> None: ...
    def reset(self, peer: int, why: str) -> None: ...


class TraceSink(Protocol):
    """The trace, as the driver uses it."""

    def add(self, event: str, fields: dict[str, Any]) -> None: ...
    def flush(self) -> None: ...


class Driver:
    """One core, its store, its links, its application, its trace."""

    def __init__(
        self,
        machine: Peer,
        store: Store,
        links: Network,
        application: Application,
        trace: TraceSink,
        recording: Recording | None,
        crash: CrashPoints,
        snapshot_bytes: int,
    ) -> None:
        self.machine = machine
        self.store = store
        self.links = links
        self.application = application
        self.trace = trace
        self.recording = recording
        self.crash = crash
        self.snapshot_bytes = snapshot_bytes
        self.work = WorkCounters()
        self.summaries: list[
            Summary
        ] = []  # of what was submitted last: the core broadcasts all of it at once, or nothing
        if recording is None:  # then nothing stands between a round and the core, nor the trace
            self.step, self.tick = machine.step, machine.tick  # type: ignore[method-assign]
            self.take_ready, self.flush = machine.ready, trace.flush  # type: ignore[method-assign]

    # ---- the core's inputs ----

    def start(self, now: int) -> None:
        if self.recording is not None:
            self.recording.add(Started(now))
        self.machine.start(now)

    def link_up(self, peer: int) -> None:
        if self.recording is not None:
            self.recording.add(LinkOpened(peer))
        self.machine.link_up(peer)

    def link_down(self, peer: int, why: str) -> None:
        if self.recording is not None:
            self.recording.add(LinkClosed(peer, why))
        self.machine.link_down(peer, why)

    def step(self, source: int, message: Any) -> None:
        if self.recording is not None:
            self.recording.add(Stepped(source, message))
        self.machine.step(source, message)

    def tick(self, now: int) -> None:
        if self.recording is not None:
            self.recording.add(Ticked(now))
        self.machine.tick(now)

    def submit(self, txns: list[bytes], summaries: list[Summary]) -> None:
        """`summaries`: what the transactions do, for the trace."""
        self.summaries = summaries
        if self.recording is not None:
            self.recording.add(Submitted(txns))
        self.machine.submit(txns)

    # ---- the core's obligations ----

    def take_ready(self) -> Ready | None:
        """What the core asks for now; None if that is nothing."""
        ready = self.machine.ready()
        if self.recording is not None:
            self.recording.add(ReadyTaken(encode_ready(ready)))
        return ready

    def fulfil(self, ready: Ready) -> Iterator[None]:
        """Do what the core asks until it asks for nothing more. Raises Aborted, DiskFailed.

        Stops once for every sync, when its records are with the disk and not durable yet: the disk writes now. Only that
        can make the core ask for more: a Ready holds everything that there is to do, and nothing else is told to the core.
        What was traced last is still to be flushed.
        """
        more: Ready | None = ready
        while more is not None:
            ready = more
            self.begin(ready)
            if not ready.records:
                self.finish(ready)
                return
            yield
            self.make_durable(ready.upto)
            self.finish(ready)
            more = self.take_ready()

    def begin(self, ready: Ready) -> None:
        """What needs no disk; and the disk gets its records."""
        for peer in ready.resets:
            self.links.reset(peer, "a new iteration")
        add = self.trace.add
        for event in ready.events:
            add(event.name, event.fields if event.name != "broadcast" else {**event.fields, "txns": self.summaries})
        self.trace_confirmed(ready.messages)
        if ready.messages:
            self.flush()
            self.send(ready.messages)
        if ready.records:
            self.flush()
            for record in ready.records:
                self.store.append(record)

    def trace_confirmed(self, messages: list[tuple[int, Any]]) -> None:
        """Trace each ACK-CONFIRM: the leader's choice, and a node's admission, rest on what a quorum says now."""
        for leader, message in messages:
            if type(message) is Confirmed:
                self.trace.add("confirmed", {"epoch": message.epoch, "leader": leader})

    def make_durable(self, upto: int) -> None:
        self.store.sync()
        if self.recording is not None:
            self.recording.add(Synced(upto))
        self.machine.synced(upto)

    def finish(self, ready: Ready) -> None:
        """What had to wait for the disk."""
        for event in ready.events_after_sync:
            self.trace.add(event.name, event.fields)
        if ready.messages_after_sync:
            self.flush()
            self.send(ready.messages_after_sync)
        for delivery in ready.deliveries:
            self.deliver(delivery)
        if ready.abort is not None:
            self.flush()
            raise Aborted(ready.abort)
        if ready.deliveries:
            self.maybe_snapshot()

    def flush(self) -> None:
        if self.recording is not None:
            self.recording.flush()
        self.trace.flush()

    def send(self, messages: list[tuple[int, Any]]) -> None:
        """One frame for each peer; with a send point armed, one frame a message."""
        if self.crash.on_send:
            for peer, message in messages:
                self.send_with_crash_points(peer, message)
            return
        frames: dict[int, list[Any]] = {}
        for peer, message in messages:
            frames.setdefault(peer, []).append(message)
        for peer, batch in frames.items():
            self.links.send(peer, batch)
        self.work.count_sent(len(frames), messages)

    def send_with_crash_points(self, peer: int, message: Any) -> None:
        name = NAMES.get(type(message), "")
        self.crash.hit("before-send", name)
        self.links.send(peer, [message])
        self.work.count_sent(1, [(peer, message)])
        self.crash.hit("after-send", name)

    def deliver(self, delivery: Deliver | Install) -> None:
        """Apply, and trace it, before any client hears of it. Raises Aborted if it is nothing that can be applied."""
        try:
            self.application.deliver(delivery)
        except msgspec.DecodeError as error:
            first = delivery.first if isinstance(delivery, Deliver) else delivery.zxid
            raise Aborted(f"what was delivered from {zx.show(first)} on can't be read: {error}") from None
        tree = dg.show(self.application.tree.digest)
        if type(delivery) is Install:
            fields: dict[str, Any] = {
                "kind": "restored",
                "zxid": zx.pair(delivery.zxid),
                "digest": dg.show(delivery.digest),
                "tree": tree,
            }
            self.trace.add("snapshot", fields)
            return
        fields = {
            "epoch": zx.epoch_of(delivery.first),
            "first": zx.counter_of(delivery.first),
            "digests": dg.show_all(delivery.digests),
            "digest": dg.show(delivery.digest),
            "tree": tree,
        }
        self.trace.add("deliver", fields)

    def maybe_snapshot(self) -> None:
        """Store the delivered state when enough was logged since the last snapshot, so that the log can go."""
        machine = self.machine
        if machine.history.bytes < self.snapshot_bytes or machine.delivered == machine.history.base:
            return
        if self.application.tree.zxid != machine.delivered:
            return  # the core is ahead of the tree: `synced` has delivered more, which the next Ready hands out
        taken = machine.history.snapshot
        if taken is not None and taken[0] >= machine.delivered:
            return
        self.flush()
        zxid, digest, state = machine.delivered, machine.digest, self.application.tree.dump()
        self.store.take_snapshot(zxid, digest, state)
        if self.recording is not None:
            self.recording.add(SnapshotTaken(zxid, digest, crc32(state)))
        machine.snapshot_taken(zxid, digest, state)
        tree = dg.show(self.application.tree.digest)
        fields = {"kind": "taken", "zxid": zx.pair(zxid), "digest": dg.show(digest), "tree": tree}
        self.trace.add("snapshot", fields)
        self.flush()
