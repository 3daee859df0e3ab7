"""One flipped bit stops one node: the one that its leader or the majority contradicts."""

import pytest

from zab_chaos.model.transcripts.scripted_ensemble import ScriptedEnsemble
from zab_chaos.node.core.digest_check import REMEMBERED, DigestCheck
from zab_chaos.node.core.zxid import Zxid


def flipped(nodes: int, wrong: int, down: tuple[int, ...] = ()) -> ScriptedEnsemble:
    """An ensemble that has delivered something, with one flipped bit in the digest of one node."""
    net = ScriptedEnsemble(nodes)
    net.begin()
    net.submit(nodes, "a")
    net.crash(*down)
    net.peer(wrong).journal.digest ^= 1
    return net


def ended(net: ScriptedEnsemble) -> list[int]:
    return [i for i, node in net.nodes.items() if node.peer is None]


@pytest.mark.parametrize("nodes", [3, 4, 5])
@pytest.mark.parametrize("busy", [False, True])
def test_only_a_follower_with_a_wrong_digest_stops(nodes: int, busy: bool) -> None:
    net = flipped(nodes, 1)
    if busy:
        net.submit(nodes, "b")
    net.tick(1000)
    assert ended(net) == [1]
    assert any("1: aborts: digest of the history up to" in line for line in net.lines)
    assert net.peer(nodes).primary


@pytest.mark.parametrize("nodes", [3, 4, 5])
@pytest.mark.parametrize("busy", [False, True])
def test_only_a_leader_with_a_wrong_digest_stops(nodes: int, busy: bool) -> None:
    net = flipped(nodes, nodes)
    if busy:
        net.submit(nodes, "b")
    net.tick(2000)
    assert ended(net) == [nodes]
    assert net.peer(nodes - 1).primary
    net.submit(nodes - 1, "c")
    assert net.nodes[1].state[-1] == "c"


def test_without_other_nodes_the_leader_is_believed() -> None:
    net = flipped(3, 1, down=(2,))
    net.tick(1000)
    assert ended(net) == [1, 2]
    assert any("the leader is believed" in line for line in net.lines)


def test_a_lagging_node_is_compared_at_its_own_zxid() -> None:
    net = flipped(3, 1)
    net.hold("COMMIT", (3, 1))
    net.submit(3, "b")
    net.submit(3, "c")
    net.tick(300)
    assert ended(net) == [1]


def test_a_settled_dispute_does_not_count_again() -> None:
    check = DigestCheck(quorum=2, patience=100)
    check.compare(2, Zxid(1), 5, Zxid(1), 6, now=0)
    assert check.disputed
    check.compare(3, Zxid(1), 6, Zxid(1), 6, now=1)
    assert check.reason_to_abort(2, now=200) is None
    assert not check.disputed
    check.compare(2, Zxid(1), 5, Zxid(1), 6, now=300)
    assert check.reason_to_abort(2, now=399) is None
    assert "the leader is believed" in str(check.reason_to_abort(2, now=400))


def test_a_restarted_peer_is_compared_afresh() -> None:
    check = DigestCheck(quorum=2, patience=100)
    check.compare(2, Zxid(1), 5, Zxid(1), 6, now=0)
    check.forget(2)
    check.compare(3, Zxid(1), 5, Zxid(1), 6, now=0)
    assert check.reason_to_abort(None, now=1000) is None
    check.compare(2, Zxid(1), 5, Zxid(1), 6, now=0)
    assert "2 nodes contradict" in str(check.reason_to_abort(None, now=1000))


def test_the_number_of_remembered_digests_is_limited() -> None:
    check = DigestCheck(quorum=2, patience=100)
    for z in range(REMEMBERED + 10):
        check.remember(Zxid(z), z)
    check.compare(2, Zxid(9), 0, Zxid(10**6), 0, now=0)
    assert not check.disputed, "too long ago to tell"
    check.compare(2, Zxid(REMEMBERED), 0, Zxid(10**6), 0, now=0)
    assert check.disputed
