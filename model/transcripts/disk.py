"""What a node's log, as a list of records, says at boot."""

from itertools import chain

from zab_chaos.model.log_records import Held, steps
from zab_chaos.node.core import zxid as zx
from zab_chaos.node.core.ready import Record, Recovered, SnapRecord


def recover(records: list[Record], snapshot: tuple[zx.Zxid, int, bytes] | None, amnesiac: bool) -> Recovered:
    """What a disk with these durable records says at boot (the store's rules, on a list)."""
    records[:] = chain.from_iterable(steps(records))
    held = Held(amnesiac=amnesiac)
    held.apply(records)
    sent = [(record.zxid, record.digest, record.state) for record in records if type(record) is SnapRecord]
    base = sent[-1] if sent else None
    if snapshot is not None and (base is None or snapshot[0] > base[0]):
        base = snapshot
    floor = base[0] if base else 0
    runs = [(zx.Zxid(z), [txn]) for z, txn in held.history if z > floor]
    return Recovered(held.accepted_epoch, held.current_epoch, base, runs, held.amnesiac)
