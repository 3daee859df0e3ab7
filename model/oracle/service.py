"""When each node served, and how much each life of it had to show from the start."""

from bisect import bisect_right
from dataclasses import dataclass

from zab_chaos.model.events import Boot, Complete, CurrentEpoch, Established, Invoke, Phase, packed
from zab_chaos.model.oracle.facts import Facts


@dataclass(slots=True)
class _Start:
    """How one life of a node began. `follows`: where it became durable that it follows its first leader; `serves`: where it
    was in broadcast for the first time; `least`: the zxid up to which that leader had delivered, once it was asked for."""

    boot: Boot
    follows: CurrentEpoch | None = None
    serves: Phase | None = None
    least: int | None = None


class Service:
    """Told of the nodes' traces in order; asked at the end."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._in_broadcast: dict[int, list[tuple[int, bool]]] = {}  # by node: since when it was, or was not
        self._starts: dict[int, list[_Start]] = {}

    def boot(self, event: Boot) -> None:
        self._in_broadcast.setdefault(event.node, []).append((event.t, False))
        self._starts.setdefault(event.node, []).append(_Start(event))

    def phase(self, event: Phase) -> None:
        serves = event.phase == "BROADCAST"
        self._in_broadcast.setdefault(event.node, []).append((event.t, serves))
        start = self._starts[event.node][-1]
        if serves and start.serves is None:
            start.serves = event

    def current_epoch(self, event: CurrentEpoch) -> None:
        start = self._starts[event.node][-1]
        if start.serves is None:
            start.follows = event

    def lasted(self, invoke: Invoke, complete: Complete) -> bool:
        """Whether the node that answered was in broadcast from before the request to its answer."""
        phases = self._in_broadcast.get(complete.node or 0, [])
        first = bisect_right(phases, (invoke.t, True)) - 1
        return first >= 0 and all(served for t, served in phases[first:] if t <= complete.t)

    def least(self, invoke: Invoke, complete: Complete) -> int | None:
        """The zxid up to which the node that answered must have delivered, for the life that it is in: its first leader had
        delivered so much when it joined. 0 if that is not known, or it is not known which life has answered; None if that
        life had not joined a leader yet."""
        starts = self._starts.get(complete.node or 0, [])
        place = bisect_right(starts, complete.t, key=lambda start: start.boot.t) - 1
        if place < 0 or starts[place].boot.t > invoke.t:
            return 0
        start = starts[place]
        if start.serves is None or start.serves.t > complete.t:
            return None
        if start.least is None:
            start.least = max((self._delivered(it, start.follows) for it in self._facts.established), default=0)
        return start.least

    def _delivered(self, leader: Established, joined: CurrentEpoch | None) -> int:
        """What a leader had delivered when it took in a node, if it did: at least the history with which it was established."""
        if joined is None or joined.epoch != leader.epoch:
            return 0
        return max(packed(leader.last_zxid), self._facts.nodes[leader.node].delivered_before(joined.t))
