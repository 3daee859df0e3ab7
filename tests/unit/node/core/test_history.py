"""Histories: the difference of two histories always turns one into the other, whatever was purged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zab_chaos.node.core import zxid as zx
from zab_chaos.node.core.digest import blake2b
from zab_chaos.node.core.history import History, NotInHistory
from zab_chaos.node.core.messages import TxnRun
from zab_chaos.node.core.zxid import ZERO, Zxid

Log = list[tuple[int, int]]  # (epoch, counter), ascending


def data(epoch: int, counter: int) -> bytes:
    return b"%d:%d" % (epoch, counter)


def history(log: Log, base: int = 0) -> History:
    """Return a history of `log` whose first `base` transactions are in a snapshot."""
    made = History((zx.zxid(*log[base - 1]), base, b"state") if base else None, blake2b)
    for epoch, counter in log[base:]:
        made.append(TxnRun(zx.zxid(epoch, counter), [data(epoch, counter)]))
    return made


def contents(h: History) -> list[tuple[Zxid, bytes]]:
    return [(Zxid(b.first + i), txn) for b in h.between(h.base, h.last) for i, txn in enumerate(b.txns)]


@st.composite
def two_logs(draw: st.DrawFn) -> tuple[Log, Log, int]:
    """Return a leader's and a follower's log as Zab can leave them: a common committed prefix, then different tails.

    One zxid names one transaction, so the follower's tail is a prefix of what its epoch's primary broadcast.
    """
    epochs = draw(st.lists(st.integers(1, 4), max_size=4))
    common = [(e, c) for e, n in enumerate(epochs, 1) for c in range(1, n + 1)]
    at = len(epochs) + 1
    tail = [(at, c) for c in range(1, draw(st.integers(0, 3)) + 1)]
    leader = common + tail[: draw(st.integers(0, len(tail)))]
    leader += [(at + 1, c) for c in range(1, draw(st.integers(0, 3)) + 1)]
    follower = common[: draw(st.integers(0, len(common)))]
    if follower == common:
        follower = follower + tail
    return leader, follower, len(common)


@given(two_logs(), st.data())
def test_a_difference_turns_the_follower_into_the_leader(logs: tuple[Log, Log, int], drawn: st.DataObject) -> None:
    leader_log, follower_log, committed = logs
    # Only committed state is purged; the follower's snapshot is of what it had delivered.
    leader = history(leader_log, drawn.draw(st.integers(0, committed)))
    follower = history(follower_log, drawn.draw(st.integers(0, min(committed, len(follower_log)))))
    sync = leader.difference(follower.shape())
    if sync.snapshot is not None:
        follower.replace(sync.snapshot)
    else:
        follower.truncate(sync.keep)
    for run in sync.runs:
        assert follower.is_next(run.first)
        follower.append(run)
    assert follower.last == leader.last
    low = max(leader.base, follower.base)
    assert [t for t in contents(follower) if t[0] > low] == [t for t in contents(leader) if t[0] > low]


@given(two_logs())
def test_without_purging_no_snapshot_is_sent_and_nothing_common_is_sent_again(logs: tuple[Log, Log, int]) -> None:
    leader_log, follower_log, _ = logs
    sync = history(leader_log).difference(history(follower_log).shape())
    assert sync.snapshot is None
    sent = [zx.pair(Zxid(run.first + i)) for run in sync.runs for i in range(len(run.txns))]
    assert not {tuple(z) for z in sent} & {pair for pair in follower_log if zx.zxid(*pair) <= sync.keep}


def test_compaction_keeps_what_lies_above_the_previous_snapshot() -> None:
    h = history([(1, c) for c in range(1, 11)])
    h.compact((zx.zxid(1, 4), 0, b"a"))
    assert h.base == ZERO
    h.compact((zx.zxid(1, 8), 0, b"b"))
    assert h.base == zx.zxid(1, 4)
    assert [z for z, _ in contents(h)] == [zx.zxid(1, c) for c in range(5, 11)]
    assert h.bytes == sum(len(data(1, c)) for c in (9, 10))
    # A node at or above the base gets a suffix, a node below it gets the snapshot.
    assert h.difference(history([(1, c) for c in range(1, 5)]).shape()).snapshot is None
    assert h.difference(history([(1, c) for c in range(1, 4)]).shape()).snapshot == (zx.zxid(1, 8), 0, b"b")


def test_truncation_removes_a_whole_epoch_and_no_earlier_one() -> None:
    h = history([(1, 1), (1, 2), (1, 3), (2, 1), (2, 2)], base=1)
    h.truncate(zx.zxid(1, 3))
    h.append(TxnRun(zx.zxid(3, 1), [data(3, 1)]))
    assert contents(h) == [(zx.zxid(*z), data(*z)) for z in [(1, 2), (1, 3), (3, 1)]]
    assert h.shape().epochs == [(1, 3), (3, 1)]


def test_an_unknown_zxid_is_refused() -> None:
    h = history([(1, 1), (1, 2), (3, 1)])
    for foreign in (zx.zxid(1, 3), zx.zxid(2, 1), zx.zxid(3, 2), zx.zxid(4, 1)):
        assert foreign not in h
        with pytest.raises(NotInHistory):
            h.truncate(foreign)
    assert h.last == zx.zxid(3, 1)


@pytest.mark.parametrize(
    ("z", "fits"),
    [
        ((1, 3), True),
        ((1, 4), False),
        ((1, 2), False),
        ((2, 1), True),
        ((5, 1), True),
        ((2, 2), False),
        ((0, 1), False),
    ],
)
def test_only_the_next_zxid_may_follow(z: tuple[int, int], fits: bool) -> None:
    assert history([(1, 1), (1, 2)]).is_next(zx.zxid(*z)) is fits
