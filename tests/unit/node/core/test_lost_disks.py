"""What a node promised in an earlier life, on a disk that it has lost, counts nowhere.

There are five nodes, of which 2 loses its disk: within the fault model. In these schedules a leader has not noticed it yet.
"""

from collections.abc import Iterable

import pytest

from zab_chaos.faults.defects.quorums import StaleAdmission
from zab_chaos.model.transcripts.scripted_ensemble import ScriptedEnsemble
from zab_chaos.node.core.discovery import Choosing
from zab_chaos.node.core.followers import Inquiry
from zab_chaos.node.core.messages import Confirm, Confirmed, NewEpoch, Phase
from zab_chaos.node.core.peer import Peer
from zab_chaos.node.core.zxid import show


def part(net: ScriptedEnsemble, *pairs: tuple[int, int]) -> None:
    """Nothing passes between the nodes of a pair any more, and nobody is told."""
    for a, b in pairs:
        for channel in ((a, b), (b, a)):
            net.cut.add(channel)
            if net.queues[channel]:
                net.lossy.add((channel, net.session[channel]))
                net.drop_queue(channel)


def join(net: ScriptedEnsemble, *pairs: tuple[int, int]) -> None:
    """They reach each other again, in a new session."""
    for a, b in pairs:
        for end, other in ((a, b), (b, a)):
            net.cut.discard((end, other))
            net.drop_queue((end, other))
            net.down(end, other, "closed")
    net.settle()


def notice(net: ScriptedEnsemble, node: int, *peers: int) -> None:
    """This end, and no other, finds that its links are silent."""
    for peer in peers:
        net.down(node, peer, "silent")
    net.settle()


def between(ones: Iterable[int], others: Iterable[int]) -> list[tuple[int, int]]:
    return [(a, b) for a in ones for b in others]


def four_counts_on_two(peer_type: type[Peer]) -> ScriptedEnsemble:
    """4 wants to lead epoch 2 and has the promise of 2 for it; 1 and 3 have promised nothing. 2 then loses its disk, which
    4 does not notice, and is made a member of epoch 1 again, under 5, by 1, 3 and 5.
    """
    net = ScriptedEnsemble(5)
    net.peer_type = peer_type
    net.begin()
    net.submit(5, "first")
    net.hold("NEWEPOCH", (4, 1))
    net.hold("VOTE", (4, 3), (1, 3))  # what they say now reaches 3 late
    part(net, (1, 5), (2, 5), (4, 5))
    for node in (1, 2, 4):
        notice(net, node, 5)
    net.tick(50)
    four = net.peer(4).state
    assert isinstance(four, Choosing)
    assert four.followers[2].ack_epoch is not None

    part(net, (1, 4), (2, 4))
    notice(net, 1, 4)
    join(net, (1, 5))
    net.tick(110)
    assert net.peer(1).leader == 5
    net.crash(2)
    net.wipe(2)
    join(net, (2, 5))
    net.start(2)
    net.tick(110)
    return net


def test_a_promise_on_a_lost_disk_does_not_count() -> None:
    """1, 2 and 5 commit T. Then 3, which does not have T, promises epoch 2 to 4, as 2 had done on its old disk."""
    net = four_counts_on_two(Peer)
    assert not net.peer(2).amnesiac
    assert any("member again in epoch 1, confirmed by 1 3 5" in line for line in net.lines)

    part(net, (3, 5), (3, 2))
    net.hold("COMMIT", (5, 1))
    net.submit(5, "T")
    assert net.nodes[5].state == ["first", "T"]
    notice(net, 3, 5, 2)
    net.release("VOTE")
    net.tick(50)
    assert net.peer(3).accepted_epoch == 2, "3 has promised epoch 2"

    part(net, (1, 2))
    notice(net, 1, 5, 2)
    net.release()
    join(net, (1, 4), (1, 3))
    net.tick(200)
    assert not any("truncate" in line for line in net.lines), "\n".join(net.lines[-60:])
    assert net.peer(1).history.last == net.peer(5).history.last, show(net.peer(1).history.last)

    net.heal()
    net.tick(3000)
    net.check()
    assert {tuple(node.state) for node in net.nodes.values()} == {("first", "T")}


class AsksOnPaper(Choosing):
    def conclude(self, inquiry: Inquiry) -> None:
        inquiry.confirmed |= inquiry.asked
        super().conclude(inquiry)


class ConfirmsOnPaper(Peer):
    """Counts every ACK-E as if it still held, as the paper's proof may do where no disk is lost."""

    choosing_type = AsksOnPaper


def test_without_confirm_that_schedule_truncates_delivered_transactions() -> None:
    net = four_counts_on_two(ConfirmsOnPaper)
    part(net, (3, 5), (3, 2))
    net.hold("COMMIT", (5, 1))
    net.submit(5, "T")
    notice(net, 3, 5, 2)
    net.release("VOTE")
    net.tick(50)
    part(net, (1, 2))
    notice(net, 1, 5, 2)
    net.release()
    join(net, (1, 4), (1, 3))
    net.tick(200)
    assert any("1: truncate from 1:2 to 1:1" in line for line in net.lines)


def stale_leader(peer_type: type[Peer]) -> ScriptedEnsemble:
    """5 and 1 wait for their disks and notice nothing. Meanwhile 2, 3 and 4 go on in epoch 2 and commit T. 2 loses its disk
    and comes back where 5 leads.
    """
    net = ScriptedEnsemble(5)
    net.peer_type = peer_type
    net.begin()
    net.submit(5, "first")
    part(net, *between((1, 5), (2, 3, 4)))
    net.stick(1, 5)
    net.submit(5, "stuck")
    net.tick(1500)
    net.submit(4, "T")
    assert net.nodes[2].state == ["first", "T"]
    net.crash(2)
    net.wipe(2)
    part(net, *between((2,), (3, 4)))
    net.unstick(1, 5)
    join(net, (1, 2), (2, 5))
    net.start(2)
    return net


