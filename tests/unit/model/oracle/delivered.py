"""A builder of an oracle that has seen a server deliver given transactions, without a complete run."""

from typing import Any

from zab_chaos.model import events as ev
from zab_chaos.model.oracle.oracle import Oracle
from zab_chaos.node.core import digest as dg

Txn = tuple[int, list[list[Any]]]  # session, steps


def delivered(txns: list[Txn], known: int | None = None) -> Oracle:
    """Return an oracle that has seen a server deliver `txns`, from 1:1 on. Only the content of the first `known` is known."""
    digests = [f"{n:016x}" for n in range(1, len(txns) + 1)]
    running = dg.EMPTY
    for n in range(1, len(txns) + 1):
        running = dg.fold(running, 1 << 32 | n, n)
    contents = [[session, n, steps] for n, (session, steps) in enumerate(txns[:known], 1)]
    batch = {"epoch": 1, "first": 1, "digests": "".join(digests)}
    events: list[dict[str, Any]] = [
        {"event": "boot", "disk": "fresh", "accepted_epoch": 1, "current_epoch": 1, "last_zxid": [0, 0],
         "snapshot_zxid": [0, 0], "torn_bytes": 0, "faithful": False, "nodes": 1, "defect": None, "pid": None},
        {"event": "broadcast", **batch, "digests": "".join(digests[:known]), "delivered": [0, 0], "txns": contents},
        {"event": "deliver", **batch, "digest": dg.show(running), "tree": "0" * 16},
    ]  # fmt: skip
    oracle = Oracle(ev.LOGS)
    for n, event in enumerate(events, 1):
        oracle.add_event(ev.event_from_dict({"t": n, "node": 1, "life": 1, "n": n, **event}))
    return oracle
