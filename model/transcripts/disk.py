"""Recovery from a log that is kept as a list of records."""

from itertools import chain

from zab_chaos.model.log_records import LogContents, atomic_groups
from zab_chaos.node.core import zxid as zx
from zab_chaos.node.core.ready import Record, Recovered, SnapRecord


def recover(records: list[Record], snapshot: tuple[zx.Zxid, int, bytes] | None, amnesiac: bool) -> Recovered:
    """Return what the store recovers at boot. Removes an incomplete group of records from the end of `records`."""
    records[:] = chain.from_iterable(atomic_groups(records))
    held = LogContents(amnesiac=amnesiac)
    held.apply(records)
    installed = [(record.zxid, record.digest, record.state) for record in records if type(record) is SnapRecord]
    base = installed[-1] if installed else None
    if snapshot is not None and (base is None or snapshot[0] > base[0]):
        base = snapshot
    floor = base[0] if base else 0
    runs = [(zx.Zxid(z), [txn]) for z, txn in held.history if z > floor]
    return Recovered(held.accepted_epoch, held.current_epoch, base, runs, held.amnesiac)
