"""Cases about the disks: what a quorum holds, what an epoch is based on, and what a boot finds."""

from collections.abc import Sequence

from tests.corpus.cases import leaves_unknown, legal, violates
from tests.corpus.story import Story, digest, ensemble
from zab_chaos.node.core import digest as dg


def join_without_its_disk(story: Story, node: int) -> None:
    """Boot a node amnesiac and let it join. The story itself writes by whom it becomes a member again."""
    story.boot(node, "amnesiac")
    story.servers[node].amnesiac = False
    story.join(node)


# ---- quorum durability ----


@violates("quorum durability")
def quorum_committed_by_one_disk() -> Story:
    """The leader delivers 1:4 before anybody else has it on disk. They accept it later, so nothing else is wrong."""
    story = ensemble()
    story.propose(to=[1])
    story.deliver(1, (1, 4))
    for node in (2, 3):
        story.accept(node, (1, 4))
        story.deliver(node, (1, 4))
    story.settle()
    return story


@violates("quorum durability")
def quorum_without_the_one_that_delivers_later() -> Story:
    """Nodes 1 and 2 hold 1:4 when it is first delivered. Node 3 delivers it, too, and has it on disk only after that."""
    story = ensemble()
    story.propose(to=[1, 2])
    for node in (1, 2, 3):
        story.deliver(node, (1, 4))
    story.accept(3, (1, 4))
    story.settle()
    return story


@violates("quorum durability")
def quorum_of_a_node_without_memory() -> Story:
    """Node 2 has lost its disk and is no member yet; its acknowledgement makes a quorum of two with the leader's own."""
    story = ensemble()
    story.wipe(2)
    story.crash(3)
    story.boot(2, "amnesiac")
    story.event(2, "role", role="FOLLOWING", leader=1, why="elected")
    story.promise(2, 1)
    story.synchronize(2, 1)
    story.members = [1, 2]
    story.propose()
    story.deliver(1, (1, 4))
    story.boot(3)
    story.join(3)
    story.members = [1, 2, 3]
    story.catch_up(2)
    story.admit(2)
    story.settle()
    return story


@violates("quorum durability", "integrity")
def quorum_of_other_bytes() -> Story:
    """Nodes 2 and 3 have a transaction with the zxid 1:4 on their disks, but not the one that node 1 delivers first."""
    story = ensemble()
    story.propose(to=[1])
    for node in (2, 3):
        story.accept(node, (1, 4), digest((1, 4), "changed"))
    for node in story.members:
        story.deliver(node, (1, 4))
    story.settle()
    return story


@violates("quorum durability")
def quorum_without_the_one_that_delivers() -> Story:
    """Node 1 delivers 1:4, which is on the disks of nodes 2 and 3; its own disk is not done."""
    story = ensemble()
    story.propose(to=[2, 3])
    story.deliver(1, (1, 4))
    story.accept(1, (1, 4))
    for node in (2, 3):
        story.deliver(node, (1, 4))
    story.settle()
    return story


@violates("quorum durability")
def quorum_without_all_of_a_batch() -> Story:
    """Node 3 delivers 1:4 and 1:5 in one batch, and has only 1:4 on its disk. The others hold both."""
    story = ensemble()
    story.propose()
    story.propose(to=[1, 2])
    for node in (1, 2, 3):
        story.deliver_batch(node, (1, 4), (1, 5))
    story.accept(3, (1, 5))
    story.settle()
    return story


@violates("quorum durability")
def quorum_of_the_beginning_of_a_batch() -> Story:
    """Node 1 delivers 1:4 and 1:5 in one batch. A quorum holds 1:4, and nobody else holds 1:5."""
    story = ensemble()
    story.propose()
    story.propose(to=[1])
    story.deliver_batch(1, (1, 4), (1, 5))
    for node in (2, 3):
        story.accept(node, (1, 5))
        story.catch_up(node)
    story.settle()
    return story


@violates("quorum durability", "committed stays", "integrity", "synchronization")
def quorum_of_other_bytes_behind_what_a_boot_found() -> Story:
    """Node 2 is killed when 1:4 is on its disk and not in its trace yet. In its next life it accepts other bytes as 1:5. Node
    1 delivers both in one batch."""
    story = ensemble()
    story.crash(3)
    story.propose(to=[1])
    story.servers[2].log.append(((1, 4), digest((1, 4))))
    story.crash(2)
    story.boot(2)
    story.propose(to=[1])
    story.accept(2, (1, 5), digest((1, 5), "changed"))
    story.deliver_batch(1, (1, 4), (1, 5))
    story.join(2)
    story.boot(3)
    story.join(3)
    story.settle()
    return story


def _cut_off_again(how: str) -> Story:
    """Return a run in which node 2 has 1:4 on its disk, loses it when it joins epoch 2, and goes on with 2:1. Then node 1
    delivers 1:4. `how`: node 2 has truncated it, or has replaced its log by a snapshot."""
    story = ensemble()
    story.propose(to=[1])
    story.servers[2].log.append(((1, 4), digest((1, 4))))
    story.crash(2)
    story.boot(2)
    if how == "snapshot":
        story.broadcast(1, (1, 5))
        story.accept(2, (1, 5))
        story.servers[2].log[3:] = []
        story.snapshot(2, "installed", (1, 3), digest=None, tree=None)
        story.event(2, "current_epoch", epoch=1, last_zxid=[1, 3])
    story.elect(3, epoch=2, members=[2, 3])
    story.propose()
    story.deliver(1, (1, 4))
    story.settle(converged=False)
    return story


@violates("quorum durability", "committed stays", "primary integrity", "promises", "reliable delivery", "recovery")
def quorum_of_what_was_cut_off_again() -> Story:
    """Node 2's boot found 1:4, and node 2 has truncated it when node 1 delivers it. Node 1's own disk is no quorum."""
    return _cut_off_again("truncation")


@violates("quorum durability", "committed stays", "primary integrity", "reliable delivery", "recovery")
def quorum_of_what_a_snapshot_replaced() -> Story:
    """The same, but node 2 has replaced its log by a snapshot that ends before 1:4."""
    return _cut_off_again("snapshot")


@legal("quorum durability")
def quorum_disk_lost_after_accepting() -> Story:
    """Node 2 has acknowledged 1:4 and loses its disk before node 1, which counts the acknowledgement, delivers."""
    story = ensemble()
    story.crash(3)
    seq = story.invoke()
    story.propose(to=[1, 2])
    story.wipe(2)
    story.deliver(1, (1, 4))
    story.complete(1, seq, (1, 4))
    story.members = [1]
    story.boot(3)
    story.join(3)
    story.boot(2, "amnesiac")
    story.join(2)
    story.settle()
    return story


@legal("quorum durability")
def quorum_tail_lost_after_accepting() -> Story:
    """Node 2 has acknowledged 1:4, and a fault takes its disk before node 1, which counts it, delivers."""
    story = ensemble()
    story.crash(3)
    seq = story.invoke()
    story.propose(to=[1, 2])
    story.wipe(2)
    story.boot(2, "amnesiac")
    story.deliver(1, (1, 4))
    story.complete(1, seq, (1, 4))
    story.boot(3)
    story.join(3)
    story.join(2)
    story.settle()
    return story


@legal("quorum durability")
def quorum_of_what_a_boot_found() -> Story:
    """Node 2 is killed when 1:4 is on its disk and not in its trace yet: its next boot shows it. Then it is delivered."""
    story = ensemble()
    story.crash(3)
    story.propose(to=[1])
    story.servers[2].log.append(((1, 4), digest((1, 4))))
    story.crash(2)
    story.boot(2)
    story.elect(1, epoch=2, members=[1, 2])
    story.boot(3)
    story.join(3)
    story.write()
    story.settle()
    return story


