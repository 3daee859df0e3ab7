"""The highest seq of each client in the tree: bounded, equal after equal deliveries, and part of snapshots."""

from collections import OrderedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zab_chaos.node.core.zxid import zxid
from zab_chaos.node.tree.seqs import NO_SEQ, raise_seq
from zab_chaos.node.tree.tree import StateError, Tree
from zab_chaos.node.tree.txns import CheckTxn, Origin, Txn, encode

uses = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 9)), max_size=40)
CLIENTS_MAX = 4


@given(uses)
def test_the_least_recently_used_client_is_forgotten(pairs: list[tuple[int, int]]) -> None:
    found: dict[int, int] = {}
    naive = OrderedDict[int, int]()
    for client, seq in pairs:
        raise_seq(found, client, seq, CLIENTS_MAX)
        seq = max(seq, naive.pop(client, NO_SEQ))
        naive[client] = seq
        if len(naive) > CLIENTS_MAX:
            naive.popitem(last=False)
        assert list(found.items()) == list(naive.items())


def txn(client: int, seq: int) -> bytes:
    return encode(Txn(Origin(1, 1, client, seq), CheckTxn("/", 0)))


@given(uses, st.integers(0, 40), st.integers(0, 40))
def test_a_snapshot_or_a_redelivered_suffix_makes_no_difference(
    pairs: list[tuple[int, int]], at: int, again: int
) -> None:
    highest: dict[int, int] = {}
    ascending = [(client, highest.setdefault(client, 0) + number + seq) for number, (client, seq) in enumerate(pairs)]
    txns = [txn(client, seq) for client, seq in sorted(ascending, key=lambda pair: pair[1])]
    whole, restored = Tree(clients_max=CLIENTS_MAX), Tree(clients_max=CLIENTS_MAX)
    for number, data in enumerate(txns, 1):
        whole.apply(zxid(1, number), data)
    for number, data in enumerate(txns[:at], 1):
        restored.apply(zxid(1, number), data)
    state = restored.dump()
    restored = Tree(clients_max=CLIENTS_MAX)
    restored.load(state, zxid(1, at))
    for number, data in enumerate(txns[min(at, again) :], min(at, again) + 1):
        restored.apply(zxid(1, number), data)
    assert restored.dump() == whole.dump()
    assert restored.digest == whole.digest


def test_a_state_with_more_clients_than_are_remembered_is_refused() -> None:
    full = Tree(clients_max=CLIENTS_MAX + 1)
    for client in range(CLIENTS_MAX + 1):
        full.apply(zxid(1, client + 1), txn(client, 1))
    with pytest.raises(StateError, match="its clients are not what a tree remembers"):
        Tree(clients_max=CLIENTS_MAX).load(full.dump(), full.zxid)


def test_seqs_are_in_the_digest() -> None:
    one, other = Tree(), Tree()
    one.apply(zxid(1, 1), txn(1, 1))
    other.apply(zxid(1, 1), txn(1, 2))
    assert len({one.digest, other.digest, Tree().digest}) == 3
