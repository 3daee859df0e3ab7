"""What the store says when the disk can't be trusted. None of these is ever retried: the process ends."""

from types import TracebackType


class DiskFailed(Exception):
    """The disk refused a write, a sync or a directory change. What it holds now is known again only at recovery."""

    def __init__(self, doing: str, cause: OSError) -> None:
        super().__init__(
            f"the disk failed while {doing}: {cause}. This node ends; restart it when the disk works again."
        )
        self.doing = doing
        self.cause = cause


class Corrupt(Exception):
    """Stored bytes are damaged. The node refuses to start and has touched nothing."""

    def __init__(self, file: str, offset: int, why: str) -> None:
        super().__init__(
            f"{file}, offset {offset}: {why}. Nothing was changed. Restore the file from a copy, or wipe this node's "
            "disk: it then rejoins as a node without memory."
        )
        self.file = file
        self.offset = offset
        self.why = why


class CorruptLog(Corrupt):
    """A segment of the write-ahead log is damaged, cut or missing."""


class CorruptSnapshot(Corrupt):
    """The snapshot that the log depends on is damaged, cut or missing."""


class DigestMismatch(Exception):
    """A disk of an ensemble with another digest: with it the node would take all others for wrong. Nothing was touched."""

    def __init__(self, file: str, made: str, told: str) -> None:
        super().__init__(
            f"{file} has a digest by {made}, and the node is configured for {told}. Nothing was changed. Configure it with "
            f'"digest": "{made}", as its ensemble was made, or wipe its disk.'
        )


class disk_operation:  # noqa: N801 - reads as the function that it stands for; a generator would cost each sync three times as much
    """Turn an OSError into DiskFailed, which says what was being done."""

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
