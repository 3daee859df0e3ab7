"""The trace: what one life of a node did, one JSON object a line (results/README.md lists the events).

Lines are buffered and written with one write(2) before the effect leaves the process. So a SIGKILL loses no event whose
effect was visible outside, and a batch costs one system call.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from zab_chaos.node.append_file import NodeFile


class Trace:
    """Appends to `<folder>/node-<id>-<life>.jsonl`. `clock`: nanoseconds for the field `t`. Raises DiskFailed."""

    def __init__(self, folder: str, node: int, life: int, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._file = NodeFile(Path(folder) / f"node-{node}-{life}.jsonl")
        self._encode = msgspec.json.Encoder().encode
        self._clock = clock
        self._node = node
        self._life = life
        self._n = 0
        self._lines: list[bytes] = []

    def add(self, event: str, fields: dict[str, Any]) -> None:
        """Buffer one event; `flush` writes it."""
        self._n += 1
        common = {"t": self._clock(), "node": self._node, "life": self._life, "n": self._n, "event": event}
        self._lines.append(self._encode(common | fields))

    def flush(self) -> None:
        """Write the buffered events. Call it before any effect of them leaves the process. Raises DiskFailed."""
        if self._lines:
            data = b"\n".join(self._lines) + b"\n"
            self._lines.clear()
            self._file.write(data)

    def close(self) -> None:
        self.flush()
        self._file.close()
