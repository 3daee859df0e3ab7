"""Writes ops.jsonl for a run of a foreign system: the requests of its clients and their outcomes."""

from pathlib import Path

from zab_chaos.harness.backends.outcome_counts import OutcomeCounts
from zab_chaos.harness.client.core import Operation
from zab_chaos.harness.client.log import RecordedClient, SharedOpsFile
from zab_chaos.node.tree.requests import Create, Set


class HistoryFile(SharedOpsFile):
    """The ops.jsonl of a system without zxids. It remembers which keys were written."""

    def __init__(self, path: Path, outcomes: OutcomeCounts) -> None:
        super().__init__(path, outcomes.add, zxids=False)
        self._written: dict[str, None] = {}

    @property
    def written(self) -> list[str]:
        """The keys that clients have asked to write or create, in the order of the latest request for each."""
        with self._lock:
            return list(self._written)

    def invoke(self, client: RecordedClient, operation: Operation, due: int | None = None) -> None:
        request = operation.request
        if isinstance(request, Set) or (isinstance(request, Create) and not request.sequential):
            with self._lock:
                self._written.pop(request.path, None)
                self._written[request.path] = None
        super().invoke(client, operation, due)
