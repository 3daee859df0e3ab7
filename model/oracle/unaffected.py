"""The nodes that no fault affects, as far as the faults of a run tell: for systems that do not trace their links."""

from collections.abc import Iterator
from itertools import chain, combinations, pairwise

from zab_chaos.model.events import Inject
from zab_chaos.model.oracle.facts import KILLS, Facts
from zab_chaos.model.oracle.spans import FOREVER, Span

# Faults that take whole nodes or links away. All others may slow those down that they leave in place, and thereby everybody.
REMOVALS = KILLS | {"stop", "pause", "pause-at", "partition"}


def unaffected(facts: Facts) -> Iterator[tuple[Span, frozenset[int]]]:
    """Find the times between any two changes of the faults, with the most nodes that are left and connected with each other
    then: all nodes if no fault is active. Times with a fault that removes nothing are left out."""
    spans = facts.fault_spans()
    for start, end in pairwise(sorted({0, FOREVER, *chain.from_iterable(spans)})):
        active = [
            inject for inject, (begun, healed) in zip(facts.faults, spans, strict=True) if begun <= start < healed
        ]
        if all(inject.do in REMOVALS for inject in active):
            yield (start, end), _largest_group(facts.run.nodes, active)


def _largest_group(nodes: int, active: list[Inject]) -> frozenset[int]:
    """Return the most nodes that no active fault has taken away, and that are all connected with each other."""
    cut = {frozenset(pair) for inject in active for pair in inject.pairs or ()}
    gone = {node for inject in active if not inject.pairs for node in inject.nodes}
    left = [node for node in range(1, nodes + 1) if node not in gone]
    groups = (group for size in range(len(left), 0, -1) for group in combinations(left, size))
    return frozenset(next((group for group in groups if cut.isdisjoint(map(frozenset, combinations(group, 2)))), ()))
