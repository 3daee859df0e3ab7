"""Claims: clients that claim more than the ensemble has, and clients that are just ahead of a node that has to catch up."""

from types import SimpleNamespace

import pytest

from zab_chaos.node.clients.claims import Claims
from zab_chaos.node.core.zxid import Zxid, zxid

PATIENCE = 100
ME = 7


class Node:
    """The part of a core that claims need, and the last delivered zxid."""

    def __init__(self) -> None:
        self.in_broadcast = True
        self.iteration = 1
        self.history = SimpleNamespace(last=z(5))
        self.delivered = z(3)
        self.claims = Claims(PATIENCE)

    def dropped(self, now: int) -> list[int]:
        return [client for client, _ in self.claims.find_false(self, self.delivered, now)]


def z(counter: int) -> Zxid:
    return zxid(1, counter)


@pytest.fixture
def node() -> Node:
    return Node()


def test_a_claim_is_false_when_the_node_has_caught_up_for_longer_than_the_patience(node: Node) -> None:
    node.claims.add(ME, zxid(9, 9), node.delivered)
    assert node.dropped(0) == node.dropped(PATIENCE) == []
    assert node.dropped(PATIENCE + 1) == []  # transactions of its log are not delivered yet
    node.history.last = z(8)  # later ones do not count
    node.delivered = z(5)
    ((client, words),) = node.claims.find_false(node, node.delivered, PATIENCE + 2)
    assert client == ME
    assert "has seen 9:9, but this ensemble has come to 1:5" in words


def test_a_claim_comes_true(node: Node) -> None:
    node.claims.add(ME, z(7), node.delivered)
    assert node.dropped(0) == []
    node.history.last = z(7)
    assert node.dropped(PATIENCE + 1) == []
    node.delivered = z(7)
    assert node.dropped(PATIENCE + 2) == []
    assert not node.claims.open


def test_without_a_leader_no_claim_is_judged_and_the_patience_restarts(node: Node) -> None:
    node.claims.add(ME, z(9), node.delivered)
    node.delivered = node.history.last
    assert node.dropped(0) == []
    node.in_broadcast = False
    assert node.dropped(10 * PATIENCE) == []
    node.in_broadcast, node.iteration = True, 2
    assert node.dropped(11 * PATIENCE) == []
    node.iteration = 3  # the leader was lost and found again between two calls
    assert node.dropped(12 * PATIENCE + 1) == []
    assert node.dropped(13 * PATIENCE + 2) == [ME]


def test_clients_without_a_higher_claim_and_clients_that_left_are_not_watched(node: Node) -> None:
    node.claims.add(ME, node.delivered, node.delivered)
    assert not node.claims.open
    node.claims.add(ME, z(9), node.delivered)
    node.claims.add(ME, z(2), node.delivered)  # it connects again with a lower claim
    assert not node.claims.open
    node.claims.add(ME, z(9), node.delivered)
    node.claims.remove(ME)
    assert not node.claims.open
