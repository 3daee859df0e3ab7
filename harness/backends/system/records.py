"""Makes trace events (results/README.md) of what the nodes of a foreign system record (docs/backends.md).

Each life appends lines of JSON to a file of its own. When the nodes have ended, these files become the traces of the run. What
nodes do not record, such as their epochs on disk, is missing there, or has a value that stands for nothing.
"""

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from json import JSONDecoder
from os import SEEK_END
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from zab_chaos.harness.backends.system.mistakes import BackendMistake
from zab_chaos.harness.machine.clocks import read_clocks
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.model.events import U32, ZxidPair, trace_name
from zab_chaos.model.oracle.properties.recorded import NO_STATE
from zab_chaos.node.core import digest as dg
from zab_chaos.node.tree.refusal import brief

LISTED = 5  # mistakes that are listed
TAIL_BYTES = 2**16  # at the end of a file, in which its last lines usually are
TOLERANCE_NS = 10**9  # that the two clocks of a machine may drift apart during a run
NOTHING = (0, 0)  # the zxid before the first transaction

TransactionZxid = tuple[U32, Annotated[int, Meta(ge=1, le=2**32 - 1)]]
Event = dict[str, Any]


class Recorded(Struct, kw_only=True, tag_field="event", forbid_unknown_fields=True):
    """A line that a node has recorded. `time` is Unix time in nanoseconds."""

    time: int


class Established(Recorded, kw_only=True, tag="established"):
    """The node leads an epoch, with a history that ends at `last`."""

    epoch: U32
    last: ZxidPair


class Broadcast(Recorded, kw_only=True, tag="broadcast"):
    """The node, as the leader, gives a transaction its zxid. `data` identifies it."""

    zxid: TransactionZxid
    data: str


class Deliver(Recorded, kw_only=True, tag="deliver"):
    """The node applies a transaction. `state` identifies the state after it."""

    zxid: TransactionZxid
    data: str
    state: str | None = None


class Accept(Recorded, kw_only=True, tag="accept"):
    """A transaction is durable in the node's log."""

    zxid: TransactionZxid
    data: str


class LogEnd(Recorded, kw_only=True, tag="log"):
    """The node's log ends at `last`, durably: what it found at its start, or after a truncation."""

    last: ZxidPair


class Restore(Recorded, kw_only=True, tag="restore"):
    """The node has the state after a transaction without having applied it in this life: from its disk, or another node."""

    zxid: ZxidPair
    state: str | None = None


Line = Established | Broadcast | Accept | LogEnd | Deliver | Restore
_decode = msgspec.json.Decoder(Line).decode


@dataclass(frozen=True, slots=True)
class RecordedLife:
    """One life of a node, and the file in which it records. It began at `began` (monotonic nanoseconds), on an empty disk if
    `empty`."""

    node: int
    life: int
    file: Path
    began: int
    empty: bool


class Records:
    """What all lives of a run record."""

    def __init__(self, folder: RunFolder, nodes: int) -> None:
        self._folder = folder
        self._nodes = nodes
        clocks = read_clocks()
        self._offset = clocks["monotonic"] - clocks["wall"]
        self._lives: dict[tuple[int, int], RecordedLife] = {}
        self._present: dict[int, RecordedLife] = {}  # by node: its last one
        self._empty = set(range(1, nodes + 1))  # nodes whose disk is empty

    def begin(self, node: int, life: int) -> Path:
        """Begin a life, and return the file in which it shall record."""
        file = self._folder.file(f"{trace_name(node, life)}.recorded")
        begun = RecordedLife(node, life, file, time.monotonic_ns(), node in self._empty)
        self._present[node] = self._lives[node, life] = begun
        self._empty.discard(node)
        return file

    def wipe(self, node: int) -> None:
        """Take note that the disk of a node is empty."""
        self._empty.add(node)

    def delivered(self, node: int) -> ZxidPair:
        """Return the zxid up to which a node has delivered in its last life."""
        return _last_delivered(self._present[node].file)

    def write_traces(self) -> None:
        """Write the trace of each life, and remove the files in which they have recorded.

        Raises BackendMistake for lines without the documented form.
        """
        mistakes: list[str] = []
        log_ends: dict[int, ZxidPair] = {}  # by node
        for key, life in sorted(self._lives.items()):
            tracer = _Tracer(NOTHING if life.empty else log_ends.get(life.node, NOTHING))
            events = self._events(life, tracer, mistakes)
            lines = [msgspec.json.encode(event | {"n": n}) + b"\n" for n, event in enumerate(events, 1)]
            self._folder.file(trace_name(*key)).write_bytes(b"".join(lines))
            log_ends[life.node] = tracer.log_end
        if mistakes:
            more = [f"and {len(mistakes) - LISTED} more"] if len(mistakes) > LISTED else []
            words = 'nodes of the backend have recorded what can\'t be read (docs/backends.md, "What nodes record"):'
            raise BackendMistake("\n".join([words, *mistakes[:LISTED], *more]))
        for life in self._lives.values():
            life.file.unlink(missing_ok=True)

    def _events(self, life: RecordedLife, tracer: "_Tracer", mistakes: list[str]) -> Iterator[Event]:
        """Yield the events of a life, in order. Their times neither go back nor lie outside of the life."""
        following = self._lives.get((life.node, life.life + 1))
        until = following.began if following is not None else time.monotonic_ns()
        whose = {"node": life.node, "life": life.life}
        lines = list(self._lines(life, until, mistakes))
        logged = next((line for line in lines if isinstance(line, Accept | LogEnd)), None)
        if isinstance(logged, LogEnd):  # the process may have ended between a sync and the line about it
            tracer.log_end = max(tracer.log_end, logged.last)
        boot = {"event": "boot", "nodes": self._nodes, "disk": "fresh" if life.empty else "recovered"}
        yield {"t": life.began, **whose, **boot, "accepted_epoch": 0, "current_epoch": 0, "last_zxid": tracer.log_end}
        t = life.began
        for line in lines:
            t = min(max(t, line.time + self._offset), until)
            yield from ({"t": t, **whose, **event} for event in tracer.events(line))

    def _lines(self, life: RecordedLife, until: int, mistakes: list[str]) -> Iterator[Line]:
        """Yield the lines of a life, and add those without the documented form to `mistakes`."""
        for number, text in enumerate(_complete_lines(life.file), 1):
            try:
                line = _decode(text)
                _check_time(line.time + self._offset, life.began, until)
            except (msgspec.MsgspecError, ValueError) as error:
                place = f"node {life.node}, life {life.life}, line {number}"
                mistakes.append(f"{place}: {error}: {brief(text.decode(errors='replace').rstrip())}")
                continue
            yield line


