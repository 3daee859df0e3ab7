"""Counts the work of one life: frames, messages by kind, and syncs of its log. The counts are traced as `work` events.

A killed life can't write a final count. So the counts are traced while it runs: when the phase has changed (to tell the
cost of an election from the rest), and otherwise once a second.
"""

from collections import defaultdict
from typing import Any

from zab_chaos.node.core.messages import Phase

REPORT_INTERVAL = 1_000_000_000  # nanoseconds


class WorkCounters:
    """Counts since the start of the life."""

    def __init__(self) -> None:
        # Given to links; the `channel` events of the peers say whether they arrived.
        self.frames = 0
        self.messages: defaultdict[Any, int] = defaultdict(int)  # by class
        self._phase: Phase | None = None
        self._due = 0  # when the counts are traced next, if the phase does not change before

    def due(self, phase: Phase, now: int) -> bool:
        """Return whether the counts are to be traced now. If so, the next interval begins."""
        if phase is self._phase and now < self._due:
            return False
        self._phase, self._due = phase, now + REPORT_INTERVAL
        return True

    def fields(self, syncs: int) -> dict[str, Any]:
        """Return the fields of the event `work`. `syncs`: how often the log was synced."""
        messages = {str(kind.__struct_config__.tag): count for kind, count in self.messages.items()}
        return {"frames": self.frames, "messages": dict(sorted(messages.items())), "syncs": syncs}
