"""Writes the disks that a scenario says are not empty at the start, as the node's own store would have."""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from zab_chaos.faults.scenario import Disk
from zab_chaos.node.core import digest as dg
from zab_chaos.node.core import zxid as zx
from zab_chaos.node.core.history import History
from zab_chaos.node.core.messages import Run
from zab_chaos.node.core.ready import EpochRecord, NewLeaderRecord, Record, TxnRecords
from zab_chaos.node.store.disk import OrdinaryDisk
from zab_chaos.node.store.store import Store
from zab_chaos.node.tree.txns import CreateTxn, Origin, Txn, encode, summary_of

MILESTONE = "disk"
NOBODY = 0  # the client that asked for what is there before the start
FIRST_CHILD = 1_000_000  # of the root's counter, which goes on from there


def write_disk(folder: Path, disk: Disk, segment_bytes: int) -> dict[str, Any]:
    """Fill an empty disk. What it holds, for the milestone."""
    runs = list(_runs(disk))
    store, _, _ = Store.open(OrdinaryDisk(folder), bootstrap=True, segment_bytes=segment_bytes, digest=dg.NEWEST)
    for record in _records(disk, runs):
        store.append(record)
    store.sync()
    store.close()
    held = [
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
        "runs": held,
    }


def transaction(epoch: int, counter: int) -> bytes:
    """The one of that zxid, on whatever disk: it creates a znode of its own."""
    change = CreateTxn(f"/before-{epoch}-{counter}", f"{epoch}.{counter}".encode(), FIRST_CHILD * epoch + counter)
    return encode(Txn(Origin(0, 0, NOBODY, zx.zxid(epoch, counter)), change))


def _runs(disk: Disk) -> Iterator[TxnRecords]:
    """One for each epoch."""
    history = History(None, dg.HASHES[dg.NEWEST])
    for epoch, zxids in groupby(disk.log, key=lambda pair: pair[0]):
        txns = [transaction(epoch, counter) for _, counter in zxids]
        yield history.append(Run(zx.zxid(epoch, 1), txns))


def _records(disk: Disk, runs: list[TxnRecords]) -> Iterator[Record]:
    """As if the node had been there in every epoch of its log."""
    for run in runs:
        yield EpochRecord(zx.epoch_of(run.first))
        yield NewLeaderRecord(zx.epoch_of(run.first))
        yield run
    yield EpochRecord(disk.current_epoch)
    yield NewLeaderRecord(disk.current_epoch)
    yield EpochRecord(disk.accepted_epoch)
