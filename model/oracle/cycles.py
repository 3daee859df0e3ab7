"""Finds cycles in a graph whose edges are dependencies of one transaction on another.

A `Shape` says which edges a cycle may have, and whether two anti-dependencies (edges of the kind RW) may follow each other. So
a search also remembers whether the last edge was one.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from graphlib import CycleError, TopologicalSorter


class Kind(IntEnum):
    """Why one transaction comes before another."""

    WW = 0  # the other one's append comes next after its own
    WR = 1  # the other one has read its append
    RW = 2  # it has not read the other one's append: an anti-dependency
    FIRST = 3  # likewise, and it has appended to the same list: if the other one came first, its update would be lost
    SESSION = 4  # the other one came later in the same session
    REAL_TIME = 5  # the other one was called when it had returned

    @property
    def label(self) -> str:
        """The kind as the literature writes it."""
        return "rw" if self is Kind.FIRST else self.name.lower().replace("_", "-")


@dataclass(frozen=True, slots=True)
class Edge:
    """A dependency of the transaction `target` on the transaction `source`. For the first four kinds it is shown by the
    append of `element` to the list `path`."""

    source: int
    target: int
    kind: Kind
    path: str = ""
    element: int = 0


Graph = Mapping[int, Sequence[Edge]]  # by the source of the edges
_Place = tuple[int, bool]  # a transaction, and whether no anti-dependency may follow


@dataclass(frozen=True, slots=True)
class Shape:
    """Which cycles are sought. `kinds`: those of their edges. `spaced`: of two edges in a row, also of the last and the first,
    one at most is an anti-dependency."""

    kinds: frozenset[Kind]
    spaced: bool = False

    def steps(self, graph: Graph, place: _Place, left_out: Collection[int] = ()) -> Iterator[tuple[Edge, _Place]]:
        """Yield the edges that may follow at a place, with the places to which they lead."""
        node, closed = place
        for edge in graph.get(node, ()):
            anti = edge.kind is Kind.RW
            if edge.kind in self.kinds and not (anti and closed) and edge.target not in left_out:
                yield edge, (edge.target, self.spaced and anti)


def transactions_of_a_cycle(graph: Graph, shape: Shape, left_out: Collection[int] = ()) -> list[int]:
    """Return the transactions of some cycle of this shape that has none of `left_out`; none if there is no such cycle. Takes
    a time linear in the number of edges."""
    order: TopologicalSorter[_Place] = TopologicalSorter()
    for node in (node for node in graph if node not in left_out):
        for place in ((node, False), (node, True)) if shape.spaced else ((node, False),):
            order.add(place, *(after for _, after in shape.steps(graph, place, left_out)))
    try:
        order.prepare()
    except CycleError as error:
        places: list[_Place] = error.args[1]
        return list(dict.fromkeys(node for node, _ in places))
    return []


def shortest_cycle(graph: Graph, shape: Shape, through: Iterable[int], left_out: Collection[int] = ()) -> list[Edge]:
    """Return the edges of a shortest cycle of this shape through one of these transactions, of which some are on one."""
    cycles = (_cycle_through(graph, shape, node, left_out) for node in through)
    return min(filter(None, cycles), key=len)


def _cycle_through(graph: Graph, shape: Shape, start: int, left_out: Collection[int]) -> list[Edge]:
    """Return the edges of a shortest cycle of this shape from `start` back to it, none if there is none: a search by breadth.

    It begins where an anti-dependency may follow, which is so at one of any two transactions in a row at least.
    """
    found: dict[_Place, tuple[_Place, Edge]] = {}
    begin = (start, False)
    waiting = deque([begin])
    while waiting:
        place = waiting.popleft()
        for edge, after in shape.steps(graph, place, left_out):
            if after in found:
                continue
            found[after] = place, edge
            if after == begin:
                return _way_back(found, begin)
            waiting.append(after)
    return []


def _way_back(found: Mapping[_Place, tuple[_Place, Edge]], begin: _Place) -> list[Edge]:
    place, edge = found[begin]
    edges = [edge]
    while place != begin:
        place, edge = found[place]
        edges.append(edge)
    return edges[::-1]
