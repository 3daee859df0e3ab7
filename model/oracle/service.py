"""When each node served, under whom and for whom, and how much each life of it had to show from the start."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from zab_chaos.model.events import Complete, CurrentEpoch, Established, Invoke, packed
from zab_chaos.model.oracle.facts import Facts, Life, Request
from zab_chaos.model.oracle.spans import FOREVER, Span, intersection, merged

NONE = 0  # no epoch


@dataclass(frozen=True, slots=True)
class _ServedLife:
    """How one life of a node, from `begin` to `end`, served. `phases`: since when it was in broadcast, and the epoch, or was
    not; `since`: when it was so for the first time; `least`: the zxid up to which its leader of then had delivered."""

    begin: int
    end: int
    phases: list[tuple[int, int]]
    since: int
    least: int


@dataclass(frozen=True, slots=True)
class RequestStay:
    """A request at a node, from `start` to `end`."""

    node: int
    start: int
    end: int


class ServiceTimes:
    """Computed once, at the end."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._lives = {number: [*self._of(node.lives)] for number, node in facts.nodes.items()}

    def lasted(self, invoke: Invoke, complete: Complete) -> bool:
        """Whether the node that answered was in broadcast from before the request to its answer."""
        life = self._life(invoke, complete)
        if life is None:
            return False
        first = bisect_right(life.phases, (invoke.t, FOREVER)) - 1
        return first >= 0 and all(epoch != NONE for t, epoch in life.phases[first:] if t <= complete.t)

    def least(self, invoke: Invoke, complete: Complete) -> int | None:
        """The zxid up to which the node that answered must have delivered, for the life that it is in: its first leader had
        delivered so much when it joined. 0 if that is not known, or it is not known which life has answered; None if that
        life had not joined a leader yet."""
        life = self._life(invoke, complete)
        if life is None:
            return 0
        return life.least if life.since <= complete.t else None

    def had(self, request: Request) -> RequestStay | None:
        """When a node had a request: since its client came, until it was answered, or the one or the other gave up. None if it
        is not known of any node."""
        invoke, complete = request.invoke, request.complete
        if complete is None or complete.node is None:
            return None
        visits = [it for it in self._facts.connections.get((complete.node, invoke.client), []) if it.t < complete.t]
        came = max((place for place, it in enumerate(visits) if it.state == "connected"), default=None)
        if came is None:
            return None
        left = min([complete.t, *(it.t for it in visits[came + 1 :])])
        return RequestStay(complete.node, max(visits[came].t, invoke.t), left)

    def led(self, node: int) -> Iterator[tuple[int, list[Span]]]:
        """Under whom a node was in broadcast, and when that one was so, too."""
        leaders = {event.epoch: event.node for event in self._facts.established}
        for epoch, span in self._epochs(node):
            if epoch in leaders:
                yield leaders[epoch], intersection([span], self._spans(leaders[epoch], epoch))

    def leading(self) -> list[Span]:
        """When some established leader was in broadcast."""
        return merged(span for event in self._facts.established for span in self._spans(event.node, event.epoch))

    def _spans(self, node: int, epoch: int) -> list[Span]:
        """When a node was in broadcast in one epoch."""
        return [span for other, span in self._epochs(node) if other == epoch]

    def _epochs(self, node: int) -> Iterator[tuple[int, Span]]:
        for life in self._lives.get(node, []):
            for (start, epoch), (until, _) in pairwise([*life.phases, (life.end, NONE)]):
                if epoch != NONE:
                    yield epoch, (start, until)

    def _life(self, invoke: Invoke, complete: Complete) -> _ServedLife | None:
        """The life that answered, if no other one can have."""
        lives = self._lives.get(complete.node or 0, [])
        place = bisect_right(lives, complete.t, key=lambda life: life.begin) - 1
        return lives[place] if place >= 0 and lives[place].begin <= invoke.t else None

    def _of(self, lives: list[Life]) -> Iterator[_ServedLife]:
        for life in lives:
            if life.boot is not None:
                phases = [(it.t, it.epoch if it.phase == "BROADCAST" else NONE) for it in life.phases]
                first = next((it for it in life.phases if it.phase == "BROADCAST"), None)
                joined = [it for it in life.joined if first is None or it.n < first.n]
                since = first.t if first is not None else FOREVER
                least = max((self._delivered(it, joined[-1]) for it in self._facts.established if joined), default=0)
                yield _ServedLife(life.boot.t, life.last.t, phases, since, least)

    def _delivered(self, leader: Established, joined: CurrentEpoch) -> int:
        """What a leader had delivered when it took in a node, if it did: at least the history with which it was established."""
        if joined.epoch != leader.epoch:
            return 0
        return max(packed(leader.last_zxid), self._facts.nodes[leader.node].delivered_before(joined.t))
