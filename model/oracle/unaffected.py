"""The nodes that no fault affects, as far as the faults of a run tell: for systems that do not trace their links."""

from collections.abc import Iterator
from itertools import chain, combinations, pairwise

from zab_chaos.model.events import Inject
from zab_chaos.model.oracle.facts import KILLS, STOPS, Facts
from zab_chaos.model.oracle.spans import FOREVER, Span

# Faults that take whole nodes or links away. All others may slow those down that they leave in place, and thereby everybody.
REMOVALS = KILLS | STOPS | {"pause", "pause-at", "partition", "remove-member"}


def unaffected(facts: Facts) -> Iterator[tuple[Span, frozenset[int]]]:
    """Find the times between any two changes of the faults, with the most voters, and then the most observers, that are left
    and connected with each other then: all nodes if no fault is active. Times with a fault that removes nothing are left
    out."""
    spans = facts.fault_spans()
    for start, end in pairwise(sorted({0, FOREVER, *chain.from_iterable(spans)})):
        active = [
            inject for inject, (begun, healed) in zip(facts.faults, spans, strict=True) if begun <= start < healed
        ]
        if all(inject.do in REMOVALS for inject in active):
            yield (start, end), _largest_group(facts, active)


def _largest_group(facts: Facts, active: list[Inject]) -> frozenset[int]:
    """Return the most voters, and then the most observers, that no active fault has taken away, and that are all connected
    with each other."""
    cut = {frozenset(pair) for inject in active for pair in inject.pairs or ()}
    gone = {node for inject in active if not inject.pairs for node in inject.nodes}
    left = [node for node in range(1, facts.run.nodes + 1) if node not in gone]
    voters = _enlarged((), [node for node in left if node in facts.voters], cut)
    return frozenset(_enlarged(voters, [node for node in left if node not in facts.voters], cut))


def _enlarged(group: tuple[int, ...], nodes: list[int], cut: set[frozenset[int]]) -> tuple[int, ...]:
    """Return the group with as many of these nodes as are connected with it and with each other."""
    larger = ((*group, *more) for size in range(len(nodes), -1, -1) for more in combinations(nodes, size))
    return next(one for one in larger if cut.isdisjoint(map(frozenset, combinations(one, 2))))