def test_a_deposed_leader_admits_no_node() -> None:
    net = stale_leader(Peer)
    assert (net.peer(2).leader, net.peer(2).amnesiac) == (5, True)
    net.submit(5, "wrong")
    assert net.nodes[5].state == ["first"], "two members and one without memory are no quorum of five"
    net.heal()
    net.tick(3000)
    net.check()
    assert {tuple(node.state) for node in net.nodes.values()} == {("first", "T")}


def test_without_the_members_confirmation_two_histories_are_delivered() -> None:
    net = stale_leader(StaleAdmission)
    net.submit(5, "wrong")
    assert net.nodes[5].state[:1] == ["first"]
    assert "T" not in net.nodes[5].state
    assert len(net.nodes[5].state) > 1


def test_confirm_is_answered_only_in_the_promised_epoch_and_not_by_amnesiac_nodes() -> None:
    net = ScriptedEnsemble(3)
    net.begin()
    follower = net.peer(1)
    follower.step(3, Confirm(follower.accepted_epoch, 7))
    ready = follower.ready()
    assert ready is not None
    assert ready.messages == [(3, Confirmed(follower.accepted_epoch, 7))]
    follower.step(3, Confirm(follower.accepted_epoch + 1, 8))
    assert follower.ready() is None
    follower.amnesiac = True
    follower.step(3, Confirm(follower.accepted_epoch, 9))
    assert follower.ready() is None


def test_another_follower_confirms_for_one_that_dies_after_its_promise() -> None:
    """Leader 3 has the promises of 1 and 2 and asks both. 1 dies before it answers: the answer of 2 is enough."""
    net = ScriptedEnsemble(5)
    net.hold("ACK-CONFIRM", (1, 5))
    net.hold("CONFIRM", (5, 2))
    net.start(1, 2, 3, 4, 5)
    assert net.peer(5).phase == Phase.DISCOVERY
    net.crash(1)
    net.release()
    net.tick(100)
    assert net.peer(5).primary


def test_a_follower_that_dies_before_the_choice_does_not_end_the_leader() -> None:
    """Leader 5 waits for a second promise, and fetches no history, when 1 dies: the promise of 2 comes in time."""
    net = ScriptedEnsemble(5)
    net.hold("ACK-E")
    net.start(1, 2, 3, 4, 5)
    leader = net.peer(5).state
    assert isinstance(leader, Choosing)
    net.crash(1)
    assert net.peer(5).state is leader
    net.release()
    assert net.peer(5).primary


def test_a_joining_member_is_asked_about_pending_admissions() -> None:
    """2 has lost its disk. 4 confirms its admission, 3 dies before it answers, and then 1 comes back."""
    net = ScriptedEnsemble(5)
    net.begin()
    net.crash(1, 2)
    net.wipe(2)
    net.hold("ACK-CONFIRM", (3, 5))
    net.start(2)
    net.tick(200)
    assert net.peer(2).amnesiac, "5 and 4 are no quorum"
    net.start(1)
    net.crash(3)
    net.tick(200)
    assert not net.peer(2).amnesiac


def test_a_new_member_counts_although_its_leader_is_lost_in_the_same_round() -> None:
    """2 hears of its admission and of its leader's end before its disk holds the record. Without 3, it completes a quorum."""
    net = ScriptedEnsemble(3)
    net.begin()
    net.crash(2)
    net.wipe(2)
    net.hold("MEMBER", (3, 2))
    net.start(2)
    assert net.peer(2).in_broadcast
    assert net.peer(2).amnesiac
    net.held.clear()
    net.deliver_next(3, 2)
    net.crash(3)
    assert not net.peer(2).amnesiac
    net.tick(200)
    assert net.peer(1).primary or net.peer(2).primary


def test_a_promise_to_another_leader_does_not_stall_discovery() -> None:
    """2 has promised epoch 2 to another node. 3, which waits for a second promise of epoch 2, hears of it.

    3 then goes on with epoch 3 at once, not after a deadline.
    """
    net = ScriptedEnsemble(3)
    net.begin()
    net.crash(1, 2)
    net.tick(100)
    net.hold("ACK-E", (1, 3))
    net.start(1)
    net.tick(60)
    assert net.peer(3).phase == Phase.DISCOVERY
    assert net.peer(3).accepted_epoch == 2
    net.promise(2, 2)
    net.start(2)
    net.crash(1)
    net.tick(200)
    assert net.peer(3).primary
    assert net.peer(3).current_epoch == 3


@pytest.mark.parametrize("promised", [1, 9])
def test_an_amnesiac_node_is_readmitted_whatever_it_promised_since(promised: int) -> None:
    net = ScriptedEnsemble(5)
    net.begin()
    net.crash(1)
    net.wipe(1)
    net.promise(1, promised)
    net.start(1)
    net.tick(1000)
    assert not net.peer(1).amnesiac
    assert net.peer(1).in_broadcast


def test_the_epochs_of_newepoch_messages_only_grow() -> None:
    """A leader that hears of a promise above its own epoch restarts once, above that promise."""
    net = ScriptedEnsemble(3)
    net.begin()
    net.crash(1)
    net.promise(1, 7)
    net.start(1)
    net.tick(100)
    told = [int(line.split("e=")[1]) for line in net.lines if "NEWEPOCH" in line]
    assert told == [8, 8]
    assert NewEpoch(8).epoch == net.peer(3).current_epoch
