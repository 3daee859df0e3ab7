"""How much one life has done so far: frames, messages by kind, and syncs of its log. It is told now and then in the trace.

A life that is killed tells nothing more, so the numbers are written while it goes on: when its phase has changed (so that what
an election cost can be told from the rest), and otherwise once a second.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from zab_chaos.node.core.messages import Phase

REPORT_INTERVAL = 1_000_000_000  # nanoseconds


class WorkCounters:
    """Counts from the life's begin on."""

    def __init__(self) -> None:
        self.frames = 0
        self._messages: defaultdict[Any, int] = defaultdict(int)  # by class
        self._phase: Phase | None = None
        self._told = -REPORT_INTERVAL

    def count_sent(self, frames: int, messages: Iterable[tuple[int, Any]]) -> None:
        """So many frames with these messages, each to a peer, were given to links. Whether they arrive, the peers' `channel`
        events say."""
        self.frames += frames
        counts = self._messages
        for _, message in messages:
            counts[type(message)] += 1

    def due(self, phase: Phase, now: int) -> bool:
        """Whether it is time to tell; then the next second begins."""
        if phase is self._phase and now - self._told < REPORT_INTERVAL:
            return False
        self._phase, self._told = phase, now
        return True

    def fields(self, syncs: int) -> dict[str, Any]:
        """The trace event `work`. `syncs`: how often the log was synced."""
        messages = {str(kind.__struct_config__.tag): count for kind, count in self._messages.items()}
        return {"frames": self.frames, "messages": dict(sorted(messages.items())), "syncs": syncs}