def _in_flight(story: Story, accepted: int = 0) -> Story:
    """Let node 1 broadcast three transactions. Only so many of them reach node 2 before the next broadcast."""
    zxids = [story.propose(to=[1, 2] if number < accepted else [1]) for number in range(3)]
    for zxid in zxids:
        for node in (2, 3):
            if zxid > story.servers[node].last:
                story.accept(node, zxid)
    for node in (1, 2, 3):
        story.catch_up(node)
    story.settle()
    return story


@violates("quorum durability")
def quorum_far_behind_its_primary() -> Story:
    """At most two transactions may be in flight, and node 1 broadcasts 1:6 when nobody else holds 1:4."""
    return _in_flight(ensemble(outstanding=2))


@violates("quorum durability")
def quorum_far_behind_a_new_primary() -> Story:
    """The same in epoch 2, in which nothing was delivered yet."""
    story = ensemble(outstanding=2)
    story.elect(1, epoch=2)
    return _in_flight(story)


@violates("quorum durability")
def quorum_far_behind_with_a_node_without_memory() -> Story:
    """The same, and node 2 holds 1:4; but it has lost its disk, and is no member yet."""
    story = ensemble(outstanding=2)
    story.wipe(2)
    story.boot(2, "amnesiac")
    story.event(2, "role", role="FOLLOWING", leader=1, why="elected")
    story.promise(2, 1)
    story.synchronize(2, 1)
    story.serve([2], 1)
    return _in_flight(story, 1)


@legal("quorum durability")
def quorum_as_far_behind_as_it_may_be() -> Story:
    """The same as the first one, but node 2 holds 1:4 by then."""
    return _in_flight(ensemble(outstanding=2), 1)


@legal("quorum durability")
def quorum_far_behind_one_that_has_lost_its_disk() -> Story:
    """The same, and node 2 loses its disk before 1:6 is broadcast. Node 1 has counted what that disk held."""
    story = ensemble(outstanding=2)
    zxids = [story.propose(to=[1, 2]), story.propose(to=[1])]
    story.wipe(2)
    story.boot(2, "amnesiac")
    zxids.append(story.propose(to=[1]))
    for zxid in zxids:
        story.accept(3, zxid)
    for node in (1, 3):
        story.catch_up(node)
    story.members = [1, 3]
    story.join(2)
    story.settle()
    return story


@legal("quorum durability")
def quorum_has_gone_on_without_its_primary() -> Story:
    """At most three transactions may be in flight. Node 1 broadcasts 1:4 when the others, who held 1:3, are in epoch 2."""
    story = ensemble(outstanding=3)
    story.elect(2, epoch=2, members=[2, 3])
    story.write()
    story.broadcast(1, (1, 4))
    story.accept(1, (1, 4))
    story.join(1)
    story.settle()
    return story


# ---- promises ----


@violates("promises")
def promises_one_epoch_to_two() -> Story:
    """Nodes 1 and 2 both choose epoch 2; node 3 promises it to both."""
    story = ensemble()
    for leader in (1, 2):
        story.leader = leader
        story.promise(leader, 2)
        story.promise(3, 2)
    story.elect(1, epoch=3)
    story.write()
    story.settle()
    return story


@violates("promises")
def promises_again_to_the_same_one() -> Story:
    """Node 3 promises epoch 2 to node 2 twice in one life."""
    story = ensemble()
    story.leader = 2
    for node in (2, 3, 3):
        story.promise(node, 2)
    story.elect(1, epoch=3)
    story.settle()
    return story


@violates("promises")
def promises_an_epoch_of_another_leader() -> Story:
    """Node 1 has promised epoch 2 to itself. Node 3 promises it to node 2, which has not."""
    story = ensemble()
    story.leader = 1
    story.promise(1, 2)
    story.leader = 2
    story.promise(3, 2)
    story.elect(1, epoch=3)
    story.settle()
    return story


@violates("promises")
def promises_again_in_the_next_life() -> Story:
    """Node 3 promised epoch 2, is started again, and promises it as if for the first time."""
    story = ensemble()
    story.leader = 2
    story.promise(2, 2)
    story.promise(3, 2)
    story.crash(3)
    story.boot(3)
    story.promise(3, 2)
    story.elect(1, epoch=3)
    story.settle()
    return story


@violates("promises")
def promises_again_what_was_cut_off() -> Story:
    """Node 3's promise of epoch 2 was on its disk when it was killed, and no line tells of it. It promises epoch 2 anew."""
    story = ensemble()
    story.leader = 2
    story.promise(2, 2)
    story.servers[3].accepted_epoch = 2
    story.crash(3)
    story.boot(3)
    story.promise(3, 2)
    story.elect(1, epoch=3)
    story.settle()
    return story


@violates("promises")
def promises_forgotten_with_the_disk() -> Story:
    """Node 3 loses its disk and starts as if it had never lived. It is given everything again before it counts anywhere."""
    story = ensemble()
    story.wipe(3)
    story.boot(3, "fresh")
    story.join(3)
    story.write()
    story.settle()
    return story


@violates("promises")
def promises_forgotten_with_the_first_of_two_disks() -> Story:
    """Node 3 loses its disk, and the next one before it has joined anything. Then it starts as if it had never lived."""
    story = ensemble()
    story.wipe(3)
    story.boot(3, "amnesiac")
    story.wipe(3)
    story.boot(3, "fresh")
    story.join(3)
    story.write()
    story.settle()
    return story


@violates("promises")
def promises_forgotten_with_the_second_disk() -> Story:
    """Node 3 lost its first disk before there was anything on it, and rightly began anew. It loses the second one, too."""
    story = Story()
    story.start()
    story.wipe(3)
    story.boot(3, "fresh")
    story.elect(1, epoch=1)
    story.write(3)
    story.wipe(3)
    story.boot(3, "fresh")
    story.join(3)
    story.write()
    story.settle()
    return story


@violates("promises")
def promises_before_the_leader() -> Story:
    """Node 1 promises epoch 2 to node 2, on whose disk it is not yet."""
    story = ensemble()
    story.leader = 2
    for node in (1, 2, 3):
        story.promise(node, 2)
    for node in (2, 1, 3):
        story.synchronize(node, 2)
    story.establish(2, 2)
    for node in story.members:
        story.event(node, "phase", phase="BROADCAST", epoch=2)
    story.write()
    story.settle()
    return story


def _established_with(quorum: list[int]) -> Story:
    """Return a run in which nodes 1 and 2 promise and join epoch 2, node 3 does neither, and node 2 is established with
    `quorum`."""
    story = ensemble()
    story.leader = 2
    for node in (2, 1):
        story.promise(node, 2)
    for node in (2, 1):
        story.synchronize(node, 2)
    story.establish(2, 2, quorum=quorum)
    for node in (1, 2):
        story.event(node, "phase", phase="BROADCAST", epoch=2)
    story.members = [1, 2]
    story.join(3)
    story.write()
    story.settle()
    return story


@violates("promises")
def promises_leader_of_its_next_life() -> Story:
    """Node 2 promises epoch 2 to itself and is started again. Its next life is established by that."""
    story = ensemble()
    story.leader, story.members = 2, [2, 3]
    for node in story.members:
        story.promise(node, 2)
    story.crash(2)
    story.boot(2)
    for node in story.members:
        story.synchronize(node, 2)
    story.establish(2, 2)
    story.serve(story.members, 2)
    story.join(1)
    story.write()
    story.settle()
    return story


