"""The start of a life: recovery of the disk, and the first events of the trace."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from zab_chaos.node.config import NodeConfig
from zab_chaos.node.core import zxid as zx
from zab_chaos.node.core.digest import show
from zab_chaos.node.core.ready import Recovered
from zab_chaos.node.crash_points import CrashPoints
from zab_chaos.node.recorded import TraceSink
from zab_chaos.node.store.disk import Disk
from zab_chaos.node.store.recovery import RecoveryReport
from zab_chaos.node.store.store import Store


@dataclass(frozen=True, slots=True)
class BootedNode:
    """The result of `boot_node`."""

    store: Store
    recovered: Recovered
    crash: CrashPoints


def boot_node(
    config: NodeConfig,
    store_type: type[Store],
    disk: Disk,
    trace: TraceSink,
    *,
    bootstrap: bool,
    crash_at: str | None,
    defect: str | None,
    pid: int,
    clock: Callable[[], int],
    prepare: Callable[[CrashPoints], None] = lambda crash: None,
    crash_type: type[CrashPoints] = CrashPoints,
) -> BootedNode:
    """Recover the disk, and trace what was found. Raises InvalidCrashPoint, Corrupt, DigestMismatch, DiskFailed.

    `clock`: nanoseconds, to measure how long recovery takes. `prepare` sets what happens at a crash point, if not SIGKILL.
    """
    booting = True

    def report_point(point: str, state: str) -> None:
        if booting and state == "armed":
            return  # traced below: the first event of a life must be `boot`
        trace.add("fault", {"do": "crash-at", "state": state, "detail": point})
        trace.flush()

    crash = crash_type(report_point)
    prepare(crash)
    if crash_at is not None:
        crash.arm(crash_at)
    started = clock()
    store, recovered, report = store_type.open(
        disk,
        bootstrap=bootstrap,
        segment_bytes=config.limits.segment_bytes,
        crash=crash.hit if crash.on_disk else None,
        digest=config.digest,
    )
    micros = (clock() - started) // 1000
    trace.add("boot", boot_event(config, recovered, report, defect, pid))
    trace.add("recovery", {"records": report.records, "bytes": report.bytes, "micros": micros})
    trace.flush()
    booting = False
    for point in crash.armed:
        report_point(point, "armed")
    return BootedNode(store, recovered, crash)


def boot_event(
    config: NodeConfig, recovered: Recovered, report: RecoveryReport, defect: str | None, pid: int
) -> dict[str, Any]:
    """Return the fields of the event `boot` (results/README.md)."""
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
