"""Shared by the store's tests: a small model of a durable history, and ways to read and copy a disk's folder."""

import json
import shutil
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path

from zab_chaos.model.log_records import atomic_groups, one_by_one
from zab_chaos.node.core.digest import blake2b
from zab_chaos.node.core.ready import (
    EpochRecord,
    MemberRecord,
    NewLeaderRecord,
    Record,
    Recovered,
    SnapRecord,
    TruncRecord,
    TxnRecords,
)
from zab_chaos.node.core.zxid import Zxid, zxid
from zab_chaos.node.store.disk import FaithfulDisk, OrdinaryDisk
from zab_chaos.node.store.store import Store

SEGMENT = 512  # small, so that tests see many segments

History = list[tuple[int, bytes]]
Legal = tuple[int, int, bool, History]


def txns(first: Zxid, *payloads: bytes) -> TxnRecords:
    return TxnRecords(first, list(payloads), [blake2b(payload) for payload in payloads])


def freeze(history: History) -> bytes:
    """Return a snapshot's state that contains the whole history, so that a loss below a snapshot is noticed."""
    return json.dumps([[z, data.hex()] for z, data in history]).encode()


def thaw(state: bytes) -> History:
    return [(z, bytes.fromhex(data)) for z, data in json.loads(state)]


def snap(history: History) -> SnapRecord:
    return SnapRecord(Zxid(history[-1][0]), 77, freeze(history))


@dataclass
class Model:
    """A second implementation of the records' meaning: one list, and no files."""

    accepted: int = 0
    current: int = 0
    amnesiac: bool = False
    history: History = field(default_factory=list)

    @property
    def last(self) -> Zxid:
        return Zxid(self.history[-1][0] if self.history else 0)

    def apply(self, record: Record) -> None:
        if isinstance(record, EpochRecord):
            self.accepted = record.epoch
        elif isinstance(record, TxnRecords):
            self.history += list(enumerate(record.txns, record.first))
        elif isinstance(record, TruncRecord):
            self.history = [entry for entry in self.history if entry[0] <= record.keep]
        elif isinstance(record, SnapRecord):
            self.history = thaw(record.state)
        elif isinstance(record, NewLeaderRecord):
            self.current = record.epoch
        elif isinstance(record, MemberRecord):
            self.amnesiac = False

    def legal(self) -> Legal:
        return self.accepted, self.current, self.amnesiac, list(self.history)


def prefixes(model: Model, records: Sequence[Record]) -> list[Legal]:
    """Return every state that a power cut may leave while `records` are made durable: whole records, whole groups."""
    model = deepcopy(model)
    states = [model.legal()]
    for step in atomic_groups(one_by_one(records)):
        for record in step:
            model.apply(record)
        states.append(model.legal())
    return states


def told(recovered: Recovered) -> Legal:
    """Return the state that a node has after this recovery."""
    history = thaw(recovered.snapshot[2]) if recovered.snapshot else []
    above = recovered.snapshot[0] if recovered.snapshot else 0
    for first, payloads in recovered.runs:
        assert payloads
        assert first > above, "runs start above the snapshot and ascend"
        history += list(enumerate(payloads, first))
        above = Zxid(first + len(payloads) - 1)
    return recovered.accepted_epoch, recovered.current_epoch, recovered.amnesiac, history


def recover(folder: Path) -> Legal:
    """Start a node's store on this folder, and stop it."""
    store, recovered, _ = Store.open(OrdinaryDisk(folder), bootstrap=False, segment_bytes=SEGMENT)
    store.close()
    return told(recovered)


def files(folder: Path) -> dict[str, bytes]:
    """Return the durable files of a faithful disk: its folder without the hidden part."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def lay_out(folder: Path, content: dict[str, bytes]) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, data in content.items():
        (folder / name).write_bytes(data)
    return folder


class PowerGone(Exception):
    """Raised instead of SIGKILL, so that a test can examine what is left."""


def die() -> None:
    raise PowerGone


def faithful(folder: Path) -> FaithfulDisk:
    return FaithfulDisk(folder, die)


def born(folder: Path, segment_bytes: int = SEGMENT) -> Store:
    """A member of a new ensemble on a faithful disk."""
    store, _, _ = Store.open(faithful(folder), bootstrap=True, segment_bytes=segment_bytes)
    return store


def keep(store: Store, model: Model, *records: Record) -> None:
    """Append and sync, in the store and in the model."""
    for record in records:
        store.append(record)
        model.apply(record)
    store.sync()


def a_life(store: Store, model: Model) -> None:
    """Two epochs with everything in them: group commit, several segments, a snapshot, a truncation."""
    keep(store, model, EpochRecord(1))
    keep(store, model, TruncRecord(Zxid(0)), NewLeaderRecord(1))
    for counter in range(1, 22, 3):
        keep(store, model, txns(zxid(1, counter), b"a" * 40, b"", b"\0\0\0"))
    store.take_snapshot(zxid(1, 17), 99, freeze(model.history[:17]))
    keep(store, model, EpochRecord(2))
    keep(store, model, TruncRecord(zxid(1, 20)), txns(zxid(2, 1), b"Z\xa5Z"), NewLeaderRecord(2))
    keep(store, model, txns(zxid(2, 2), b"b", b"c\0"))
