"""Re-executes one life of one node: the same core gets the same inputs, and every output must equal the recorded one.

Compared are: every answer of `ready()`, byte for byte (above 4096 bytes, its length and CRC-32), and with it every message,
log record, delivery and digest; every event of the core with its line in the trace, field by field; the state of every
snapshot; the digest of the tree after every delivery; and that recording and trace end together.

Not compared are: the content of the disk (the boot of the next life shows it), the frames of the links, and the answers to
clients.
"""

from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, Protocol

import msgspec
from zlib_ng.zlib_ng import crc32

from zab_chaos.model.events import trace_name
from zab_chaos.model.replay import descriptions as words
from zab_chaos.model.replay.difference import Difference, DifferenceFound, output_difference, record_name
from zab_chaos.model.replay.trace import UnreadableTrace
from zab_chaos.model.replay.trace_matcher import TraceMatcher
from zab_chaos.model.runfiles import OnRead, unheard
from zab_chaos.node.core import digest as dg
from zab_chaos.node.core import zxid as zx
from zab_chaos.node.core.messages import Message
from zab_chaos.node.core.peer import Peer
from zab_chaos.node.core.ready import Deliver, Install, Ready, TxnRecords
from zab_chaos.node.core.tables import FROM_LEADER, HANDLERS_IN
from zab_chaos.node.recording import (
    AnyEntry,
    Booted,
    DamagedRecording,
    Ended,
    Heard,
    LinkClosed,
    LinkOpened,
    ReadyTaken,
    RecordingReader,
    SnapshotTaken,
    Started,
    Stepped,
    Submitted,
    Synced,
    Ticked,
    encode_ready,
)
from zab_chaos.node.tree.tree import Tree
from zab_chaos.node.tree.txns import Summary, summary_of

WITHIN_ROUND = frozenset({Submitted, ReadyTaken, Synced})  # what may come first in a block that does not begin a round
REMEMBERED = 20  # inputs that are shown with a difference


class ReplayObserver(Protocol):
    """Follows a re-execution. `Rerun.matcher` has the last line of the trace that was compared."""

    def on_entry(self, entry: AnyEntry) -> None:
        """Called after each input of the core and each answer."""

    def on_sent(self, messages: list[tuple[int, Message]]) -> None:
        """Called with the messages that were sent: (receiver, message). Those without an open session were dropped."""


class ReplayStop(msgspec.Struct, frozen=True):
    """Where to stop: after the input that led to trace event `number`, or to the next event of the core after it.

    `input`: `number` is the number of an input instead.
    """

    number: int
    input: bool = False


