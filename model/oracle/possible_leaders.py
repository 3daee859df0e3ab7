"""Who could have led, and when: by lives, links, lost disks and faults, and not by what elections made of it."""

from collections.abc import Iterator

import msgspec

from zab_chaos.model.oracle.facts import Facts
from zab_chaos.model.oracle.spans import FOREVER, Span, difference, intersection, merged


class LeaderWindow(msgspec.Struct, frozen=True):
    """A time in which `node` could have led: it and `peers`, together a quorum, were members, lived and were in reach of
    it all the time, and no fault was at them."""

    node: int
    peers: frozenset[int]
    start: int
    end: int


class PossibleLeaders:
    """Computed once, at the end. `gap`: a link that the nodes close and open again within it (nanoseconds) counts as open:
    a new iteration begins with new sessions."""

    def __init__(self, facts: Facts, gap: int) -> None:
        self._facts = facts
        self._heals = {heal.id: heal.t for heal in facts.heals}
        self._well = {node: difference(spans, self._faults(node)) for node, spans in self._members().items()}
        self._open = {pair: merged(spans, gap) for pair, spans in self._links().items()}
        self._cuts = self._cut()

    def windows(self) -> Iterator[LeaderWindow]:
        for node in sorted(self._well):
            yield from self._windows(node)

    def _windows(self, node: int) -> Iterator[LeaderWindow]:
        changes = [(t, change, peer) for peer in self._well for t, change in self._changes(node, peer)]
        changes += [(t, 0, node) for t in self._upsets()]
        present: set[int] = set()
        core: frozenset[int] | None = None
        start = 0
        for t, change, peer in sorted(changes):
            if change > 0:
                present.add(peer)
            elif change < 0:
                present.discard(peer)
            if core is not None and (change == 0 or len(core & present) < self._facts.quorum()):
                yield LeaderWindow(node, core - {node}, start, t)
                core = None
            if core is not None:
                core = core & present
            elif len(present) >= self._facts.quorum():
                core, start = frozenset(present), t

    def _changes(self, node: int, peer: int) -> Iterator[tuple[int, int]]:
        for start, end in self._usable(node, peer):
            yield start, 1
            yield end, -1

    def _usable(self, one: int, other: int) -> list[Span]:
        """When both were well, and both had the link between them open."""
        if one == other:
            return self._well[one]
        linked = intersection(self._open.get((one, other), []), self._open.get((other, one), []))
        well = intersection(self._well[one], self._well[other])
        return difference(intersection(linked, well), self._cuts.get(frozenset((one, other)), []))

    def _members(self) -> dict[int, list[Span]]:
        """When each node lived, and counted in quorums."""
        admitted = {(event.node, event.life): event.t for event in self._facts.members}
        spans: dict[int, list[Span]] = {}
        for key, life in self._facts.lives.items():
            if life.boot is None:
                continue
            begun = admitted.get(key, FOREVER) if life.boot.disk == "amnesiac" else life.boot.t
            if begun < life.last.t:
                spans.setdefault(key[0], []).append((begun, life.last.t))
        return {node: merged(each) for node, each in spans.items()}

    def _links(self) -> dict[tuple[int, int], list[Span]]:
        """When each node's own trace had the link to a peer open."""
        spans: dict[tuple[int, int], list[Span]] = {}
        opened: dict[tuple[int, int, int], int] = {}
        for event in self._facts.links:
            key = event.node, event.life, event.peer
            begun = opened.pop(key, None)
            if begun is not None:
                spans.setdefault((event.node, event.peer), []).append((begun, event.t))
            if event.state == "opened":
                opened[key] = event.t
        for (node, life, peer), begun in opened.items():
            spans.setdefault((node, peer), []).append((begun, self._facts.lives[node, life].last.t))
        return spans

    def _faults(self, node: int) -> list[Span]:
        """When a fault was at this node. One that cuts or disturbs named links is not: see `_cut`."""
        hit = [inject for inject in self._facts.injects if node in inject.nodes and not inject.pairs]
        return [(inject.t, self._heals.get(inject.id, FOREVER)) for inject in hit]

    def _cut(self) -> dict[frozenset[int], list[Span]]:
        """When a fault was at the links between two nodes, in one direction or both."""
        spans: dict[frozenset[int], list[Span]] = {}
        for inject in self._facts.injects:
            for pair in inject.pairs or ():
                spans.setdefault(frozenset(pair), []).append((inject.t, self._heals.get(inject.id, FOREVER)))
        return spans

    def _upsets(self) -> list[int]:
        """When something changed for the leader of the time: others may have to elect anew."""
        found, leads = [], sorted((event.t, event.node) for event in self._facts.established)
        for inject in self._facts.injects:
            touched = {*inject.nodes, *(end for pair in inject.pairs or () for end in pair)}
            for t in (inject.t, self._heals.get(inject.id, FOREVER)):
                leader = next((node for when, node in reversed(leads) if when <= t), None)
                if leader in touched and t < FOREVER:
                    found.append(t)
        return found
