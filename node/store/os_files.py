"""Operating system calls of the two real disks. Offsets and sizes are bytes."""

import os
from collections.abc import Callable, Collection
from contextlib import suppress
from itertools import count
from pathlib import Path

VOLATILE = ".volatile"  # the hidden folder of files that no durable directory entry names yet
_ZEROS = bytes(2**18)
fdatasync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)


def write_at(fd: int, data: bytes, offset: int) -> None:
    """Write all of `data` at `offset`. pwrite may write less than it was given."""
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, offset)
        view = view[written:]
        offset += written


def write_zeros(fd: int, size: int) -> None:
    """Preallocate with written zeros.

    With posix_fallocate each later fdatasync takes 160 us instead of 100 us (measured on ext4).
    """
    for offset in range(0, size, len(_ZEROS)):
        write_at(fd, _ZEROS[: size - offset], offset)


def sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def open_new(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)


def open_existing(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CLOEXEC)


def create_numbered_file(folder: Path) -> Path:
    """Create an empty file under the first unused number, and return its path."""
    for number in count():
        with suppress(FileExistsError):
            os.close(open_new(folder / str(number)))
            return folder / str(number)
    raise AssertionError("numbers do not end")


def clear_volatile(root: Path, keep: Collection[str] = ()) -> None:
    """Delete the hidden folder's files except `keep`, which are paths relative to `root`."""
    for lost in (root / VOLATILE).glob("*"):
        if str(lost.relative_to(root)) not in keep:
            lost.unlink()
