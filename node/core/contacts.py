"""The peers that a node has a session with, and when it last received something from each."""


class Contacts:
    """Open sessions by peer, and the detection of peers that have fallen silent.

    `timeout`: how long a peer may be silent. All times are nanoseconds of the node's clock.
    """

    def __init__(self, timeout: int) -> None:
        self.links: set[int] = set()
        self.last_heard: dict[int, int] = {}  # by peer; updated at each tick
        self.heard_since_tick: set[int] = set()  # peers heard since the last tick
        self.next_check = 0  # before this time no session can have been silent for too long
        self._timeout = timeout

    def open(self, peer: int, now: int) -> None:
        self.links.add(peer)
        self.last_heard[peer] = now
        self.next_check = min(self.next_check, now + self._timeout + 1)

    def record_heard(self, now: int) -> None:
        """Record that the peers in `heard_since_tick` were heard by `now`."""
        for peer in self.heard_since_tick:
            self.last_heard[peer] = now
        self.heard_since_tick.clear()

    def silent(self, now: int) -> list[int]:
        """Return the peers that have been silent for longer than the timeout, ascending."""
        latest = now - self._timeout
        return sorted([peer for peer in self.links if self.last_heard[peer] < latest])

    def schedule_check(self, now: int) -> None:
        """Compute when the next of the open sessions could have been silent for too long."""
        times = [self.last_heard[peer] for peer in self.links]
        self.next_check = min(times, default=now) + self._timeout + 1

    def wakes_at(self, latest: int) -> int:
        """Return when the first silent session has to be closed, or `latest` if that is earlier."""
        for peer in self.links:
            if peer not in self.heard_since_tick and self.last_heard[peer] + self._timeout + 1 < latest:
                latest = self.last_heard[peer] + self._timeout + 1
        return latest
