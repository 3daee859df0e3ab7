"""The times in which each node served clients and under which leader, and the oldest state that each life may show."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from zab_chaos.model.events import Complete, CurrentEpoch, Established, Invoke, packed
from zab_chaos.model.oracle.facts import Facts, Life, Request
from zab_chaos.model.oracle.spans import FOREVER, Span, difference, intersection, merged

NO_EPOCH = 0


@dataclass(frozen=True, slots=True)
class _ServedLife:
    """The service of one life of a node, from `begin` to `end`.

    `phases` has the start of each phase, with the epoch if the phase is broadcast, else `NO_EPOCH`. `since` is the start of the
    first broadcast phase, `least` the zxid up to which the leader of that phase had delivered.
    """

    begin: int
    end: int
    phases: list[tuple[int, int]]
    since: int
    least: int


@dataclass(frozen=True, slots=True)
class RequestStay:
    """The time in which a node had a request, from `start` to `end`."""

    node: int
    start: int
    end: int


class ServiceTimes:
    """The times in which nodes served, by their phases. It is computed once, at the end of a run."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._leaders: dict[int, list[Established]] = {}  # by epoch
        for event in facts.established:
            self._leaders.setdefault(event.epoch, []).append(event)
        self._lives = {number: [*self._served_lives(node.lives)] for number, node in facts.nodes.items()}

    def was_in_broadcast(self, invoke: Invoke, complete: Complete) -> bool:
        """Return whether the node that answered was in broadcast from before the request until its answer."""
        life = self._life(invoke, complete)
        if life is None:
            return False
        first = bisect_right(life.phases, (invoke.t, FOREVER)) - 1
        return first >= 0 and all(epoch != NO_EPOCH for t, epoch in life.phases[first:] if t <= complete.t)

    def least(self, invoke: Invoke, complete: Complete) -> int | None:
        """Return the zxid of the oldest state that the node that answered may show in its present life: its first leader
        had delivered up to there when the node joined. 0 if this or the life that answered is not known. None if the life
        had not joined a leader yet."""
        life = self._life(invoke, complete)
        if life is None:
            return 0
        return life.least if life.since <= complete.t else None

    def stay(self, request: Request) -> RequestStay | None:
        """Return when the node that answered had a request: from the request, or its client's connection if that is later,
        until the answer or the end of the connection. None if it is not known."""
        invoke, complete = request.invoke, request.complete
        if complete is None or complete.node is None:
            return None
        events = [it for it in self._facts.connections.get((complete.node, invoke.client), []) if it.t < complete.t]
        came = max((place for place, it in enumerate(events) if it.state == "connected"), default=None)
        if came is None:
            return None
        left = min([complete.t, *(it.t for it in events[came + 1 :])])
        return RequestStay(complete.node, max(events[came].t, invoke.t), left)

    def answers_to_earlier(self, stay: RequestStay) -> Iterator[int]:
        """Find the times, ascending, at which requests were answered that had been sent before this one came to its node. All
        nodes count, because writes queue at their common leader."""
        for place in range(bisect_right(self._answers, (stay.start, FOREVER)), len(self._answers)):
            answered, sent = self._answers[place]
            if answered >= stay.end:
                return
            if sent < stay.start:
                yield answered

    @cached_property
    def _answers(self) -> list[tuple[int, int]]:
        """When each request with a known outcome was answered, and when it was sent, by the time of the answer."""
        requests = self._facts.requests.values()
        return sorted((it.complete.t, it.invoke.t) for it in requests if it.complete is not None and it.known)

    def followed(self, node: int) -> Iterator[tuple[int, list[Span]]]:
        """Find each leader that a node followed, with the times in which both were in broadcast in the leader's epoch."""
        leaders = {event.epoch: event.node for event in self._facts.established}
        for epoch, span in self._epochs(node):
            if epoch in leaders:
                yield leaders[epoch], intersection([span], self.in_epoch(leaders[epoch], epoch))

    def in_broadcast(self, node: int) -> list[Span]:
        """Return the times in which a node was in broadcast."""
        return merged(span for _, span in self._epochs(node))

    def outside_broadcast(self, node: int) -> list[Span]:
        """Return the times in which a node was alive and not in broadcast."""
        return difference(merged((life.begin, life.end) for life in self._lives.get(node, [])), self.in_broadcast(node))

    def led_by(self, node: int) -> list[Span]:
        """Return the times in which a node was in broadcast as an established leader."""
        return merged(
            span for event in self._facts.established if event.node == node for span in self.in_epoch(node, event.epoch)
        )

    def leading(self) -> list[Span]:
        """Return the times in which some established leader was in broadcast."""
        return merged(span for event in self._facts.established for span in self.in_epoch(event.node, event.epoch))

    def in_epoch(self, node: int, epoch: int) -> list[Span]:
        """Return the times in which a node was in broadcast in one epoch."""
        return self._by_epoch.get((node, epoch), [])

    @cached_property
    def _by_epoch(self) -> dict[tuple[int, int], list[Span]]:
        """The times in which each node was in broadcast, by (node, epoch)."""
        found: dict[tuple[int, int], list[Span]] = {}
        for node in self._lives:
            for epoch, span in self._epochs(node):
                found.setdefault((node, epoch), []).append(span)
        return found

    def _epochs(self, node: int) -> Iterator[tuple[int, Span]]:
        for life in self._lives.get(node, []):
            for (start, epoch), (until, _) in pairwise([*life.phases, (life.end, NO_EPOCH)]):
                if epoch != NO_EPOCH:
                    yield epoch, (start, until)

    def _life(self, invoke: Invoke, complete: Complete) -> _ServedLife | None:
        """Return the life that answered, None if another life may have."""
        lives = self._lives.get(complete.node or 0, [])
        place = bisect_right(lives, complete.t, key=lambda life: life.begin) - 1
        return lives[place] if place >= 0 and lives[place].begin <= invoke.t else None

    def _served_lives(self, lives: list[Life]) -> Iterator[_ServedLife]:
        for life in lives:
            if life.boot is not None:
                phases = [(it.t, it.epoch if it.phase == "BROADCAST" else NO_EPOCH) for it in life.phases]
                first = next((it for it in life.phases if it.phase == "BROADCAST"), None)
                joined = [it for it in life.joined if first is None or it.n < first.n]
                since = first.t if first is not None else FOREVER
                least = self._delivered(joined[-1]) if joined else 0
                yield _ServedLife(life.boot.t, life.last.t, phases, since, least)

    def _delivered(self, joined: CurrentEpoch) -> int:
        """Return the zxid up to which the leader had delivered that a node joined. It is at least the end of the history with
        which the leader was established. If the epoch had several leaders, any of them may be the one."""
        leaders = self._leaders.get(joined.epoch, [])
        return min(
            (max(packed(it.last_zxid), self._facts.nodes[it.node].delivered_before(joined.t)) for it in leaders),
            default=0,
        )
