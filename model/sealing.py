"""Keeps what others write to a run's folder out of its manifest's way: a client may outlive its ensemble."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MANIFEST = "manifest.json"  # a folder that has it is sealed: nothing else is written to it any more


@contextmanager
def sealing(folder: Path) -> Iterator[None]:
    """Keep others from writing to the folder while its manifest is written."""
    with _locked(folder, fcntl.LOCK_EX):
        yield


@contextmanager
def unsealed(folder: Path) -> Iterator[bool]:
    """Yield whether one may still write to the folder. Meanwhile it is not sealed."""
    with _locked(folder, fcntl.LOCK_SH):
        yield not (folder / MANIFEST).exists()


@contextmanager
def _locked(folder: Path, how: int) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, how)
        yield
    finally:
        os.close(descriptor)
