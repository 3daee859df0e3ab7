"""Shrinks a failing run of the lab: fewer cuts, proposals, nodes and ticks, and rounder times."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

from zab_chaos.model.ddmin import ddmin
from zab_chaos.model.lab.arguments import Cut, LabArguments, Link
from zab_chaos.model.lab.flapping import judge_flapping

ROUND_TICKS = (100, 50, 20, 10, 5)


@dataclass(frozen=True, slots=True, order=True)
class Outage:
    """One link that is cut from tick `begin` on, until tick `end`."""

    begin: int
    end: int
    link: Link


def outages(schedule: Sequence[Cut], rounds: int) -> list[Outage]:
    """Return the schedule as outages of single links, by time. A cut that never heals ends with the run."""
    found, since = [], dict[Link, int]()
    for tick, links in (*schedule, (rounds, frozenset[Link]())):
        for link in sorted(set(since) - links):
            found.append(Outage(since.pop(link), tick, link))
        for link in links:
            since.setdefault(link, tick)
    return sorted(found)


def schedule_of(outs: Iterable[Outage]) -> tuple[Cut, ...]:
    """Return the outages as a schedule of the lab: for each tick of a change, all links that are cut from then on."""
    outs = list(outs)
    ticks = sorted({tick for out in outs for tick in (out.begin, out.end)})
    cuts = [(tick, frozenset(out.link for out in outs if out.begin <= tick < out.end)) for tick in ticks]
    return tuple(cut for cut, before in zip(cuts, [None, *cuts], strict=False) if before is None or cut[1] != before[1])


def count_events(arguments: LabArguments) -> int:
    """Count what happens to the ensemble in a run: each cut and healing of a link, and each proposal."""
    outs = outages(arguments.schedule, arguments.rounds)
    return sum(1 + (out.end < arguments.rounds) for out in outs) + arguments.proposals


def shrink_flapping(arguments: LabArguments) -> tuple[LabArguments, int]:
    """Return smaller arguments that still violate total order or agreement, and how many were tried.

    `arguments` must violate it. The same arguments always give the same result.
    """
    search = _Search()
    while True:
        before = arguments
        for step in (_shorter, _fewer_outages, _fewer_proposals, _fewer_nodes, _shorter_outages, _rounder):
            arguments = step(arguments, search)
        if arguments == before:
            return arguments, search.tries


class _Search:
    """Tests candidates in order, and remembers the results."""

    def __init__(self) -> None:
        self.tries = 0
        self._known: dict[LabArguments, bool] = {}

    def fails(self, candidate: LabArguments) -> bool:
        if candidate not in self._known:
            self.tries += 1
            self._known[candidate] = judge_flapping(candidate) is not None
        return self._known[candidate]

    def first(self, candidates: Iterable[LabArguments]) -> int | None:
        return next((index for index, candidate in enumerate(candidates) if self.fails(candidate)), None)

    def descend(
        self, arguments: LabArguments, simpler: Callable[[LabArguments], Iterator[LabArguments]]
    ) -> LabArguments:
        """Replace the arguments by the first simpler ones that fail, as often as there are any."""
        while True:
            smaller = next((one for one in simpler(arguments) if one != arguments and self.fails(one)), None)
            if smaller is None:
                return arguments
            arguments = smaller


def _with(arguments: LabArguments, outs: Iterable[Outage]) -> LabArguments:
    return replace(arguments, schedule=schedule_of(outs))


def _shorter(arguments: LabArguments, search: _Search) -> LabArguments:
    """End the run earlier. The interval between proposals stays the same, so there are fewer, at the same ticks."""

    def simpler(now: LabArguments) -> Iterator[LabArguments]:
        for count in sorted({now.proposals // 16, now.proposals // 8, now.proposals // 4, now.proposals // 2}):
            if count:
                yield _cut_off(now, now.rounds * (count + 1) // (now.proposals + 1), count)
        for rounds in (now.rounds // 2, now.rounds * 3 // 4, now.rounds * 9 // 10):
            yield _cut_off(now, rounds, now.proposals)

    return search.descend(arguments, simpler)


def _cut_off(arguments: LabArguments, rounds: int, proposals: int) -> LabArguments:
    schedule = tuple(cut for cut in arguments.schedule if cut[0] < rounds)
    return replace(arguments, rounds=rounds, proposals=proposals, schedule=schedule)


def _fewer_outages(arguments: LabArguments, search: _Search) -> LabArguments:
    outs = outages(arguments.schedule, arguments.rounds)
    return _with(arguments, ddmin(outs, lambda lists: search.first(_with(arguments, one) for one in lists)))


def _fewer_proposals(arguments: LabArguments, search: _Search) -> LabArguments:
    """Make fewer proposals. They then come at other ticks, so all outages may have to be moved along with one of them."""
    candidates = [
        candidate
        for count in range(arguments.proposals)
        for shift in _shifts(arguments, count)
        if (candidate := _moved(replace(arguments, proposals=count), shift)) is not None
    ]
    found = search.first(candidates)
    return arguments if found is None else candidates[found]


def _shifts(arguments: LabArguments, count: int) -> list[int]:
    """Return by how many ticks the outages may be moved: all distances from an old to a new proposal, the smallest first."""
    before, after = (proposal_ticks(arguments.rounds, number) for number in (arguments.proposals, count))
    return sorted({0, *(new - old for new in after for old in before)}, key=lambda ticks: (abs(ticks), ticks))


def proposal_ticks(rounds: int, proposals: int) -> list[int]:
    """Return the ticks at which the proposals of a run come (db-19, "Simulator loop")."""
    return [(number + 1) * rounds // (proposals + 1) for number in range(proposals)]


def _moved(arguments: LabArguments, by: int) -> LabArguments | None:
    """Move all outages by so many ticks. Return None if the result is not a legal schedule."""
    outs = outages(arguments.schedule, arguments.rounds)
    moved = [replace(out, begin=out.begin + by, end=min(arguments.rounds, out.end + by)) for out in outs]
    return _with(arguments, moved) if all(0 <= out.begin < out.end for out in moved) else None


def _fewer_nodes(arguments: LabArguments, search: _Search) -> LabArguments:
    used = [end for _, links in arguments.schedule for link in links for end in link]
    counts = range(max([0, *used]) + 1, arguments.nodes)
    found = search.first(replace(arguments, nodes=count) for count in counts)
    return arguments if found is None else replace(arguments, nodes=counts[found])


def _shorter_outages(arguments: LabArguments, search: _Search) -> LabArguments:
    """Cut links later, or heal them earlier."""

    def shorter(out: Outage) -> Iterator[Outage]:
        for part in (8, 4, 2):
            gone = (out.end - out.begin) * (part - 1) // part
            yield replace(out, end=out.end - gone)
            yield replace(out, begin=out.begin + gone)

    return search.descend(arguments, partial(_with_one_changed, shorter))


def _rounder(arguments: LabArguments, search: _Search) -> LabArguments:
    """Round the ticks of outages. Rounding only shortens them, so this comes to an end."""

    def rounder(out: Outage) -> Iterator[Outage]:
        for unit in ROUND_TICKS:
            yield replace(out, begin=-(-out.begin // unit) * unit)
            yield replace(out, end=out.end // unit * unit)

    return search.descend(arguments, partial(_with_one_changed, rounder))


def _with_one_changed(change: Callable[[Outage], Iterable[Outage]], now: LabArguments) -> Iterator[LabArguments]:
    """Yield the arguments with one outage changed, for each change of each outage that leaves something of it."""
    outs = outages(now.schedule, now.rounds)
    for index, out in enumerate(outs):
        for smaller in change(out):
            if smaller.begin < smaller.end:
                yield _with(now, [*outs[:index], smaller, *outs[index + 1 :]])


def cut_intervals(arguments: LabArguments) -> list[tuple[int, int, frozenset[Link]]]:
    """Return (first tick, end tick, links that are cut) for each interval in which any link is cut."""
    ends = [*arguments.schedule, (arguments.rounds, frozenset[Link]())]
    return [(begin, end, links) for (begin, links), (end, _) in pairwise(ends) if links]
