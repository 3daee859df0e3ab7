"""The dead man's switch of a node that no parent holds: it ends when nobody has asked it anything for too long.

In a container neither a pipe nor the kernel tells a node that its harness is gone, so the harness asks it for its status
all the time (`zab_chaos.harness.backends.containers.ensemble`), and a node that hears nothing more ends by itself.
"""

import time
from collections.abc import Callable

LONGEST_ROUND_NS = 1_000_000_000  # the longest round that counts in full


class Watchdog:
    """Measured on the host's clock, which no fault makes wrong, and only while this process runs: a node that was
    frozen must not take its own sleep for the harness's death before it has looked for what was asked meanwhile.
    """

    def __init__(self, limit_ms: int, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._limit = limit_ms * 1_000_000
        self._clock = clock
        self._last = clock()
        self._silent = 0

    def expired(self, contacted: bool) -> bool:
        """To be asked in every round. `contacted`: something was asked of this node since."""
        now = self._clock()
        self._silent = 0 if contacted else self._silent + min(now - self._last, LONGEST_ROUND_NS)
        self._last = now
        return self._silent > self._limit
