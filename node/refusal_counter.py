"""Counts refusals, so that a flood of them does not become a flood of reports."""

from zab_chaos.node.events import Refused

REPORT_NS = 1_000_000_000  # each kind is reported at once the first time, then at most once a second


class RefusalCounter:
    """Refusals by kind and peer."""

    def __init__(self) -> None:
        self._open: dict[
            tuple[str, int | None], tuple[int, str]
        ] = {}  # not reported yet: their number and the latest reason
        self._seen: set[tuple[str, int | None]] = set()
        self._next_ns = 0

    @property
    def waiting(self) -> bool:
        """Whether some refusals were not reported yet."""
        return bool(self._open)

    def add(self, what: str, why: str, peer: int | None) -> Refused | None:
        """Count one refusal. Return the report if it is the first of its kind."""
        key = (what, peer)
        if key not in self._seen:
            self._seen.add(key)
            return Refused(what, why, peer, 1)
        self._open[key] = (self._open.get(key, (0, ""))[0] + 1, why)
        return None

    def due(self, now_ns: int) -> list[Refused]:
        """Return the reports that are due: the counts since the last reports."""
        if not self._open or now_ns < self._next_ns:
            return []
        self._next_ns = now_ns + REPORT_NS
        return self.rest()

    def rest(self) -> list[Refused]:
        """Return reports of all refusals that were not reported yet."""
        reports = [Refused(what, why, peer, count) for (what, peer), (count, why) in self._open.items()]
        self._open.clear()
        return reports
