"""Whether some order explains a history, by trying every order: the definition that the judge's search is compared with."""

from collections.abc import Sequence

from zab_chaos.model.oracle.linearization import States, Transaction, _effects


def explained(transactions: Sequence[Transaction], versions: bool = False) -> bool:
    """Return whether some order of the transactions, and of some of the unknown ones, explains all answers."""
    keys = 1 + max((key for one in transactions for key, _ in one.steps), default=0)
    certain = frozenset(number for number, one in enumerate(transactions) if one.known)
    needed = [certain & _before(transactions, number) for number in range(len(transactions))]
    tried: set[tuple[frozenset[int], States]] = set()
    ahead: list[tuple[frozenset[int], States]] = [(frozenset(), (None,) * keys)]
    while ahead:
        done, states = ahead.pop()
        if certain <= done:
            return True
        for number, one in enumerate(transactions):
            if number not in done and needed[number] <= done:
                legal, after = _effects(one, states, versions)
                if legal and (step := (done | {number}, after)) not in tried:
                    tried.add(step)
                    ahead.append(step)
    return False


def _before(transactions: Sequence[Transaction], number: int) -> frozenset[int]:
    """Return the transactions that must come before this one: those that had returned before it was called. Before a read that
    may be stale only what its session did."""
    one = transactions[number]
    if one.may_be_stale:
        return frozenset(other for other in range(number) if transactions[other].session == one.session)
    returned = {other: it.answer.t for other, it in enumerate(transactions) if it.answer is not None}
    return frozenset(other for other, t in returned.items() if t < one.invoke.t)
