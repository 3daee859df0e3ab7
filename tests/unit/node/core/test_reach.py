"""Networks in which some nodes can't reach each other: if a node reaches a quorum, one leads it soon, and stays leader."""

import itertools

import pytest
from ensemble import Ensemble

Links = set[tuple[int, int]]


def only(world: Ensemble, *whole: tuple[int, int]) -> None:
    """Keep only these links, in both directions."""
    kept = {*whole, *((b, a) for a, b in whole)}
    pairs = itertools.permutations(world.members, 2)
    world.partition(*(pair for pair in pairs if pair not in kept))


def elections(world: Ensemble) -> int:
    return sum("role {'role': 'LEADING'" in line for line in world.log)


def test_the_restarted_centre_of_a_star_leads() -> None:
    """The leaves may have newer histories than the middle, but reach no other node."""
    world = Ensemble(5, seed=3)
    world.start()
    world.until(lambda: world.leader() == 5)
    only(world, (5, 1), (5, 2), (5, 3), (5, 4))
    world.run(3000)
    world.submit(5, b"a")
    world.run(100)
    world.crash(5)
    world.run(500)
    world.log.clear()
    world.start(5)
    world.until(lambda: world.leader() == 5, 2000)
    assert elections(world) == 1
    world.submit(5, b"b")
    world.run(500)
    assert [data for _, data in world.ledger] == [b"a", b"b"]


def test_nodes_do_not_vote_for_unreachable_candidates() -> None:
    """1, 2 and 3 are a quorum of four; 4, which has the highest id, reaches only 3."""
    world = Ensemble(4, seed=2)
    world.start()
    world.until(lambda: world.leader() == 4)
    only(world, (1, 2), (1, 3), (2, 3), (3, 4))
    world.log.clear()
    world.until(lambda: world.leader() in (1, 2, 3), 3000)
    assert elections(world) == 1
    world.run(2000)
    assert world.servers[4].peer is not None
    assert world.servers[4].peer.leader == 3


@pytest.mark.parametrize("seed", range(10))
def test_a_quorum_in_reach_gets_a_leader(seed: int) -> None:
    """Random fixed links: if a node reaches a quorum, a leader is established within two timeouts, and keeps leading."""
    world = Ensemble(5, seed=seed)
    world.start()
    world.until(lambda: world.leader() is not None)
    pairs = list(itertools.combinations(world.members, 2))
    whole = [pair for pair in pairs if world.random.random() < 0.6]
    only(world, *whole)
    reach = {node: 1 + sum(node in pair for pair in whole) for node in world.members}
    if max(reach.values()) < 3:
        only(world, (1, 2), (1, 3))
    world.run(1700)
    world.until(lambda: world.leader() is not None, 1500)
    leader = world.leader()
    assert leader is not None
    world.log.clear()
    world.run(5000)
    assert world.leader() == leader
    assert elections(world) == 0


def test_a_candidate_that_loses_its_quorum_gets_no_more_votes() -> None:
    world = Ensemble(3, seed=1)
    world.start(1)
    world.run(2000)
    assert not any("'leader': 1" in line and "vote" in line for line in world.log), "alone, it does not vote for itself"
    world.start(2)
    world.until(lambda: world.leader() == 2, 1000)
