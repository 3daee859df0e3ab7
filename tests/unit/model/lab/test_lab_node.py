"""The lab's node, rule by rule of db-19's pseudo-code."""

import pytest

from zab_chaos.model.lab import LabNode, Message, Role, Txn
from zab_chaos.model.lab.messages import (
    Ack,
    AckEpoch,
    AckLeader,
    Commit,
    LookForLeader,
    NewEpoch,
    NewLeader,
    Propose,
    Vote,
)
from zab_chaos.model.lab.splitmix import splitmix64
from zab_chaos.node.core.zxid import ZERO, zxid

ONE_ONE = Txn(zxid(1, 1), b"a")
ONE_TWO = Txn(zxid(1, 2), b"b")


def looking(node_id: int = 2, nodes: int = 3) -> LabNode:
    node = LabNode(node_id, nodes, seed=0)
    node.start(0)
    return node


def leading(nodes: int = 3) -> LabNode:
    """Node 2, elected and established in epoch 1 at tick 5 by the smallest quorum (itself and the lowest ids)."""
    node = looking(2, nodes)
    others = [peer for peer in range(nodes) if peer != 2][: node.quorum - 1]
    for peer in others:
        node.receive(peer, Vote(peer, ZERO, 0, 2), 5)
    for peer in others:
        node.receive(peer, AckEpoch(0, ZERO), 5)
    for peer in others:
        node.receive(peer, AckLeader(1), 5)
    assert node.role is Role.LEADING
    assert node.synced
    return node


def following(leader: int = 2) -> LabNode:
    """Node 0 of 3, following in epoch 1, with an empty history."""
    node = looking(0)
    node.receive(leader, NewEpoch(1), 5)
    node.receive(leader, NewLeader(1, ()), 6)
    return node


def to_all(message: Message, *peers: int) -> list[tuple[int, Message]]:
    return [(peer, message) for peer in peers]


def test_a_looking_node_sends_look_for_leader_then_its_vote_to_ascending_peers() -> None:
    node = LabNode(1, 4, seed=0)
    expected = [*to_all(LookForLeader(1, ZERO, 0), 0, 2, 3), *to_all(Vote(1, ZERO, 0, 1), 0, 2, 3)]
    assert node.start(0) == expected


def test_the_deadline_is_150_ticks_and_seeded_jitter() -> None:
    node = LabNode(1, 3, seed=77)
    node.start(0)
    assert node.election_deadline == 150 + splitmix64(77 ^ 1 ^ 0) % 150
    assert node.tick(node.election_deadline - 1) == []
    assert node.tick(node.election_deadline) != []


def test_a_better_vote_is_adopted_and_sent_and_the_count_restarts() -> None:
    node = looking(2, 5)
    node.receive(0, Vote(0, ZERO, 0, 3), 1)
    assert node.receive(3, Vote(3, ZERO, 0, 4), 1) == to_all(Vote(2, ZERO, 0, 3), 0, 1, 3, 4)
    assert node.vote_view == {2: 3, 3: 4}


def test_the_higher_zxid_wins_over_the_higher_id() -> None:
    node = looking(0, 5)
    node.receive(1, Vote(1, zxid(1, 1), 0, 1), 1)
    assert node.receive(4, Vote(4, ZERO, 0, 4), 1) == []
    assert node.vote_target == (zxid(1, 1), 1)


def test_look_for_leader_counts_as_its_senders_vote_for_itself() -> None:
    node = looking(0)
    node.receive(2, LookForLeader(2, ZERO, 0), 1)
    assert (node.role, node.leader_id) == (Role.FOLLOWING, 2)


def test_a_quorum_for_itself_makes_a_node_lead_the_next_epoch() -> None:
    node = looking(2)
    assert node.receive(0, Vote(0, ZERO, 0, 2), 1) == to_all(NewEpoch(1), 0, 1)
    assert (node.role, node.accepted_epoch, node.current_epoch) == (Role.LEADING, 1, 0)


def test_a_quorum_is_more_than_half_also_of_an_even_number() -> None:
    node = looking(3, 4)
    assert node.receive(0, Vote(0, ZERO, 0, 3), 1) == []
    assert node.receive(1, Vote(1, ZERO, 0, 3), 1) == to_all(NewEpoch(1), 0, 1, 2)


@pytest.mark.parametrize("question", [Vote(1, ZERO, 0, 1), LookForLeader(1, ZERO, 0)])
def test_a_node_that_is_not_looking_answers_a_vote_with_its_leader(question: Message) -> None:
    assert following().receive(1, question, 7) == [(1, Vote(0, ZERO, 1, 2))]
    assert leading().receive(1, question, 7) == [(1, Vote(2, ZERO, 1, 2))]


