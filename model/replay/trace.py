"""The trace as a replay reads it: the lines that the core's own doing must have left, in order.

A line of the network's, the clients' or the disk's (`channel`, `client`, `refused`, ...) is passed over, but counted: the
event numbers of a life have no gaps.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

CORE = frozenset(
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
COMMON = ("t", "node", "life", "n", "event")

_encode = msgspec.json.Encoder().encode


class _Head(msgspec.Struct):
    """What every line begins with."""

    node: int
    life: int
    n: int
    event: str
    t: int = 0


_head = msgspec.json.Decoder(_Head).decode


class Unreadable(Exception):
    """A line is not what a node wrote."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(why)
        self.line = line


class CoreLine:
    """One line: its number in the file, its event's number in the life, its time (nanoseconds), and its bytes."""

    __slots__ = ("line", "n", "name", "raw", "t")

    def __init__(self, line: int, n: int, name: str, raw: bytes, t: int) -> None:
        self.line = line
        self.n = n
        self.name = name
        self.raw = raw
        self.t = t

    @property
    def whole(self) -> dict[str, Any]:
        """Everything that the line says."""
        said: dict[str, Any] = msgspec.json.decode(self.raw)
        return said

    @property
    def fields(self) -> dict[str, Any]:
        """Without what all lines have in common."""
        return {name: value for name, value in self.whole.items() if name not in COMMON}

    def says(self, name: str, fields: dict[str, Any]) -> bool:
        """Whether the line is exactly this event. The bytes decide where they agree: nearly always, and fast."""
        tail = _encode({"event": name, **fields})[1:]
        if self.raw.endswith(tail + b"\n"):
            return True
        return self.name == name and self.fields == msgspec.json.decode(_encode(fields))


class CoreTrace:
    """One life's trace. `exit` is, at the end, the code with which the life ended by itself; None if it was killed."""

    def __init__(self, path: Path, node: int, life: int) -> None:
        self.exit: int | None = None
        self._lines = self._read(path, node, life)

    def boot(self) -> CoreLine | None:
        """The life's first line; to be asked for before `next`. None if there is not even that."""
        line = next(self._lines, None)
        if line is not None and line.name != "boot":
            raise Unreadable(line.line, f"a life begins with boot, not with {line.name}")
        return line

    def next(self) -> CoreLine | None:
        """The next line that is the core's doing, None at the end. Raises Unreadable."""
        for line in self._lines:
            if line.name in CORE:
                return line
            if line.name == "exit":
                self.exit = int(line.whole.get("code", 0))
        return None

    def _read(self, path: Path, node: int, life: int) -> Iterator[CoreLine]:
        with path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                if not raw.endswith(b"\n"):
                    return  # a kill in the middle of a write; what was to be seen of it was not yet to be seen
                try:
                    head = _head(raw)
                except msgspec.MsgspecError as error:
                    raise Unreadable(number, f"is not readable: {error}") from error
                if (head.node, head.life) != (node, life):
                    raise Unreadable(number, f"is of node {head.node}, life {head.life}")
                if head.n != number:
                    raise Unreadable(number, f"has event number {head.n}, {number} comes here")
                yield CoreLine(number, head.n, head.event, raw, head.t)