class _Tracer:
    """Makes trace events of the lines of one life.

    `delivered` is the zxid up to which the node has delivered, `log_end` that of the last transaction in its log.
    """

    def __init__(self, log_end: ZxidPair) -> None:
        self.delivered = NOTHING
        self.log_end = log_end

    def events(self, line: Line) -> Iterator[Event]:
        match line:
            case Established():
                yield {"event": "established", "epoch": line.epoch, "last_zxid": line.last}
            case Broadcast():
                yield {"event": "broadcast", "delivered": self.delivered, **_batch(line)}
            case Accept():
                self.log_end = line.zxid
                yield {"event": "accept", "in_epoch": line.zxid[0], **_batch(line)}
            case LogEnd():
                if line.last < self.log_end:
                    yield {"event": "truncate", "keep": line.last, "last": self.log_end}
                    self.log_end = line.last
            case Deliver():
                self.delivered = line.zxid
                tree = NO_STATE if line.state is None else _digest(line.state)
                yield {"event": "deliver", "digest": NO_STATE, "tree": tree, **_batch(line)}
            case Restore():
                self.delivered = line.zxid
                # Beyond its end, the state is from another node, and replaces the log.
                self.log_end = max(self.log_end, line.zxid)
                state = None if line.state is None else _digest(line.state)
                yield {"event": "snapshot", "kind": "restored", "zxid": line.zxid, "tree": state}


def _check_time(t: int, began: int, until: int) -> None:
    """Raise ValueError if a time lies far outside of the life in which it was recorded."""
    if not began - TOLERANCE_NS <= t <= until + TOLERANCE_NS:
        raise ValueError("`time` is not in its life; it must be Unix time, in nanoseconds")


def _batch(line: Broadcast | Accept | Deliver) -> Event:
    epoch, counter = line.zxid
    return {"epoch": epoch, "first": counter, "digests": _digest(line.data), "data": line.data}


def _digest(text: str) -> str:
    return dg.show(dg.HASHES[dg.NEWEST](text.encode()))


def _complete_lines(file: Path) -> Iterator[bytes]:
    """Yield the lines of a file, none if a node has not made it.

    A last line that is not complete had no effect yet. But if it goes on after a whole object, the node writes no newlines.
    """
    with suppress(FileNotFoundError), file.open("rb") as lines:
        yield from (line for line in lines if line.endswith(b"\n") or _goes_on(line))


def _goes_on(line: bytes) -> bool:
    with suppress(ValueError):
        text = line.decode(errors="replace")
        return JSONDecoder().raw_decode(text)[1] < len(text)
    return False


def _last_delivered(file: Path) -> ZxidPair:
    """Return the zxid of the last transaction, or state, in a file that is still written to; (0, 0) if there is none."""
    with suppress(FileNotFoundError), file.open("rb") as lines:
        size, read = lines.seek(0, SEEK_END), 0
        while read < size:
            read = min(size, max(TAIL_BYTES, 2 * read))  # a single line may be longer
            lines.seek(size - read)
            for text in reversed(lines.read(read).split(b"\n")):
                with suppress(msgspec.MsgspecError):
                    line = _decode(text)
                    if isinstance(line, Deliver | Restore):
                        return line.zxid
    return NOTHING
