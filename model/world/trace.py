"""The trace of a simulated life, and its lines as typed events for the oracle or as written to a file."""

from typing import Any

from zab_chaos.model import events as ev
from zab_chaos.model.world.world import Line, Sink, World


class SimTrace:
    """Collects trace events. `flush` must be called before any of their effects leaves the node (`zab_chaos.node.trace`)."""

    def __init__(self, world: World, sink: Sink, node: int, life: int) -> None:
        self._world = world
        self._sink = sink
        self._node = node
        self._life = life
        self._n = 0
        self._lines: list[Line] = []

    def add(self, event: str, fields: dict[str, Any]) -> None:
        self._n += 1
        self._lines.append((self._world.stamp(), self._n, event, fields))

    def flush(self) -> None:
        if self._lines:
            lines, self._lines = self._lines, []
            self._sink.trace(self._node, self._life, lines)


def typed_event(node: int, life: int, line: Line) -> ev.Event:
    """Return the line as an event for the oracle.

    The three most frequent kinds are built without validation, for speed: the node's own code made their fields.
    """
    t, n, event, f = line
    if event == "deliver":
        return ev.Deliver(
            t=t, node=node, life=life, n=n, epoch=f["epoch"], first=f["first"], digests=f["digests"],
            digest=f["digest"], tree=f["tree"],
        )  # fmt: skip
    if event == "accept":
        return ev.Accept(
            t=t, node=node, life=life, n=n, in_epoch=f["in_epoch"], epoch=f["epoch"], first=f["first"],
            digests=f["digests"],
        )  # fmt: skip
    if event == "broadcast":
        return ev.Broadcast(
            t=t, node=node, life=life, n=n, epoch=f["epoch"], first=f["first"], digests=f["digests"],
            delivered=f["delivered"], txns=f["txns"],
        )  # fmt: skip
    if event not in ev.JUDGED_EVENTS:
        return ev.UnjudgedEvent(t=t, node=node, life=life, n=n, event=event)
    return ev.event_from_dict(trace_line(node, life, line))


def trace_line(node: int, life: int, line: Line) -> dict[str, Any]:
    """Return the line as a trace file has it (results/README.md)."""
    t, n, event, fields = line
    return {"t": t, "node": node, "life": life, "n": n, "event": event, **fields}
