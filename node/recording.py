"""The recording: every input of a node's core, in order, so that the deterministic model can re-execute the life.

A file of MessagePack arrays, one after the other: `[kind, ...]`. The first is `["boot", settings, recovered]`; then
`link_up`, `link_down`, `step`, `tick`, `synced`, `submit`, `snapshot` with their arguments, and `["ready", checksum]` for each
Ready that was not empty, with the CRC-32 of its encoding: what a re-execution must reproduce.
"""

import os
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec

from node.core.ready import Ready

_encode = msgspec.msgpack.Encoder().encode


def checksum(ready: Ready) -> int:
    """CRC-32 over everything that a Ready obliges its driver to."""
    return crc32(
        _encode(
            [
                ready.resets,
                ready.events,
                ready.messages,
                [[type(record).__name__, record] for record in ready.records],
                ready.upto,
                ready.events_after_sync,
                ready.messages_after_sync,
                ready.deliveries,
                ready.abort,
            ]
        )
    )


class Recording:
    """Appends to `<folder>/node-<id>-<life>.bin`; like the trace, written before the effect leaves."""

    def __init__(self, folder: str, node: int, life: int) -> None:
        path = Path(folder) / f"node-{node}-{life}.bin"
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._parts: list[bytes] = []

    def add(self, kind: str, *arguments: Any) -> None:
        self._parts.append(_encode([kind, *arguments]))

    def flush(self) -> None:
        if self._parts:
            data = b"".join(self._parts)
            self._parts.clear()
            while data:
                data = data[os.write(self._fd, data) :]

    def close(self) -> None:
        self.flush()
        os.close(self._fd)