class Rerun:
    """The re-execution of one life.

    `machine` (the core) and `tree` may be read whenever `run` has returned, if `booted` is true. `inputs` and `outputs` are the
    numbers so far. `drops` says of each message that the core dropped, by the number of its input, why.
    """

    machine: Peer
    tree: Tree

    def __init__(self, folder: Path, node: int, life: int, peer_type: type[Peer], on_read: OnRead = unheard) -> None:
        self.node = node
        self.life = life
        self.booted = False
        self.inputs = 0
        self.outputs = 0
        self.drops: dict[int, str] = {}
        self.difference: Difference | None = None
        self.observer: ReplayObserver | None = None
        self._peer_type = peer_type
        self._on_read = on_read
        self._reader = RecordingReader(folder / record_name(node, life))
        self.matcher = TraceMatcher(folder, node, life)
        self._recent: deque[AnyEntry] = deque(maxlen=REMEMBERED)
        self._stream = chain.from_iterable(self._blocks())
        self._unsynced: Ready | None = None  # the answer whose records are not durable yet
        self._ended_by: str | None = None  # why no input may follow
        self._handlers: dict[type, Callable[[Any], object]] = {
            Stepped: lambda entry: self.machine.step(entry.source, entry.message),
            Heard: lambda entry: self.machine.heard(entry.source),
            Ticked: lambda entry: self.machine.tick(entry.now),
            ReadyTaken: self._answer,
            Synced: self._synced,
            Submitted: lambda entry: self.machine.submit(entry.txns),
            LinkOpened: self._link_up,
            LinkClosed: self._link_down,
            SnapshotTaken: self._snapshot,
            Started: lambda entry: self.machine.start(entry.now),
            Booted: self._boot,
            Ended: self._end,
        }

    # ---- running ----

    def run(self, until: ReplayStop | None = None) -> bool:
        """Run to the end, the first difference (then `difference` is set), or `until`. Return whether that is reached."""
        try:
            reached = self._run(until)
            if not reached:
                self._finish()
        except DifferenceFound as found:
            self.difference = self._describe(found)
        except UnreadableTrace as error:
            self.difference = self._difference_at(trace_name(self.node, self.life), error.line, f"the line {error}")
        except DamagedRecording as error:
            self.difference = self._difference_at(record_name(self.node, self.life), error.offset, str(error))
        else:
            return reached
        return False

    def _run(self, until: ReplayStop | None) -> bool:
        handlers, recent, observer = self._handlers, self._recent, self.observer
        for entry in self._stream:
            kind = type(entry)
            if kind is not ReadyTaken and kind is not Ended:
                self.inputs += 1
                recent.append(entry)
            if self._ended_by is not None or (self._unsynced is not None and kind is not Synced) or not self.booted:
                self._check_order(entry)
            try:
                handlers[kind](entry)
            except (DifferenceFound, UnreadableTrace, OSError):
                raise
            except Exception as error:
                raise DifferenceFound(f"the re-execution fails: {type(error).__name__}: {error}") from error
            if observer is not None:
                observer.on_entry(entry)
            if until is not None and (self.inputs if until.input else self.matcher.event) >= until.number:
                return True
        return False

    def _blocks(self) -> Iterator[list[AnyEntry]]:
        """Yield the blocks of the recording."""
        read = 0
        for block in self._reader.blocks():
            before, read = read, self._reader.offset
            self._on_read(read - before)
            self.matcher.begin_block(within_round=bool(block) and type(block[0]) in WITHIN_ROUND)
            yield block

    def _check_order(self, entry: AnyEntry) -> None:
        """Raise DifferenceFound if this entry may not come here."""
        if self._ended_by is not None:
            raise DifferenceFound(f"something comes after the end ({self._ended_by})", words.entry(entry), "nothing")
        if self._unsynced is not None:
            raise DifferenceFound(
                "records were handed out, and something comes before they are durable",
                words.entry(entry),
                words.entry(Synced(self._unsynced.upto)),
            )
        if type(entry) is not Booted:
            raise DifferenceFound("a recording begins with the boot", words.entry(entry), "boot")

    def _finish(self) -> None:
        """Raise DifferenceFound or DamagedRecording unless recording and trace end as the end of the life requires."""
        code = self.matcher.expect_end()
        if code is None:
            return  # killed: the end of the recording or the trace may be missing
        if self.matcher.untraced is not None:
            raise DifferenceFound(
                "the trace has no line of it, and the node was not killed", "no line", self.matcher.untraced
            )
        if self._reader.torn is not None:
            raise DamagedRecording(
                self._reader.torn, f"the block is incomplete, and the node was not killed: exit code {code}"
            )
        if code == 0 and self.booted and self._ended_by is None:
            raise DamagedRecording(
                self._reader.offset, "the recording stops here, but the node was not killed: exit code 0"
            )

    def recent_inputs(self) -> list[str]:
        """Describe the last inputs, with their numbers."""
        first = self.inputs - len(self._recent) + 1
        return [
            f"{number}: {words.entry(entry)}{words.dropped(self.drops.get(number))}"
            for number, entry in enumerate(self._recent, first)
        ]

    def next_inputs(self, count: int) -> list[str]:
        """Describe the next inputs, with their numbers. The life cannot be run further afterwards."""
        ahead = (entry for entry in self._stream if type(entry) is not ReadyTaken)
        try:
            return [
                f"{number}: {words.entry(entry)}" for number, entry in enumerate(islice(ahead, count), self.inputs + 1)
            ]
        except (DamagedRecording, DifferenceFound):
            return []

    # ---- inputs ----

    def _boot(self, entry: Booted) -> None:
        if self.booted:
            raise DifferenceFound("a second boot in one life", words.entry(entry), "nothing")
        if (entry.settings.me, entry.life) != (self.node, self.life):
            raise DifferenceFound(
                "this is another life's recording", words.entry(entry), f"node {self.node} life {self.life}"
            )
        self.matcher.expect_boot(entry)
        self.machine = self._peer_type(entry.settings, entry.recovered)
        self.machine.note_drop = self._note_drop  # type: ignore[method-assign]
        settings = entry.settings
        self.tree = Tree(dg.HASHES[settings.digest], settings.clients_max, settings.state_format)
        snapshot = entry.recovered.snapshot
        if snapshot is not None:
            self.tree.load(snapshot[2], snapshot[0])
        self.booted = True

    def _link_up(self, entry: LinkOpened) -> None:
        self.matcher.expect_link(entry.peer, "opened")
        self.machine.link_up(entry.peer)

    def _link_down(self, entry: LinkClosed) -> None:
        self.matcher.expect_link(entry.peer, "closed", why=entry.why)
        self.machine.link_down(entry.peer, entry.why)

    def _note_drop(self, source: int, message: Message) -> None:
        """Take note that the core drops the message of this input, and why."""
        machine, kind = self.machine, type(message)
        here = f"{machine.role.name}, {machine.phase.name}"
        if source not in machine.links:
            why = f"the session with node {source} is closed"
        elif kind not in HANDLERS_IN[machine.role, machine.phase]:
            why = f"not expected in {here}"
        elif kind in FROM_LEADER and source != machine.leader:
            why = f"node {source} is not its leader"
        else:
            why = f"nothing waits for it in {here}"
        self.drops[self.inputs] = why

    def _synced(self, entry: Synced) -> None:
        ready, self._unsynced = self._unsynced, None
        if ready is None or ready.upto != entry.upto:
            expected = words.entry(Synced(ready.upto)) if ready else "nothing to be durable"
            raise DifferenceFound("the disk finished what was not asked of it", words.entry(entry), expected)
        self.machine.synced(entry.upto)
        self._after_sync(ready)

    def _snapshot(self, entry: SnapshotTaken) -> None:
        machine, state = self.machine, self.tree.dump()
        got = SnapshotTaken(machine.delivered, machine.digest, crc32(state))
        if got != entry:
            raise DifferenceFound(
                "the snapshot differs", f"{words.entry(entry)}: {entry}", f"{words.entry(got)}: {got}"
            )
        machine.snapshot_taken(entry.zxid, entry.digest, state)
        self._snapshot_event("taken", entry.zxid, dg.show(entry.digest))

    def _snapshot_event(self, kind: str, zxid: zx.Zxid, digest: str) -> None:
        tree = dg.show(self.tree.digest)
        self.matcher.expect_event("snapshot", {"kind": kind, "zxid": zx.pair(zxid), "digest": digest, "tree": tree})

    def _end(self, entry: Ended) -> None:
        self._ended_by = "the node was asked to end"

    # ---- outputs ----

    def _answer(self, entry: ReadyTaken) -> None:
        ready = self.machine.ready()
        self.outputs += 1
        if encode_ready(ready) != entry.content:
            raise output_difference(entry.content, ready)
        if ready is None:
            return
        for event in ready.events:
            more = {"txns": _summaries(ready)} if event.name == "broadcast" else {}
            self.matcher.expect_event(event.name, {**event.fields, **more})
        if ready.messages or ready.records:
            self.matcher.on_written()
        self._sent(ready.messages)
        if ready.records:
            self._unsynced = ready
        else:
            self._after_sync(ready)

    def _after_sync(self, ready: Ready) -> None:
        for event in ready.events_after_sync:
            self.matcher.expect_event(event.name, event.fields)
        if ready.messages_after_sync:
            self.matcher.on_written()
        self._sent(ready.messages_after_sync)
        for delivery in ready.deliveries:
            self._deliver(delivery)
        if ready.abort is not None:
            self.matcher.expect_event("abort", {"why": ready.abort})
            self._ended_by = "the node aborted"

    def _sent(self, messages: list[tuple[int, Message]]) -> None:
        """Tell the observer. Nothing was sent if the node was killed before it had written the events before it."""
        if messages and self.observer is not None and self.matcher.untraced is None:
            self.observer.on_sent(messages)

    def _deliver(self, delivery: Deliver | Install) -> None:
        """Apply a delivery as the application does, and compare the digest of the tree with the trace."""
        tree, digest = self.tree, dg.show(delivery.digest)
        if isinstance(delivery, Install):
            tree.load(delivery.state, delivery.zxid)
            self._snapshot_event("restored", delivery.zxid, digest)
            return
        z = delivery.first
        for txn in delivery.txns:
            tree.apply(z, txn)
            z = zx.Zxid(z + 1)
        fields = {
            "epoch": zx.epoch_of(delivery.first),
            "first": zx.counter_of(delivery.first),
            "digests": dg.show_all(delivery.digests),
            "digest": digest,
            "tree": dg.show(tree.digest),
        }
        self.matcher.expect_event("deliver", fields)

    # ---- differences ----

    def _describe(self, found: DifferenceFound) -> Difference:
        if found.line is not None:
            file, place = trace_name(self.node, self.life), found.line
        else:
            file, place = record_name(self.node, self.life), self._reader.offset
        return self._difference_at(file, place, found.what, found.expected, found.got)

    def _difference_at(self, file: str, place: int, what: str, expected: str = "", got: str = "") -> Difference:
        return Difference(
            node=self.node,
            life=self.life,
            input=self.inputs,
            event=self.matcher.event,
            what=what,
            expected=expected,
            got=got,
            file=file,
            place=place,
            inputs=self.recent_inputs(),
        )


def _summaries(ready: Ready) -> list[Summary]:
    """Summarize the broadcast transactions: those that the leader appends to its own log."""
    return [summary_of(txn) for record in ready.records if isinstance(record, TxnRecords) for txn in record.txns]
