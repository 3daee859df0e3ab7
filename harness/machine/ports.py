"""Free ports for one run, below the range from which the kernel takes ports for outgoing connections.

A port that is asked from the kernel (port 0) can be taken by anybody's outgoing connection between the asking and the
listening, and again between a node's death and its restart. Below 32768 only listeners compete, and among our own runs
(parallel tests, several campaigns) a lock file for each port settles who has it.
"""

import atexit
import contextlib
import errno
import fcntl
import os
import random
import socket
import stat
import tempfile
from pathlib import Path

from zab_chaos.harness.errors import HarnessError

LOWEST, HIGHEST = 20000, 32767  # Linux takes ephemeral ports from 32768 up

_held: dict[int, int] = {}  # port -> descriptor of its locked file


class NoFreePortError(HarnessError):
    """Nothing left to listen on."""


def free_ports(count: int) -> list[int]:
    """`count` ports on which nobody listens on 127.0.0.1, kept for this process until it ends or releases them.

    Raises NoFreePortError.
    """
    first = random.randrange(LOWEST, HIGHEST + 1)  # a random start, so that parallel runs seldom meet
    span = HIGHEST + 1 - LOWEST
    found: list[int] = []
    for step in range(span):
        port = LOWEST + (first - LOWEST + step) % span
        if len(found) == count:
            break
        if port not in _held and _take(port):
            found.append(port)
    if len(found) < count:
        release_ports(found)
        raise NoFreePortError(
            f"only {len(found)} of {count} ports between {LOWEST} and {HIGHEST} are free on 127.0.0.1. "
            "End the programs that listen there (`ss -ltnp` names them)."
        )
    return found


def release_ports(ports: list[int]) -> None:
    """Give ports back. The lock file goes first, so that nobody locks a file that is about to vanish unseen."""
    for port in ports:
        descriptor = _held.pop(port, None)
        if descriptor is not None:
            _lock_file(port).unlink(missing_ok=True)
            os.close(descriptor)


def lock_files() -> list[Path]:
    """The lock files of this user's ports that are there, held or not."""
    return sorted(_lock_folder().glob("*.lock")) if _ours(_lock_folder()) else []


def _lock_folder() -> Path:
    """Where the user's own short-lived files go; without such a place, a folder among those of all users."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    base = Path(runtime) if runtime and _ours(Path(runtime)) else Path(tempfile.gettempdir())
    return base / f"zab-ports-{os.getuid()}"


def _ours(folder: Path) -> bool:
    """Whether it is a folder, no link to one, that only this user may use."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077


def _make_lock_folder() -> None:
    """Raises NoFreePortError if somebody else has put something there: nothing is locked or removed in it."""
    folder = _lock_folder()
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    if not _ours(folder) and os.path.lexists(folder):
        raise NoFreePortError(
            f"ports are locked in {folder}, which is no folder that only you may use: somebody else may have made it. "
            "Remove it, or point XDG_RUNTIME_DIR at a folder of yours with mode 0700."
        )


def _lock_file(port: int) -> Path:
    return _lock_folder() / f"{port}.lock"


def _take(port: int) -> bool:
    path = _lock_file(port)
    _make_lock_folder()
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP):
            return False  # another run has just ended and removed the empty folder; or it is a link, and not ours
        raise
    if not _locked(descriptor, path) or not _listenable(port):
        os.close(descriptor)
        return False
    _held[port] = descriptor
    return True


def _locked(descriptor: int, path: Path) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Its last owner may have removed the file between our open and our lock: then the lock is on nothing.
        return os.fstat(descriptor).st_ino == path.stat().st_ino
    except (BlockingIOError, FileNotFoundError):
        return False


def _listenable(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


@atexit.register
def _release_all() -> None:
    release_ports(list(_held))
    with contextlib.suppress(OSError):
        _lock_folder().rmdir()  # succeeds for the last user only
