"""One life of one node, re-executed: the same core, the same inputs; whatever comes out must be what came out then.

What is compared: every answer of `ready()` byte for byte (above 4096 bytes, its length and CRC-32), so every message,
log record, delivery and digest; every event of the core with its line in the trace, field by field; every snapshot's
state; the tree's digest after every delivery; and that recording and trace end together.

What is not: what the disk then held (the next life's boot shows it), which frames a link carried, what clients were told.
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
from zab_chaos.model.replay.difference import Difference, Different, of_output, record_name
from zab_chaos.model.replay.match import Match
from zab_chaos.model.replay.trace import Unreadable
from zab_chaos.node.core import digest as dg
from zab_chaos.node.core import zxid as zx
from zab_chaos.node.core.messages import Message
from zab_chaos.node.core.peer import Peer
from zab_chaos.node.core.ready import Deliver, Install, Ready, TxnRecords
from zab_chaos.node.recording import (
    Answered,
    AnyEntry,
    Booted,
    Damaged,
    Ended,
    LinkClosed,
    LinkOpened,
    Reader,
    SnapshotTaken,
    Started,
    Stepped,
    Submitted,
    Synced,
    Ticked,
    content,
)
from zab_chaos.node.tree.tree import Tree
from zab_chaos.node.tree.txns import Summary, summary_of

REMEMBERED = 20  # inputs that a difference shows


class Observer(Protocol):
    """Is told what a re-execution does, as it goes on; `Rerun.match` has the trace's line up to which it has come."""

    def took(self, entry: AnyEntry) -> None:
        """The core took this input, or gave this answer."""

    def sent(self, messages: list[tuple[int, Message]]) -> None:
        """(receiver, message): these were given to the links, or dropped because the session was not up."""


class Mark(msgspec.Struct, frozen=True):
    """Where to stop: after the input that led to trace event `number` (or to the next one of the core), or after an input."""

    number: int
    input: bool = False


