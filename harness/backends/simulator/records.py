"""The records of a simulated run: the same lines as in a real run's folder, for the oracle and, if wanted, in files.

Records are collected and processed many at a time: the world and the oracle do not fit into a processor's caches together,
and line by line the oracle takes twice as long.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from zab_chaos.harness.client.core import Operation, RecordedClient
from zab_chaos.harness.client.log import complete_line, invoke_line, outcome_fields
from zab_chaos.model import events as ev
from zab_chaos.model.oracle.facts import CRASH_STATE
from zab_chaos.model.oracle.oracle import Oracle
from zab_chaos.model.verdict import Verdict
from zab_chaos.model.world.trace import trace_line, typed_event
from zab_chaos.model.world.world import Line, World
from zab_chaos.node.append_file import AppendFile
from zab_chaos.node.recording import Recording
from zab_chaos.node.tree.outcomes import Outcome

BATCH = 1000  # flushes of traces and steps of clients that are processed at once, or a few more
_encode = msgspec.json.Encoder().encode


class _Recorded(Recording):
    """A recording whose life may end without closing it."""

    open = True

    def close(self) -> None:
        self.open = False
        super().close()

    def drop(self) -> None:
        if self.open:
            self._file.close()


class SimRecords:
    """Takes all records of a simulated run. They go to the oracle and, if there is a folder, to files.

    Implements `zab_chaos.model.world.world.Sink` and `zab_chaos.harness.workload.open_loop.OperationLog`. `folder`: a run's
    folder, or None to write nothing. `record`: also write recordings of the nodes' inputs.
    """

    def __init__(self, world: World, folder: Path | None, record: bool) -> None:
        self.oracle = Oracle()
        self.invoked = 0  # operations of the clients, so far
        self._world = world
        self._folder = folder
        self._record = record and folder is not None
        self._recordings: list[_Recorded] = []
        self._pending: list[tuple[Callable[..., None], tuple[Any, ...]]] = []  # functions to call, with arguments
        self._lines: dict[str, list[bytes]] = {}
        self._numbers: defaultdict[str, count[int]] = defaultdict(partial(count, 1))  # of the next line, by file

    @property
    def events(self) -> int:
        """How many lines of the nodes' traces are judged."""
        return sum(life.last.n for life in self.oracle.facts.lives.values())

    def judge(self, run: ev.Run) -> Verdict:
        """Return the oracle's verdict on all records."""
        self._process_pending()
        return self.oracle.finish(run)

    def _process_pending(self) -> None:
        """Process the pending records, and write their lines."""
        pending, self._pending = self._pending, []
        for record, arguments in pending:
            record(*arguments)
        lines, self._lines = self._lines, {}
        for name, added in lines.items():
            assert self._folder is not None
            with closing(AppendFile(self._folder / name)) as file:
                file.write(b"\n".join(added) + b"\n")

    # ---- the nodes ----

    def trace(self, node: int, life: int, lines: Sequence[Line]) -> None:
        self._pending.append((self._trace, (node, life, lines)))
        if len(self._pending) >= BATCH:
            self._process_pending()

    def _trace(self, node: int, life: int, lines: Sequence[Line]) -> None:
        for line in lines:
            self.oracle.add_event(typed_event(node, life, line))
        if self._folder is not None:
            trace_lines = self._lines.setdefault(ev.trace_name(node, life), [])
            trace_lines.extend(_encode(trace_line(node, life, line)) for line in lines)

    def recording(self, node: int, life: int) -> Recording | None:
        if not self._record:
            return None
        assert self._folder is not None
        self._recordings.append(_Recorded(str(self._folder / "record"), node, life))
        return self._recordings[-1]

    def ended(self, node: int, life: int, code: int, armed: bool) -> None:
        self.milestone("ended", node=node, life=life, code=code, armed=armed)

    def crash_state(self, node: int, life: int, why: str) -> None:
        self.milestone(CRASH_STATE, node=node, life=life, why=why)

    # ---- the clients ----

    def invoke(self, client: RecordedClient, operation: Operation, due: int) -> None:
        self.invoked += 1
        self._pending.append((self._invoke, (client.number, client.node, operation, due)))

    def _invoke(self, client: int, node: int, operation: Operation, due: int) -> None:
        self._add_operation(invoke_line(client, node, operation, due))

    def complete(self, client: RecordedClient, operation: Operation, outcome: Outcome) -> str:
        node = client.node if operation.node is None else operation.node
        self._pending.append((self._complete, (self._world.stamp(), client.number, node, operation.seq, outcome)))
        return str(outcome.__struct_config__.tag)

    def _complete(self, t: int, client: int, node: int, seq: int, outcome: Outcome) -> None:
        self._add_operation(complete_line(t, client, node, seq, outcome_fields(outcome)))

    def _add_operation(self, line: dict[str, Any]) -> None:
        self.oracle.add_operation(msgspec.convert(self._kept("ops.jsonl", line), ev.Invoke | ev.Complete))

    # ---- the harness ----

    def milestone(self, event: str, **fields: Any) -> None:
        line = {"t": self._world.stamp(), "event": event, **fields}
        self.oracle.add_milestone(msgspec.convert(self._kept("harness.jsonl", line), ev.Milestone))

    def fault(self, line: dict[str, Any]) -> None:
        line = {**line, "t": self._world.stamp()} if line["type"] == "heal" else line
        # As a reader of the file decodes it: node ids that are keys become text.
        plain = msgspec.json.decode(_encode(line))
        self.oracle.add_fault(msgspec.convert(self._kept("faults.jsonl", plain), ev.Inject | ev.Heal))

    def _kept(self, name: str, line: dict[str, Any]) -> dict[str, Any]:
        """Keep a line until the file is written, if there is one. Return the line with its number in the file."""
        if self._folder is not None:
            self._lines.setdefault(name, []).append(_encode(line))
        return line | {"line": next(self._numbers[name])}

    def close(self) -> None:
        """Write what is left, and close the files."""
        self._process_pending()
        for recording in self._recordings:
            recording.drop()
