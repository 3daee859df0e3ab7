"""The ledger's comparison against the definitions themselves, and its corners one by one."""

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from zab_chaos.model.events import Deliver
from zab_chaos.model.oracle.ledger import Conflict, Ledger, Place
from zab_chaos.node.core import digest as dg

UNIVERSE = [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (3, 1)]
History = list[tuple[tuple[int, int], int]]


def deliver(node: int, epoch: int, first: int, digests: list[int], t: int = 0) -> Deliver:
    return Deliver(
        t=t,
        node=node,
        life=1,
        n=1,
        epoch=epoch,
        first=first,
        digests=dg.show_all(digests),
        digest="0" * 16,
        tree="0" * 16,
    )


def batches(history: History) -> list[tuple[int, int, list[int]]]:
    """A history as a node delivers it: what is consecutive in one batch."""
    found: list[tuple[int, int, list[int]]] = []
    for (epoch, counter), digest in history:
        if found and found[-1][0] == epoch and found[-1][1] + len(found[-1][2]) == counter:
            found[-1][2].append(digest)
        else:
            found.append((epoch, counter, [digest]))
    return found


histories = st.lists(st.sampled_from(UNIVERSE), unique=True).flatmap(
    lambda zxids: st.lists(st.integers(1, 2), min_size=len(zxids), max_size=len(zxids)).map(
        lambda digests: list(zip(sorted(zxids), digests, strict=True))
    )
)


@settings(max_examples=300, deadline=None)
@given(st.lists(histories, min_size=2, max_size=4))
def test_a_conflict_is_found_exactly_when_two_sequences_are_no_prefixes(all_histories: list[History]) -> None:
    ledger = Ledger()
    conflicts: list[Conflict] = []
    for node, history in enumerate(all_histories, 1):
        place = Place()
        for epoch, first, digests in batches(history):
            found = ledger.deliver(place, deliver(node, epoch, first, digests)).conflict
            conflicts += [found] if found else []
    pairs = combinations(all_histories, 2)
    prefixes = all(a[: len(b)] == b or b[: len(a)] == a for a, b in pairs)
    assert bool(conflicts) != prefixes


def test_a_batch_may_repeat_and_go_on() -> None:
    ledger, one, two = Ledger(), Place(), Place()
    ledger.deliver(one, deliver(1, 1, 1, [5, 6]))
    step = ledger.deliver(two, deliver(2, 1, 1, [5, 6, 7, 8]))
    assert (step.fresh, step.known, step.conflict) == (2, False, None)
    assert list(ledger.digests) == [5, 6, 7, 8]
    assert [ledger.author(index).node for index in range(4)] == [1, 1, 2, 2]
    assert ledger.deliver(one, deliver(1, 1, 3, [7])).known


def test_the_running_digest_is_the_nodes_own() -> None:
    ledger = Ledger()
    ledger.deliver(Place(), deliver(1, 1, 1, [5, 6]))
    expected = dg.fold(dg.fold(dg.EMPTY, 1 << 32 | 1, 5), 1 << 32 | 2, 6)
    assert ledger.digest_at(1 << 32 | 2) == expected
    assert ledger.digest_at(0) == dg.EMPTY
    assert ledger.digest_at(1 << 32 | 3) is None


def test_who_skipped_goes_on_behind_the_hole() -> None:
    ledger, one, two = Ledger(), Place(), Place()
    ledger.deliver(one, deliver(1, 1, 1, [5, 6, 7, 8]))
    ledger.deliver(two, deliver(2, 1, 1, [5]))
    step = ledger.deliver(two, deliver(2, 1, 3, [7]))
    assert step.conflict is not None
    assert (step.conflict.kind, step.conflict.index) == ("skipped", 1)
    assert ledger.deliver(two, deliver(2, 1, 4, [8])).known
    assert [two.has(index) for index in range(4)] == [True, False, True, True]


def test_who_has_left_the_path_is_not_compared_any_more() -> None:
    ledger, one, two = Ledger(), Place(), Place()
    ledger.deliver(one, deliver(1, 1, 1, [5, 6]))
    step = ledger.deliver(two, deliver(2, 1, 1, [5, 9]))
    assert step.conflict is not None
    assert (step.conflict.kind, step.conflict.author.node) == ("bytes", 1)
    assert ledger.deliver(two, deliver(2, 1, 3, [10])).conflict is None
    assert len(ledger) == 2
    assert [two.has(0), two.has(1)] == [True, False]


def test_a_snapshot_counts_as_delivery_of_what_is_in_it() -> None:
    ledger, one, two = Ledger(), Place(), Place()
    ledger.deliver(one, deliver(1, 1, 1, [5, 6, 7]))
    assert ledger.restore(two, 1 << 32 | 2)
    assert ledger.deliver(two, deliver(2, 1, 3, [7])).known
    assert two.has(0)
    assert not ledger.restore(two, 1 << 32 | 9)
    assert two.diverged


def test_the_ledger_knows_how_long_it_was_when() -> None:
    ledger, place = Ledger(), Place()
    ledger.deliver(place, deliver(1, 1, 1, [5, 6], t=10))
    ledger.deliver(place, deliver(1, 1, 3, [7], t=20))
    assert [ledger.length_at(t) for t in (9, 10, 19, 20)] == [0, 2, 2, 3]
    assert ledger.growth() == [10, 20]