class Rerun:
    """A life being re-executed. `machine` and `tree` may be looked at whenever `run` has returned and `booted` says so."""

    machine: Peer
    tree: Tree

    def __init__(self, folder: Path, node: int, life: int, peer_type: type[Peer]) -> None:
        self.node = node
        self.life = life
        self.booted = False
        self.inputs = 0
        self.outputs = 0
        self.difference: Difference | None = None
        self.observer: Observer | None = None
        self._peer_type = peer_type
        self._reader = Reader(folder / record_name(node, life))
        self.match = Match(folder, node, life)
        self._recent: deque[AnyEntry] = deque(maxlen=REMEMBERED)
        self._stream = chain.from_iterable(self._blocks())
        self._owed: Ready | None = None  # what is to come when its records are durable
        self._over: str | None = None  # why nothing may come any more
        self._takes: dict[type, Callable[[Any], None]] = {
            Stepped: self._step,
            Ticked: self._tick,
            Answered: self._answer,
            Synced: self._synced,
            Submitted: self._submit,
            LinkOpened: self._link_up,
            LinkClosed: self._link_down,
            SnapshotTaken: self._snapshot,
            Started: self._start,
            Booted: self._boot,
            Ended: self._end,
        }

    # ---- running ----

    def run(self, until: Mark | None = None) -> bool:
        """Go on to the end, to the first difference (then `difference` is set), or to `until`: whether it was reached."""
        try:
            reached = self._run(until)
            if not reached:
                self._finish()
        except Different as found:
            self.difference = self._describe(found)
        except Unreadable as error:
            self.difference = self._at(trace_name(self.node, self.life), error.line, f"the line {error}")
        except Damaged as error:
            self.difference = self._at(record_name(self.node, self.life), error.offset, str(error))
        else:
            return reached
        return False

    def _run(self, until: Mark | None) -> bool:
        takes, recent, observer = self._takes, self._recent, self.observer
        for entry in self._stream:
            kind = type(entry)
            if kind is not Answered and kind is not Ended:
                self.inputs += 1
                recent.append(entry)
            if self._over is not None or (self._owed is not None and kind is not Synced) or not self.booted:
                self._check_turn(entry)
            try:
                takes[kind](entry)
            except (Different, Unreadable):
                raise
            except Exception as error:
                raise Different(f"the re-execution fails: {type(error).__name__}: {error}") from error
            if observer is not None:
                observer.took(entry)
            if until is not None and (self.inputs if until.input else self.match.event) >= until.number:
                return True
        return False

    def _blocks(self) -> Iterator[list[AnyEntry]]:
        for block in self._reader.blocks():
            if self.match.untraced is not None:
                raise Different("the trace ends, the recording goes on", "no line", self.match.untraced)
            yield block

    def _check_turn(self, entry: AnyEntry) -> None:
        """Whether this may come now."""
        if self._over is not None:
            raise Different(f"something comes after the end ({self._over})", words.entry(entry), "nothing")
        if self._owed is not None:
            raise Different(
                "records were handed out, and something comes before they are durable",
                words.entry(entry),
                words.entry(Synced(self._owed.upto)),
            )
        if type(entry) is not Booted:
            raise Different("a recording begins with the boot", words.entry(entry), "boot")

    def _finish(self) -> None:
        """Recording and trace end together, and so that what ended the life explains it."""
        code = self.match.end()
        if code is None:
            return  # killed: what was last may be missing
        if self.match.untraced is not None:
            raise Different("the trace has no line of it, and the node was not killed", "no line", self.match.untraced)
        if self._reader.torn is not None:
            raise Damaged(self._reader.torn, f"the block is incomplete, and the node was not killed: exit code {code}")
        if code == 0 and self.booted and self._over is None:
            raise Damaged(self._reader.offset, "the recording stops here, but the node was not killed: exit code 0")

    def recent(self) -> list[str]:
        """The last inputs, numbered, in words."""
        first = self.inputs - len(self._recent) + 1
        return [f"{number}: {words.entry(entry)}" for number, entry in enumerate(self._recent, first)]

    def coming(self, count: int) -> list[str]:
        """The next inputs, numbered, in words; afterwards this life cannot be run further."""
        ahead = (entry for entry in self._stream if type(entry) is not Answered)
        try:
            return [
                f"{number}: {words.entry(entry)}" for number, entry in enumerate(islice(ahead, count), self.inputs + 1)
            ]
        except (Damaged, Different):
            return []

    # ---- inputs ----

    def _boot(self, entry: Booted) -> None:
        if self.booted:
            raise Different("a second boot in one life", words.entry(entry), "nothing")
        if (entry.settings.me, entry.life) != (self.node, self.life):
            raise Different(
                "this is another life's recording", words.entry(entry), f"node {self.node} life {self.life}"
            )
        self.match.boot(entry)
        self.machine = self._peer_type(entry.settings, entry.recovered)
        self.tree = Tree(dg.HASHES[entry.settings.digest])
        snapshot = entry.recovered.snapshot
        if snapshot is not None:
            self.tree.load(snapshot[2], snapshot[0])
        self.booted = True

    def _start(self, entry: Started) -> None:
        self.machine.start(entry.now)

    def _link_up(self, entry: LinkOpened) -> None:
        self.match.link(entry.peer, "opened")
        self.machine.link_up(entry.peer)

    def _link_down(self, entry: LinkClosed) -> None:
        self.match.link(entry.peer, "closed", why=entry.why)
        self.machine.link_down(entry.peer, entry.why)

    def _step(self, entry: Stepped) -> None:
        self.machine.step(entry.source, entry.message)

    def _tick(self, entry: Ticked) -> None:
        self.machine.tick(entry.now)

    def _submit(self, entry: Submitted) -> None:
        self.machine.submit(entry.txns)

    def _synced(self, entry: Synced) -> None:
        owed, self._owed = self._owed, None
        if owed is None or owed.upto != entry.upto:
            expected = words.entry(Synced(owed.upto)) if owed else "nothing to be durable"
            raise Different("the disk finished what was not asked of it", words.entry(entry), expected)
        self.machine.synced(entry.upto)
        self._after_sync(owed)

    def _snapshot(self, entry: SnapshotTaken) -> None:
        machine, state = self.machine, self.tree.dump()
        got = SnapshotTaken(machine.delivered, machine.digest, crc32(state))
        if got != entry:
            raise Different("the snapshot differs", f"{words.entry(entry)}: {entry}", f"{words.entry(got)}: {got}")
        machine.snapshot_taken(entry.zxid, entry.digest, state)
        self._snapshot_event("taken", entry.zxid, dg.show(entry.digest))

    def _snapshot_event(self, kind: str, zxid: zx.Zxid, digest: str) -> None:
        tree = dg.show(self.tree.digest)
        self.match.event_is("snapshot", {"kind": kind, "zxid": zx.pair(zxid), "digest": digest, "tree": tree})

    def _end(self, entry: Ended) -> None:
        self._over = "the node was asked to end"

    # ---- outputs ----

    def _answer(self, entry: Answered) -> None:
        ready = self.machine.ready()
        self.outputs += 1
        if content(ready) != entry.content:
            raise of_output(entry.content, ready)
        if ready is None:
            return
        for event in ready.events:
            more = {"txns": _summaries(ready)} if event.name == "broadcast" else {}
            self.match.event_is(event.name, {**event.fields, **more})
        self._sent(ready.messages)
        if ready.records:
            self._owed = ready
        else:
            self._after_sync(ready)

    def _after_sync(self, ready: Ready) -> None:
        for event in ready.events_after_sync:
            self.match.event_is(event.name, event.fields)
        self._sent(ready.messages_after_sync)
        for delivery in ready.deliveries:
            self._deliver(delivery)
        if ready.abort is not None:
            self.match.event_is("abort", {"why": ready.abort})
            self._over = "the node aborted"

    def _sent(self, messages: list[tuple[int, Message]]) -> None:
        """They left, unless the node was killed before what was traced before them was written."""
        if messages and self.observer is not None and self.match.untraced is None:
            self.observer.sent(messages)

    def _deliver(self, delivery: Deliver | Install) -> None:
        """Apply it as the application does, and hold the tree's digest against the trace."""
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
        self.match.event_is("deliver", fields)

    # ---- differences ----

    def _describe(self, found: Different) -> Difference:
        if found.line is not None:
            file, place = trace_name(self.node, self.life), found.line
        else:
            file, place = record_name(self.node, self.life), self._reader.offset
        return self._at(file, place, found.what, found.expected, found.got)

    def _at(self, file: str, place: int, what: str, expected: str = "", got: str = "") -> Difference:
        return Difference(
            node=self.node,
            life=self.life,
            input=self.inputs,
            event=self.match.event,
            what=what,
            expected=expected,
            got=got,
            file=file,
            place=place,
            inputs=self.recent(),
        )


def _summaries(ready: Ready) -> list[Summary]:
    """What the transactions do that are broadcast: those that the leader's own log is to take."""
    return [summary_of(txn) for record in ready.records if isinstance(record, TxnRecords) for txn in record.txns]
