"""The highest seq of each client in the tree: bounded, equal after equal deliveries, and part of snapshots."""

from collections import OrderedDict

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zab_chaos.node.core.settings import FORMAT_WITHOUT_FORGOTTEN, FORMAT_WITHOUT_USES, STATE_FORMAT
from zab_chaos.node.core.zxid import ZERO, Zxid, zxid
from zab_chaos.node.tree.seqs import NO_SEQ, Seqs
from zab_chaos.node.tree.tree import StateError, Tree
from zab_chaos.node.tree.txns import CheckTxn, Origin, Txn, encode

uses = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 9)), max_size=40)
CLIENTS_MAX = 4


@given(uses)
def test_the_least_recently_used_client_is_forgotten(pairs: list[tuple[int, int]]) -> None:
    found = Seqs(CLIENTS_MAX)
    naive = OrderedDict[int, tuple[int, Zxid]]()
    forgotten = ZERO
    for counter, (client, seq) in enumerate(pairs, 1):
        dropped = found.use(client, seq, zxid(1, counter))
        known, _ = naive.pop(client, (NO_SEQ, ZERO))
        naive[client] = (max(seq, known), zxid(1, counter))
        expected = None
        if len(naive) > CLIENTS_MAX:
            expected, (_, forgotten) = naive.popitem(last=False)
        assert dropped == expected
        assert found.entries() == [(client, *entry) for client, entry in naive.items()]
        assert found.forgotten == forgotten


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
    """Its node was started with a lower limit: that is no damage of the disk."""
    full = Tree(clients_max=CLIENTS_MAX + 1)
    for client in range(CLIENTS_MAX + 1):
        full.apply(zxid(1, client + 1), txn(client, 1))
    with pytest.raises(StateError, match="has 5 clients, and clients_max is 4: the limit must stay as it was"):
        Tree(clients_max=CLIENTS_MAX).load(full.dump(), full.zxid)


def test_a_state_whose_clients_are_not_in_the_order_of_their_use_is_refused() -> None:
    tree = Tree()
    for counter in (1, 2):
        tree.apply(zxid(1, counter), txn(counter, 1))
    kind, znodes, clients, _ = msgspec.msgpack.decode(tree.dump())
    for wrong in (
        [kind, znodes, clients[::-1], 0],
        [kind, znodes, clients, clients[0][2]],
        [kind, znodes, clients, -1],
    ):
        with pytest.raises(StateError, match="not in the order of their last use"):
            Tree().load(msgspec.msgpack.encode(wrong), zxid(1, 2))


def test_the_state_of_an_older_node_may_have_forgotten_any_client_up_to_its_zxid() -> None:
    older = Tree(state_format=FORMAT_WITHOUT_USES)
    for counter in (1, 2):
        older.apply(zxid(1, counter), txn(counter, 7))
    state = older.dump()
    assert msgspec.msgpack.decode(state)[2:] == [[[1, 7], [2, 7]]]
    loaded = Tree()
    loaded.load(state, zxid(1, 5))
    assert loaded.sessions.entries() == [(1, 7, zxid(1, 5)), (2, 7, zxid(1, 5))]
    assert loaded.sessions.forgotten == zxid(1, 5)
    without_forgotten = Tree(state_format=FORMAT_WITHOUT_FORGOTTEN)
    without_forgotten.load(state, zxid(1, 5))
    assert without_forgotten.digest == older.digest
    loaded.apply(zxid(1, 6), txn(1, 8))
    assert loaded.sessions.entries() == [(2, 7, zxid(1, 5)), (1, 8, zxid(1, 6))]


def test_what_was_forgotten_is_in_the_digest_unless_an_older_node_computes_it() -> None:
    def after(state_format: int, *clients: int) -> Tree:
        tree = Tree(clients_max=1, state_format=state_format)
        for counter, client in enumerate(clients, 1):
            tree.apply(zxid(1, counter), txn(client, 7))
        return tree

    for state_format, differs in ((STATE_FORMAT, True), (FORMAT_WITHOUT_FORGOTTEN, False)):
        one, other = after(state_format, 1, 2), after(state_format, 1, 1, 2)
        assert one.sessions.forgotten != other.sessions.forgotten
        assert (one.digest != other.digest) == differs
        loaded = Tree(clients_max=1)
        loaded.load(one.dump(), one.zxid)
        assert loaded.digest == after(STATE_FORMAT, 1, 2).digest


def test_seqs_are_in_the_digest() -> None:
    one, other = Tree(), Tree()
    one.apply(zxid(1, 1), txn(1, 1))
    other.apply(zxid(1, 1), txn(1, 2))
    assert len({one.digest, other.digest, Tree().digest}) == 3
