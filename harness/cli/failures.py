"""The messages of the errors that end a command with HARNESS-ERROR."""

import errno
import tempfile
import traceback

from zab_chaos.harness.errors import HarnessError

INACCESSIBLE = (
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP,
)  # fmt: skip


def failure_message(error: Exception) -> str:
    """Return the message of an error that makes a command end with HARNESS-ERROR."""
    if isinstance(error, HarnessError):
        return str(error)
    return _file_error(error) if isinstance(error, OSError) else _internal_error(error)


def _file_error(error: OSError) -> str:
    """Say what the user can do about an error of the operating system. A file that is missing is an internal error: commands
    report those that a user names."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk is full: {error}. Free some space, or use --results DIR."
    if error.errno == errno.EFBIG:
        return f"a file has reached the largest size that is allowed: {error}. Raise the limit (ulimit -f)."
    if error.errno in INACCESSIBLE and error.filename is not None:
        return f"{error.filename} cannot be used: {error.strerror}. Make it accessible, or choose another place."
    return _internal_error(error)


def _internal_error(error: Exception) -> str:
    """Write the traceback to a file. Return a message with the error and the path of that file."""
    try:
        with tempfile.NamedTemporaryFile("w", prefix="zab-error-", suffix=".log", delete=False) as file:
            traceback.print_exception(error, file=file)
    except OSError as write_error:
        return f"internal error: {type(error).__name__}: {error}\nThe traceback could not be written: {write_error}"
    return f"internal error: {type(error).__name__}: {error}\nThe traceback is in {file.name}. Please report it."
