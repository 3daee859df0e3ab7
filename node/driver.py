"""Drives the core: fulfils each Ready in the order of its contract (`zab_chaos.node.core.ready`), with the real disk and
links.

Crash points of the send steps are here, those of the disk in the store.
"""

from collections.abc import Iterator
from typing import Any, Protocol

import msgspec

from zab_chaos.node.clients.application import Application
from zab_chaos.node.core import digest as dg
from zab_chaos.node.core import zxid as zx
from zab_chaos.node.core.messages import Confirmed
from zab_chaos.node.core.peer import Peer
from zab_chaos.node.core.ready import Deliver, Install, Ready
from zab_chaos.node.crash_points import CrashPoints
from zab_chaos.node.recorded import RecordedCore, TraceSink
from zab_chaos.node.store.store import Store
from zab_chaos.node.tree.txns import Summary
from zab_chaos.node.work_counters import WorkCounters


class Aborted(Exception):
    """A sanity check failed (LADIS 2008, section 2): the server stops."""


class Network(Protocol):
    """The links, as the driver uses them."""

    frames: dict[int, int]  # by peer: number of frames received so far

    def send(self, peer: int, messages: list[Any]) -> None: ...
    def reset(self, peer: int, why: str) -> None: ...


class Driver:
    """Drives one core with its store, links, application and trace. `core`: `machine`, or what stands before it."""

    def __init__(
        self,
        machine: Peer,
        core: Peer | RecordedCore,
        store: Store,
        links: Network,
        application: Application,
        trace: TraceSink,
        crash: CrashPoints,
        snapshot_bytes: int,
    ) -> None:
        self.machine = machine
        self.core = core
        self.store = store
        self.links = links
        self.application = application
        self.trace = trace
        self.crash = crash
        self.snapshot_bytes = snapshot_bytes
        self.work = WorkCounters()
        # Of the transactions submitted last: the core broadcasts all of them at once, or none.
        self.summaries: list[Summary] = []

    def submit(self, txns: list[bytes], summaries: list[Summary]) -> None:
        """Submit transactions to the core. `summaries`: what they do, for the trace."""
        self.summaries = summaries
        self.core.submit(txns)

    def fulfil(self, ready: Ready) -> Iterator[None]:
        """Do what the core asks until it asks for nothing more. Raises Aborted, DiskFailed.

        Yields once for each sync, when the disk has the records and they are not durable yet: the disk is writing. Only a
        sync can make the core ask for more: a Ready holds everything that is to be done, and the core gets no other input.
        The last trace events remain to be flushed.
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
            more = self.core.ready()

    def begin(self, ready: Ready) -> None:
        """Do what needs no disk, and hand the records to the disk."""
        for peer in ready.resets:
            self.links.reset(peer, "a new iteration")
        add = self.trace.add
        for event in ready.events:
            add(event.name, event.fields if event.name != "broadcast" else {**event.fields, "txns": self.summaries})
        if ready.messages:
            self.trace_confirmed(ready.messages)
            self.trace.flush()
            self.send(ready.messages)
        if ready.records:
            self.trace.flush()
            for record in ready.records:
                self.store.append(record)

    def trace_confirmed(self, messages: list[tuple[int, Any]]) -> None:
        """Trace each ACK-CONFIRM: the leader's choice and the admission of a node rest on what a quorum says now."""
        for leader, message in messages:
            if type(message) is Confirmed:
                self.trace.add("confirmed", {"epoch": message.epoch, "leader": leader})

    def make_durable(self, upto: int) -> None:
        self.store.sync()
        self.core.synced(upto)

    def finish(self, ready: Ready) -> None:
        """Do what had to wait for the disk."""
        for event in ready.events_after_sync:
            self.trace.add(event.name, event.fields)
        if ready.messages_after_sync:
            self.trace.flush()
            self.send(ready.messages_after_sync)
        for delivery in ready.deliveries:
            self.deliver(delivery)
        if ready.abort is not None:
            self.trace.flush()
            raise Aborted(ready.abort)
        if ready.deliveries:
            self.maybe_snapshot()

    def send(self, messages: list[tuple[int, Any]]) -> None:
        """Send one frame to each peer or, if a send point is armed, one frame for each message."""
        if self.crash.on_send:
            for peer, message in messages:
                self.send_alone(peer, message)
            return
        frames: dict[int, list[Any]] = {}
        counts = self.work.messages
        for peer, message in messages:
            frames.setdefault(peer, []).append(message)
            counts[type(message)] += 1
        self.work.frames += len(frames)
        for peer, batch in frames.items():
            self.links.send(peer, batch)

    def send_alone(self, peer: int, message: Any) -> None:
        """Send one message in a frame of its own, and stop before or after it if that is an armed point."""
        armed, kind = self.crash.on_send, type(message)
        if armed:
            self.crash.hit("before-send", kind.__struct_config__.tag)
        self.links.send(peer, [message])
        self.work.frames += 1
        self.work.messages[kind] += 1
        if armed:
            self.crash.hit("after-send", kind.__struct_config__.tag)

    def deliver(self, delivery: Deliver | Install) -> None:
        """Apply a delivery and trace it, before any client gets an answer. Raises Aborted if it can't be decoded."""
        try:
            self.application.deliver(delivery)
        except msgspec.DecodeError as error:
            first = delivery.first if isinstance(delivery, Deliver) else delivery.zxid
            raise Aborted(f"what was delivered from {zx.show(first)} on can't be read: {error}") from None
        if type(delivery) is Install:
            self.trace_snapshot("restored", delivery.zxid, delivery.digest)
            return
        epoch, counter = zx.pair(delivery.first)
        digests, digest = dg.show_all(delivery.digests), dg.show(delivery.digest)
        tree = dg.show(self.application.tree.digest)
        fields = {"epoch": epoch, "first": counter, "digests": digests, "digest": digest, "tree": tree}
        self.trace.add("deliver", fields)

    def maybe_snapshot(self) -> None:
        """Store the delivered state if enough was logged since the last snapshot, so that the old log can be removed."""
        machine, history = self.machine, self.machine.journal.history
        if history.bytes < self.snapshot_bytes or machine.delivered == history.base:
            return
        if self.application.tree.zxid != machine.delivered:
            return  # the core is ahead of the tree: `synced` has delivered more, for the next Ready
        taken = machine.history.snapshot
        if taken is not None and taken[0] >= machine.delivered:
            return
        self.trace.flush()
        zxid, digest, state = machine.delivered, machine.digest, self.application.tree.dump()
        self.store.take_snapshot(zxid, digest, state)
        self.core.snapshot_taken(zxid, digest, state)
        self.trace_snapshot("taken", zxid, digest)
        self.trace.flush()

    def trace_snapshot(self, kind: str, zxid: zx.Zxid, digest: int) -> None:
        """Trace that the state up to `zxid` was restored from a snapshot, or that one was taken of it (`kind`)."""
        tree = dg.show(self.application.tree.digest)
        self.trace.add("snapshot", {"kind": kind, "zxid": zx.pair(zxid), "digest": dg.show(digest), "tree": tree})