def _two_tails() -> Story:
    """Return a run in which nodes 2 and 3 joined epoch 2 without 1:4, which only node 1 has. Node 2 dies before it learns
    that."""
    story = ensemble()
    story.propose(to=[1])
    story.crash(1)
    story.leader = 2
    for node in (2, 3):
        story.promise(node, 2)
    for node in (2, 3):
        story.synchronize(node, 2)
    story.crash(2)
    story.boot(1)
    return story


@violates("promises")
def promises_better_history_passed_over() -> Story:
    """Epoch 3 begins with 1:4, the highest zxid of all. But node 3 has joined epoch 2, which began without it."""
    story = _two_tails()
    story.elect(1, epoch=3, members=[1, 3])
    story.settle()
    return story


@legal("promises")
def promises_best_history_is_the_shorter_one() -> Story:
    """Epoch 3 begins with the history of node 3, which has joined epoch 2. Node 1 cuts off 1:4, though its zxid is higher."""
    story = _two_tails()
    story.elect(3, epoch=3, members=[1, 3])
    story.boot(2)
    story.join(2)
    story.settle()
    return story


@legal("promises")
def promises_better_history_came_later() -> Story:
    """Nodes 1 and 2 have promised when node 1 chooses. Node 3 has a longer history, and its promise comes too late."""
    story = ensemble()
    story.propose(to=[3])
    story.leader = 1
    for node in (1, 2):
        story.promise(node, 2)
    story.choose(2, 2)
    story.promise(3, 2)
    for node in (1, 2, 3):
        story.synchronize(node, 2)
    story.members = [1, 2, 3]
    story.establish(1, 2)
    story.serve((1, 2, 3), 2)
    story.write()
    story.settle()
    return story


@violates("promises")
def promises_established_with_a_stranger() -> Story:
    """Node 2 is established for epoch 2 with node 3, which has not promised anything yet."""
    return _established_with([2, 3])


@violates("promises")
def promises_established_with_a_third_one_that_is_a_stranger() -> Story:
    """Node 2 is established for epoch 2 with nodes 1 and 3, and only node 3 has not promised anything yet."""
    return _established_with([1, 2, 3])


@legal("promises")
def promises_established_with_one_that_has_lost_its_disk_since() -> Story:
    """Node 3 promises and joins epoch 2, and loses its disk before node 2, which has counted it, is established."""
    story = ensemble()
    story.crash(1)
    story.leads(2)
    story.members = [2, 3]
    for node in story.members:
        story.promise(node, 2)
    story.choose(2, 3)
    for node in story.members:
        story.synchronize(node, 2)
    story.wipe(3)
    story.boot(3, "amnesiac")
    story.establish(2, 2, quorum=[2, 3])
    story.members = [2]
    story.serve((2,), 2)
    story.boot(1)
    story.join(1)
    story.join(3)
    story.settle()
    return story


@violates("promises")
def promises_history_cut_short() -> Story:
    """All nodes have 1:4 on their disks when they promise epoch 2, and its leader begins without it."""
    story = ensemble()
    story.propose()
    story.leader = 2
    for node in (2, 1, 3):
        story.promise(node, 2)
    for node in (2, 1, 3):
        story.truncate(node, (1, 3))
        story.synchronize(node, 2)
    story.establish(2, 2)
    story.serve((2, 1, 3), 2)
    story.write()
    story.settle()
    return story


def _shortest_of_three(others: str) -> Story:
    """Return a run in which nodes 1, 2 and 3 of five promise epoch 2. Nodes 2 and 3 have 1:4, and node 1 chooses its own
    history, without it. Nodes 4 and 5 do not have 1:4 either: they promise `late`, or `amnesiac`."""
    story = ensemble(nodes=5)
    story.broadcast(1, (1, 4))
    for node in (2, 3):
        story.accept(node, (1, 4))
    if others == "amnesiac":
        story.wipe(4, 5)
    for node in (1, 2, 3):
        story.promise(node, 2)
    if others == "amnesiac":
        for node in (4, 5):
            story.boot(node, "amnesiac")
            story.promise(node, 2)
    for node in (2, 3):
        story.truncate(node, (1, 3))
    for node in (1, 2, 3):
        story.synchronize(node, 2)
    story.members = [1, 2, 3]
    story.establish(1, 2)
    story.serve(story.members, 2)
    for node in (4, 5):
        story.join(node)
    story.write()
    story.settle()
    return story


@violates("promises")
def promises_history_of_the_shortest_and_late_ones() -> Story:
    """The best of the three histories is passed over. That nodes 4 and 5 promise later, without it, is no excuse."""
    return _shortest_of_three("late")


@violates("promises")
def promises_history_of_the_shortest_and_those_without_memory() -> Story:
    """The same, but nodes 4 and 5 have lost their disks, and promise in time. They do not count."""
    return _shortest_of_three("amnesiac")


@violates("promises")
def promises_established_without_a_quorum() -> Story:
    """Node 2 is established for epoch 2 by itself alone."""
    return _established_with([2])


@violates("promises", "disk")
def promises_established_with_half_a_history() -> Story:
    """Node 1 says that it has joined epoch 2 up to 1:4, the end of its leader's history; its log ends at 1:3."""
    story = ensemble()
    story.crash(3)
    story.leader, story.members = 2, [1, 2]
    story.broadcast(1, (1, 4))
    story.accept(2, (1, 4))
    for node in (2, 1):
        story.promise(node, 2)
    story.synchronize(2, 2)
    story.servers[1].current_epoch = 2
    story.event(1, "current_epoch", epoch=2, last_zxid=[1, 4])
    story.establish(2, 2)
    story.accept(1, (1, 4), in_epoch=2)
    story.serve((1, 2), 2)
    story.boot(3)
    story.join(3)
    story.settle()
    return story


@violates("promises")
def promises_established_with_an_amnesiac() -> Story:
    """Node 3 has lost its disk, and counts in the quorum of epoch 2 all the same."""
    story = ensemble()
    story.crash(1)
    story.wipe(3)
    story.boot(3, "amnesiac")
    story.leader, story.members = 2, [2, 3]
    for node in (2, 3):
        story.promise(node, 2)
    for node in (2, 3):
        story.synchronize(node, 2)
    story.establish(2, 2, quorum=[2, 3])
    story.serve((2, 3), 2)
    story.boot(1)
    story.join(1)
    story.admit(3)
    story.settle()
    return story


@violates("promises")
def promises_established_with_one_that_promised_without_memory() -> Story:
    """Node 3 has lost its disk, and promises epoch 2 just before it is a member of epoch 1 again. It counts in epoch 2."""
    story = ensemble()
    story.wipe(3)
    join_without_its_disk(story, 3)
    story.leader, story.members = 2, [2, 3]
    story.promise(2, 2)
    story.promise(3, 2)
    story.event(3, "member", epoch=1, quorum=[1, 2])
    for node in story.members:
        story.synchronize(node, 2)
    story.establish(2, 2)
    for node in story.members:
        story.event(node, "phase", phase="BROADCAST", epoch=2)
    story.join(1)
    story.write()
    story.settle()
    return story


@violates("promises")
def promises_member_of_an_epoch_that_it_had_not_joined() -> Story:
    """Node 4 has lost its disk and joins epoch 2. It is killed, and its next life is a member with f.a = 3."""
    story = ensemble(nodes=5)
    story.wipe(4)
    story.elect(1, epoch=2)
    join_without_its_disk(story, 4)
    story.elect(1, epoch=3, members=[1, 2, 3, 5])
    story.crash(4)
    story.servers[4].accepted_epoch = story.servers[4].current_epoch = 3
    story.boot(4)
    story.join(4)
    story.settle()
    return story


