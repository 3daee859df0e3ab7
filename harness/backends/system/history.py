"""Writes ops.jsonl for a run of a foreign system: the requests of its clients and their outcomes."""

from pathlib import Path

from zab_chaos.harness.backends.outcome_counts import OutcomeCounts
from zab_chaos.harness.client.core import Operation, RecordedClient
from zab_chaos.harness.client.log import SharedOpsFile
from zab_chaos.harness.client.transaction import Append, ListTransaction, Request, Transaction
from zab_chaos.node.tree.requests import Create, Set


class HistoryFile(SharedOpsFile):
    """The ops.jsonl of a system without zxids. It remembers which keys were written."""

    def __init__(self, path: Path, outcomes: OutcomeCounts) -> None:
        super().__init__(path, outcomes.add, zxids=False)
        self._written: dict[str, None] = {}
        self._appended: dict[str, None] = {}

    @property
    def written(self) -> list[str]:
        """The keys that clients have asked to write or create, in the order of the latest request for each."""
        with self._lock:
            return list(self._written)

    @property
    def appended(self) -> list[str]:
        """The keys to whose lists clients have asked to append, in the order of the latest request for each."""
        with self._lock:
            return list(self._appended)

    def invoke(self, client: RecordedClient, operation: Operation, due: int | None = None) -> None:
        request: Request = operation.request
        for step in request.steps if isinstance(request, Transaction | ListTransaction) else (request,):
            if isinstance(step, Set) or (isinstance(step, Create) and not step.sequential):
                with self._lock:
                    self._written.pop(step.path, None)
                    self._written[step.path] = None
            elif isinstance(step, Append):
                with self._lock:
                    self._appended.pop(step.path, None)
                    self._appended[step.path] = None
        super().invoke(client, operation, due)
