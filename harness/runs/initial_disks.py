"""Writes the nodes' initial disks that a scenario describes in [[disk]] tables, with the node's own store."""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from zab_chaos.faults.scenario import InitialDisk
from zab_chaos.node.core import digest as dg
from zab_chaos.node.core import zxid as zx
from zab_chaos.node.core.history import History
from zab_chaos.node.core.messages import TxnRun
from zab_chaos.node.core.ready import EpochRecord, NewLeaderRecord, Record, TxnRecords
from zab_chaos.node.store.disk import OrdinaryDisk
from zab_chaos.node.store.store import Store
from zab_chaos.node.tree.txns import CreateTxn, Origin, Txn, encode, summary_of

MILESTONE = "disk"  # the event in harness.jsonl
NO_CLIENT = 0  # the client number in transactions that no client asked for


def write_disk(folder: Path, disk: InitialDisk, segment_bytes: int) -> dict[str, Any]:
    """Write the described log and epochs to an empty disk. Return the fields of the milestone `disk`."""
    runs = list(_runs(disk))
    store, _, _ = Store.open(OrdinaryDisk(folder), bootstrap=True, segment_bytes=segment_bytes, digest=dg.NEWEST)
    for record in _records(disk, runs):
        store.append(record)
    store.sync()
    store.close()
    epochs = [
        [
            zx.epoch_of(run.first),
            zx.counter_of(run.first),
            dg.show_all(run.digests),
            [summary_of(txn) for txn in run.txns],
        ]
        for run in runs
    ]
    return {
        "node": disk.node,
        "accepted_epoch": disk.accepted_epoch,
        "current_epoch": disk.current_epoch,
        "runs": epochs,
    }


def transaction(epoch: int, counter: int, children: int) -> bytes:
    """Return the transaction with this zxid. It creates a child of the root, with which the root has had so many `children`.
    It is the same on every disk, because every log that holds it is the same up to there."""
    change = CreateTxn(f"/before-{epoch}-{counter}", f"{epoch}.{counter}".encode(), children)
    return encode(Txn(Origin(0, 0, NO_CLIENT, zx.zxid(epoch, counter)), change))


def _runs(disk: InitialDisk) -> Iterator[TxnRecords]:
    """Yield the transactions of each epoch of the log."""
    history = History(None, dg.HASHES[dg.NEWEST])
    for epoch, numbered in groupby(enumerate(disk.log, 1), key=lambda entry: entry[1][0]):
        txns = [transaction(epoch, counter, children) for children, (_, counter) in numbered]
        yield history.append(TxnRun(zx.zxid(epoch, 1), txns))


def _records(disk: InitialDisk, runs: list[TxnRecords]) -> Iterator[Record]:
    """Yield the records that the node would have written if it had taken part in every epoch of its log."""
    for run in runs:
        yield EpochRecord(zx.epoch_of(run.first))
        yield NewLeaderRecord(zx.epoch_of(run.first))
        yield run
    yield EpochRecord(disk.current_epoch)
    yield NewLeaderRecord(disk.current_epoch)
    yield EpochRecord(disk.accepted_epoch)
