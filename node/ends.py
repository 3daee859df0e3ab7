"""With which exit code a life ends by its own decision."""

from zab_chaos.node.driver import Aborted
from zab_chaos.node.store.errors import Corrupt, DiskFailed

ENDS: dict[type[Exception], int] = {Corrupt: 65, Aborted: 70, DiskFailed: 74}
OWN = tuple(ENDS)  # for `except`


def exit_code(error: Exception) -> int:
    """Of an error that is one of OWN."""
    return next(code for kind, code in ENDS.items() if isinstance(error, kind))
