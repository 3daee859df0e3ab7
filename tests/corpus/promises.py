"""Cases about epochs, and about what must not be forgotten."""

from tests.corpus.cases import ends, legal, violates
from tests.corpus.story import Story, digest, ensemble
from zab_chaos.node.core import digest as dg

# ---- one leader an epoch ----


@violates("one leader an epoch", "promises")
def one_leader_established_twice() -> Story:
    """Nodes 2 and 3 are both established for epoch 2."""
    story = ensemble()
    story.crash(1)
    story.elect(2, epoch=2, members=[2, 3])
    story.establish(3, 2)
    story.settle()
    return story


@violates("one leader an epoch", "primary integrity")
def one_leader_two_broadcast() -> Story:
    """Node 3 broadcasts in epoch 1, whose primary is node 1."""
    story = ensemble()
    story.broadcast(3, (1, 1), delivered=(0, 0))
    story.settle()
    return story


@violates("one leader an epoch", "promises")
def one_leader_same_node_next_life() -> Story:
    """Node 1 forgets that it has led epoch 1, and is established for it again in its next life."""
    story = ensemble()
    story.crash(1)
    story.boot(1)
    story.establish(1, 1)
    story.join(1)
    story.settle()
    return story


@violates("one leader an epoch", "promises", "epochs")
def one_leader_established_again_after_another_epoch() -> Story:
    """Node 2 is established for epoch 2, node 1 for epoch 3, and then node 3 for epoch 2."""
    story = ensemble()
    story.elect(2, epoch=2)
    story.elect(1, epoch=3)
    story.establish(3, 2)
    story.settle()
    return story


@violates("one leader an epoch", "primary integrity", "local primary order")
def one_leader_next_life_broadcasts() -> Story:
    """Node 1 starts again, and broadcasts in the epoch for which its former life was established."""
    story = ensemble()
    story.crash(1)
    story.boot(1)
    story.join(1)
    story.broadcast(1, (1, 4))
    story.settle()
    return story


@legal("one leader an epoch")
def one_leader_led_before() -> Story:
    """Node 1 leads epochs 1 and 3: each time it is another primary."""
    story = ensemble()
    story.elect(2, epoch=2)
    story.write()
    story.elect(1, epoch=3)
    story.write()
    story.settle()
    return story


# ---- epochs ----


@violates("epochs")
def epochs_joined_without_a_promise() -> Story:
    """Node 2 makes epoch 2 its current epoch, having promised epoch 1 only."""
    story = ensemble()
    story.event(2, "current_epoch", epoch=2, last_zxid=[1, 3])
    story.settle()
    return story


@violates("epochs")
def epochs_accepts_from_the_past() -> Story:
    """Node 3, in the broadcast phase of epoch 2, accepts a proposal under epoch 1 (a zombie leader's)."""
    story = ensemble()
    story.elect(2, epoch=2)
    story.broadcast(1, (1, 4), delivered=(1, 3))
    story.event(3, "accept", in_epoch=1, epoch=1, first=4, digests=dg.show_all([digest((1, 4))]))
    story.settle()
    return story


@violates("epochs", "synchronization")
def epochs_accepts_from_the_future() -> Story:
    """Node 3, in broadcast in epoch 1, accepts 1:4 under epoch 2, which it has not promised."""
    story = ensemble()
    zxid = story.propose(to=[1, 2])
    story.accept(3, zxid, in_epoch=2)
    for node in story.members:
        story.deliver(node, zxid)
    story.settle()
    return story


@violates("epochs")
def epochs_promised_an_older_one() -> Story:
    """Node 3 promises epoch 3 to node 2, and then epoch 2 to node 1."""
    story = ensemble()
    for leader, epoch in ((2, 3), (1, 2)):
        story.leader = leader
        for node in (leader, 3):
            story.promise(node, epoch)
    story.elect(1, epoch=4)
    story.settle()
    return story


@violates("epochs")
def epochs_started_with_more_than_promised() -> Story:
    """Node 3 starts with f.a = 2, the epoch that node 2 had promised itself, and f.p = 1."""
    story = ensemble()
    story.leader = 2
    story.promise(2, 2)
    story.crash(3)
    story.boot(3, current_epoch=2)
    story.elect(1, epoch=3)
    story.settle()
    return story


@violates("epochs")
def epochs_joined_an_older_one() -> Story:
    """Node 3, in epoch 2, makes epoch 1 its current one again."""
    story = ensemble()
    story.elect(2, epoch=2)
    story.event(3, "current_epoch", epoch=1, last_zxid=[1, 3])
    story.settle()
    return story


