"""Writes ops.jsonl, the record of every client operation (results/README.md)."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast
from zlib import crc32

import msgspec

from zab_chaos.harness.client.core import Operation, RecordedClient
from zab_chaos.harness.client.session import Done, Unknown, read_outcome
from zab_chaos.harness.client.transaction import (
    Append,
    Committed,
    ListTransaction,
    Outcome,
    ReadList,
    Request,
    Transaction,
)
from zab_chaos.model.events import LARGE_BYTES
from zab_chaos.model.sealing import unsealed
from zab_chaos.node.append_file import AppendFile
from zab_chaos.node.core.zxid import pair
from zab_chaos.node.tree import outcomes
from zab_chaos.node.tree.requests import ANY, Create, Multi, Set

_encode = msgspec.json.Encoder().encode


class OpsFile:
    """An ops.jsonl for one thread: it collects lines, and `flush` writes them at once. Raises OSError (ENOSPC, EIO).

    `zxids`: whether the system has any. Implements `zab_chaos.harness.workload.open_loop.OperationLog`.
    """

    def __init__(self, path: Path, *, zxids: bool = True) -> None:
        self._file = AppendFile(path)
        self._zxids = zxids
        self._lines: list[bytes] = []
        self._open = True

    def invoke(self, client: RecordedClient, operation: Operation, due: int) -> None:
        """Record that an operation was submitted. `due`: when the open loop had planned it."""
        self._lines.append(_encode(invoke_line(client.number, client.node, operation, due)))

    def complete(self, client: RecordedClient, operation: Operation, outcome: Outcome) -> str:
        """Record an operation's outcome, and return its name: ok, failed or unknown."""
        fields = _committed(outcome, operation.request) if type(outcome) is Committed else outcome_fields(outcome)
        node = client.node if operation.node is None else operation.node
        line = complete_line(operation.completed_ns, client.number, node, operation.seq, fields)
        if not self._zxids:
            line.pop("zxid", None)
        self._lines.append(_encode(line))
        name: str = line["outcome"]
        return name

    def flush(self) -> None:
        """Write the collected lines, unless the file is closed."""
        if self._lines and self._open:
            data = b"\n".join(self._lines) + b"\n"
            self._lines.clear()
            self._file.write(data)

    def drop(self) -> None:
        """Drop the collected lines."""
        self._lines.clear()

    def close(self) -> None:
        if self._open:
            try:
                self.flush()
            finally:
                self._open = False
                self._file.close()


class SharedOpsFile:
    """An ops.jsonl for the clients of several threads, which writes each line at once.

    Once the run has ended and its folder is sealed or gone, nothing more is recorded: a client may outlive its ensemble.
    `count` is called with "invoked" for each operation, and with the name of each outcome. `zxids`: as of `OpsFile`.
    """

    def __init__(self, path: Path, count: Callable[[str], None] = lambda name: None, *, zxids: bool = True) -> None:
        self._folder = path.parent
        with unsealed(self._folder) as recording:
            sealed = not recording and self._folder.exists()
            self._file = OpsFile(Path(os.devnull) if sealed else path, zxids=zxids)
        self._count = count
        self._lock = threading.Lock()

    def invoke(self, client: RecordedClient, operation: Operation, due: int | None = None) -> None:
        """Record that an operation was submitted. `due`: when the open loop had planned it; None means then."""
        with self._lock:
            self._count("invoked")
            self._file.invoke(client, operation, operation.submitted_ns if due is None else due)
            self._flush()

    def complete(self, client: RecordedClient, operation: Operation, outcome: Outcome) -> str:
        """See `OpsFile.complete`."""
        with self._lock:
            name = self._file.complete(client, operation, outcome)
            self._count(name)
            self._flush()
        return name

    def close(self) -> None:
        with self._lock:
            self._file.close()

    def _flush(self) -> None:
        with unsealed(self._folder) as recording:
            if recording:
                self._file.flush()
            else:
                self._file.drop()


def invoke_line(client: int, node: int, operation: Operation, due: int) -> dict[str, Any]:
    """Return an `invoke` line. `client`: its number; `node`: the one that it is connected to, or tries to reach."""
    line = {
        "type": "invoke", "t": operation.submitted_ns, "due": due, "client": client, "seq": operation.seq, "node": node,
    }  # fmt: skip
    return line | request_fields(operation.request)


def complete_line(t: int, client: int, node: int, seq: int, fields: dict[str, Any]) -> dict[str, Any]:
    """Return a `complete` line. `fields`: those of the outcome."""
    return {"type": "complete", "t": t, "client": client, "seq": seq, "node": node, **fields}


def request_fields(request: Request) -> dict[str, Any]:
    """Return the fields of an `invoke` line: operation, path, the CRC-32 of the data, the version that was asked for, and the
    size of a large request.

    A multi or a transaction has the fields of its last step, and all of its steps. The value of an append is its element.
    """
    fields, size = _fields(request), _size(request)
    if size >= LARGE_BYTES:
        fields["size"] = size
    return fields


def _size(request: Request | ReadList | Append) -> int:
    """Return what the limit on one request applies to (docs/writing-scenarios.md). The node's own count is judged by it."""
    if type(request) is Multi or type(request) is Transaction or type(request) is ListTransaction:
        return sum(32 + _size(step) for step in request.steps)
    return len(request.path) + len(getattr(request, "data", b""))


def _fields(request: Request | ReadList | Append) -> dict[str, Any]:
    if type(request) is Multi or type(request) is Transaction or type(request) is ListTransaction:
        steps = [_fields(step) for step in request.steps]
        last = {name: value for name, value in steps[-1].items() if name != "sequential"} if steps else {"path": ""}
        return last | {"op": "multi" if type(request) is Multi else request.op, "steps": steps}
    fields: dict[str, Any] = {"op": request.__struct_config__.tag, "path": request.path}
    if type(request) is Create or type(request) is Set:
        fields["value"] = crc32(request.data)
    elif type(request) is Append:
        fields["value"] = request.element
    version = getattr(request, "version", ANY)
    if version != ANY:
        fields["version"] = version
    if type(request) is Create and request.sequential:
        fields["sequential"] = True
    return fields


def outcome_fields(outcome: outcomes.Outcome) -> dict[str, Any]:
    """Return the fields of a `complete` line: the outcome as the library returns it, and the zxid of a refusal."""
    read = read_outcome(outcome)
    if isinstance(read, Done):
        return _done(read)
    if isinstance(read, Unknown):
        return {"outcome": "unknown", "error": read.why}
    zxid = outcome.zxid if isinstance(outcome, outcomes.Failed) else None
    return {"outcome": "failed", "error": read.error} | ({"zxid": pair(zxid)} if zxid else {})


def _committed(outcome: Committed, request: Request) -> dict[str, Any]:
    """Return the fields of the `complete` line of a transaction: what its reads have found, of values the CRC-32."""
    if type(request) is ListTransaction:
        return {"outcome": "ok", "lists": outcome.values}
    return {
        "outcome": "ok",
        "values": [None if value is None else crc32(cast(bytes, value)) for value in outcome.values],
    }


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
