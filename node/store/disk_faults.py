"""Faults of a disk: slow, full, failing, or losing its power at the next sync.

Also which unsynced bytes and directory changes survive a power cut.
"""

import errno
import os
import time
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Literal, TypeVar, get_args

Variant = Literal["plain", "torn", "reordered", "pages", "killed"]
"""What a power cut leaves of unsynced bytes and of directory changes that no sync covered. It is drawn from a seed.

- plain: nothing.
- torn: a strict prefix of the bytes, and a prefix of the changes.
- reordered: a proper subset of the writes, each whole, and a prefix of the changes.
- pages: for each file a subset of the 4 KiB pages, and a subset of the changes. A file may exist without its bytes, and a
  later change without an earlier one.
- killed: no power cut; only the process dies. The page cache has all the bytes, or a strict prefix of them if the process
  dies in the middle of a write, and all the changes. The next life sees them, but none is durable.
"""
PAGE = 4096
FULLY_WRITTEN_PROBABILITY = 0.5  # that a killed process had written everything it was about to write
FailingOperation = Literal["write", "sync"]
_File = TypeVar("_File")
_Change = TypeVar("_Change")


class DiskFaults:
    """The faults of one disk at present. The control port sets them, and the disk's files obey them."""

    def __init__(self, *, can_cut_power: bool) -> None:
        self.slow_ms = 0.0  # how much longer every sync takes
        self.slowed = 0  # number of syncs that were measured to be slowed down
        self.full = False  # writes and preallocations raise ENOSPC
        self.error: FailingOperation | None = None  # the operation that raises EIO
        self.error_once = False  # only the next such operation does
        self.failed = 0  # number of operations that did
        self.stays_readable = False  # after a failed sync: its bytes stay readable and count as clean
        self.can_cut_power = can_cut_power
        # (variant, seed) of a power cut at the next sync that has unsynced bytes; see `arm_power_cut`
        self.power_cut: tuple[Variant, int] | None = None

    def arm_power_cut(self, variant: Variant, seed: int) -> None:
        """Let the next sync that has unsynced bytes cut the power. Raises ValueError as `check_variant`."""
        self.check_variant(variant)
        self.power_cut = (variant, seed)

    def check_variant(self, variant: str) -> None:
        """Raise ValueError if this disk can't lose its power that way."""
        if not self.can_cut_power:
            raise ValueError(
                f"power cut ({variant}): an ordinary disk keeps unsynced bytes when its process dies, so it can't lose "
                "them; run the node on a faithful disk (faithful = true), or use `crash`"
            )
        if variant not in get_args(Variant):
            raise ValueError(f"power cut: variant {variant!r} is unknown; allowed: {', '.join(get_args(Variant))}")

    def before_write(self) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self.error is not None:
            self.fail_if("write")

    def before_sync(self) -> None:
        if self.slow_ms > 0:
            started = time.monotonic()
            time.sleep(self.slow_ms / 1000)
            self.slowed += time.monotonic() - started >= self.slow_ms / 1000
        self.fail_if("sync")

    def fail_if(self, operation: FailingOperation) -> None:
        """Raise EIO if this operation is to fail."""
        if self.error == operation:
            self.failed += 1
            if self.error_once:
                self.error = None
            raise OSError(errno.EIO, os.strerror(errno.EIO))


class VirtualFaults(DiskFaults):
    """Disk faults in virtual time: `spend` is called once for each sync instead of sleeping."""

    def __init__(self, *, can_cut_power: bool, spend: Callable[[], None]) -> None:
        super().__init__(can_cut_power=can_cut_power)
        self._spend = spend

    def before_sync(self) -> None:
        self._spend()
        if self.error is not None:
            self.fail_if("sync")


def surviving_writes(
    writes: list[tuple[_File, int, bytes]], variant: Variant, random: Random
) -> list[tuple[_File, int, bytes]]:
    """Return the unsynced writes (file, offset, data) that a power cut leaves on the disk; see `Variant`."""
    total = sum(len(data) for _, _, data in writes)
    if variant == "plain" or total == 0:
        return []
    if variant == "pages":
        return list(_pages(writes, random))
    if variant == "reordered":
        return random.sample(writes, random.randrange(len(writes)))
    left = total if variant == "killed" and random.random() < FULLY_WRITTEN_PROBABILITY else random.randrange(total)
    torn = []
    for file, offset, data in writes:
        if left > 0 and data:
            torn.append((file, offset, data[:left]))
        left -= len(data)
    return torn


def _pages(writes: list[tuple[_File, int, bytes]], random: Random) -> Iterator[tuple[_File, int, bytes]]:
    kept: dict[tuple[_File, int], bool] = {}
    for file, offset, data in writes:
        for page in range(offset // PAGE, -(-(offset + len(data)) // PAGE)):
            if (file, page) not in kept:
                kept[file, page] = random.random() < 0.5
            if kept[file, page]:
                start, end = max(offset, page * PAGE), min(offset + len(data), (page + 1) * PAGE)
                yield file, start, data[start - offset : end - offset]


def surviving_changes(changes: Sequence[_Change], variant: Variant, random: Random) -> list[_Change]:
    """Return the pending directory changes that a power cut leaves on the disk; see `Variant`."""
    if variant == "plain":
        return []
    if variant == "pages":
        return [change for change in changes if random.random() < 0.5]
    return list(changes[: random.randrange(len(changes) + 1)])