@violates("epochs")
def epochs_accepts_after_its_promise() -> Story:
    """Node 3 has promised epoch 2, and still accepts 1:4 of node 1, which leads epoch 1, before it joins epoch 2."""
    story = ensemble()
    story.propose(to=[1])
    story.leader = 2
    for node in (2, 3):
        story.promise(node, 2)
    story.event(3, "phase", phase="DISCOVERY", epoch=1)
    story.accept(3, (1, 4))
    story.elect(1, epoch=3)
    story.settle()
    return story


@violates("epochs")
def epochs_broadcasts_after_its_promise() -> Story:
    """Node 1 has promised epoch 2 to node 2, and still broadcasts as the primary of epoch 1."""
    story = ensemble()
    story.leader = 2
    for node in (2, 1):
        story.promise(node, 2)
    story.broadcast(1, (1, 4))
    story.elect(2, epoch=3)
    story.settle()
    return story


@violates("epochs")
def epochs_confirms_after_another_promise() -> Story:
    """Node 3 has promised epoch 3 to node 1, and then confirms that it follows node 2 in epoch 2."""
    story = ensemble()
    for leader, epoch in ((2, 2), (1, 3)):
        story.leader = leader
        for node in (leader, 3):
            story.promise(node, epoch)
    story.event(3, "confirmed", epoch=2, leader=2)
    story.elect(1, epoch=4)
    story.settle()
    return story


@violates("epochs")
def epochs_joins_after_another_promise() -> Story:
    """Node 3 joins epoch 2, although it has promised epoch 3 since."""
    story = ensemble()
    for leader, epoch in ((2, 2), (1, 3)):
        story.leader = leader
        for node in (leader, 3):
            story.promise(node, epoch)
    story.event(3, "current_epoch", epoch=2, last_zxid=[1, 3])
    story.elect(1, epoch=4)
    story.settle()
    return story


@violates("epochs", "synchronization")
def epochs_serves_without_having_joined() -> Story:
    """Node 3 takes over the history of epoch 2, forgets to make that its current epoch, and goes on to phase 3 and its end."""
    story = ensemble()
    story.crash(3)
    story.elect(2, epoch=2, members=[1, 2])
    zxid = story.write()
    story.boot(3)
    story.event(3, "role", role="FOLLOWING", leader=2, why="elected")
    story.promise(3, 2)
    story.accept(3, zxid, in_epoch=2)
    story.servers[3].current_epoch = 2
    story.serve((3,), 2)
    story.members = [1, 2, 3]
    story.write()
    story.settle()
    return story


@legal("epochs")
def epochs_disk_lost() -> Story:
    """Node 3 loses its disk and comes back amnesiac: its epochs begin again, and it counts in no quorum meanwhile."""
    story = ensemble()
    story.wipe(3)
    story.boot(3, "amnesiac")
    story.join(3)
    story.write()
    story.settle()
    return story


@legal("epochs")
def epochs_initial_history_of_the_past() -> Story:
    """Node 3 has promised epoch 2, and makes 1:4, which node 2 begins it with, durable when its f.a is still 1."""
    story = ensemble()
    story.propose(to=[1, 2])
    story.leader = 2
    for node in (2, 1, 3):
        story.event(node, "role", role="LEADING" if node == 2 else "FOLLOWING", leader=2, why="elected")
        story.promise(node, 2)
    story.confirm(2, 1, 3)
    for node in (2, 1, 3):
        story.event(node, "phase", phase="SYNCHRONIZATION", epoch=2)
    story.accept(3, (1, 4), in_epoch=2)
    for node in (2, 1, 3):
        story.synchronize(node, 2)
    story.establish(2, 2)
    story.serve(story.members, 2)
    story.write()
    story.settle()
    return story


@legal("epochs")
def epochs_promised_and_not_joined() -> Story:
    """f.p may be ahead of f.a for ever so long, also over a restart."""
    story = ensemble()
    story.leader = 2
    story.promise(2, 2)
    story.promise(3, 2)
    story.crash(3)
    story.boot(3)
    story.elect(1, epoch=3)
    story.settle()
    return story


# ---- synchronization ----