@violates("promises")
def promises_member_by_itself() -> Story:
    """Node 5 has lost its disk, and is a member again by two of the others and itself."""
    story = ensemble(nodes=5)
    story.wipe(5)
    join_without_its_disk(story, 5)
    story.event(5, "member", epoch=1, quorum=[1, 2, 5])
    story.settle()
    return story


@violates("promises")
def promises_member_by_one_that_was_cut_off_without_memory() -> Story:
    """Nodes 4 and 5 have lost their disks. The power of node 4 is cut while it promises epoch 2, which it joins in its next
    life, still without memory. It confirms node 5 before it is a member again."""
    story = ensemble(nodes=5)
    story.wipe(4, 5)
    story.elect(1, epoch=2)
    story.boot(4, "amnesiac")
    story.servers[4].accepted_epoch = 2
    story.crash(4, do="power-cut")
    for node in (4, 5):
        join_without_its_disk(story, node)
    for node, quorum in ((5, [1, 2, 4]), (4, [1, 2, 3])):
        story.event(node, "member", epoch=2, quorum=quorum)
    story.settle()
    return story


@violates("promises")
def promises_member_by_one_that_leaves_twice() -> Story:
    """Node 3 lost its disk. Node 2 has promised epoch 2 to itself before node 3 joins epoch 1, and epoch 3 after that."""
    story = ensemble()
    story.wipe(3)
    story.leader = 2
    story.promise(2, 2)
    story.leader, story.members = 1, [1, 2]
    join_without_its_disk(story, 3)
    story.leader = 2
    story.promise(2, 3)
    story.event(3, "member", epoch=1, quorum=[1, 2])
    story.elect(1, epoch=4)
    story.write()
    story.settle()
    return story


@violates("promises")
def promises_member_by_two_of_five() -> Story:
    """Node 5 has lost its disk, and is a member again when two of the others have confirmed it."""
    story = ensemble(nodes=5)
    story.wipe(5)
    join_without_its_disk(story, 5)
    story.event(5, "member", epoch=1, quorum=[1, 2])
    story.settle()
    return story


@legal("promises")
def promises_member_by_one_admitted_before() -> Story:
    """Node 4 has lost its disk and is a member again. In the same epoch it confirms node 5, which lost its own later."""
    return two_lost_disks([4, 5])


@violates("promises")
def promises_member_by_one_admitted_after() -> Story:
    """Nodes 4 and 5 have lost their disks. Node 4 confirms node 5 before it is a member again itself."""
    return two_lost_disks([5, 4])


def two_lost_disks(order: list[int]) -> Story:
    """Return a run in which nodes 4 and 5 lost their disks and join epoch 2. They become members in this order: node 5 by
    nodes 1, 2 and 4, node 4 by nodes 1, 2 and 3."""
    story = ensemble(nodes=5)
    story.wipe(4, 5)
    story.elect(1, epoch=2)
    for node in (4, 5):
        join_without_its_disk(story, node)
    for node in order:
        quorum = {5: [1, 2, 4], 4: [1, 2, 3]}[node]
        story.confirm(2, *quorum[1:])
        story.event(node, "member", epoch=2, quorum=quorum)
    story.settle()
    return story


@legal("promises")
def promises_member_by_one_that_died_before_it_could_say_that_it_was_admitted() -> Story:
    """Node 4 lost its disk, and is killed when it is durably a member again, before it could trace that. Its next life shows
    it, and it confirms node 5, which lost its disk later."""
    return killed_at_its_admission(joined=True)


@violates("promises")
def promises_member_by_what_its_last_life_had_joined() -> Story:
    """Node 3 has lost its disk and joins epoch 1. It is killed, and its next life is a member without having joined."""
    story = ensemble()
    story.wipe(3)
    story.boot(3, "amnesiac")
    story.promise(3, 1)
    story.synchronize(3, 1)
    story.crash(3)
    story.boot(3, "amnesiac")
    story.catch_up(3)
    story.event(3, "member", epoch=1, quorum=[1, 2])
    story.settle()
    return story


def _member_by_a_boot(*confirmed: int) -> Story:
    """Return a run in which node 4 has lost its disk and joins epoch 2, and these nodes confirm that epoch. It is killed, and
    its next life is a member."""
    story = ensemble(nodes=5)
    story.wipe(4)
    story.elect(1, epoch=2, members=[1, 2, 3, 5])
    story.boot(4, "amnesiac")
    story.servers[4].amnesiac = False
    story.join(4)
    story.confirm(2, *confirmed)
    story.crash(4)
    story.boot(4)
    story.join(4)
    story.settle()
    return story


@legal("promises")
def promises_member_by_a_boot() -> Story:
    """Nodes 2 and 3 have confirmed node 4 to node 1, which leads. It is killed before it could trace that it is a member."""
    return _member_by_a_boot(2, 3)


@violates("promises")
def promises_member_by_a_boot_and_one_other() -> Story:
    """Only node 2 has confirmed node 4 to node 1: with the leader that is no quorum of five."""
    return _member_by_a_boot(2)


@violates("promises")
def promises_member_that_had_joined_nothing() -> Story:
    """Node 4 has lost its disk, is killed before it has joined any epoch, and its next life has forgotten that."""
    return killed_at_its_admission(joined=False)


def killed_at_its_admission(joined: bool) -> Story:
    """Return a run in which node 4 is killed at its readmission to epoch 2. Then nodes 1, 2 and 4 make node 5 a member."""
    story = ensemble(nodes=5)
    story.wipe(4, 5)
    story.elect(1, epoch=2)
    story.boot(4, "amnesiac")
    if joined:
        story.servers[4].amnesiac = False
        story.join(4)
    story.confirm(2, 2, 3)
    story.crash(4)
    story.boot(4)
    story.join(4)
    join_without_its_disk(story, 5)
    story.confirm(2, 2, 4)
    story.event(5, "member", epoch=2, quorum=[1, 2, 4])
    story.settle()
    return story


@legal("promises")
def promises_member_by_one_that_lost_its_disk_after() -> Story:
    """Node 3 confirms node 5 and loses its disk before node 5 has counted the confirmation."""
    return member_by_a_disk_that_is_lost([5, 3])


@violates("promises")
def promises_member_by_one_that_lost_its_disk_before() -> Story:
    """Node 3 had followed epoch 2 on a disk that was lost before node 5 joined, and confirms node 5 for that."""
    return member_by_a_disk_that_is_lost([3, 5])


def member_by_a_disk_that_is_lost(order: list[int]) -> Story:
    """Return a run in which node 5, which lost its disk, joins epoch 2, and node 3 loses its disk and starts again, in this
    order. Then nodes 1, 2 and 3 make node 5 a member."""
    story = ensemble(nodes=5)
    story.elect(1, epoch=2)
    story.wipe(5)
    story.boot(5, "amnesiac")
    for node in order:
        if node == 5:
            story.servers[5].amnesiac = False
            story.join(5)
        else:
            story.confirm(2, 2, 3)
            story.wipe(3)
            story.boot(3, "amnesiac")
    story.confirm(2, 2)
    story.event(5, "member", epoch=2, quorum=[1, 2, 3])
    story.join(3)
    story.settle()
    return story


@violates("promises", "epochs")
def promises_member_by_one_that_had_left() -> Story:
    """Node 3 lost its disk. Node 2 has promised epoch 2 to itself before node 3 joins epoch 1, and confirms it for that."""
    story = ensemble()
    story.wipe(3)
    story.boot(3, "amnesiac")
    story.leader = 2
    story.promise(2, 2)
    story.leader, story.members = 1, [1, 2]
    story.join(3)
    story.elect(1, epoch=3)
    story.write()
    story.settle()
    return story


