"""Writes what the judge reads of a run on ZooKeeper's servers: the traces, the ends of the sessions, and the tree."""

import msgspec

from zab_chaos.harness.backends.zookeeper import tree
from zab_chaos.harness.backends.zookeeper.evidence import RunEvidence
from zab_chaos.harness.backends.zookeeper.histories import session_ends
from zab_chaos.harness.backends.zookeeper.sessions import append_session_ends
from zab_chaos.harness.backends.zookeeper.traces import traces
from zab_chaos.harness.machine.interrupt import deferred_signals
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.model.events import trace_name


def write_evidence(evidence: RunEvidence, folder: RunFolder, shown: tree.ServerTree | None = None) -> None:
    """Write all of it, or nothing if that is interrupted: half of it could contradict itself. `shown`: the servers' tree."""
    encoded = {
        trace_name(*life): b"".join(msgspec.json.encode(event) + b"\n" for event in events)
        for life, events in traces(evidence).items()
    }
    ends = session_ends(evidence)
    with deferred_signals():
        for name, lines in encoded.items():
            folder.file(name).write_bytes(lines)
        append_session_ends(folder.file("sessions.jsonl"), ends)
        if shown is not None:
            tree.write(shown, folder.file("tree.jsonl"))
