"""Reads a trace for a replay: the lines that the core must have written, in order.

Lines about the network, clients and the disk (`channel`, `client`, `refused`, ...) are skipped, but their event numbers are
checked: those of a life have no gaps.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from zab_chaos.model.events import UNREADABLE

CORE_EVENTS = frozenset(
    {
        "role",
        "phase",
        "vote",
        "accepted_epoch",
        "current_epoch",
        "established",
        "broadcast",
        "accept",
        "deliver",
        "member",
        "truncate",
        "snapshot",
        "link",
        "abort",
    }
)
COMMON_FIELDS = ("t", "node", "life", "n", "event")

_encode = msgspec.json.Encoder().encode


class _Head(msgspec.Struct):
    """The fields with which every line begins."""

    node: int
    life: int
    n: int
    event: str
    t: int = 0


_head = msgspec.json.Decoder(_Head).decode


class UnreadableTrace(Exception):
    """Raised for a line of a trace that cannot be read, or cannot be of this life."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(why)
        self.line = line


@dataclass(slots=True, eq=False)
class CoreLine:
    """One line of a trace. `line`: its number in the file, `n`: its event number, `t`: nanoseconds, `raw`: its bytes."""

    line: int
    n: int
    name: str
    raw: bytes
    t: int

    @property
    def decoded(self) -> dict[str, Any]:
        """All fields of the line. Raises UnreadableTrace: `_head` has not looked at all of it."""
        try:
            decoded: dict[str, Any] = msgspec.json.decode(self.raw)
        except UNREADABLE as error:
            raise UnreadableTrace(self.line, f"is not readable: {error}") from error
        return decoded

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of the line that not all lines have."""
        return {name: value for name, value in self.decoded.items() if name not in COMMON_FIELDS}

    def equals(self, name: str, fields: dict[str, Any]) -> bool:
        """Return whether the line is exactly this event. Compares the bytes first, which is fast and nearly always enough."""
        tail = _encode({"event": name, **fields})[1:]
        if self.raw.endswith(tail + b"\n"):
            return True
        return self.name == name and self.fields == msgspec.json.decode(_encode(fields))


class CoreTrace:
    """The trace of one life. `exit`, after the last line: the exit code of a life that ended by itself, else None."""

    def __init__(self, path: Path, node: int, life: int) -> None:
        self.exit: int | None = None
        self._lines = self._read(path, node, life)

    def boot(self) -> CoreLine | None:
        """Return the first line of the life, which must be its boot, or None if the trace is empty. Call it before `next`."""
        line = next(self._lines, None)
        if line is not None and line.name != "boot":
            raise UnreadableTrace(line.line, f"a life begins with boot, not with {line.name}")
        return line

    def next(self) -> CoreLine | None:
        """Return the next line that the core wrote, None at the end. Raises Unreadable."""
        for line in self._lines:
            if line.name in CORE_EVENTS:
                return line
            if line.name == "exit":
                code = line.decoded.get("code", 0)
                if not isinstance(code, int):
                    raise UnreadableTrace(line.line, f"has the exit code {code!r}")
                self.exit = code
        return None

    def _read(self, path: Path, node: int, life: int) -> Iterator[CoreLine]:
        with path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                if not raw.endswith(b"\n"):
                    return  # killed in the middle of a write, so before any effect of this event
                try:
                    head = _head(raw)
                except UNREADABLE as error:
                    raise UnreadableTrace(number, f"is not readable: {error}") from error
                if (head.node, head.life) != (node, life):
                    raise UnreadableTrace(number, f"is of node {head.node}, life {head.life}")
                if head.n != number:
                    raise UnreadableTrace(number, f"has event number {head.n}, {number} comes here")
                yield CoreLine(number, head.n, head.event, raw, head.t)
