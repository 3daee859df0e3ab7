"""Compares the events of a re-executed core with the lines of the trace, one by one and in order."""

from pathlib import Path
from typing import Any

from zab_chaos.model.events import trace_name
from zab_chaos.model.replay import descriptions as words
from zab_chaos.model.replay.difference import DifferenceFound
from zab_chaos.model.replay.trace import CoreLine, CoreTrace
from zab_chaos.node.core import digest as dg
from zab_chaos.node.core import zxid as zx
from zab_chaos.node.recording import Booted


class TraceMatcher:
    """Compares expected events with the next lines of a life's trace. Its methods raise DifferenceFound and Unreadable.

    `events`: how many lines were equal. `last`: the last of them. `event`: its event number. `untraced`: the first expected
    event for which the trace had no line any more. That is legal if the life was killed before it wrote that line.

    A node writes a block of the recording, and then the lines of the trace so far: before it sends, before it asks the disk for
    something, before it takes a snapshot, and at the end of each round. Lines that come in a round after such a write are
    written with the next block. A life that is killed in between has that block, and lacks the lines.
    """

    def __init__(self, folder: Path, node: int, life: int) -> None:
        self.events = 0
        self.event = 0
        self.last: CoreLine | None = None
        self.untraced: str | None = None
        self._block = 0  # the number of the present block of the recording
        self._written_with = 0  # the number of the block with which a line that is expected now is written
        self._untraced_with = 0  # likewise of `untraced`
        self._trace = CoreTrace(folder / trace_name(node, life), node, life)

    def expect_boot(self, entry: Booted) -> None:
        """Compare the next line with the boot: trace and recording must have recovered the same state."""
        recovered = entry.recovered
        snapshot = recovered.snapshot
        fields = {
            "accepted_epoch": recovered.accepted_epoch,
            "current_epoch": recovered.current_epoch,
            "snapshot_zxid": zx.pair(snapshot[0]) if snapshot else [0, 0],
            "digest": dg.show(snapshot[1]) if snapshot else None,
            "nodes": len(entry.settings.members),
        }
        self._expect_fields("boot", fields, self._trace.boot())

    def expect_link(self, peer: int, state: str, **why: str) -> None:
        """Compare the next line with this link event. The number of the session is not compared: the core does not know it."""
        self._expect_fields("link", {"peer": peer, "state": state, **why}, self._trace.next())

    def expect_event(self, name: str, fields: dict[str, Any]) -> None:
        """Compare all fields of the core's next line with this event."""
        line = self._trace.next()
        if line is None:
            self._lacks(name)
        elif line.equals(name, fields):
            self._matched(line)
        else:
            raise _difference_from(line, name, line.fields, fields)

    def expect_end(self) -> int | None:
        """Require that no line is left. Return the exit code of a life that ended by itself, None if it was killed."""
        line = self._trace.next()
        if line is not None:
            recorded = words.event(line.name, line.fields)
            raise DifferenceFound("the trace goes on where the recording ends", recorded, "nothing", line.line)
        return self._trace.exit

    def begin_block(self, *, within_round: bool) -> None:
        """Begin the next block of the recording. No line may be missing, but within a round those to be written with it."""
        self._block += 1
        if self.untraced is not None and not (within_round and self._untraced_with == self._block):
            raise DifferenceFound("the trace ends, the recording goes on", "no line", self.untraced)
        self._written_with = self._block

    def on_written(self) -> None:
        """Take note that the node has written this block, and the lines so far."""
        self._written_with = self._block + 1

    def _lacks(self, name: str) -> None:
        if self.untraced is None:
            self.untraced, self._untraced_with = name, self._written_with

    def _expect_fields(self, name: str, fields: dict[str, Any], line: CoreLine | None) -> None:
        """Compare only these fields of the line."""
        if line is None:
            self._lacks(name)
            return
        recorded = {field: line.fields.get(field) for field in fields}
        if line.name != name or recorded != fields:
            raise _difference_from(line, name, recorded, fields)
        self._matched(line)

    def _matched(self, line: CoreLine) -> None:
        self.last = line
        self.event = line.n
        self.events += 1


def _difference_from(line: CoreLine, name: str, recorded: dict[str, Any], fields: dict[str, Any]) -> DifferenceFound:
    what = f"event {line.n} ({name}) differs" if line.name == name else f"event {line.n} is another one"
    return DifferenceFound(what, words.event(line.name, recorded), words.event(name, fields), line.line)