@legal("promises")
def promises_member_by_one_that_was_cut_off_while_it_promised() -> Story:
    """Node 3's promise of epoch 2 was on its disk when the power went, and no line tells of it. It joins epoch 2 under that
    promise, and confirms node 2, which lost its disk later."""
    return cut_off_while_it_promised()


@violates("promises")
def promises_member_by_one_cut_off_while_it_promised_a_later_epoch() -> Story:
    """Node 3 was cut off while it promised epoch 3, before node 2 joined epoch 2, and confirms node 2 for epoch 2."""
    return cut_off_while_it_promised(later=True)


def cut_off_while_it_promised(*, later: bool = False) -> Story:
    """Return a run in which node 1 leads epoch 2, and the power of node 3 is cut while it promises that (`later`: its own
    epoch 3). Node 2 lost its disk, and nodes 1 and 3 make it a member again."""
    story = ensemble()
    if not later:
        story.crash(3)
    story.elect(1, epoch=2)
    if later:
        story.event(3, "role", role="LEADING", leader=3, why="elected")
        story.event(3, "phase", phase="DISCOVERY", epoch=3)
        story.crash(3, do="power-cut")
        story.servers[3].accepted_epoch = 3
        story.boot(3)
    else:
        story.servers[3].accepted_epoch = 2
        story.boot(3)
        story.join(3)
    story.wipe(2)
    join_without_its_disk(story, 2)
    if not later:
        story.confirm(2, 3)
    story.event(2, "member", epoch=2, quorum=[1, 3])
    story.elect(1, epoch=4)
    story.settle()
    return story


@legal("promises")
def promises_kept_at_one_instant() -> Story:
    """Nodes 1 and 2 have promised epoch 2 when node 5 asks them. Node 1 answers and loses its disk before node 2 answers."""
    return chosen_from_two(["promise 1", "promise 2", "confirm 1", "lose 1", "confirm 2"])


@violates("promises")
def promises_kept_one_after_the_other() -> Story:
    """Node 1 has lost its disk before node 2 promises epoch 2, and node 5 counts both when it chooses the history."""
    return chosen_from_two(["promise 1", "confirm 1", "lose 1", "promise 2", "confirm 2"])


@violates("promises")
def promises_that_nobody_asked_for_again() -> Story:
    """Node 5 chooses the history of epoch 2 when nodes 1 and 2 have promised it, and node 1 has not confirmed that."""
    return chosen_from_two(["promise 1", "promise 2", "confirm 2", "lose 1"])


@violates("promises")
def promises_confirmed_by_another_life() -> Story:
    """Node 1 has promised epoch 2 and starts again. Its next life confirms it, and node 5 counts that."""
    return chosen_from_two(["promise 1", "promise 2", "restart 1", "confirm 1", "confirm 2", "lose 1"])


@violates("promises")
def promises_confirmed_without_memory() -> Story:
    """Node 1 has lost its disk. It promises and confirms epoch 2, and node 5 counts that."""
    return chosen_from_two(["lose 1", "return 1", "promise 1", "promise 2", "confirm 1", "confirm 2", "lose 1"])


@violates("promises")
def promises_that_nobody_confirms() -> Story:
    """Nobody asks in the whole run who still keeps a promise: node 1 chooses the history of epoch 1 as soon as it has two."""
    story = Story()
    story.start()
    story.leads(1)
    story.members = [1, 2, 3]
    for node in story.members:
        story.promise(node, 1)
    story.choose(1)
    for node in story.members:
        story.synchronize(node, 1)
    story.establish(1, 1)
    story.serve(story.members, 1)
    story.write()
    story.settle()
    return story


@violates("promises")
def promises_established_without_a_choice() -> Story:
    """Node 2 is established for epoch 2, and nothing shows when it chose the history of that."""
    story = ensemble()
    story.leads(2)
    for node in (2, 1, 3):
        story.promise(node, 2)
    story.confirm(2, 1, 3)
    for node in (2, 1, 3):
        story.synchronize(node, 2)
    story.establish(2, 2)
    story.serve(story.members, 2)
    story.settle()
    return story


@violates("promises")
def promises_confirmed_to_another_leader() -> Story:
    """Node 1 has promised epoch 2 to node 4, and confirms it to node 5, which counts that."""
    story = ensemble(nodes=5)
    story.leader = 4
    for node in (4, 1):
        story.promise(node, 2)
    story.leader, story.members = 5, [5, 2, 3]
    story.event(5, "role", role="LEADING", leader=5, why="elected")
    for node in (5, 2):
        story.promise(node, 2)
    story.confirm(2, 1, 2)
    story.event(5, "phase", phase="SYNCHRONIZATION", epoch=2)
    story.promise(3, 2)
    for node in story.members:
        story.synchronize(node, 2)
    story.establish(5, 2)
    story.serve(story.members, 2)
    story.elect(5, epoch=3)
    story.settle()
    return story


def chosen_from_two(before: list[str]) -> Story:
    """Return a run with the steps `before` node 5 chooses the history of epoch 2. Then nodes 3 and 4 join it, and node 1
    returns."""
    story = ensemble(nodes=5)
    story.leader, story.members = 5, [2, 3, 4, 5]
    story.event(5, "role", role="LEADING", leader=5, why="elected")
    story.promise(5, 2)
    for word, number in (step.split() for step in before):
        node = int(number)
        match word:
            case "promise":
                story.promise(node, 2)
            case "confirm":
                story.confirm(2, node)
            case "restart":
                story.crash(node)
                story.boot(node)
            case "return":
                story.boot(node, "amnesiac")
            case _:
                story.wipe(node)
    story.event(5, "phase", phase="SYNCHRONIZATION", epoch=2)
    for node in (3, 4):
        story.promise(node, 2)
    for node in (5, 2, 3, 4):
        story.synchronize(node, 2)
    story.establish(5, 2)
    story.serve(story.members, 2)
    join_without_its_disk(story, 1)
    story.confirm(2, 2, 3)
    story.event(1, "member", epoch=2, quorum=[2, 3, 5])
    story.settle()
    return story


@legal("promises")
def promises_member_by_those_that_were_asked() -> Story:
    """Node 5 has lost its disk and joins again; then nodes 2 and 3 confirm it to node 1, which leads."""
    return member_when_asked(before=[], after=[2, 3])


@violates("promises")
def promises_member_by_one_that_was_not_asked() -> Story:
    """Node 5 is a member again by nodes 1, 2 and 3, and node 3 has confirmed nothing."""
    return member_when_asked(before=[], after=[2])


@violates("promises")
def promises_member_by_one_that_was_asked_before() -> Story:
    """The same, and what node 3 has confirmed was before node 5 joined."""
    return member_when_asked(before=[3], after=[2])


@violates("promises", "epochs")
def promises_member_by_one_that_was_asked_about_another_epoch() -> Story:
    """The same, but node 3 confirms epoch 1 after node 5 has joined epoch 2."""
    return member_when_asked(before=[], after=[2], of_another=[3])


def member_when_asked(before: list[int], after: list[int], of_another: Sequence[int] = ()) -> Story:
    """Return a run in which node 5, which lost its disk, joins epoch 2. These nodes confirm the epoch before and after that,
    or another epoch."""
    story = ensemble(nodes=5)
    story.elect(1, epoch=2)
    story.wipe(5)
    story.confirm(2, *before)
    join_without_its_disk(story, 5)
    story.confirm(2, *after)
    story.confirm(1, *of_another)
    story.event(5, "member", epoch=2, quorum=[1, 2, 3])
    story.settle()
    return story


