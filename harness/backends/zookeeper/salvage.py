"""The evidence of a run whose harness was killed, made after the fact of what the servers' disks hold.

A run's traces are written when it ends. Without its end there is still each server's disk, as it was when the server was
killed with the harness, and what clients were told. What happened at restarts in between, and what servers said of
themselves, is lost; so each server counts as one long life.
"""

import time
from dataclasses import replace
from pathlib import Path

import psutil

from zab_chaos.harness.backends.processes.stale_files import is_locked
from zab_chaos.harness.backends.zookeeper import sessions
from zab_chaos.harness.backends.zookeeper.records import Evidence, Life, write_traces
from zab_chaos.harness.backends.zookeeper.txnlog import Log, read_disk
from zab_chaos.harness.errors import BadInput
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.model.events import Complete, Invoke

DONE = (
    "the harness of this run was killed before it had written its evidence; the traces are made of what the servers' disks "
    "hold now, and say nothing of restarts, roles and epochs"
)


def salvage(folder: RunFolder) -> str | None:
    """Write the traces, if the run has none, its servers are gone and their disks are there. In words, what was done; None:
    nothing. Raises BadInput if the run is still in progress."""
    nodes = range(1, int(folder.read_run().get("nodes", 0)) + 1)
    disks = {node: folder.file("data", f"node-{node}") for node in nodes}
    if any(folder.file("trace").glob("*.jsonl")) or not all(disk.is_dir() for disk in disks.values()):
        return None
    if is_locked(progress_file(folder)) or any(_in_use(disk) for disk in disks.values()):
        raise BadInput(f"{folder.path}: this run is still in progress, and is judged when it ends")
    operations = list(folder.lines("ops.jsonl", Invoke | Complete))
    times = [line["t"] for line in folder.lines("harness.jsonl")] + [operation.t for operation in operations]
    began, ended = min(times, default=0), max(times, default=0)
    lives = [
        Life(node=node, life=1, began=began, ended=ended, before=Log(), after=_without_epochs(read_disk(disk)))
        for node, disk in disks.items()
    ]
    clock = time.monotonic_ns() - time.time_ns()
    evidence = Evidence(nodes=len(lives), lives=lives, operations=operations, clock=clock)
    write_traces(evidence, folder)
    sessions.write_ended(folder.file("sessions.jsonl"), evidence)
    return DONE


def _without_epochs(log: Log) -> Log:
    """Nobody knows any more in which life it had them, and what faults did in between."""
    return replace(log, epochs=(None, None))


def progress_file(folder: RunFolder) -> Path:
    """The file that a run's harness holds until the evidence is written."""
    return folder.file("config", "node-1.cfg")


def _in_use(disk: Path) -> bool:
    """Whether a process is at work there."""
    for process in psutil.process_iter():
        try:
            if Path(process.cwd()) == disk.resolve():
                return True
        except (psutil.Error, OSError):
            continue
    return False
