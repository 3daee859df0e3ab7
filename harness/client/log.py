"""ops.jsonl: every client operation, as `results/README.md` says."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec

from zab_chaos.harness.client.core import ClientCore, Operation
from zab_chaos.harness.client.session import Done, Failed, Unknown, read_outcome
from zab_chaos.node.core.zxid import pair
from zab_chaos.node.tree import outcomes
from zab_chaos.node.tree.outcomes import Outcome
from zab_chaos.node.tree.requests import ANY, Create, Multi, Request, Set

_encode = msgspec.json.Encoder().encode


class OpsFile:
    """Collects lines; `flush` writes them with one write(2). Raises OSError (ENOSPC, EIO).

    Implements `zab_chaos.harness.workload.open_loop.OperationLog`.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._lines: list[bytes] = []
        self._open = True

    def invoke(self, client: ClientCore, operation: Operation, due: int) -> None:
        """`due`: when the open loop owed it."""
        line: dict[str, Any] = {
            "type": "invoke",
            "t": operation.submitted_ns,
            "due": due,
            "client": client.number,
            "seq": operation.seq,
            "node": client.node,
        }
        self._lines.append(_encode(line | request_fields(operation.request)))

    def complete(self, client: ClientCore, operation: Operation, outcome: Outcome) -> str:
        """Returns the outcome's name: ok, failed or unknown."""
        line: dict[str, Any] = {
            "type": "complete",
            "t": operation.completed_ns,
            "client": client.number,
            "seq": operation.seq,
            "node": client.node if operation.node is None else operation.node,
        }
        line |= outcome_fields(outcome)
        self._lines.append(_encode(line))
        name: str = line["outcome"]
        return name

    def flush(self) -> None:
        if self._lines:
            data = memoryview(b"\n".join(self._lines) + b"\n")
            self._lines.clear()
            while data:
                data = data[os.write(self._file, data) :]

    def close(self) -> None:
        if self._open:
            self._open = False
            self.flush()
            os.close(self._file)


class SharedOpsFile:
    """An OpsFile for the clients of several threads, each line written at once. `told` hears invoked and each outcome."""

    def __init__(self, path: Path, told: Callable[[str], None] = lambda name: None) -> None:
        self._file = OpsFile(path)
        self._told = told
        self._lock = threading.Lock()

    def invoke(self, client: ClientCore, operation: Operation) -> None:
        with self._lock:
            self._told("invoked")
            self._file.invoke(client, operation, operation.submitted_ns)
            self._file.flush()

    def complete(self, client: ClientCore, operation: Operation, outcome: Outcome) -> None:
        with self._lock:
            self._told(self._file.complete(client, operation, outcome))
            self._file.flush()

    def close(self) -> None:
        with self._lock:
            self._file.close()


def request_fields(request: Request) -> dict[str, Any]:
    """Operation, path, the CRC-32 of the data, the version asked for. A multi is described by its last step, and by all."""
    if type(request) is Multi:
        steps = [request_fields(step) for step in request.steps]
        last = {name: value for name, value in steps[-1].items() if name != "sequential"} if steps else {"path": ""}
        return last | {"op": "multi", "steps": steps}
    fields: dict[str, Any] = {"op": type(request).__name__.lower(), "path": request.path}
    if type(request) is Create or type(request) is Set:
        fields["value"] = crc32(request.data)
    version = getattr(request, "version", ANY)
    if version != ANY:
        fields["version"] = version
    if type(request) is Create and request.sequential:
        fields["sequential"] = True
    return fields


def outcome_fields(outcome: Outcome) -> dict[str, Any]:
    """What a program is told of it, as the library reads it; of a refusal also the zxid, of which programs are not told."""
    read = read_outcome(outcome)
    if isinstance(read, Unknown):
        return {"outcome": "unknown", "error": read.why}
    if isinstance(read, Failed):
        zxid = outcome.zxid if isinstance(outcome, outcomes.Failed) else None
        return {"outcome": "failed", "error": read.error} | ({"zxid": pair(zxid)} if zxid else {})
    return _done(read)


def _done(read: Done) -> dict[str, Any]:
    fields: dict[str, Any] = {"outcome": "ok", "zxid": read.zxid}
    if read.version is not None:
        fields["version"] = read.version
    elif read.steps:
        fields["version"] = read.steps[-1][1]
    if read.value is not None:
        fields["value"] = crc32(read.value)
    if read.path is not None:
        fields["path"] = read.path
    if read.children is not None:
        fields["children"] = read.children
    if read.steps is not None:
        fields["steps"] = read.steps
    return fields
