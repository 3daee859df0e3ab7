"""The checker for transactions on lists: they are as isolated from each other as the system promises."""

from collections.abc import Iterator, Sequence
from itertools import islice, pairwise

from zab_chaos.model.isolation import DEFAULT_LEVEL, LEVELS, Anomaly, Level, Order, Strength
from zab_chaos.model.oracle.cycles import Edge, Graph, Kind, Shape, shortest_cycle, transactions_of_a_cycle
from zab_chaos.model.oracle.dependencies import dependencies
from zab_chaos.model.oracle.facts import Request
from zab_chaos.model.oracle.impossible_reads import impossible_reads
from zab_chaos.model.oracle.list_history import ListHistory, request_name
from zab_chaos.model.oracle.properties.checker import Checker
from zab_chaos.model.oracle.properties.history import sessions
from zab_chaos.model.verdict import Dependency

TRIED = 100  # transactions of a cycle through which a shorter one is sought
# The worst first, with the weakest strength that forbids them. Edges of the level's order are added to the kinds.
_SHAPES = (
    (Strength.READ_COMMITTED, Shape(frozenset({Kind.WW}))),
    (Strength.READ_COMMITTED, Shape(frozenset({Kind.WW, Kind.WR}))),
    (Strength.SNAPSHOT_ISOLATION, Shape(frozenset({Kind.WW, Kind.WR, Kind.RW, Kind.FIRST}), spaced=True)),
    (Strength.SERIALIZABLE, Shape(frozenset({Kind.WW, Kind.WR, Kind.RW}))),
)
_ORDERS = {
    Order.NONE: frozenset[Kind](),
    Order.SESSION: frozenset({Kind.SESSION}),
    Order.REAL_TIME: frozenset({Kind.SESSION, Kind.REAL_TIME}),
}


class Isolation(Checker):
    """Adya 1999: what transactions see of each other is what their level of isolation allows.

    Verifies, for the level that run.json names (`isolation`, by default strict serializability), that the dependencies of the
    committed transactions on lists have no cycle that this level forbids; and that no read shows what no level allows: an
    append that was rolled back, or only the first of two, or appends in another order than other reads. The order of appends
    is that of the longest read; an append that no read shows comes after it. Does not verify transactions on other keys, nor
    predicates such as ranges of keys.
    """

    name = "isolation"
    source = "Adya 1999"
    statement = "Transactions on lists see of each other what the promised level of isolation allows."

    def at_end(self) -> None:
        asked = self.facts.run.expect.get("isolation", DEFAULT_LEVEL)
        if asked not in LEVELS:
            self.unknown.append(f"run.json, expect.isolation: {asked!r} is none of {', '.join(LEVELS)}")
            return
        requests = self.facts.list_requests()
        if not requests:
            self.not_applicable = "the clients asked for no transactions on lists"
            return
        history = ListHistory(requests)
        self.checked = len(history.committed)
        for read in impossible_reads(history):
            self._report(read.words, read.requests)
        graph = dependencies(history, sessions(self.facts.requests.values()), LEVELS[asked].order)
        for cycle in () if self.findings.full else forbidden_cycles(graph, LEVELS[asked]):
            self._report_cycle(_told(cycle), history, asked)
            if self.findings.full:
                break

    def _report_cycle(self, cycle: Sequence[Edge], history: ListHistory, promised: str) -> None:
        anomaly = classified(cycle)
        allowed = f"the strongest level that allows it is {' or '.join(anomaly.allowed_by)}"
        steps = [_dependency(edge, history) for edge in cycle]
        words = f"{anomaly.name}: {'; '.join(one.words for one in steps)}"
        words += f". Promised is {promised}; {allowed if anomaly.allowed_by else 'no level allows it'}"
        readers = [history.longest[edge.path].request for edge in cycle if _is_shown(edge, history)]
        self._report(words, [*(history.committed[edge.source] for edge in cycle), *readers], steps)

    def _report(self, words: str, requests: Sequence[Request], cycle: Sequence[Dependency] = ()) -> None:
        cited = {one.invoke.id: one for one in requests}
        lines = [event for one in cited.values() for event in (one.invoke, one.complete)]
        self.findings.add(words, lines, dependencies=cycle)