def _joins_with_a_snapshot_of_less(*, joined: bool) -> Story:
    """Return a run in which node 3 loses its disk and joins epoch 2 with a snapshot up to 1:2. It gets 1:3, the last of the
    initial history, before (`joined`: after) it has joined."""
    story = ensemble()
    story.wipe(3)
    story.elect(2, epoch=2, members=[1, 2])
    story.boot(3, "amnesiac")
    story.event(3, "role", role="FOLLOWING", leader=2, why="elected")
    story.promise(3, 2)
    server, leader = story.servers[3], story.servers[2]
    server.log, server.delivered = leader.log[:2], leader.delivered[:2]
    story.snapshot(3, "installed", (1, 2))
    server.current_epoch = 2
    if not joined:
        story.accept(3, (1, 3))
    story.event(3, "current_epoch", epoch=2, last_zxid=list(server.last))
    if joined:
        story.accept(3, (1, 3))
    story.event(3, "phase", phase="BROADCAST", epoch=2)
    story.snapshot(3, "restored", (1, 2))
    story.deliver(3, (1, 3))
    story.members = [1, 2, 3]
    story.admit(3)
    story.write()
    story.settle()
    return story


@violates("synchronization")
def synchronization_joined_with_less_than_the_initial_history() -> Story:
    """Node 3 joins epoch 2 with a history up to 1:2, and gets the end of the initial history, 1:3, only then."""
    return _joins_with_a_snapshot_of_less(joined=True)


@legal("synchronization")
def synchronization_joined_with_all_of_the_initial_history() -> Story:
    """Node 3 joins epoch 2 with a snapshot up to 1:2 and with 1:3, the end of the initial history."""
    return _joins_with_a_snapshot_of_less(joined=False)


def _restores(zxid: tuple[int, int]) -> Story:
    """Return a run in which node 3 missed 1:4 to 1:6. It joins with a snapshot up to 1:5 and with 1:6, and restores `zxid`."""
    story = ensemble()
    story.crash(3)
    story.members = [1, 2]
    story.write(3)
    story.boot(3)
    story.event(3, "role", role="FOLLOWING", leader=1, why="elected")
    server, leader = story.servers[3], story.servers[1]
    server.log, server.delivered = leader.log[:5], leader.delivered[:5]
    story.snapshot(3, "installed", (1, 5))
    story.accept(3, (1, 6))
    story.event(3, "current_epoch", epoch=1, last_zxid=[1, 6])
    story.event(3, "phase", phase="BROADCAST", epoch=1)
    server.delivered = leader.delivered[: zxid[1]]
    story.snapshot(3, "restored", zxid)
    story.catch_up(3)
    story.members = [1, 2, 3]
    story.write()
    story.settle()
    return story


@violates("synchronization")
def synchronization_restored_more_than_it_installed() -> Story:
    """Node 3 shows the state up to 1:6 when it restores the snapshot, which goes up to 1:5."""
    return _restores((1, 6))


@legal("synchronization")
def synchronization_restored_what_it_installed() -> Story:
    """Node 3 restores the snapshot up to 1:5, and delivers 1:6."""
    return _restores((1, 5))


def _truncated_while(looking: bool) -> Story:
    """Return a run in which node 3 holds 1:4, which only node 1 has besides. Nodes 1 and 2 elect node 2 in epoch 2 without it;
    node 3 cuts it off when it joins, or while it looks for a leader."""
    story = ensemble()
    story.propose(to=[3])
    story.crash(3)
    story.elect(2, epoch=2, members=[1, 2])
    story.boot(3)
    if looking:
        story.truncate(3, (1, 3))
    story.join(3)
    story.write()
    story.settle()
    return story


@violates("synchronization")
def synchronization_truncated_before_a_leader_said_so() -> Story:
    """Node 3 truncates its log when it looks for a leader, and joins epoch 2 only later: in between, a leader could have missed
    the transaction."""
    return _truncated_while(looking=True)


@legal("synchronization")
def synchronization_truncated_to_join() -> Story:
    """Node 3 truncates its log and joins epoch 2 in one step."""
    return _truncated_while(looking=False)


@violates("synchronization")
def synchronization_truncated_between_promise_and_confirmation() -> Story:
    """Node 3 has promised epoch 2, truncates its log, and only then confirms that it follows."""
    story = ensemble()
    story.propose(to=[3])
    story.leader, story.members = 2, [2, 3, 1]
    story.event(2, "role", role="LEADING", leader=2, why="elected")
    story.promise(2, 2)
    for node in (1, 3):
        story.event(node, "role", role="FOLLOWING", leader=2, why="elected")
        story.promise(node, 2)
    story.truncate(3, (1, 3))
    story.choose(2, 1, 3)
    for node in (2, 1, 3):
        story.synchronize(node, 2)
    story.establish(2, 2)
    story.serve((1, 2, 3), 2)
    story.write()
    story.settle()
    return story


