"""Reads the data of the space-time diagram: messages, steps of the nodes, client requests, and the request of each transaction.

Times are nanoseconds; the packed data for the page has microseconds. What can't be read is left out, and `gaps` says what is
missing and why.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zab_chaos.harness.report.columns import Columns, Words
from zab_chaos.harness.report.html.lifetimes import TRACE
from zab_chaos.harness.report.html.packed import differences, pack
from zab_chaos.harness.report.messages import NEVER, NOT_RECORDED, Exchange, Messages, read_messages
from zab_chaos.harness.report.progress import UNSHOWN, Steps
from zab_chaos.harness.results.source import OperationLine, Source, TraceLine
from zab_chaos.model.replay.replay import recorded_lives
from zab_chaos.node.core import digest as dg
from zab_chaos.node.core.peer import Peer

STEP_KINDS = (
    "broadcast", "accept", "deliver", "established", "accepted_epoch", "current_epoch", "truncate", "restored", "boot",
)  # fmt: skip


class StepLine(TraceLine, kw_only=True):
    """A line of a trace (results/README.md), with the fields that the diagram needs."""

    txns: Any = None


class RequestLine(OperationLine, kw_only=True):
    """A line of ops.jsonl: the invocation or the completion of an operation, with what it is, its path and zxid."""

    op: Any = ""
    path: Any = ""
    zxid: Any = None


@dataclass(frozen=True, slots=True)
class NodeStep:
    """A step of a node at the time `t`, of one of `STEP_KINDS`, with transactions from `first` to `last` (zxids; 0: none)."""

    t: int
    node: int
    kind: str
    epoch: int
    first: int
    last: int


class NodeSteps(Columns[NodeStep]):
    """Steps as columns, in the order of their fields. `kind` is an index into STEP_KINDS."""

    def __init__(self, records: Iterable[NodeStep] = ()) -> None:
        super().__init__(6, records)

    def _numbers(self, record: NodeStep) -> tuple[int, ...]:
        return record.t, record.node, STEP_KINDS.index(record.kind), record.epoch, record.first, record.last

    def _record(self, *numbers: int) -> NodeStep:
        t, node, kind, *rest = numbers
        return NodeStep(t, node, STEP_KINDS[kind], *rest)


@dataclass(slots=True)
class ClientOperation:
    """A client's operation. `answered` is None if it was never answered; `by` is the node that answered."""

    client: int
    seq: int
    path: str
    node: int
    sent: int
    answered: int | None = None
    by: int = 0
    zxid: int = 0
    op: str = "request"


@dataclass(slots=True)
class Diagram:
    """The data of the diagram. `owners`: (zxid, index of its request). `fences`: (zxid, client, seq) of each fence."""

    exchange: Exchange = field(default_factory=Exchange)
    steps: NodeSteps = field(default_factory=NodeSteps)
    requests: list[ClientOperation] = field(default_factory=list)
    owners: Columns[tuple[int, int]] = field(default_factory=lambda: Columns(2))
    fences: Columns[tuple[int, int, int]] = field(default_factory=lambda: Columns(3))

    @property
    def gaps(self) -> list[str]:
        return self.exchange.gaps

    def as_json(self, zero: int) -> dict[str, Any]:
        """Return the data for the page; assets/exchange.js reads it."""
        return {"gaps": self.gaps, "steps": STEP_KINDS, "packed": self._packed(zero)}

    def _packed(self, zero: int) -> str:
        paths, clients, kinds, said = Words(), Words(), Words(), Words()
        columns = {
            **_messages(self.exchange.messages, zero, kinds, said),
            **_steps(self.steps, zero),
            **_requests(self.requests, zero, paths, clients),
            "owner.epoch": differences(zxid >> 32 for zxid in self.owners.columns[0]),
            "owner.counter": differences(zxid & 0xFFFFFFFF for zxid in self.owners.columns[0]),
            "owner.request": differences(self.owners.columns[1]),
        }
        words = {"kinds": kinds.all, "said": said.all, "paths": paths.all, "clients": clients.all}
        return pack(columns, words)


def _micros(t: int, zero: int) -> int:
    return (t - zero) // 1000


def _messages(messages: Messages, zero: int, kinds: Words, said: Words) -> dict[str, Iterable[int]]:
    """Return the columns of the messages. `took` is the transfer time in microseconds plus 1, or 0 if it was never received."""
    source, target, kind, epoch, first, last, words, sent, received = messages.columns
    word = messages.words.all
    said.number("")
    return {
        "message.sent": differences(_micros(t, zero) for t in sent),
        "message.took": (
            0 if there == NEVER else _micros(there, zero) - _micros(t, zero) + 1
            for t, there in zip(sent, received, strict=True)
        ),
        "message.source": source,
        "message.target": target,
        "message.kind": (kinds.number(word[number]) for number in kind),
        "message.said": (said.number(word[number]) for number in words),
        "message.epoch": differences(epoch),
        **_zxids("message", first, last),
    }


