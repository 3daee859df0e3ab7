"""The canonical dump of the full protocol, in the lab's layout, compared byte by byte."""

import json
import struct
from pathlib import Path

from zab_chaos.model.dump import dump_of
from zab_chaos.node.core.digest import blake2b
from zab_chaos.node.core.ready import EpochRecord, NewLeaderRecord, TruncRecord, TxnRecords
from zab_chaos.node.core.zxid import ZERO, zxid
from zab_chaos.node.store.disk import OrdinaryDisk
from zab_chaos.node.store.store import Store


def write_disk(folder: Path) -> None:
    """f.p is 4, f.a is 3, and two transactions of epoch 3 are in the log."""
    store, _, _ = Store.open(OrdinaryDisk(folder), bootstrap=True, segment_bytes=4096)
    txns = [b"one", b"second"]
    records = [
        EpochRecord(3),
        TruncRecord(ZERO),
        NewLeaderRecord(3),
        TxnRecords(zxid(3, 1), txns, [*map(blake2b, txns)]),
    ]
    for record in [*records, EpochRecord(4)]:
        store.append(record)
    store.sync()
    store.close()


def write_trace(path: Path, *events: dict[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(event) + "\n" for event in events))


def test_the_value_of_each_field(tmp_path: Path) -> None:
    write_disk(tmp_path / "data" / "node-1")
    boot = {"event": "boot", "snapshot_zxid": [0, 0]}
    leading, following = ({"event": "role", "role": role} for role in ("LEADING", "FOLLOWING"))
    deliver = {"event": "deliver", "epoch": 3, "first": 1, "digests": "0" * 16}
    write_trace(tmp_path / "trace" / "node-1-2.jsonl", boot, leading)
    write_trace(tmp_path / "trace" / "node-1-10.jsonl", boot, following, deliver)
    write_trace(tmp_path / "trace" / "node-2-1.jsonl", boot, {"event": "snapshot", "kind": "restored", "zxid": [2, 9]})
    broken = tmp_path / "data" / "node-3"
    write_disk(broken)
    log = broken / "log-00000001"
    log.write_bytes(b"\xff" * 64 + log.read_bytes()[64:])
    expected = b"DSEZAB01" + struct.pack("<I", 3)
    expected += struct.pack("<IB7I", 1, 1, 3, 4, 3, 2, 3, 1, 2)  # of the last life only, by number and not by name
    expected += struct.pack("<3I", 3, 1, 3) + b"one" + struct.pack("<3I", 3, 2, 6) + b"second"
    expected += struct.pack("<IB7I", 2, 0, 0, 0, 0, 0, 2, 9, 0)  # an empty disk
    expected += struct.pack("<IB7I", 3, 0, 0, 0, 0, 0, 0, 0, 0)  # one that is refused
    assert dump_of(tmp_path, 3) == expected
