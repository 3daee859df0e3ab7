"""What can be wrong with a disk: slow, full, failing, or losing its power at the next sync."""

import errno
import os
import time
from collections.abc import Callable
from random import Random
from typing import Literal, TypeVar, get_args

Variant = Literal["plain", "torn", "reordered"]
Failing = Literal["write", "sync"]
_File = TypeVar("_File")


class DiskFaults:
    """What is wrong with a disk right now. Set by the control port, obeyed by the disk's files."""

    def __init__(self, *, can_cut_power: bool) -> None:
        self.slow_ms = 0.0  # every sync takes this much longer
        self.full = False  # writes and preallocations raise ENOSPC
        self.error: Failing | None = None  # this operation raises EIO
        self.can_cut_power = can_cut_power
        self._power_cut: tuple[Variant, int] | None = None

    @property
    def power_cut(self) -> tuple[Variant, int] | None:
        """(variant, seed): the next sync that has unsynced bytes is where the power goes."""
        return self._power_cut

    @power_cut.setter
    def power_cut(self, value: tuple[Variant, int] | None) -> None:
        if value is not None:
            self.check_variant(value[0])
        self._power_cut = value

    def check_variant(self, variant: str) -> None:
        """Raises ValueError when this disk can't lose its power that way."""
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
            self._fail_if("write")

    def before_sync(self) -> None:
        if self.slow_ms > 0:
            time.sleep(self.slow_ms / 1000)
        self._fail_if("sync")

    def _fail_if(self, operation: Failing) -> None:
        if self.error == operation:
            raise OSError(errno.EIO, os.strerror(errno.EIO))


class VirtualFaults(DiskFaults):
    """Slowness costs virtual time: `spend` is called once for every sync."""

    def __init__(self, *, can_cut_power: bool, spend: Callable[[], None]) -> None:
        super().__init__(can_cut_power=can_cut_power)
        self._spend = spend

    def before_sync(self) -> None:
        self._spend()
        if self.error is not None:
            self._fail_if("sync")


def survivors(writes: list[tuple[_File, int, bytes]], variant: Variant, seed: int) -> list[tuple[_File, int, bytes]]:
    """Which of the unsynced writes (file, offset, data) reach the platter although nobody synced them.

    "torn": a seeded strict prefix of the bytes. "reordered": a seeded proper subset of the writes, each whole.
    """
    random = Random(seed)
    total = sum(len(data) for _, _, data in writes)
    if variant == "plain" or total == 0:
        return []
    if variant == "reordered":
        return random.sample(writes, random.randrange(len(writes)))
    left = random.randrange(total)
    torn = []
    for file, offset, data in writes:
        torn.append((file, offset, data[:left]))
        left -= min(left, len(data))
    return torn
