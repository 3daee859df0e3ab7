"""The exit code and the reason of a life that an error ends."""

from zab_chaos.node.driver import Aborted
from zab_chaos.node.recorded import TraceSink
from zab_chaos.node.store.errors import CORRUPT_EXIT, DISK_EXIT, Corrupt, DigestMismatch, DiskFailed

SANITY = 70  # a sanity check failed, or the node's code raised an error that it does not handle
EXIT_CODES: dict[type[Exception], int] = {
    Corrupt: CORRUPT_EXIT, Aborted: SANITY, DiskFailed: DISK_EXIT, DigestMismatch: 78
}  # fmt: skip
HANDLED = tuple(EXIT_CODES)  # for `except`


def exit_code(error: Exception) -> int:
    """Return the exit code of a life that `error` ends."""
    return next((code for kind, code in EXIT_CODES.items() if isinstance(error, kind)), SANITY)


def reason(error: Exception) -> str:
    """Return why the life ends, for the trace."""
    return str(error) if isinstance(error, HANDLED) else f"{type(error).__name__}: {error}"


def trace_failure(trace: TraceSink | None, error: Exception) -> tuple[int, str]:
    """Trace an abort if `error` is one. Return the exit code and the reason of the life that it ends, for its last line."""
    code, why = exit_code(error), reason(error)
    if code == SANITY and trace is not None:
        trace.add("abort", {"why": why})
    return code, why
