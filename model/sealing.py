"""Keeps what others write to a run's folder out of its manifest's way: a client may outlive its ensemble."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

MANIFEST = "manifest.json"  # a folder that has it is sealed: nothing else is written to it any more


@contextmanager
def sealing(folder: Path) -> Iterator[None]:
    """Keep others from writing to the folder while its manifest is written."""
    with _opened(folder) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


@contextmanager
def unsealed(folder: Path) -> Iterator[bool]:
    """Yield whether one may still write to the folder: it exists and is not sealed. Meanwhile it will not be."""
    with ExitStack() as stack:
        try:
            fcntl.flock(stack.enter_context(_opened(folder)), fcntl.LOCK_SH)
            open_still = not (folder / MANIFEST).exists()
        except FileNotFoundError:
            open_still = False
        yield open_still


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