@legal("promises")
def promises_late_joiner() -> Story:
    """Node 3 promised epoch 2, was away when it was established, and joins it later under the promise that it has."""
    story = ensemble()
    story.leads(2)
    for node in (2, 1, 3):
        story.promise(node, 2)
    story.choose(2, 1)
    story.crash(3)
    for node in (2, 1):
        story.synchronize(node, 2)
    story.members = [1, 2]
    story.establish(2, 2)
    for node in (1, 2):
        story.event(node, "phase", phase="BROADCAST", epoch=2)
    story.write()
    story.boot(3)
    story.join(3)
    story.write()
    story.settle()
    return story


@legal("promises")
def promises_of_a_former_disk() -> Story:
    """Node 3 promised epoch 2 to node 2 and lost its disk. On the new one it promises epoch 2 to node 1."""
    story = ensemble()
    story.leader = 2
    story.promise(2, 2)
    story.promise(3, 2)
    story.wipe(3)
    story.boot(3, "amnesiac")
    story.leader = 1
    story.promise(1, 2)
    story.promise(3, 2)
    story.elect(1, epoch=3)
    story.write()
    story.settle()
    return story


@legal("promises")
def promises_counted_with_a_former_disk() -> Story:
    """Node 3 promised epoch 2 to node 2 and lost its disk. It is a member again, and counts in epoch 2 for node 1."""
    story = ensemble(nodes=5)
    story.leader = 2
    story.promise(2, 2)
    story.promise(3, 2)
    story.wipe(3)
    story.leader = 1
    join_without_its_disk(story, 3)
    story.confirm(1, 4, 5)
    story.event(3, "member", epoch=1, quorum=[1, 4, 5])
    story.elect(1, epoch=2, members=[1, 3, 4, 5])
    story.join(2)
    story.write()
    story.settle()
    return story


# ---- disk ----


@violates("disk")
def disk_could_have_held_something_else() -> Story:
    """No node has lost anything, but the simulator found that a crash at a sync of node 2 would have left a wrong disk."""
    story = ensemble()
    story.write()
    story.milestone(
        "crash-state", node=2, life=1, why="after a power cut (torn) at this sync it would not have started"
    )
    story.milestone("crash-state", node=3, life=1, why="after a kill at this sync it would not have started")
    story.settle()
    return story


@violates("disk")
def disk_promise_forgotten() -> Story:
    """Node 3 promised epoch 2, crashed, and starts with f.p = 1."""
    story = ensemble()
    story.leader = 2
    story.promise(2, 2)
    story.promise(3, 2)
    story.crash(3)
    story.boot(3, accepted_epoch=1)
    story.leader = 1
    story.elect(1, epoch=3)
    story.settle()
    return story


@violates("disk")
def disk_joined_and_forgotten() -> Story:
    """Node 3 has joined epoch 2, crashed, and starts with f.a = 1."""
    story = ensemble()
    story.elect(1, epoch=2)
    story.crash(3)
    story.boot(3, current_epoch=1)
    story.join(3)
    story.write()
    story.settle()
    return story


def _late_to_promise() -> Story:
    """Return a run in which node 3 was down when epoch 2 began, and promises it after its return."""
    story = ensemble()
    story.crash(3)
    story.elect(2, epoch=2, members=[1, 2])
    story.boot(3)
    story.promise(3, 2)
    return story


@violates("disk")
def disk_found_and_forgotten() -> Story:
    """Node 3 was killed when it had joined epoch 2, before its trace said so. Its next life finds that; then it is gone."""
    story = _late_to_promise()
    for found in (2, 1):
        story.crash(3)
        story.boot(3, current_epoch=found)
    story.join(3)
    story.write()
    story.settle()
    return story


@violates("disk")
def disk_promise_found_and_forgotten() -> Story:
    """Node 2 was killed when it had promised epoch 2, before its trace said so. Its next life finds that; then it is gone."""
    story = ensemble()
    story.leader = 3
    story.promise(3, 2)
    for found in (2, 1):
        story.crash(2)
        story.boot(2, accepted_epoch=found)
    story.elect(3, epoch=3)
    story.settle()
    return story


@violates("disk")
def disk_accepts_again() -> Story:
    """Node 3 accepts 1:3 again, though its log already ends there."""
    story = ensemble()
    story.accept(3, (1, 3))
    story.settle()
    return story


@violates("disk")
def disk_delivered_and_truncated() -> Story:
    """Node 3 has delivered 1:3. It is killed, and its next life has joined epoch 2 with a log that ends at 1:2."""
    story = _late_to_promise()
    story.crash(3)
    story.servers[3].log.pop()
    story.boot(3, current_epoch=2)
    story.join(3)
    story.write()
    story.settle()
    return story


@violates("disk")
def disk_delivered_and_forgotten() -> Story:
    """Node 2 delivered 1:3, crashed, and starts with a log that ends at 1:2; no fault touched its disk."""
    story = ensemble()
    story.crash(2)
    story.servers[2].log.pop()
    story.boot(2)
    story.join(2)
    story.settle()
    return story


@violates("disk")
def disk_accepted_and_forgotten() -> Story:
    """Node 2 acknowledged 1:4, which nobody has delivered, and does not have it any more when it starts again."""
    story = ensemble()
    story.propose()
    story.crash(2)
    story.servers[2].log.pop()
    story.boot(2)
    story.join(2)
    for node in (1, 3):
        story.deliver(node, (1, 4))
    story.settle()
    return story


@violates("disk")
def disk_lost_with_that_of_another_node() -> Story:
    """A fault has taken node 2's disk. Node 3 is killed and comes back without memory, too."""
    story = ensemble(nodes=5)
    story.wipe(2)
    story.wipe(3, do="crash")
    for node in (2, 3):
        story.boot(node, "amnesiac")
        story.join(node)
    story.settle()
    return story


@violates("disk")
def disk_lost_after_it_was_replaced() -> Story:
    """A fault has taken node 3's disk. Node 3 is a member again, is killed, and comes back without memory once more."""
    story = ensemble()
    for do in ("wipe", "crash"):
        story.wipe(3, do=do)
        story.boot(3, "amnesiac")
        story.join(3)
    story.settle()
    return story


@violates("disk")
def disk_lost_with_one_file() -> Story:
    """A fault has removed the newest file of node 3's log, and node 3 comes back without memory."""
    story = ensemble()
    story.wipe(3, do="remove-file", params={"which": "newest"})
    story.boot(3, "amnesiac")
    story.join(3)
    story.settle()
    return story


@violates("disk")
def disk_shorter_without_its_newest_file() -> Story:
    """A fault has removed the newest file of node 2's log. The node did not miss it, and its log ends earlier."""
    story = ensemble()
    story.crash(2, do="remove-file", params={"which": "newest"})
    story.servers[2].log.pop()
    story.boot(2)
    story.join(2)
    story.settle()
    return story


@violates("disk")
def disk_lost_though_the_wipe_left_it() -> Story:
    """The evidence of a wipe is that node 3's disk is still there. It comes back without memory all the same."""
    story = ensemble()
    evidence = {"3": {"pid": story.pid(3), "exit": -9, "wiped": False}}
    story.wipe(3, confirmed=False, evidence=evidence)
    story.boot(3, "amnesiac")
    story.join(3)
    story.settle()
    return story


@violates("disk")
def disk_cut_off_at_a_flipped_bit() -> Story:
    """A fault flipped one bit of node 2's log. The node took that for a torn end, and cut off what had been durable."""
    story = ensemble()
    story.crash(2, do="corrupt")
    story.servers[2].log.pop()
    story.boot(2, "torn")
    story.join(2)
    story.settle()
    return story


