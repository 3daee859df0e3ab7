"""A node that is looking when others have already decided: when it joins them, and when it must not."""

import pytest

from zab_chaos.node.core.messages import Role, Vote
from zab_chaos.node.core.peer import Peer
from zab_chaos.node.core.ready import Recovered
from zab_chaos.node.core.settings import Settings


def looking(members: int, *, amnesiac: bool = False) -> Peer:
    """Node 1, linked to all others, looking for a leader."""
    peer = Peer(Settings(me=1, members=tuple(range(1, members + 1))), Recovered(0, 0, None, [], amnesiac))
    peer.start(0)
    for other in range(2, members + 1):
        peer.link_up(other)
    return peer


def told(peer: Peer, *voters: tuple[int, Role]) -> Peer:
    """Let each of these nodes report that it has decided for node 2."""
    for voter, role in voters:
        peer.step(voter, Vote(1, 2, 0, 0, role, False))
    return peer


LEADER, FOLLOWER, OTHER = (2, Role.LEADING), (3, Role.FOLLOWING), (4, Role.FOLLOWING)


@pytest.mark.parametrize(("members", "voters"), [(3, [LEADER]), (4, [LEADER, FOLLOWER]), (5, [LEADER, FOLLOWER])])
def test_the_last_node_that_a_quorum_needs_joins(members: int, voters: list[tuple[int, Role]]) -> None:
    """Swarm seed 4802: one of four nodes had lost its disk, and the other three needed each other.

    The node that learned of the decision last found two nodes behind the leader, not three, and waited. The leader gave up
    without it, and so on for ever.
    """
    peer = told(looking(members), *voters)
    assert (peer.role, peer.leader) == (Role.FOLLOWING, 2)


@pytest.mark.parametrize(
    ("members", "voters"),
    [(4, [LEADER]), (5, [LEADER]), (3, [FOLLOWER]), (4, [FOLLOWER, OTHER]), (5, [FOLLOWER, OTHER])],
)
def test_a_node_does_not_join_without_a_quorum_or_the_leaders_own_word(
    members: int, voters: list[tuple[int, Role]]
) -> None:
    assert told(looking(members), *voters).role == Role.LOOKING


def test_a_node_that_lost_its_disk_completes_no_quorum() -> None:
    assert told(looking(3, amnesiac=True), LEADER).role == Role.LOOKING
    assert told(looking(3, amnesiac=True), LEADER, FOLLOWER).role == Role.FOLLOWING


def decided_for_2(members: int = 4) -> Peer:
    """Node 1, which has joined node 2 in discovery."""
    peer = looking(members)
    for voter in (2, 3):
        peer.step(voter, Vote(peer.round, 2, 0, 0, Role.LOOKING, False))
    peer.tick(peer.settings.finalize)
    assert (peer.role, peer.leader) == (Role.FOLLOWING, 2)
    return peer


@pytest.mark.parametrize("leader", [3, 0])
def test_a_chosen_leader_may_vote_for_another_node(leader: int) -> None:
    """Swarm seed 2978: of three nodes that need each other, 1 decided for 2 just before 2 heard of 3.

    The others waited for node 1, and node 1 for the deadline of discovery, five seconds.
    """
    peer = decided_for_2()
    peer.step(2, Vote(peer.round, leader, 0, 0, Role.LOOKING, False))
    assert peer.role is Role.LOOKING


@pytest.mark.parametrize(
    ("source", "leader", "role"),
    [
        (2, 2, Role.LOOKING),  # it has not decided yet
        (3, 3, Role.LOOKING),  # votes of other nodes do not matter to this node any more
        (3, 3, Role.FOLLOWING),
        (2, 2, Role.LEADING),
    ],
)
def test_other_votes_do_not_end_following(source: int, leader: int, role: Role) -> None:
    peer = decided_for_2()
    peer.step(source, Vote(peer.round, leader, 0, 0, role, False))
    assert (peer.role, peer.leader) == (Role.FOLLOWING, 2)
