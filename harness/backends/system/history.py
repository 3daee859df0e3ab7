"""Writes ops.jsonl for a run of a foreign system: the requests of its clients and their outcomes."""

import threading
import time
from pathlib import Path
from typing import Any

import msgspec

from zab_chaos.harness.backends.outcome_counts import OutcomeCounts
from zab_chaos.harness.client.log import outcome_fields, request_fields
from zab_chaos.node.append_file import AppendFile
from zab_chaos.node.tree.outcomes import Outcome
from zab_chaos.node.tree.requests import Create, Request, Set

_encode = msgspec.json.Encoder().encode


class HistoryFile:
    """ops.jsonl, used by the clients of several threads. Each line is written at once, and before its request is sent."""

    def __init__(self, path: Path, outcomes: OutcomeCounts) -> None:
        self._file = AppendFile(path)
        self._outcomes = outcomes
        self._lock = threading.Lock()
        self._open = True
        self._written: dict[str, None] = {}

    @property
    def written(self) -> list[str]:
        """The keys that clients have asked to write or create, in the order of the latest request for each."""
        with self._lock:
            return list(self._written)

    def invoke(self, client: int, seq: int, node: int, request: Request, due_ns: int | None) -> None:
        """Record a request. `due_ns` is the time at which it was due; None means now."""
        if isinstance(request, Set) or (isinstance(request, Create) and not request.sequential):
            with self._lock:
                self._written.pop(request.path, None)
                self._written[request.path] = None
        now = time.monotonic_ns()
        line = {"type": "invoke", "t": now, "due": now if due_ns is None else due_ns, "client": client, "seq": seq}
        self._write(line | {"node": node} | request_fields(request), "invoked")

    def complete(self, client: int, seq: int, node: int, outcome: Outcome) -> None:
        line = {"type": "complete", "t": time.monotonic_ns(), "client": client, "seq": seq, "node": node}
        fields = {
            name: value for name, value in outcome_fields(outcome).items() if name != "zxid"
        }  # the system has none
        self._write(line | fields, fields["outcome"])

    def close(self) -> None:
        with self._lock:
            if self._open:
                self._open = False
                self._file.close()

    def _write(self, line: dict[str, Any], name: str) -> None:
        with self._lock:
            if self._open:
                self._outcomes.add(name)
                self._file.write(_encode(line) + b"\n")
