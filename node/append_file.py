"""A file that is only appended to."""

import os
from pathlib import Path

from zab_chaos.node.store.errors import disk_operation


class AppendFile:
    """Appends buffers as a whole: write(2) may write less than it was given.

    The file is created if it does not exist. Nothing is buffered or synced. Opening and writing raise OSError.
    """

    def __init__(self, path: Path, mode: int = 0o600) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, mode)

    def write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[os.write(self._fd, left) :]

    def close(self) -> None:
        os.close(self._fd)


class NodeFile(AppendFile):
    """A file that one life of a node appends to. Opening and writing raise DiskFailed."""

    def __init__(self, path: Path) -> None:
        self._doing = f"writing {path}"
        with disk_operation(self._doing):
            super().__init__(path, 0o644)  # the harness reads it, and in a container the node is another user

    def write(self, data: bytes) -> None:
        with disk_operation(self._doing):
            super().write(data)
