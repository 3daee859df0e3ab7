"""What a node's log, as a list of records, says at boot."""

from zab_chaos.node.core import zxid as zx
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


def recover(records: list[Record], snapshot: tuple[zx.Zxid, int, bytes] | None, amnesiac: bool) -> Recovered:
    """What a disk with these durable records says at boot (the store's rules, on a list)."""
    open_group = None
    for i, record in enumerate(records):
        if isinstance(record, TruncRecord | SnapRecord) and open_group is None:
            open_group = i
        elif isinstance(record, NewLeaderRecord):
            open_group = None
    del records[len(records) if open_group is None else open_group :]
    accepted = current = 0
    base: tuple[zx.Zxid, int, bytes] | None = None
    txns: list[tuple[int, bytes]] = []
    for record in records:
        match record:
            case EpochRecord(epoch):
                accepted = epoch
            case NewLeaderRecord(epoch):
                current = epoch
            case TxnRecords(first, payloads, _):
                txns += [(first + i, data) for i, data in enumerate(payloads)]
            case TruncRecord(keep):
                txns = [t for t in txns if t[0] <= keep]
            case SnapRecord(z, digest, state):
                base, txns = (z, digest, state), []
            case MemberRecord():
                amnesiac = False
    if snapshot is not None and (base is None or snapshot[0] > base[0]):
        base = snapshot
    floor = base[0] if base else 0
    return Recovered(accepted, current, base, [(zx.Zxid(z), [d]) for z, d in txns if z > floor], amnesiac)