def test_new_epoch_is_acknowledged_once_more_but_an_older_one_is_not() -> None:
    node = looking(0)
    assert node.receive(2, NewEpoch(2), 5) == [(2, AckEpoch(0, ZERO))]
    assert node.receive(2, NewEpoch(2), 6) == [(2, AckEpoch(0, ZERO))]
    assert node.receive(1, NewEpoch(1), 7) == []
    assert (node.accepted_epoch, node.leader_id) == (2, 2)


def test_even_a_refused_new_epoch_moves_the_deadline() -> None:
    node = following()
    node.receive(1, NewEpoch(0), 100)
    assert node.election_deadline == 250 + splitmix64(0 ^ 0 ^ 100) % 150


@pytest.mark.parametrize("message", [NewEpoch(2), NewLeader(2, ())])
def test_a_follower_follows_the_sender_of_a_newer_epoch(message: Message) -> None:
    node = following(leader=2)
    node.receive(1, message, 7)
    assert (node.role, node.leader_id) == (Role.FOLLOWING, 1)


@pytest.mark.parametrize("message", [NewEpoch(2), NewLeader(2, ())])
def test_a_leader_gives_way_to_a_newer_epoch(message: Message) -> None:
    node = leading()
    node.receive(1, message, 7)
    assert (node.role, node.leader_id) == (Role.FOLLOWING, 1)


def test_new_leader_replaces_the_history_and_an_older_one_is_ignored() -> None:
    node = following()
    node.receive(2, Propose(ONE_ONE), 7)
    assert node.receive(1, NewLeader(2, (ONE_TWO,)), 8) == [(1, AckLeader(2))]
    assert (node.history, node.current_epoch) == ([ONE_TWO], 2)
    assert node.receive(2, NewLeader(1, ()), 9) == []
    assert node.history == [ONE_TWO]


def test_the_leader_waits_for_a_quorum_in_both_phases() -> None:
    node = looking(4, 5)
    for peer in (0, 1):
        node.receive(peer, Vote(peer, ZERO, 0, 4), 1)
    assert node.receive(0, AckEpoch(0, ZERO), 2) == []
    assert node.receive(1, AckEpoch(0, ZERO), 2) == to_all(NewLeader(1, ()), 0, 1, 2, 3)
    node.receive(0, AckLeader(1), 3)
    assert not node.synced
    node.receive(1, AckLeader(1), 3)
    assert node.synced


def test_a_late_ack_epoch_restarts_the_count_of_synced_followers() -> None:
    node = looking(4, 5)
    for peer in (0, 1):
        node.receive(peer, Vote(peer, ZERO, 0, 4), 1)
    for peer in (0, 1):
        node.receive(peer, AckEpoch(0, ZERO), 2)
    node.receive(0, AckLeader(1), 3)
    assert node.receive(2, AckEpoch(0, ZERO), 4) == to_all(NewLeader(1, ()), 0, 1, 2, 3)
    node.receive(1, AckLeader(1), 5)
    assert not node.synced


def test_an_acknowledgement_of_another_epoch_does_not_sync() -> None:
    node = looking(2)
    node.receive(0, Vote(0, ZERO, 0, 2), 1)
    node.receive(0, AckEpoch(0, ZERO), 2)
    node.receive(0, AckLeader(0), 3)
    assert not node.synced


def test_the_synced_history_is_committed_at_once() -> None:
    node = looking(2)
    node.receive(0, NewLeader(1, (ONE_ONE,)), 1)
    node.tick(node.election_deadline)
    node.receive(0, Vote(0, ZERO, 1, 2), 400)
    node.receive(0, AckEpoch(1, ZERO), 401)
    assert node.receive(0, AckLeader(2), 402) == to_all(Commit(ONE_ONE.zxid), 0, 1)


def test_a_new_leader_with_less_than_it_had_committed_commits_nothing() -> None:
    """Epoch 2 took 1:2 away after its commit. The pseudo-code allows that; what was committed does not go back."""
    node = looking(2)
    node.receive(0, NewLeader(1, (ONE_ONE, ONE_TWO)), 1)
    node.receive(0, Commit(ONE_TWO.zxid), 2)
    node.receive(0, NewLeader(2, (ONE_ONE,)), 3)
    node.tick(node.election_deadline)
    node.receive(0, Vote(0, ZERO, 1, 2), 400)
    node.receive(0, AckEpoch(2, ZERO), 401)
    assert node.receive(0, AckLeader(3), 402) == []
    assert (node.synced, node.last_committed) == (True, ONE_TWO.zxid)


def test_a_late_ack_epoch_restarts_the_counter() -> None:
    """The pseudo-code has no guard against it, so the second proposal gets the zxid of the first."""
    node = leading()
    node.propose(b"a", 6)
    node.receive(1, AckEpoch(0, ZERO), 7)
    node.propose(b"b", 8)
    assert [txn.zxid for txn in node.history] == [zxid(1, 1), zxid(1, 1)]


