"""Records which frames were handed to the server, for the `channel` trace event (results/README.md).

It sees only the frames that were handed out. So if a link does not check, its violations of prefix and single iteration
show. Greetings use up no sequence numbers, so each run of a sound channel begins at 0.
"""

from dataclasses import dataclass
from typing import Literal

Ended = Literal["closed", "gap", "session", "exit"]


@dataclass(frozen=True, slots=True)
class ChannelRun:
    """Frames `first` to `last` of one session, without a gap, from life `incarnation` of `peer`."""

    peer: int
    incarnation: int
    session: int
    first: int
    last: int
    ended: Ended


class FrameRuns:
    """The open run of each peer, and the runs that have ended."""

    def __init__(self) -> None:
        self._open: dict[int, list[int]] = {}  # by peer: incarnation, session, first, last
        self.ended: list[ChannelRun] = []  # not fetched yet

    def add(self, peer: int, incarnation: int, session: int, sequence: int) -> None:
        """Record that a frame of messages was handed out."""
        run = self._open.get(peer)
        if run is not None:
            if run[0] == incarnation and run[1] == session:
                if sequence == run[3] + 1:
                    run[3] = sequence
                    return
                self.end(peer, "gap")
            else:
                self.end(peer, "session")
        self._open[peer] = [incarnation, session, sequence, sequence]

    def end(self, peer: int, ended: Ended) -> None:
        """End the peer's run, if there is one."""
        run = self._open.pop(peer, None)
        if run is not None:
            self.ended.append(ChannelRun(peer, run[0], run[1], run[2], run[3], ended))

    def end_all(self) -> None:
        """End all runs: the process ends by its own decision."""
        for peer in sorted(self._open):
            self.end(peer, "exit")

    def fetch(self) -> list[ChannelRun]:
        """Return the runs that ended since the last call."""
        ended, self.ended = self.ended, []
        return ended
