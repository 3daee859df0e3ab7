"""Errors of the store. None of them is retried: the process ends."""

from types import TracebackType

CORRUPT_EXIT = 65  # exit code of a node that refuses a corrupt disk (results/README.md, `exit`)
DISK_EXIT = 74  # exit code of a node whose disk failed


class DiskFailed(Exception):
    """The disk refused a write, a sync or a directory change. Only recovery can tell what the disk holds now."""

    def __init__(self, doing: str, cause: OSError) -> None:
        super().__init__(
            f"the disk failed while {doing}: {cause}. This node ends; restart it when the disk works again."
        )


class Corrupt(Exception):
    """Stored bytes are damaged. The node refuses to start and has changed nothing."""

    def __init__(self, file: str, offset: int, why: str) -> None:
        super().__init__(
            f"{file}, offset {offset}: {why}. Nothing was changed. Restore the file from a copy, or wipe this node's "
            "disk: it then rejoins as a node without memory."
        )
        self.file = file
        self.offset = offset
        self.why = why


class CorruptLog(Corrupt):
    """A segment of the write-ahead log is damaged, truncated or missing."""


class CorruptSnapshot(Corrupt):
    """The snapshot that the log depends on is damaged, truncated or missing."""


class DigestMismatch(Exception):
    """The disk was written with another digest algorithm than the node is configured for.

    With it the node would disagree with all others. Nothing was changed.
    """

    def __init__(self, file: str, stored: str, configured: str) -> None:
        super().__init__(
            f"{file} has a digest by {stored}, and the node is configured for {configured}. Nothing was changed. "
            f'Configure it with "digest": "{stored}", as its ensemble was made, or wipe its disk.'
        )


class disk_operation:  # noqa: N801 - used like a function; a generator would cost each sync three times as much
    """Context manager that turns an OSError into a DiskFailed that says what was being done."""

    __slots__ = ("_doing",)

    def __init__(self, doing: str) -> None:
        self._doing = doing

    def __enter__(self) -> None:
        return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, OSError):
            raise DiskFailed(self._doing, error) from error
