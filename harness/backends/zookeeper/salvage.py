"""Makes the traces of a run that ended before its harness had written them, from what the servers' disks still hold.

A run's traces are normally written when it ends. If the harness is killed, or made to end at once, the servers die with it;
their disks and the clients' records remain. What happened at restarts, and what the servers said about their roles, is lost.
So each server is taken to have had one long life.
"""

from dataclasses import replace
from pathlib import Path

import psutil

from zab_chaos.harness.backends.processes.stale_files import is_locked
from zab_chaos.harness.backends.zookeeper.evidence import RunEvidence, ServerLife, clock_offset
from zab_chaos.harness.backends.zookeeper.txnlog import TxnLog, read_disk
from zab_chaos.harness.backends.zookeeper.written_evidence import write_evidence
from zab_chaos.harness.errors import BadInput
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.model import manifest
from zab_chaos.model.events import Complete, Invoke

DONE = (
    "this run ended before its harness had written the evidence; the traces are made of what the servers' disks hold now, and "
    "say nothing of restarts, roles and epochs"
)


def salvage(folder: RunFolder) -> str | None:
    """Write the traces if the run never had any, its servers are gone and their disks are there. If it has a manifest, and is
    as that says, the traces are added to it.

    Return a sentence that says what was done, or None if nothing was. Raises BadInput if the run is still in progress.
    """
    nodes = range(1, int(folder.read_run().get("nodes", 0)) + 1)
    disks = {node: folder.file("data", f"node-{node}") for node in nodes}
    if any(folder.file("trace").glob("*.jsonl")) or not all(disk.is_dir() for disk in disks.values()):
        return None
    sealed, changes = manifest.check(folder.path)
    if sealed is not None and sealed.lives:
        return None  # somebody has removed them
    if is_locked(progress_file(folder)) or any(_in_use(disk) for disk in disks.values()):
        raise BadInput(f"{folder.path}: this run is still in progress, and is judged when it ends")
    operations = list(folder.lines("ops.jsonl", Invoke | Complete))
    milestones = list(folder.lines("harness.jsonl"))
    times = [line["t"] for line in milestones] + [operation.t for operation in operations]
    began, ended = min(times, default=0), max(times, default=0)
    lives = [
        ServerLife(
            node=node,
            life=1,
            began=began,
            ended=ended,
            disk_before=TxnLog(),
            disk_after=_without_epochs(read_disk(disk)),
        )
        for node, disk in disks.items()
    ]
    evidence = RunEvidence(nodes=len(lives), lives=lives, operations=operations, clock_offset=clock_offset(milestones))
    write_evidence(evidence, folder)
    if not changes:
        manifest.seal(folder.path)
    return DONE


def _without_epochs(log: TxnLog) -> TxnLog:
    """Remove the epochs: it is not known in which life they were written, nor what faults did to the disk in between."""
    return replace(log, epochs=(None, None))


def progress_file(folder: RunFolder) -> Path:
    """Return the file on which the harness holds a lock while the run is in progress."""
    return folder.file("config", "node-1.cfg")


def _in_use(disk: Path) -> bool:
    """Return whether a process has the disk's folder as its working directory, as servers do."""
    for process in psutil.process_iter():
        try:
            if Path(process.cwd()) == disk.resolve():
                return True
        except (psutil.Error, OSError):
            continue
    return False