def forbidden_cycles(graph: Graph, level: Level) -> Iterator[list[Edge]]:
    """Yield short cycles that the level forbids: first those that need no order of the calls, of these first the worst. No two
    have a transaction in common."""
    left_out: set[int] = set()
    for order in (order for order in Order if order <= level.order):
        kinds = _ORDERS[order]
        shapes = [Shape(it.kinds | kinds, it.spaced) for strength, it in _SHAPES if strength <= level.strength]
        if not transactions_of_a_cycle(graph, shapes[-1], left_out):
            continue  # it would find those of the other shapes too
        for shape in shapes:
            while on := transactions_of_a_cycle(graph, shape, left_out):
                cycle = shortest_cycle(graph, shape, islice(on, TRIED), left_out)
                left_out.update(edge.source for edge in cycle)
                yield cycle


def classified(cycle: Sequence[Edge]) -> Anomaly:
    """Return which anomaly a cycle is: the name of Adya, or that of Elle for cycles without two anti-dependencies in a row."""
    kinds = [edge.kind for edge in cycle]
    known, words, strength = _known(kinds, {edge.path for edge in cycle} - {""})
    if Kind.REAL_TIME in kinds:
        return Anomaly(f"{known}-realtime ({words})", Level(strength, Order.REAL_TIME))
    if Kind.SESSION in kinds:
        return Anomaly(f"{known}-session ({words})", Level(strength, Order.SESSION))
    return Anomaly(f"{known} ({words})", Level(strength))


def _known(kinds: Sequence[Kind], paths: set[str]) -> tuple[str, str, Strength]:
    """Return the name of a cycle with such edges, what it is called, and the weakest strength that forbids it. `paths`: the
    lists at which its transactions have met."""
    anti = kinds.count(Kind.RW)
    if any(one is other is Kind.RW for one, other in pairwise([*kinds, kinds[0]])):
        return "G2", "write skew", Strength.SERIALIZABLE
    if Kind.FIRST in kinds or (anti == 1 and Kind.WW in kinds and Kind.WR not in kinds and len(paths) == 1):
        return "P4", "lost update", Strength.SNAPSHOT_ISOLATION
    if anti > 1:
        return "G-nonadjacent", "long read skew", Strength.SNAPSHOT_ISOLATION
    if anti:  # if nothing else was read or written, only the time shows that the read was too old
        met = {Kind.WW, Kind.WR}.intersection(kinds)
        return "G-single", "read skew" if met else "stale read", Strength.SNAPSHOT_ISOLATION
    if Kind.WR in kinds:
        return "G1c", "circular information flow", Strength.READ_COMMITTED
    return "G0", "dirty writes", Strength.READ_COMMITTED


def _told(cycle: Sequence[Edge]) -> list[Edge]:
    """Return a cycle as it is told: from its first transaction on that another one has met. Edges in time in a row are one."""
    begin = min((edge.source, place) for place, edge in enumerate(cycle) if edge.kind < Kind.SESSION)[1]
    found: list[Edge] = []
    for edge in (*cycle[begin:], *cycle[:begin]):
        before = found[-1] if found else None
        if before is not None and min(before.kind, edge.kind) >= Kind.SESSION:
            found[-1] = Edge(before.source, edge.target, max(before.kind, edge.kind))
        else:
            found.append(edge)
    return found


def _dependency(edge: Edge, history: ListHistory) -> Dependency:
    before, after = (history.committed[place].invoke.id for place in (edge.source, edge.target))
    return Dependency(before, after, edge.kind.label, _step(edge, history))


def _step(edge: Edge, history: ListHistory) -> str:
    before, after = request_name(history.committed[edge.source]), request_name(history.committed[edge.target])
    match edge.kind:
        case Kind.WW:
            shown = (
                f"as {request_name(history.longest[edge.path].request)} read"
                if _is_shown(edge, history)
                else "for no read shows it"
            )
            return f"{after} appended {edge.element} to {edge.path} after {before}, {shown}"
        case Kind.WR:
            return f"{after} read {edge.path} with {edge.element} of {before}"
        case Kind.RW:
            return f"{before} read {edge.path} without {edge.element} of {after}"
        case Kind.FIRST:
            return f"{before} read {edge.path} without {edge.element} of {after}, and appended to it"
        case Kind.SESSION:
            return f"{after} came after {before} in the same session"
    return f"{after} was called after {before} had returned"


def _is_shown(edge: Edge, history: ListHistory) -> bool:
    """Return whether the longest read shows the order of two appends."""
    return edge.kind is Kind.WW and edge.element in history.order.get(edge.path, ())