def _zxids(name: str, first: Sequence[int], last: Sequence[int]) -> dict[str, Iterable[int]]:
    """Return the columns of spans of zxids: epoch and counter of the last, and by how much the first one's are lower."""
    return {
        f"{name}.zepoch": differences(one >> 32 for one in last),
        f"{name}.counter": differences(one & 0xFFFFFFFF for one in last),
        f"{name}.back": ((it >> 32) - (one >> 32) for one, it in zip(first, last, strict=True)),
        f"{name}.many": ((it & 0xFFFFFFFF) - (one & 0xFFFFFFFF) for one, it in zip(first, last, strict=True)),
    }


def _steps(all_of: NodeSteps, zero: int) -> dict[str, Iterable[int]]:
    t, node, kind, epoch, first, last = all_of.columns
    return {
        "step.t": differences(_micros(one, zero) for one in t),
        "step.node": node,
        "step.kind": kind,
        "step.epoch": epoch,
        **_zxids("step", first, last),
    }


def _requests(requests: list[ClientOperation], zero: int, paths: Words, clients: Words) -> dict[str, Iterable[int]]:
    sent = [_micros(one.sent, zero) for one in requests]
    return {
        "request.sent": differences(sent),
        "request.took": (
            0 if one.answered is None else _micros(one.answered, zero) - at + 1
            for one, at in zip(requests, sent, strict=True)
        ),
        "request.client": (clients.number(str(one.client)) for one in requests),
        "request.seq": (one.seq for one in requests),
        "request.path": (paths.number(one.path) for one in requests),
        "request.node": (one.node for one in requests),
        "request.by": (one.by for one in requests),
        "request.epoch": differences(one.zxid >> 32 for one in requests),
        "request.counter": differences(one.zxid & 0xFFFFFFFF for one in requests),
    }


# ---- reading ----


def read_diagram(folder: Path, core: type[Peer] | str, *, own_clocks: bool, progress: Steps = UNSHOWN) -> Diagram:
    """Read the diagram's data from a run's folder. `core`: the class that the nodes ran, or why it is not known."""
    # Its list of damages is not used: whoever reads the rest of these files lists them.
    source = Source(folder, progress.reading(folder))
    found = Diagram(requests=_read_requests(source))
    asked = {(one.client, one.seq): index for index, one in enumerate(found.requests)}
    lives = []
    for path in sorted(folder.glob("trace/node-*.jsonl")):
        match = TRACE.fullmatch(path.name)
        if match is None:
            continue
        lives.append((int(match[1]), int(match[2])))
        for _, line in source.lines(f"trace/{path.name}", StepLine, may_be_cut=True):
            for step in _steps_of(int(match[1]), line):
                found.steps.append(step)
            for zxid, client, seq, is_fence in _origins(line):
                if is_fence:
                    found.fences.append((zxid, client, seq))
                elif (client, seq) in asked:
                    found.owners.append((zxid, asked[client, seq]))
    found.steps.sort(0)
    if isinstance(core, str):
        found.exchange.gaps.append(core if recorded_lives(folder) else NOT_RECORDED)
    else:
        replayed = progress.replaying(folder)
        found.exchange = read_messages(folder, core, lives, own_clocks=own_clocks, on_read=replayed)
    return found


def _read_requests(source: Source) -> list[ClientOperation]:
    found: list[ClientOperation] = []
    waiting: dict[tuple[int, int], ClientOperation] = {}
    for _, line in source.lines("ops.jsonl", RequestLine):
        key = (line.client, line.seq)
        if line.type == "invoke":
            op, path = (it if isinstance(it, str) else "" for it in (line.op, line.path))
            waiting[key] = ClientOperation(line.client, line.seq, path, line.node, line.t, op=op or "request")
            found.append(waiting[key])
        elif (request := waiting.pop(key, None)) is not None:
            request.answered, request.by, request.zxid = line.t, line.node, _zxid(line.zxid)
    return found


def _zxid(pair: Any) -> int:
    match pair:
        case [int(epoch), int(counter)]:
            return epoch << 32 | counter
    return 0


def _steps_of(node: int, line: StepLine) -> Iterator[NodeStep]:
    """Yield the step that a trace line shows, if the diagram draws it."""
    kind, first, last = line.event, 0, 0
    if kind in ("broadcast", "accept", "deliver"):
        first = line.epoch << 32 | line.first
        last = first + dg.count(line.digests) - 1
    elif kind == "truncate":
        first, last = _zxid(line.keep) + 1, _zxid(line.last)
    elif kind == "snapshot" and line.kind == "restored":
        kind, first, last = "restored", 1, _zxid(line.zxid)
    if kind in STEP_KINDS and last >= first:
        yield NodeStep(line.t, node, kind, line.epoch, first, last)


def _origins(line: StepLine) -> Iterator[tuple[int, int, int, bool]]:
    """Yield (zxid, client, seq, whether it is a fence) for the transactions of a broadcast."""
    for index, txn in enumerate(line.txns if isinstance(line.txns, list) else []):
        match txn:
            case [int(client), int(seq), *effects]:
                yield (line.epoch << 32 | line.first) + index, client, seq, is_fence(effects)


def is_fence(effects: list[Any]) -> bool:
    """Return whether a transaction is a fence, by what a `broadcast` line says of it after its origin."""
    match effects:
        case [[["fence", *_], *_], *_]:
            return True
    return False
