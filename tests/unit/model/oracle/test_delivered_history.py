"""The delivered history: its comparison against the definition of a conflict, and its corner cases one by one."""

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zab_chaos.model.events import Deliver
from zab_chaos.model.oracle.delivered_history import Conflict, DeliveredHistory, HistoryPosition
from zab_chaos.node.core import digest as dg

UNIVERSE = [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (3, 1)]
Sequence = list[tuple[tuple[int, int], int]]


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


def batches(sequence: Sequence) -> list[tuple[int, int, list[int]]]:
    """Split a sequence into the batches in which a node delivers it: consecutive zxids together."""
    found: list[tuple[int, int, list[int]]] = []
    for (epoch, counter), digest in sequence:
        if found and found[-1][0] == epoch and found[-1][1] + len(found[-1][2]) == counter:
            found[-1][2].append(digest)
        else:
            found.append((epoch, counter, [digest]))
    return found


sequences = st.lists(st.sampled_from(UNIVERSE), unique=True).flatmap(
    lambda zxids: st.lists(st.integers(1, 2), min_size=len(zxids), max_size=len(zxids)).map(
        lambda digests: list(zip(sorted(zxids), digests, strict=True))
    )
)


@pytest.mark.slow
@settings(max_examples=300)
@given(st.lists(sequences, min_size=2, max_size=4))
def test_a_conflict_is_found_exactly_when_neither_sequence_is_a_prefix(all_sequences: list[Sequence]) -> None:
    history = DeliveredHistory()
    conflicts: list[Conflict] = []
    for node, sequence in enumerate(all_sequences, 1):
        position = HistoryPosition()
        for epoch, first, digests in batches(sequence):
            found = history.deliver(position, deliver(node, epoch, first, digests)).conflict
            conflicts += [found] if found else []
    pairs = combinations(all_sequences, 2)
    prefixes = all(a[: len(b)] == b or b[: len(a)] == a for a, b in pairs)
    assert bool(conflicts) != prefixes


def test_a_batch_may_repeat_known_transactions_and_extend_the_history() -> None:
    history, one, two = DeliveredHistory(), HistoryPosition(), HistoryPosition()
    history.deliver(one, deliver(1, 1, 1, [5, 6]))
    step = history.deliver(two, deliver(2, 1, 1, [5, 6, 7, 8]))
    assert (step.appended, step.all_known, step.conflict) == (2, False, None)
    assert list(history.digests) == [5, 6, 7, 8]
    assert [history.first_delivery(index).node for index in range(4)] == [1, 1, 2, 2]
    assert history.deliver(one, deliver(1, 1, 3, [7])).all_known


def test_the_running_digest_is_the_nodes_own() -> None:
    history = DeliveredHistory()
    history.deliver(HistoryPosition(), deliver(1, 1, 1, [5, 6]))
    expected = dg.fold(dg.fold(dg.EMPTY, 1 << 32 | 1, 5), 1 << 32 | 2, 6)
    assert history.digest_at(1 << 32 | 2) == expected
    assert history.digest_at(0) == dg.EMPTY
    assert history.digest_at(1 << 32 | 3) is None


def test_a_node_that_skipped_transactions_continues_after_them() -> None:
    history, one, two = DeliveredHistory(), HistoryPosition(), HistoryPosition()
    history.deliver(one, deliver(1, 1, 1, [5, 6, 7, 8]))
    history.deliver(two, deliver(2, 1, 1, [5]))
    step = history.deliver(two, deliver(2, 1, 3, [7]))
    assert step.conflict is not None
    assert (step.conflict.kind, step.conflict.index) == ("skipped", 1)
    assert history.deliver(two, deliver(2, 1, 4, [8])).all_known
    assert [two.has(index) for index in range(4)] == [True, False, True, True]


def test_a_diverged_node_is_not_compared_any_more() -> None:
    history, one, two = DeliveredHistory(), HistoryPosition(), HistoryPosition()
    history.deliver(one, deliver(1, 1, 1, [5, 6]))
    step = history.deliver(two, deliver(2, 1, 1, [5, 9]))
    assert step.conflict is not None
    assert (step.conflict.kind, step.conflict.first_delivery.node) == ("bytes", 1)
    assert history.deliver(two, deliver(2, 1, 3, [10])).conflict is None
    assert len(history) == 2
    assert [two.has(0), two.has(1)] == [True, False]


def test_a_snapshot_counts_as_delivery_of_its_transactions() -> None:
    history, one, two = DeliveredHistory(), HistoryPosition(), HistoryPosition()
    history.deliver(one, deliver(1, 1, 1, [5, 6, 7]))
    history.restore(two, 1 << 32 | 2)
    assert not two.diverged
    assert history.deliver(two, deliver(2, 1, 3, [7])).all_known
    assert two.has(0)
    history.restore(two, 1 << 32 | 9)
    assert two.diverged


def test_the_length_of_the_history_at_each_time() -> None:
    history, position = DeliveredHistory(), HistoryPosition()
    history.deliver(position, deliver(1, 1, 1, [5, 6], t=10))
    history.deliver(position, deliver(1, 1, 3, [7], t=20))
    assert [history.length_at(t) for t in (9, 10, 19, 20)] == [0, 2, 2, 3]
    assert history.growth_times() == [10, 20]
