"""How many operations hand-held clients asked for, and what became of them."""

from zab_chaos.harness.workload.open_loop import Counters


class OutcomeCounts:
    """How many operations there were, by outcome, over all clients."""

    def __init__(self) -> None:
        self._counts = {"invoked": 0, "ok": 0, "failed": 0, "unknown": 0}

    def add(self, name: str) -> None:
        self._counts[name] += 1

    @property
    def counters(self) -> Counters:
        return Counters(**self._counts)
