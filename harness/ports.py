"""Free ports for one run, below the range from which the kernel takes ports for outgoing connections.

A port that is asked from the kernel (port 0) can be taken by anybody's outgoing connection between the asking and the
listening, and again between a node's death and its restart. Below 32768 only listeners compete, and among our own runs
(parallel tests, several campaigns) a lock file for each port settles who has it.
"""

import atexit
import contextlib
import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

LOWEST, HIGHEST = 20000, 32767  # Linux takes ephemeral ports from 32768 up

_held: dict[int, int] = {}  # port -> descriptor of its locked file


class NoFreePortError(Exception):
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
    return sorted(_lock_folder().glob("*.lock"))


def _lock_folder() -> Path:
    return Path(tempfile.gettempdir()) / f"zab-ports-{os.getuid()}"


def _lock_file(port: int) -> Path:
    return _lock_folder() / f"{port}.lock"


def _take(port: int) -> bool:
    path = _lock_file(port)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        return False  # another run has just ended and removed the empty folder; the next port makes it anew
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
