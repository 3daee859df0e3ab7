"""The core's events of a re-execution, held against the lines of the trace, one by one and in order."""

from pathlib import Path
from typing import Any

from zab_chaos.model.events import trace_name
from zab_chaos.model.replay import descriptions as words
from zab_chaos.model.replay.difference import Different
from zab_chaos.model.replay.trace import CoreLine, CoreTrace
from zab_chaos.node.core import digest as dg
from zab_chaos.node.core import zxid as zx
from zab_chaos.node.recording import Booted


class Match:
    """`events`: how many lines were equal; `last`: the last one, `event`: its number.

    `untraced`: an event for which the trace has no line any more. That is fine in the last block of a life that was killed.
    """

    def __init__(self, folder: Path, node: int, life: int) -> None:
        self.events = 0
        self.event = 0
        self.last: CoreLine | None = None
        self.untraced: str | None = None
        self._trace = CoreTrace(folder / trace_name(node, life), node, life)

    def boot(self, entry: Booted) -> None:
        """The trace's boot and the recording's tell of the same disk."""
        recovered = entry.recovered
        snapshot = recovered.snapshot
        fields = {
            "accepted_epoch": recovered.accepted_epoch,
            "current_epoch": recovered.current_epoch,
            "snapshot_zxid": zx.pair(snapshot[0]) if snapshot else [0, 0],
            "digest": dg.show(snapshot[1]) if snapshot else None,
            "nodes": len(entry.settings.members),
        }
        self._part("boot", fields, self._trace.boot())

    def link(self, peer: int, state: str, **why: str) -> None:
        """The trace's next line is of this link. Its session's number is not the core's concern."""
        self._part("link", {"peer": peer, "state": state, **why}, self._trace.next())

    def event_is(self, name: str, fields: dict[str, Any]) -> None:
        """The trace's next line of the core is exactly this event. Raises Different, Unreadable."""
        line = self._trace.next()
        if line is None:
            self.untraced = name
        elif line.says(name, fields):
            self._equal(line)
        else:
            raise _unlike(line, name, line.fields, fields)

    def end(self) -> int | None:
        """No line may be left. The code with which the life ended by itself; None if it was killed."""
        line = self._trace.next()
        if line is not None:
            said = words.event(line.name, line.fields)
            raise Different("the trace goes on where the recording ends", said, "nothing", line.line)
        return self._trace.exit

    def _part(self, name: str, fields: dict[str, Any], line: CoreLine | None) -> None:
        """Only these fields of the line count."""
        if line is None:
            self.untraced = name
            return
        said = {field: line.fields.get(field) for field in fields}
        if line.name != name or said != fields:
            raise _unlike(line, name, said, fields)
        self._equal(line)

    def _equal(self, line: CoreLine) -> None:
        self.last = line
        self.event = line.n
        self.events += 1


def _unlike(line: CoreLine, name: str, said: dict[str, Any], fields: dict[str, Any]) -> Different:
    what = f"event {line.n} ({name}) differs" if line.name == name else f"event {line.n} is another one"
    return Different(what, words.event(line.name, said), words.event(name, fields), line.line)
