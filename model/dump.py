"""The canonical dump of a run of the full protocol, in the lab's layout (db-19; `zab_chaos.model.lab.dump`). It is made
from the traces and disks that the run left.

It has for each node, ascending by id: the last role of its last life; f.a, f.p, the last zxid and the history as recovery
reads them from its disk (the transactions above the snapshot, if there is one); and the last zxid that its last life
delivered. A disk that is empty or cannot be recovered counts as empty. A node that never lived counts as Looking.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zab_chaos.model.lab import dump as lab
from zab_chaos.model.lab.messages import Role, Txn
from zab_chaos.node.core import digest as dg
from zab_chaos.node.core.zxid import ZERO, Zxid, zxid
from zab_chaos.node.store.disk import OrdinaryDisk
from zab_chaos.node.store.errors import Corrupt
from zab_chaos.node.store.recovery import Recovery


@dataclass(slots=True)
class NodeAtEnd:
    """The state of one node at the end of a run. Implements `zab_chaos.model.lab.dump.DumpedNode`."""

    id: int
    role: Role = Role.LOOKING
    current_epoch: int = 0
    accepted_epoch: int = 0
    last_committed: Zxid = ZERO
    last: Zxid = ZERO
    history: list[Txn] = field(default_factory=list)

    def last_zxid(self) -> Zxid:
        return self.last


def dump_of(run: Path, nodes: int) -> bytes:
    """Return the dump of the run in this folder, whose `data/` has the disks. Raises DiskFailed if they can't be read."""
    return lab.dump([_node_at_end(run, node) for node in range(1, nodes + 1)])


def _node_at_end(run: Path, node: int) -> NodeAtEnd:
    state = NodeAtEnd(node)
    _read_disk(state, run / "data" / f"node-{node}")
    for event in _last_life(run / "trace", node):
        _apply(state, event)
    return state


def _read_disk(state: NodeAtEnd, folder: Path) -> None:
    recovery = Recovery(OrdinaryDisk(folder))
    try:
        if recovery.is_empty():
            return
        disk = recovery.run()
    except Corrupt:
        return
    recovered = disk.recovered
    state.current_epoch, state.accepted_epoch = recovered.current_epoch, recovered.accepted_epoch
    state.last = disk.report.last_zxid
    for first, txns in recovered.runs:
        state.history += [Txn(Zxid(first + number), payload) for number, payload in enumerate(txns)]


def _last_life(traces: Path, node: int) -> Iterator[dict[str, Any]]:
    lives = sorted(traces.glob(f"node-{node}-*.jsonl"), key=lambda path: int(path.stem.split("-")[2]))
    if lives:
        with lives[-1].open("rb") as lines:
            yield from map(json.loads, lines)


def _apply(state: NodeAtEnd, event: dict[str, Any]) -> None:
    match event["event"]:
        case "role":
            state.role = Role[event["role"]]
        case "boot":
            state.last_committed = zxid(*event["snapshot_zxid"])
        case "deliver":
            state.last_committed = zxid(event["epoch"], event["first"] + dg.count(event["digests"]) - 1)
        case "snapshot" if event["kind"] == "restored":
            state.last_committed = zxid(*event["zxid"])
