"""The one way to the file system. (Contract; see `Disk`.)"""

from typing import Protocol


class DiskFile(Protocol):
    """An open file of a disk, written at its end only."""

    name: str
    size: int  # bytes written so far, synced or not (not counting preallocation)

    def write(self, data: bytes) -> None:
        """Append. Not durable until `sync`. Raises OSError (ENOSPC, EIO)."""

    def sync(self) -> None:
        """Make all that was written durable (fdatasync). Raises OSError; then nothing may be assumed."""

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes, durably. Raises OSError."""

    def close(self) -> None: ...


class Disk(Protocol):
    """A flat folder of files whose unsynced bytes can really be lost."""

    def list(self) -> list[str]: ...
    def read(self, name: str) -> bytes: ...
    def create(self, name: str, preallocate: int = 0) -> DiskFile: ...
    def open(self, name: str, size: int) -> DiskFile: ...
    def rename(self, old: str, new: str) -> None: ...
    def remove(self, name: str) -> None: ...
    def sync_directory(self) -> None:
        """Make creations, renames and removals durable."""
