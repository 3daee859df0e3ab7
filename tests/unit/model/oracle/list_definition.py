"""The levels of isolation as they are defined: some order of the transactions explains what they read.

All orders are tried, so this is for a handful of transactions.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, permutations, product

from zab_chaos.model.isolation import Level, Order, Strength

State = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Txn:
    """A transaction: its session, the times of its call and its return, its outcome, and its steps: ("append", list, element)
    or ("read", list, what it has found)."""

    session: int
    begin: int
    end: int
    outcome: str
    steps: tuple[tuple[str, str, int | tuple[int, ...]], ...]

    @property
    def appended(self) -> set[str]:
        return {path for op, path, _ in self.steps if op == "append"}

    def explained_by(self, states: Mapping[int, State]) -> bool:
        """Return whether each read, by the number of its step, found its state and what the steps before it had appended."""
        own: dict[str, tuple[int, ...]] = {}
        for number, (op, path, what) in enumerate(self.steps):
            if op == "append":
                own[path] = (*own.get(path, ()), what)  # type: ignore[assignment]
            elif self.outcome == "ok" and what != (*states[number].get(path, ()), *own.get(path, ())):
                return False
        return True

    def after(self, state: State) -> State:
        found = dict(state)
        for op, path, what in self.steps:
            if op == "append":
                found[path] = (*found.get(path, ()), what)  # type: ignore[assignment]
        return found


def is_allowed(txns: Sequence[Txn], level: Level) -> bool:
    """Return whether the level allows this history."""
    certain = [txn for txn in txns if txn.outcome == "ok"]
    unsure = [txn for txn in txns if txn.outcome == "unknown"]
    chosen = chain.from_iterable(combinations(unsure, count) for count in range(len(unsure) + 1))
    explain = {Strength.READ_COMMITTED: _committed, Strength.SNAPSHOT_ISOLATION: _snapshots}.get(
        level.strength, _serial
    )
    return any(explain([*certain, *more], level.order) for more in chosen)


def _must_precede(one: Txn, other: Txn, order: Order) -> bool:
    if one.outcome != "ok" or order is Order.NONE:
        return False
    return one.end < other.begin and (order is Order.REAL_TIME or one.session == other.session)


def _orders(txns: Sequence[Txn], order: Order) -> Iterator[tuple[Txn, ...]]:
    for found in permutations(txns):
        if not any(_must_precede(later, earlier, order) for earlier, later in combinations(found, 2)):
            yield found


def _serial(txns: Sequence[Txn], order: Order) -> bool:
    """One transaction after the other."""
    for found in _orders(txns, order):
        state: State = {}
        for txn in found:
            if not txn.explained_by(dict.fromkeys(range(len(txn.steps)), state)):
                break
            state = txn.after(state)
        else:
            return True
    return False


def _committed(txns: Sequence[Txn], order: Order) -> bool:
    """Each read shows the state after some transactions that come before."""
    for found in _orders(txns, order):
        states: list[State] = [{}]
        for txn in found:
            if not _reads_some(txn, states):
                break
            states.append(txn.after(states[-1]))
        else:
            return True
    return False


def _reads_some(txn: Txn, states: Sequence[State]) -> bool:
    """An append ends all choice: what its list holds is then that of the latest state."""
    ways = product(range(len(states)), repeat=len(txn.steps))
    for way in ways:
        chosen = {number: states[place] for number, place in enumerate(way)}
        appended: set[str] = set()
        for number, (op, path, _) in enumerate(txn.steps):
            if op == "append":
                appended.add(path)
            elif path in appended:
                chosen[number] = states[-1]
        if txn.explained_by(chosen):
            return True
    return False


def _snapshots(txns: Sequence[Txn], order: Order) -> bool:
    """Each reads the state at its start, and none that appends to the same list ends between its start and its end."""
    for ends in permutations(range(len(txns))):
        states: list[State] = [{}]
        for number in ends:
            states.append(txns[number].after(states[-1]))
        place = {number: at for at, number in enumerate(ends)}
        starts = [_starts(txns, number, place, states, order) for number in range(len(txns))]
        if all(starts):
            return True
    return False


def _starts(
    txns: Sequence[Txn], number: int, place: Mapping[int, int], states: Sequence[State], order: Order
) -> list[int]:
    """Return after how many ends the transaction may have started."""
    txn, found = txns[number], []
    for start in range(place[number] + 1):
        beside = [txns[other] for other, at in place.items() if start <= at < place[number]]
        behind = [txns[other] for other, at in place.items() if at >= start and other != number]
        if (
            all(txn.appended.isdisjoint(other.appended) for other in beside)
            and not any(_must_precede(other, txn, order) for other in behind)
            and txn.explained_by(dict.fromkeys(range(len(txn.steps)), states[start]))
        ):
            found.append(start)
    return found
