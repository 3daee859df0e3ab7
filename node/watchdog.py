"""The watchdog of a node without a parent process: the node ends when its control port has had no request for too long.

In a container neither a pipe nor the kernel tells a node that its harness is gone. So the harness keeps asking for its
status (`zab_chaos.harness.backends.containers.ensemble`), and a node that gets no more requests ends by itself.
"""

import time
from collections.abc import Callable

LONGEST_ROUND_NS = 1_000_000_000  # longer rounds count as this long


class Watchdog:
    """Measures the time without a request.

    It uses the host's clock, which no fault changes, and counts only while this process runs: a node that was frozen must
    not take its own sleep for the end of the harness before it has looked for requests.
    """

    def __init__(self, limit_ms: int, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._limit = limit_ms * 1_000_000
        self._clock = clock
        self._last = clock()
        self._silent = 0

    def expired(self, contacted: bool) -> bool:
        """Return whether the limit has passed. Call it in every round; `contacted`: a request came since the last call."""
        now = self._clock()
        self._silent = 0 if contacted else self._silent + min(now - self._last, LONGEST_ROUND_NS)
        self._last = now
        return self._silent > self._limit
