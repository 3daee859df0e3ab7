"""Nodes that reach an established leader and do not keep up with it: they do not join it, or do not deliver what it has."""

from collections.abc import Iterator
from itertools import chain

from zab_chaos.model.oracle.facts import Facts
from zab_chaos.model.oracle.possible_leaders import PossibleLeaders
from zab_chaos.model.oracle.service import ServiceTimes
from zab_chaos.model.oracle.spans import Span, intersection, longer, shared

Lag = tuple[int, int, Span]  # the node, its leader, and the time in which it did not keep up


class Following:
    """Finds the nodes that do not keep up with a leader, at the end of a run. `bound` (ns): how soon they must."""

    def __init__(self, facts: Facts, service: ServiceTimes, possible: PossibleLeaders, bound: int) -> None:
        self._facts, self._service, self._possible, self._bound = facts, service, possible, bound

    def left_out(self) -> Iterator[Lag]:
        """Find the members that reached a leader, and a quorum of those that were in broadcast with it, and were in broadcast
        with nobody for longer than the bound."""
        facts, service = self._facts, self._service
        idle = {node: service.outside_broadcast(node) for node in facts.nodes}
        slow = [node for node, spans in idle.items() if longer(spans, self._bound)]
        for event in facts.established if slow else ():
            members = {node: service.in_epoch(node, event.epoch) for node in facts.nodes}
            for node in slow:
                reached = {
                    other: intersection(self._possible.connected(node, other), spans)
                    for other, spans in members.items()
                    if other != node
                }
                quorum = shared(chain.from_iterable(reached.values()), facts.quorum())
                led = intersection(reached.get(event.node, []), quorum)
                for span in longer(intersection(led, idle[node]), self._bound):
                    yield node, event.node, span

    def behind(self) -> Iterator[Lag]:
        """Find the nodes that were in broadcast with a leader that they reached, and did not deliver in time what it had
        delivered."""
        for node in self._facts.nodes:
            for leader, spans in self._service.followed(node):
                if leader != node:
                    for start, end in longer(intersection(spans, self._possible.connected(node, leader)), self._bound):
                        yield from self._behind(node, leader, start, end)

    def _behind(self, node: int, leader: int, start: int, end: int) -> Iterator[Lag]:
        nodes = self._facts.nodes
        for now in (*range(start + self._bound, end, self._bound // 4), end):
            due = nodes[leader].delivered_before(now - self._bound)
            if due and not nodes[node].had_delivered(due, now):
                yield node, leader, (now - self._bound, now)
                return
