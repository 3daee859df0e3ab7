"""The order in which transactions on lists must have taken effect: a graph of dependencies (Adya 1999; Elle 2020)."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from zab_chaos.model.isolation import Order
from zab_chaos.model.oracle.cycles import Edge, Graph, Kind
from zab_chaos.model.oracle.facts import Request
from zab_chaos.model.oracle.list_history import ListHistory, acknowledged

Sessions = Mapping[tuple[int, int], int]  # the session of each request, by client and seq


def dependencies(history: ListHistory, sessions: Sessions, order: Order) -> Graph:
    """Return the dependencies of the committed transactions, whose numbers are their places in `history.committed`."""
    numbers = {one.invoke.id: number for number, one in enumerate(history.committed)}
    places = {
        append: number for append, one in history.appended.items() if (number := numbers.get(one.invoke.id)) is not None
    }
    edges = [*_of_appends(history, places), *_of_reads(history, places, numbers)]
    if order >= Order.SESSION:
        edges += _of_sessions(history.committed, sessions)
    if order >= Order.REAL_TIME:
        edges += _of_real_time(history.committed)
    graph: dict[int, dict[tuple[int, Kind], Edge]] = {number: {} for number in numbers.values()}
    for edge in edges:
        if edge.source != edge.target:
            graph[edge.source].setdefault((edge.target, edge.kind), edge)
    return {number: list(found.values()) for number, found in graph.items()}


def _of_appends(history: ListHistory, places: Mapping[tuple[str, int], int]) -> Iterator[Edge]:
    """Yield an edge from each append to the next one of the list. All that no read shows may be next after the last one."""
    for path, elements in history.order.items():
        known = [element for element in elements if (path, element) in places]
        last = known[-1:]
        for before, after in (
            *pairwise(known),
            *((one, other) for one in last for other in history.unseen.get(path, ())),
        ):
            yield Edge(places[path, before], places[path, after], Kind.WW, path, after)


def _of_reads(
    history: ListHistory, places: Mapping[tuple[str, int], int], numbers: Mapping[tuple[int, int], int]
) -> Iterator[Edge]:
    """Yield an edge from the last append that a read shows to its reader, and one from it to the next append. A read after an
    append of its own shows no more than the order of the appends."""
    for read in history.reads:
        if read.own or not history.fits(read):
            continue
        reader, path = numbers[read.request.invoke.id], read.path
        if read.elements and (path, read.elements[-1]) in places:
            yield Edge(places[path, read.elements[-1]], reader, Kind.WR, path, read.elements[-1])
        unseen = history.unseen.get(path, [])
        following = history.order.get(path, [])[len(read.elements) :][:1]
        for element in following or unseen:
            if (path, element) in places:
                if not following and any(places[path, other] == reader for other in unseen):
                    yield Edge(reader, places[path, element], Kind.FIRST, path, element)
                yield Edge(reader, places[path, element], Kind.RW, path, element)


def _of_sessions(committed: Sequence[Request], sessions: Sessions) -> Iterator[Edge]:
    """Yield an edge from each acknowledged transaction to the next one of its session."""
    latest: dict[int, int] = {}
    for number, one in enumerate(committed):
        session = sessions[one.invoke.id]
        if session in latest:
            yield Edge(latest[session], number, Kind.SESSION)
        latest[session] = number


def _of_real_time(committed: Sequence[Request]) -> Iterator[Edge]:
    """Yield edges from the transactions that had returned when another one was called; those that follow from others are left
    out, so that there are at most as many for each call as there are clients."""
    calls = [(one.invoke.t, False, number) for number, one in enumerate(committed)]
    returns = [
        (one.complete.t, True, number) for number, one in enumerate(committed) if one.complete and acknowledged(one)
    ]
    latest: set[int] = set()
    before: dict[int, frozenset[int]] = {}
    for _, returned, number in sorted([*calls, *returns]):  # at the same time the call comes first
        if returned:
            latest = latest - before[number] | {number}
        else:
            before[number] = frozenset(latest)
            yield from (Edge(source, number, Kind.REAL_TIME) for source in before[number])