@violates("disk")
def disk_of_another_node_was_damaged() -> Story:
    """A fault truncated node 3's log. That node 2's ends earlier than it did is not excused by it."""
    story = ensemble()
    story.crash(2)
    story.crash(3, do="truncate-file")
    for node in (2, 3):
        story.servers[node].log.pop()
        story.boot(node)
        story.join(node)
    story.settle()
    return story


@violates("disk")
def disk_lost_by_nobody() -> Story:
    """Node 3 is killed and comes back without memory; no fault has taken its disk."""
    story = ensemble()
    story.wipe(3, do="crash")
    story.boot(3, "amnesiac")
    story.join(3)
    story.write()
    story.settle()
    return story


def _refuses_its_disk(story: Story) -> None:
    """Let node 3 refuse its disk in its next life, and rejoin after a wipe. So all nodes converge in the end."""
    server = story.servers[3]
    server.life, server.n = server.life + 1, 0
    story.event(3, "exit", code=65, why="log-1, offset 4096: a bad record, with good ones behind it")
    story.wipe(3)
    story.boot(3, "amnesiac")
    story.join(3)
    story.write()


@violates("disk")
def disk_refused_and_nothing_had_damaged_it() -> Story:
    """Node 3 is only killed, and refuses its disk afterwards. It gets an empty one, with which it rejoins."""
    story = ensemble()
    story.crash(3)
    _refuses_its_disk(story)
    story.settle()
    return story


@violates("disk")
def disk_refused_after_the_damaged_one_was_replaced() -> Story:
    """A fault damages node 3's disk, and it gets another one, on which it has lived. It refuses that one, too."""
    story = ensemble()
    story.crash(3, do="corrupt")
    _refuses_its_disk(story)
    story.crash(3)
    _refuses_its_disk(story)
    story.settle()
    return story


@legal("disk")
def disk_refused_long_after_it_was_damaged() -> Story:
    """A bit was flipped in a part of node 3's disk that its next start does not read. The one after that refuses it."""
    story = ensemble()
    story.crash(3, do="corrupt")
    story.boot(3)
    story.join(3)
    story.crash(3)
    _refuses_its_disk(story)
    story.settle()
    return story


@violates("disk", "recovery", "reliable delivery")
def disk_lost_by_nobody_excuses_nothing() -> Story:
    """Nodes 1 and 2 come back without memory, and nothing had taken their disks: this is not beyond the fault model."""
    story = ensemble()
    story.wipe(1, 2, do="crash")
    for node in (1, 2):
        story.boot(node, "amnesiac")
    story.leader = 0
    story.settle(converged=False)
    return story


@violates("disk", "promises")
def disk_born_twice() -> Story:
    """Node 3 starts as a new ensemble's member, although it has lived before."""
    story = ensemble()
    story.wipe(3, do="crash")
    story.boot(3, "fresh")
    story.join(3)
    story.write()
    story.settle()
    return story


@violates("disk")
def disk_holds_what_nobody_sent() -> Story:
    """Node 2's log ends at 1:5 after its restart. The primary of epoch 1 has broadcast up to 1:3."""
    story = ensemble()
    story.crash(2)
    story.servers[2].log += [((1, 4), digest((1, 4))), ((1, 5), digest((1, 5)))]
    story.boot(2)
    story.elect(1, epoch=2, members=[1, 3])
    story.join(2)
    story.settle()
    return story


@violates("disk")
def disk_holds_a_promise_to_nobody() -> Story:
    """Node 2 starts with f.p = 7, an epoch that nobody has ever proposed."""
    story = ensemble()
    story.crash(2)
    story.servers[2].accepted_epoch = 7
    story.boot(2)
    story.elect(1, epoch=8)
    story.settle()
    return story


@violates("disk")
def disk_holds_a_promise_of_an_epoch_in_between() -> Story:
    """Node 2 starts with f.p = 7. Node 3 has proposed epoch 8, and nobody epoch 7."""
    story = ensemble()
    story.leader = 3
    story.promise(3, 8)
    story.crash(2)
    story.servers[2].accepted_epoch = 7
    story.boot(2)
    story.elect(1, epoch=9)
    story.settle()
    return story


@legal("promises")
def disk_lost_twice() -> Story:
    """Node 3 has lost its disk, promises epoch 2, and loses the next disk, too. It promises epoch 2 once more."""
    story = ensemble()
    story.leader = 2
    story.promise(2, 2)
    for _ in range(2):
        story.wipe(3)
        story.boot(3, "amnesiac")
        story.promise(3, 2)
    story.elect(1, epoch=3)
    story.settle()
    return story


@violates("disk")
def disk_cut_off_where_a_fault_truncated_it() -> Story:
    """A fault truncated node 2's log file. The node took that for a torn end, although the file was cut."""
    story = ensemble()
    story.crash(2, do="truncate-file")
    story.servers[2].log.pop()
    story.boot(2, "torn")
    story.join(2)
    story.settle()
    return story


@legal("disk")
def disk_more_than_it_could_tell() -> Story:
    """Node 2 is killed after 1:4 and a promise were durable, before its trace says so; its disk has both."""
    story = ensemble()
    story.propose(to=[1, 3])
    story.leader = 3
    story.promise(3, 2)
    story.servers[2].log.append(((1, 4), digest((1, 4))))
    story.servers[2].accepted_epoch = 2
    story.crash(2)
    story.boot(2)
    story.elect(3, epoch=3)
    story.settle()
    return story


@leaves_unknown("disk", "PASS")
def disk_lost_to_a_fault_that_was_not_confirmed() -> Story:
    """A wipe is not confirmed as a whole, but its evidence shows that node 3's disk is gone."""
    story = ensemble()
    evidence = {"3": {"pid": story.pid(3), "exit": -9, "wiped": True}}
    story.wipe(3, confirmed=False, evidence=evidence)
    story.boot(3, "amnesiac")
    story.join(3)
    story.settle()
    return story


@violates("disk")
def disk_lost_and_not_noticed() -> Story:
    """A fault takes node 3's disk. It starts as if it had its memory, with nothing, and counts in no quorum by chance."""
    story = ensemble()
    story.wipe(3)
    story.boot(3, "recovered")
    story.elect(1, epoch=2, members=[1, 2])
    story.join(3)
    story.write()
    story.settle()
    return story


def _acknowledges(acks: int, syncs: int) -> Story:
    """Return a run in which node 3, which has joined and accepted 1:1 to 1:4, says that it has sent so many ACKs and has synced
    its log so often."""
    story = ensemble()
    story.write()
    story.event(3, "work", frames=9, messages={"ACK": acks, "PING": 99}, syncs=syncs)
    story.settle()
    return story


@violates("disk")
def disk_more_acks_than_syncs() -> Story:
    """Node 3 has acknowledged four times, and has synced its log three times only."""
    return _acknowledges(acks=4, syncs=3)


@violates("disk")
def disk_more_acks_than_accepted() -> Story:
    """Node 3 has acknowledged five times, and has traced only four times that it accepted something."""
    return _acknowledges(acks=5, syncs=7)


def _votes(*, before: bool) -> Story:
    """Let node 3 lose its disk, join again, and vote `before` it is a member or after that."""
    story = ensemble()
    story.write()
    story.wipe(3)
    story.boot(3, "amnesiac")
    story.event(3, "vote", round=2, leader=3 if before else None)
    story.join(3)
    if not before:
        story.event(3, "vote", round=3, leader=3)
    story.write()
    story.settle()
    return story


@violates("promises")
def promises_a_node_without_its_disk_votes() -> Story:
    """Node 3 has lost its disk, and votes for itself before it is a member again."""
    return _votes(before=True)


