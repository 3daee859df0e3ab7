"""Describes inputs, messages and obligations of a core in words, one line each, for replays and protocol transcripts.

The letters are the paper's (DSN 2011, Table 1): e is a proposed or current epoch, f.p the accepted epoch, f.a the current
one. `1:5` is the zxid with epoch 1 and counter 5, and `1:1..1:5` is a run of five transactions.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from zab_chaos.node.core import digest as dg
from zab_chaos.node.core import zxid as zx
from zab_chaos.node.core.messages import (
    NAMES,
    Ack,
    AckEpoch,
    AckLeader,
    Cepoch,
    Commit,
    CommitLeader,
    Confirm,
    Confirmed,
    Fetch,
    History,
    Member,
    Message,
    NewEpoch,
    NewLeader,
    Ping,
    Propose,
    Shape,
    Sync,
    TxnRun,
    Vote,
)
from zab_chaos.node.core.ready import (
    Deliver,
    EpochRecord,
    Event,
    Install,
    MemberRecord,
    NewLeaderRecord,
    Ready,
    Record,
    SnapRecord,
    TruncRecord,
    TxnRecords,
)
from zab_chaos.node.core.zxid import Zxid
from zab_chaos.node.recording import (
    AnyEntry,
    Booted,
    Heard,
    LinkClosed,
    LinkOpened,
    SnapshotTaken,
    Started,
    Stepped,
    Submitted,
    Synced,
    Ticked,
)


def span(first: Zxid, count: int) -> str:
    """Return `1:4..1:6` for three transactions from 1:4 on, `1:4` for one, `nothing` for none."""
    if count == 0:
        return "nothing"
    return zx.show(first) if count == 1 else f"{zx.show(first)}..{zx.show(Zxid(first + count - 1))}"


def outline(shape: Shape) -> str:
    """Describe a history by its epochs: `1:7 2:3` has epoch 1 up to counter 7, then epoch 2 up to counter 3."""
    epochs = " ".join(f"{epoch}:{last}" for epoch, last in shape.epochs)
    return f"{epochs} above {zx.show(shape.base)}" if shape.base else epochs


def difference(sync: Sync) -> str:
    """Describe the content of NEWLEADER and HISTORY: what the receiver keeps or installs, and the transactions after it."""
    start = "snapshot" if sync.snapshot else "keep"
    return f"{start} {zx.show(sync.keep)} + {_runs(sync.runs)}"


def _runs(runs: Sequence[TxnRun]) -> str:
    return " ".join(span(run.first, len(run.txns)) for run in runs) or "nothing"


def message(m: Message) -> str:
    """Describe a message by its name in the paper and its fields."""
    return f"{NAMES[type(m)]} {_fields(m)}"


def _fields(m: Message) -> str:
    match m:
        case Vote():
            whom = f"for {m.leader} (f.a={m.epoch} {zx.show(m.zxid)})" if m.leader else "for nobody"
            established = " established" if m.established else ""
            return f"{whom} round={m.round} {m.role.name}{established}{_amnesiac(m)}"
        case Cepoch():
            return f"f.p={m.accepted_epoch}{_amnesiac(m)}"
        case NewEpoch():
            return f"e={m.epoch}"
        case AckEpoch():
            again = "" if m.promised else " promised-before"
            return f"e={m.epoch} f.a={m.current_epoch} last={zx.show(m.last_zxid)}{again}{_amnesiac(m)}"
        case Fetch():
            return f"e={m.epoch} has {outline(m.shape)}"
        case History():
            return f"e={m.epoch} f.a={m.current_epoch} {difference(m.sync)}"
        case NewLeader():
            return f"e={m.epoch} {difference(m.sync)}"
        case AckLeader():
            return f"e={m.epoch} last={zx.show(m.last_zxid)}{_amnesiac(m)}"
        case CommitLeader():
            return f"e={m.epoch} upto={zx.show(m.committed)}"
        case Confirm() | Confirmed():
            return f"e={m.epoch} number={m.number}"
        case Member():
            return f"e={m.epoch} quorum={','.join(map(str, m.quorum))}"
        case Propose():
            return f"e={m.epoch} {span(m.run.first, len(m.run.txns))}"
        case Ack() | Commit():
            return f"e={m.epoch} upto={zx.show(m.zxid)}"
        case Ping():
            return f"{m.role.name} e={m.epoch} delivered={zx.show(m.delivered)}"


def _amnesiac(m: Vote | Cepoch | AckEpoch | AckLeader) -> str:
    return " amnesiac" if m.amnesiac else ""


def record(r: Record) -> str:
    """Describe a log record by its name in the log."""
    match r:
        case EpochRecord():
            return f"EPOCH {r.epoch}"
        case TxnRecords():
            return f"TXN {span(r.first, len(r.txns))}"
        case TruncRecord():
            return f"TRUNC keep {zx.show(r.keep)}"
        case SnapRecord():
            return f"SNAP {zx.show(r.zxid)} digest {dg.show(r.digest)}"
        case NewLeaderRecord():
            return f"NEWLEADER {r.epoch}"
        case MemberRecord():
            return "MEMBER"


def delivery(d: Deliver | Install) -> str:
    if isinstance(d, Install):
        return f"the snapshot at {zx.show(d.zxid)}, digest {dg.show(d.digest)}"
    return f"{span(d.first, len(d.txns))}, digest {dg.show(d.digest)}"


def event(name: str, fields: dict[str, Any]) -> str:
    """Describe a trace event by its name and its own fields."""
    return f"{name} {msgspec.json.encode(fields).decode()}"


def entry(e: AnyEntry) -> str:
    """Describe an entry of a recording: an input of a core."""
    match e:
        case Booted():
            r = e.recovered
            amnesiac = ", amnesiac" if r.amnesiac else ""
            return (
                f"node {e.settings.me} boots its life {e.life}: f.p={r.accepted_epoch} f.a={r.current_epoch}{amnesiac}"
            )
        case Started():
            return f"start at {seconds(e.now)}"
        case LinkOpened():
            return f"the link with {e.peer} opens"
        case LinkClosed():
            return f"the link with {e.peer} closes: {e.why}"
        case Stepped():
            return f"from {e.source}: {message(e.message)}"
        case Heard():
            return f"a part of a frame arrives from {e.source}"
        case Ticked():
            return f"tick {seconds(e.now)}"
        case Submitted():
            return f"submit {len(e.txns)} transactions, {sum(map(len, e.txns))} bytes"
        case Synced():
            return f"synced: {e.upto} records are durable"
        case SnapshotTaken():
            return f"a snapshot at {zx.show(e.zxid)} is stored, digest {dg.show(e.digest)}"
        case _:
            return str(e.__struct_config__.tag)


def dropped(why: str | None) -> str:
    """Return what is added to the words of an input that the core dropped; empty if it did not."""
    return "" if why is None else f" (dropped: {why})"


def seconds(now: int) -> str:
    """Return a reading of a node's own clock (nanoseconds) in seconds, such as `1.250 s`."""
    return f"{now / 1e9:.3f} s"


def obligations(ready: Ready | None) -> list[tuple[str, str]]:
    """Return (kind, description) for every obligation of a Ready, in the order in which they are to be fulfilled."""
    if ready is None:
        return []
    return [
        *(("reset", f"the session with {peer}") for peer in ready.resets),
        *(("event", _event(one)) for one in ready.events),
        *(("message", f"to {peer}: {message(m)}") for peer, m in ready.messages),
        *(("record", record(r)) for r in ready.records),
        *(("event after sync", _event(one)) for one in ready.events_after_sync),
        *(("message after sync", f"to {peer}: {message(m)}") for peer, m in ready.messages_after_sync),
        *(("delivery", delivery(d)) for d in ready.deliveries),
        *([("abort", ready.abort)] if ready.abort else []),
    ]


def _event(e: Event) -> str:
    return event(e.name, e.fields)
