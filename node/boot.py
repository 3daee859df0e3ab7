"""A life's first event: what the disk held."""

from typing import Any

from node.config import NodeConfig
from node.core import zxid as zx
from node.core.digest import show
from node.core.ready import Recovered
from node.store.recovery import Report


def boot_event(
    config: NodeConfig, recovered: Recovered, report: Report, defect: str | None, pid: int
) -> dict[str, Any]:
    """The fields of `boot` (results/README.md)."""
    snapshot = recovered.snapshot
    return {
        "disk": report.kind,
        "accepted_epoch": recovered.accepted_epoch,
        "current_epoch": recovered.current_epoch,
        "last_zxid": zx.pair(report.last_zxid),
        "snapshot_zxid": zx.pair(report.snapshot_zxid),
        "digest": show(snapshot[1]) if snapshot else None,
        "torn_bytes": report.torn_bytes,
        "faithful": config.faithful,
        "nodes": len(config.members),
        "defect": defect,
        "pid": pid,
    }
