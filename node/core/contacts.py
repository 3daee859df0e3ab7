"""Which peers a node has a session with, and which of them have fallen silent."""


class Contacts:
    """Open sessions by peer. `patience`: how long one may be silent, in nanoseconds, as all times here."""

    def __init__(self, patience: int) -> None:
        self.links: set[int] = set()
        self.heard: dict[int, int] = {}  # when a peer was last heard, as of the last tick
        self.fresh: set[int] = set()  # who was heard since
        self.silent_at = 0  # before that no session can have been silent for too long
        self._patience = patience

    def open(self, peer: int, now: int) -> None:
        self.links.add(peer)
        self.heard[peer] = now
        self.silent_at = min(self.silent_at, now + self._patience + 1)

    def note_fresh(self, now: int) -> None:
        """Time has come to `now`, and what has arrived was taken before."""
        for peer in self.fresh:
            self.heard[peer] = now
        self.fresh.clear()

    def silent(self, now: int) -> list[int]:
        """Whose sessions nothing came in for too long."""
        latest = now - self._patience
        return sorted([peer for peer in self.links if self.heard[peer] < latest])

    def look_again(self, now: int) -> None:
        """The next look is due when one of those that are left could be silent."""
        heard = [self.heard[peer] for peer in self.links]
        self.silent_at = min(heard, default=now) + self._patience + 1

    def wakes_at(self, latest: int) -> int:
        """When the first session that stays silent is to be closed, or `latest` if that is sooner."""
        for peer in self.links:
            if peer not in self.fresh and self.heard[peer] + self._patience + 1 < latest:
                latest = self.heard[peer] + self._patience + 1
        return latest
