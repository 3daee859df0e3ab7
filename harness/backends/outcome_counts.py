"""Counts the operations of clients that are used by hand, by outcome."""

from zab_chaos.harness.workload.open_loop import Counters


class OutcomeCounts:
    """The numbers of operations that were invoked, and ended ok, failed or unknown, over all clients."""

    def __init__(self) -> None:
        self._counts = {"invoked": 0, "ok": 0, "failed": 0, "unknown": 0}

    def add(self, name: str) -> None:
        """Count one operation. `name`: invoked, ok, failed or unknown."""
        self._counts[name] += 1

    @property
    def counters(self) -> Counters:
        return Counters(**self._counts, trouble="")