def test_a_proposal_commits_with_a_quorum_of_acknowledgements_and_once() -> None:
    node = leading(5)
    assert node.propose(b"a", 6) == to_all(Propose(ONE_ONE), 0, 1, 3, 4)
    assert node.receive(0, Ack(ONE_ONE.zxid), 7) == []
    assert node.receive(0, Ack(ONE_ONE.zxid), 7) == []
    assert node.receive(1, Ack(ONE_ONE.zxid), 8) == to_all(Commit(ONE_ONE.zxid), 0, 1, 3, 4)
    assert node.receive(3, Ack(ONE_ONE.zxid), 8) == []


def test_only_a_synced_leader_accepts_proposals() -> None:
    with pytest.raises(RuntimeError, match="node 0 was asked to propose"):
        following().propose(b"a", 7)


def test_a_follower_accepts_only_proposals_of_its_leader() -> None:
    node = following()
    assert node.receive(1, Propose(ONE_ONE), 7) == []
    assert node.receive(2, Propose(ONE_ONE), 7) == [(2, Ack(ONE_ONE.zxid))]
    assert node.election_deadline == 157 + splitmix64(0 ^ 0 ^ 7) % 150
    assert node.receive(2, Propose(ONE_ONE), 8) == []
    assert node.election_deadline == 157 + splitmix64(0 ^ 0 ^ 7) % 150


def test_a_follower_does_not_notice_a_gap() -> None:
    """It accepts 1:2 without 1:1, which violates total order when links fail and heal."""
    node = following()
    assert node.receive(2, Propose(ONE_TWO), 7) == [(2, Ack(ONE_TWO.zxid))]
    assert node.history == [ONE_TWO]


def test_commit_never_passes_the_history_and_never_goes_back() -> None:
    node = following()
    node.receive(2, Propose(ONE_TWO), 7)
    node.receive(2, Commit(zxid(1, 3)), 8)
    assert node.last_committed == ZERO
    node.receive(2, Commit(ONE_TWO.zxid), 9)
    node.receive(2, Commit(ONE_ONE.zxid), 10)
    assert node.last_committed == ONE_TWO.zxid


def test_a_commit_of_another_node_counts_but_does_not_move_the_deadline() -> None:
    node = following()
    node.receive(2, Propose(ONE_ONE), 7)
    deadline = node.election_deadline
    node.receive(1, Commit(ONE_ONE.zxid), 90)
    assert (node.last_committed, node.election_deadline) == (ONE_ONE.zxid, deadline)


def test_heartbeats_repeat_the_commit_every_50_ticks() -> None:
    node = leading()
    assert node.tick(54) == []
    assert node.tick(55) == to_all(Commit(ZERO), 0, 1)
    assert node.tick(104) == []
    assert node.tick(105) == to_all(Commit(ZERO), 0, 1)


def test_before_sync_the_heartbeat_is_new_leader_and_in_discovery_there_is_none() -> None:
    node = looking(2)
    node.receive(0, Vote(0, ZERO, 0, 2), 1)
    assert node.tick(51) == []
    node.receive(0, AckEpoch(0, ZERO), 60)
    assert node.tick(101) == to_all(NewLeader(1, ()), 0, 1)


def test_a_repeated_vote_is_not_sent_again() -> None:
    node = looking(0, 5)
    assert node.receive(3, Vote(3, ZERO, 0, 4), 1) != []
    assert node.receive(3, Vote(3, ZERO, 0, 4), 2) == []


def test_a_new_follower_waits_a_full_election_timeout() -> None:
    node = looking(0)
    node.receive(2, Vote(2, ZERO, 0, 2), 40)
    assert node.election_deadline == 190 + splitmix64(0 ^ 0 ^ 40) % 150


def test_the_next_epoch_is_beyond_every_promised_one() -> None:
    node = looking(2)
    node.receive(1, NewEpoch(7), 1)
    node.tick(node.election_deadline)
    assert node.receive(0, Vote(0, ZERO, 0, 2), 400) == to_all(NewEpoch(8), 0, 1)


def test_a_late_ack_leader_does_not_commit_what_was_proposed_since() -> None:
    node = leading()
    node.propose(b"a", 6)
    assert node.receive(1, AckLeader(1), 7) == []
    assert node.last_committed == ZERO


def test_a_new_leadership_keeps_nothing_of_the_last_one() -> None:
    """A node led epoch 1, followed epoch 2, and leads again: in discovery, without heartbeats or old acknowledgements."""
    node = leading()
    node.propose(b"a", 6)
    node.receive(1, NewEpoch(2), 7)
    node.tick(node.election_deadline)
    assert node.receive(0, Vote(0, ZERO, 0, 2), 400) == to_all(NewEpoch(3), 0, 1)
    assert node.receive(1, AckLeader(1), 401) == []
    assert node.receive(0, Ack(ONE_ONE.zxid), 401) == []
    assert not node.synced
    assert node.tick(450) == []
