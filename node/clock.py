"""The node's clock: monotonic, and wrong on purpose.

A node measures every timeout with its own `Clock`, so that the faults `clock-rate` and `clock-jump` reach all of them and
nothing else. Zab's safety must not depend on any timeout. Traces use the host's clock, not this one.
"""

import time
from collections.abc import Callable
from math import trunc

SLOWEST = 0.5
FASTEST = 2.0


class Clock:
    """A clock in nanoseconds that never goes back. It runs at `rate` times the pace of `source`, plus jumps."""

    def __init__(self, source: Callable[[], int] = time.monotonic_ns) -> None:
        self._source = source
        self._rate = 1.0
        self._real = source()  # the source's time at the last change of the rate or jump
        self._shown = self._real  # this clock's time at that moment
        self._latest = self._changed = self._shown

    def now_ns(self) -> int:
        """Return the time in nanoseconds, never less than an earlier call returned."""
        return self.at(self._source())

    def at(self, source_ns: int) -> int:
        """Return the time as `now_ns` does, for a caller that knows the source's time."""
        now = self._shown + trunc((source_ns - self._real) * self._rate)
        if now < self._latest:
            return self._latest
        self._latest = now
        return now

    @property
    def changed_ns(self) -> int:
        """What it showed at the last change of its rate or jump. A later reading includes some time at the new rate."""
        return self._changed

    @property
    def rate(self) -> float:
        """Seconds of this clock in one second of the source."""
        return self._rate

    @rate.setter
    def rate(self, rate: float) -> None:
        """Run at `rate`, 0.5 to 2.0, from now on. Raises ValueError."""
        if not SLOWEST <= rate <= FASTEST:
            raise ValueError(f"a clock's rate is {SLOWEST} to {FASTEST}, not {rate}")
        self._rebase(0)
        self._rate = float(rate)

    def jump(self, nanoseconds: int) -> None:
        """Jump ahead or, if negative, stand still until the source has caught up."""
        self._rebase(nanoseconds)

    def _rebase(self, jump: int) -> None:
        real = self._source()
        self._shown += trunc((real - self._real) * self._rate) + jump
        self._real = real
        self._changed = max(self._shown, self._latest)