def _delivers_last_of_its_epoch(phase: str) -> Story:
    """Return a run in which node 1 dies when it has delivered 1:4, and node 3 delivers it after it has entered this phase."""
    story = ensemble()
    seq = story.invoke()
    zxid = story.propose(of=(1, seq))
    story.deliver(1, zxid)
    story.complete(1, seq, zxid)
    story.crash(1)
    story.event(3, "role", role="LOOKING", leader=None, why="its leader is gone")
    story.event(3, "phase", phase="ELECTION", epoch=1)
    if phase == "ELECTION":
        story.deliver(3, zxid)
    story.elect(2, epoch=2, members=[2, 3], deliver=False)
    if phase == "SYNCHRONIZATION":
        story.event(3, "phase", phase="SYNCHRONIZATION", epoch=2)
        story.deliver(3, zxid)
    story.serve((2, 3), 2)
    story.boot(1)
    story.join(1)
    story.settle()
    return story


@violates("synchronization")
def synchronization_delivered_in_phase_2() -> Story:
    """Node 3 delivers 1:4, of the initial history of epoch 2, before it knows that the epoch is established."""
    return _delivers_last_of_its_epoch("SYNCHRONIZATION")


@legal("synchronization")
def synchronization_delivered_when_its_leader_was_gone() -> Story:
    """Node 3 delivers 1:4, whose COMMIT it has got, when it looks for a leader already."""
    return _delivers_last_of_its_epoch("ELECTION")


# ---- durability ----


@violates("durability", "exactly once")
def durability_never_delivered() -> Story:
    """A client is told that 1:4 succeeded, and no node ever delivers it."""
    story = ensemble()
    seq = story.invoke()
    story.propose(to=[1])
    story.complete(1, seq, (1, 4))
    story.settle()
    return story


@violates("durability", "committed stays", "reliable delivery", "recovery", "quorum durability")
def durability_lost_with_a_tail() -> Story:
    """1:4 was acknowledged after its leader alone had delivered it; epoch 2 begins without it."""
    story = ensemble()
    seq = story.invoke()
    story.propose(to=[1])
    story.deliver(1, (1, 4))
    story.complete(1, seq, (1, 4))
    story.crash(1)
    story.elect(2, epoch=2, members=[2, 3])
    story.boot(1)
    story.settle(converged=False)
    return story


@ends("VIOLATION", "durability", "PASS", "recovery", "reliable delivery")
def durability_of_who_is_only_behind() -> Story:
    """Node 3 follows the leader of 1:4, and has not delivered that when time is up. It may still do so: nothing is lost."""
    story = ensemble()
    seq = story.invoke()
    story.propose()
    for node in (1, 2):
        story.deliver(node, (1, 4))
    story.complete(1, seq, (1, 4))
    story.settle(converged=False)
    return story


@violates(
    "durability",
    "agreement",
    "integrity",
    "state equality",
    "reliable delivery",
    "recovery",
    "quorum durability",
)
def durability_of_who_has_something_else() -> Story:
    """Node 3 has delivered other bytes as 1:4, and time is up. It can never deliver the acknowledged ones."""
    story = ensemble()
    seq = story.invoke()
    story.propose()
    for node, variant in ((1, ""), (2, ""), (3, "changed")):
        story.deliver(node, (1, 4), digest((1, 4), variant))
    story.complete(1, seq, (1, 4))
    story.settle(converged=False)
    return story


@ends(
    "VIOLATION",
    "durability",
    "VIOLATION",
    "durability",
    "total order",
    "local primary order",
    "prefix",
    "state equality",
)
def durability_in_a_run_without_an_end() -> Story:
    """Node 3 has delivered 1:5 without 1:4, which was acknowledged. Then the run was interrupted."""
    story = ensemble()
    story.skip_at(3)
    story.run["outcome"] = "interrupted"
    return story


@legal("durability")
def durability_unknown_is_no_promise() -> Story:
    """The leader dies with 1:4 on its disk only. The client was told "unknown", and the write is gone."""
    story = ensemble()
    seq = story.invoke()
    story.propose(to=[1])
    story.crash(1)
    story.complete(1, seq, None, "unknown")
    story.elect(2, epoch=2, members=[2, 3])
    story.boot(1)
    story.join(1)
    story.settle()
    return story


@legal("durability")
def durability_disk_of_a_minority_lost() -> Story:
    """Node 1 loses its disk after it acknowledged 1:4; a quorum still has it."""
    story = ensemble()
    story.write()
    story.wipe(1)
    story.elect(2, epoch=2, members=[2, 3])
    story.boot(1, "amnesiac")
    story.join(1)
    story.settle()
    return story


