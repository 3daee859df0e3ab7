"""Reserves free ports for one run, below the range from which the kernel takes ports for outgoing connections.

A port that the kernel chooses (port 0) can be taken by an outgoing connection of any process before we listen on it, and
again between a node's death and its restart. Below 32768 only listeners compete. Among our own runs (parallel tests,
several campaigns) a lock file for each port decides who has it.
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

_held: dict[int, int] = {}  # the descriptor of the locked file, by port


class NoFreePortError(HarnessError):
    """There are not enough free ports, or ports can't be locked."""


def free_ports(count: int) -> list[int]:
    """Reserve and return `count` ports on which nobody listens on 127.0.0.1.

    They are kept until this process ends or releases them. Raises NoFreePortError.
    """
    first = random.randrange(LOWEST, HIGHEST + 1)  # a random start, so that parallel runs seldom try the same ports
    span = HIGHEST + 1 - LOWEST
    found: list[int] = []
    for step in range(span):
        port = LOWEST + (first - LOWEST + step) % span
        if len(found) == count:
            break
        if port not in _held and _reserve(port):
            found.append(port)
    if len(found) < count:
        release_ports(found)
        raise NoFreePortError(
            f"only {len(found)} of {count} ports between {LOWEST} and {HIGHEST} are free on 127.0.0.1. "
            "End the programs that listen there (`ss -ltnp` names them)."
        )
    return found


def release_ports(ports: list[int]) -> None:
    """Release ports. The lock file is removed before it is unlocked: else another process could lock a file that then
    vanishes."""
    for port in ports:
        descriptor = _held.pop(port, None)
        if descriptor is not None:
            _lock_file(port).unlink(missing_ok=True)
            os.close(descriptor)


def lock_files() -> list[Path]:
    """Return the existing lock files of this user's ports, locked or not."""
    return sorted(_lock_folder().glob("*.lock")) if _is_private(_lock_folder()) else []


def _lock_folder() -> Path:
    """Return the folder of the lock files: in the user's runtime folder, or else in the folder for temporary files."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    base = Path(runtime) if runtime and _is_private(Path(runtime)) else Path(tempfile.gettempdir())
    return base / f"zab-ports-{os.getuid()}"


def _is_private(folder: Path) -> bool:
    """Return whether it is a folder, not a link to one, that belongs to this user and that nobody else may use."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077


def _make_lock_folder() -> None:
    """Create the folder of the lock files. Raises NoFreePortError, and touches nothing, if it is not private."""
    folder = _lock_folder()
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    if not _is_private(folder) and os.path.lexists(folder):
        raise NoFreePortError(
            f"ports are locked in {folder}, which is not a folder that only you may use; another user may have created it. "
            "Remove it, or point XDG_RUNTIME_DIR at a folder of yours with mode 0700."
        )


def _lock_file(port: int) -> Path:
    return _lock_folder() / f"{port}.lock"


def _reserve(port: int) -> bool:
    path = _lock_file(port)
    _make_lock_folder()
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP):
            return False  # another run has just removed the empty folder; or the file is a link, so it is not ours
        raise
    if not _locked(descriptor, path) or not _listenable(port):
        os.close(descriptor)
        return False
    _held[port] = descriptor
    return True


def _locked(descriptor: int, path: Path) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The last owner may have removed the file between our open and our lock; then we have locked a removed file.
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
        _lock_folder().rmdir()  # succeeds only for the last process that uses it