@legal("promises")
def promises_a_member_votes() -> Story:
    """The same, but node 3 votes for no node until it is a member again."""
    return _votes(before=False)


def _promises(syncs: int, *, exact: bool = False) -> Story:
    """Let node 3 promise and join an epoch and accept a transaction, all between two counts, and sync its log so often then."""
    story = ensemble(times_are_exact=exact)
    story.write()
    story.event(3, "work", messages={"ACK": 4}, syncs=6)
    story.elect(1, epoch=2)
    story.write()
    story.event(3, "work", messages={"ACK": 4}, syncs=6 + syncs)
    story.settle()
    return story


@violates("disk")
def disk_a_promise_without_a_sync() -> Story:
    """Node 3 says that its promise is durable, and has not synced its log."""
    return _promises(0)


@legal("disk")
def disk_promises_with_a_sync() -> Story:
    """The same, but node 3 has synced its log once: that may have been for all that it had written."""
    return _promises(1)


@violates("disk")
def disk_too_few_syncs_in_the_simulator() -> Story:
    """The same in the simulator: two syncs are too few for what became durable at three instants."""
    return _promises(2, exact=True)


@legal("disk")
def disk_as_many_syncs_as_instants() -> Story:
    """The same, but node 3 has synced its log three times."""
    return _promises(3, exact=True)


@legal("disk")
def disk_as_many_acks_as_syncs() -> Story:
    """Node 3 has acknowledged four times, and has synced its log as often: one sync was for two steps."""
    return _acknowledges(acks=4, syncs=4)


@legal("disk")
def disk_still_amnesiac() -> Story:
    """Node 3 lost its disk, is killed before it is a member again, and starts without memory a second time."""
    story = ensemble()
    story.wipe(3)
    story.boot(3, "amnesiac")
    story.event(3, "role", role="FOLLOWING", leader=1, why="elected")
    story.promise(3, 1)
    story.synchronize(3, 1)
    story.crash(3)
    story.boot(3, "amnesiac")
    story.join(3)
    story.write()
    story.settle()
    return story


def _killed_while_synchronizing(current_epoch: int) -> Story:
    """Return a run in which node 3 missed epoch 2, and is killed when the history up to 2:1 and the epoch became durable,
    untraced."""
    story = ensemble()
    story.crash(3)
    story.elect(2, epoch=2, members=[1, 2])
    story.write()
    story.boot(3)
    story.promise(3, 2)
    story.crash(3)
    story.boot(3, last_zxid=[2, 1], current_epoch=current_epoch)
    story.servers[3].current_epoch = current_epoch
    story.servers[3].log = list(story.servers[2].log)
    story.join(3)
    story.write()
    story.settle()
    return story


@violates("disk")
def disk_history_without_its_epoch() -> Story:
    """Node 3 starts with 2:1 in its log, but its f.a is still 1."""
    return _killed_while_synchronizing(1)


@legal("disk")
def disk_history_and_epoch_untold() -> Story:
    """Node 3 starts with 2:1 in its log, and f.a is 2: both became durable just before it was killed."""
    return _killed_while_synchronizing(2)


@legal("disk")
def disk_truncation_and_epoch_untold() -> Story:
    """Node 1 starts without 1:4, and f.a is 2: it joined an epoch without that transaction just before it was killed."""
    story = ensemble()
    story.propose(to=[1])
    story.crash(1)
    story.elect(2, epoch=2, members=[2, 3])
    story.boot(1)
    story.promise(1, 2)
    story.crash(1)
    story.servers[1].log.pop()
    story.servers[1].current_epoch = 2
    story.boot(1)
    story.join(1)
    story.write()
    story.settle()
    return story


def _killed_in_discovery(promised: int) -> Story:
    """Return a run in which node 2 is killed as it begins to lead. Then its disk holds a promise that it could not trace."""
    story = ensemble()
    story.event(2, "role", role="LEADING", leader=2, why="elected")
    story.event(2, "phase", phase="DISCOVERY", epoch=1)
    story.crash(2)
    story.servers[2].accepted_epoch = promised
    story.boot(2)
    story.elect(1, epoch=promised + 1)
    story.settle()
    return story


@legal("disk")
def disk_own_promise_untold() -> Story:
    """Node 2, which was to lead, starts with f.p = 2: the epoch after all that nodes had promised."""
    return _killed_in_discovery(2)


@legal("disk")
def disk_own_promise_untold_when_another_had_led() -> Story:
    """Nodes 2 and 3 were to lead epoch 2, one after the other, and neither could trace its promise. Both start with f.p = 2."""
    story = ensemble()
    for node in (2, 3):
        story.event(node, "role", role="LEADING", leader=node, why="elected")
        story.event(node, "phase", phase="DISCOVERY", epoch=1)
        story.crash(node)
        story.servers[node].accepted_epoch = 2
    story.boot(2)
    story.boot(3)
    story.elect(1, epoch=3)
    story.settle()
    return story


@violates("disk")
def disk_own_promise_of_a_far_epoch() -> Story:
    """Node 2, which was to lead, starts with f.p = 7. Nobody had promised an epoch later than 1."""
    return _killed_in_discovery(7)


@violates("disk")
def disk_committed_and_truncated_untold() -> Story:
    """Node 3 starts without 1:4, and f.a is 2. It had not delivered 1:4, but the others had: no leader may truncate that."""
    story = ensemble()
    zxid = story.propose()
    for node in (1, 2):
        story.deliver(node, zxid)
    story.elect(2, epoch=2, members=[1, 2])
    story.promise(3, 2)
    story.crash(3)
    story.servers[3].log.pop()
    story.servers[3].current_epoch = 2
    story.boot(3)
    story.join(3)
    story.settle()
    return story


def _started_with(disk: str, counter: int) -> Story:
    """Return a run in which node 3 was given a disk with two transactions of epoch 1, and first starts with those up to this
    counter."""
    story = Story()
    given = {(1, 1): [0, 1, [["create", "/b", 0, 1]]], (1, 2): [0, 2, [["create", "/c", 0, 1]]]}
    story.txns |= given
    digests = dg.show_all([digest(zxid) for zxid in given])
    story.milestone("disk", node=3, accepted_epoch=1, current_epoch=1, runs=[[1, 1, digests, list(given.values())]])
    story.milestone("started")
    server = story.servers[3]
    server.log = [(zxid, digest(zxid)) for zxid in given if zxid[1] <= counter]
    server.accepted_epoch = server.current_epoch = 1 if server.log else 0
    for node in story.servers:
        story.boot(node, disk if node == 3 else "fresh")
    story.elect(3, epoch=2)
    story.write()
    story.settle()
    return story


@legal("disk")
def disk_as_it_was_given() -> Story:
    """Node 3 starts with the two transactions that the scenario had put on its disk."""
    return _started_with("recovered", 2)


@violates("disk")
def disk_not_as_it_was_given() -> Story:
    """Node 3 starts with one of the two transactions that the scenario had put on its disk."""
    return _started_with("recovered", 1)


@violates("disk")
def disk_given_and_not_found() -> Story:
    """Node 3 starts on an empty disk, and the scenario had put two transactions there."""
    return _started_with("fresh", 0)


@violates("disk")
def disk_promised_before_it_was_born() -> Story:
    """Node 3 of a new ensemble first starts with f.p = 5."""
    story = Story()
    story.milestone("started")
    story.servers[3].accepted_epoch = 5
    for node in story.servers:
        story.boot(node, "recovered" if node == 3 else "fresh")
    story.elect(1, epoch=6)
    story.write()
    story.settle()
    return story