# ---- committed stays ----


@violates("committed stays", "synchronization")
def committed_stays_truncated() -> Story:
    """Node 3 cuts 1:3 off its log, which it had delivered. It gets it again."""
    story = ensemble()
    story.truncate(3, (1, 2))
    story.accept(3, (1, 3))
    story.settle()
    return story


@violates("committed stays", "primary integrity", "quorum durability", "reliable delivery", "recovery")
def committed_stays_delivered_after_two_epochs() -> Story:
    """Epoch 3 follows epoch 1, and nodes 2 and 3 begin it with 1:3. Then node 1 delivers its log up to 1:4 in one batch."""
    story = ensemble()
    story.propose(to=[1])
    story.crash(1)
    story.elect(2, epoch=3, members=[2, 3])
    story.propose(to=[2, 3])
    story.boot(1)
    story.deliver_batch(1, (1, 1), (1, 2), (1, 3), (1, 4))
    story.settle(converged=False)
    return story


@violates("committed stays", "promises")
def committed_stays_new_epoch_without_it() -> Story:
    """Node 2 is established for epoch 2 with a history that ends at 1:2."""
    story = ensemble()
    story.leader = 2
    for node in (2, 1, 3):
        story.promise(node, 2)
    story.establish(2, 2, last_zxid=[1, 2])
    story.settle()
    return story


@legal("committed stays")
def committed_stays_ladis_figure_4() -> Story:
    """LADIS 2008, Figure 4: the proposal that only server 1 had is truncated when it returns."""
    story = ensemble(writes=2)
    story.propose(to=[1])
    story.crash(1)
    story.elect(2, epoch=2, members=[2, 3])
    story.write(2)
    story.boot(1)
    story.join(1)
    story.settle()
    return story


# ---- a quorum of disks lost ----


@ends("BEYOND-FAULT-MODEL", "durability", "NOT-APPLICABLE")
def beyond_quorum_of_disks_lost() -> Story:
    """Nodes 1 and 2 lose their disks. One of three remains; nobody leads, and nobody invents a history."""
    story = ensemble()
    story.crash(3, heal=False)
    story.members = [1, 2]
    story.write(2)
    story.wipe(1, 2)
    for node in (1, 2):
        story.boot(node, "amnesiac")
    story.boot(3)
    story.heal(id=1)
    story.leader = 0
    story.settle(converged=False)
    return story


@ends("BEYOND-FAULT-MODEL", "durability", "NOT-APPLICABLE")
def beyond_disks_lost_one_after_the_other() -> Story:
    """Node 1 loses its disk, and nodes 2 and 3 elect a leader. Then node 2 loses its disk before node 1 is a member again."""
    story = ensemble()
    story.wipe(1)
    story.boot(1, "amnesiac")
    story.elect(2, epoch=2, members=[2, 3])
    story.wipe(2)
    story.boot(2, "amnesiac")
    story.leader = 0
    story.settle(converged=False)
    return story


@violates("recovery", "reliable delivery")
def beyond_nothing_with_one_disk_lost() -> Story:
    """Node 3 loses its disk and never becomes a member again, although nodes 1 and 2 are a quorum."""
    story = ensemble()
    story.wipe(3)
    story.boot(3, "amnesiac")
    story.members = [1, 2]
    story.write()
    story.settle(converged=False)
    return story


@violates("promises", "recovery", "reliable delivery")
def beyond_but_led_by_one_without_memory() -> Story:
    """Nodes 1 and 2 lose their disks. Node 3 is established with node 1, which has no memory, and the run goes on."""
    story = ensemble()
    story.wipe(1, 2)
    for node in (1, 2):
        story.boot(node, "amnesiac")
    story.leader, story.members = 3, [3, 1]
    for node in story.members:
        story.promise(node, 2)
    for node in story.members:
        story.synchronize(node, 2)
    story.establish(3, 2, quorum=[1, 3])
    story.serve(story.members, 2)
    story.settle(converged=False)
    return story


@ends(
    "VIOLATION",
    "committed stays",
    "VIOLATION",
    "committed stays",
    "agreement",
    "durability",
    "primary integrity",
    "promises",
    "reliable delivery",
)
def beyond_but_history_was_invented() -> Story:
    """Nodes 1 and 2 lose their disks, form an epoch all the same, and deliver something else as the first write."""
    story = ensemble(writes=2)
    story.wipe(1, 2)
    for node in (1, 2):
        story.boot(node, "amnesiac")
    story.crash(3)
    story.elect(1, epoch=2, members=[1, 2])
    story.write()
    story.settle()
    return story
