"""When each node served, under whom and for whom, and how much each life of it had to show from the start."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from zab_chaos.model.events import Boot, Client, Complete, CurrentEpoch, Established, Invoke, Phase, packed
from zab_chaos.model.oracle.facts import Facts, Request
from zab_chaos.model.oracle.spans import FOREVER, Span, common

NONE = 0  # no epoch


@dataclass(slots=True)
class _Start:
    """How one life of a node began. `follows`: where it became durable that it follows its first leader; `serves`: where it
    was in broadcast for the first time; `least`: the zxid up to which that leader had delivered, once it was asked for."""

    boot: Boot
    follows: CurrentEpoch | None = None
    serves: Phase | None = None
    least: int | None = None


@dataclass(frozen=True, slots=True)
class Stay:
    """A request at a node, from `start` to `end`."""

    node: int
    start: int
    end: int


class Service:
    """Told of the nodes' traces in order; asked at the end."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._in_broadcast: dict[
            int, list[tuple[int, int]]
        ] = {}  # by node: since when it was, and the epoch, or was not
        self._visits: dict[
            tuple[int, int], list[tuple[int, bool]]
        ] = {}  # by node and client: when it came, and when it left
        self._starts: dict[int, list[_Start]] = {}

    def boot(self, event: Boot) -> None:
        self._in_broadcast.setdefault(event.node, []).append((event.t, NONE))
        self._starts.setdefault(event.node, []).append(_Start(event))

    def phase(self, event: Phase) -> None:
        serves = event.phase == "BROADCAST"
        self._in_broadcast.setdefault(event.node, []).append((event.t, event.epoch if serves else NONE))
        start = self._starts[event.node][-1]
        if serves and start.serves is None:
            start.serves = event

    def current_epoch(self, event: CurrentEpoch) -> None:
        start = self._starts[event.node][-1]
        if start.serves is None:
            start.follows = event

    def client(self, event: Client) -> None:
        self._visits.setdefault((event.node, event.client), []).append((event.t, event.state == "connected"))

    def lasted(self, invoke: Invoke, complete: Complete) -> bool:
        """Whether the node that answered was in broadcast from before the request to its answer."""
        phases = self._in_broadcast.get(complete.node or 0, [])
        first = bisect_right(phases, (invoke.t, FOREVER)) - 1
        return first >= 0 and all(epoch != NONE for t, epoch in phases[first:] if t <= complete.t)

    def had(self, request: Request) -> Stay | None:
        """When a node had a request: since its client came, until it was answered, or the one or the other gave up. None if it
        is not known of any node."""
        invoke, complete = request.invoke, request.complete
        if complete is None or complete.node is None:
            return None
        visits = self._visits.get((complete.node, invoke.client), [])
        last = bisect_left(visits, (complete.t, False)) - 1
        while last >= 0 and not visits[last][1]:
            last -= 1
        if last < 0:
            return None
        left = [t for t, came in visits[last + 1 : last + 2] if not came]
        return Stay(complete.node, max(visits[last][0], invoke.t), min([complete.t, *left]))

    def led(self, node: int) -> Iterator[tuple[int, list[Span]]]:
        """Under whom a node was in broadcast, and when that one was so, too."""
        leaders = {event.epoch: event.node for event in self._facts.established}
        for epoch, span in self._epochs(node):
            if epoch in leaders:
                yield (
                    leaders[epoch],
                    common([span], [led for other, led in self._epochs(leaders[epoch]) if other == epoch]),
                )

    def _epochs(self, node: int) -> Iterator[tuple[int, Span]]:
        phases = [*self._in_broadcast.get(node, []), (FOREVER, NONE)]
        for (start, epoch), (end, _) in pairwise(phases):
            if epoch != NONE:
                yield epoch, (start, end)

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
