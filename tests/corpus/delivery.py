"""Cases about what is delivered, and in which order."""

from tests.corpus.cases import leaves_unknown, legal, violates
from tests.corpus.story import Story, digest, ensemble

# ---- integrity ----


@violates("integrity")
def integrity_out_of_nowhere() -> Story:
    """All nodes deliver 1:4, which nobody broadcast."""
    story = ensemble()
    for node in story.members:
        story.accept(node, (1, 4))
    for node in story.members:
        story.deliver(node, (1, 4))
    story.settle()
    return story


@violates("integrity")
def integrity_other_bytes() -> Story:
    """All nodes deliver 1:4 with bytes that are not those of the broadcast."""
    story = ensemble()
    story.broadcast(1, (1, 4))
    for node in story.members:
        story.accept(node, (1, 4), digest((1, 4), "changed"))
    for node in story.members:
        story.deliver(node, (1, 4), digest((1, 4), "changed"))
    story.settle()
    return story


@violates("integrity")
def integrity_the_digest_of_another_one() -> Story:
    """All nodes deliver 1:4 with the digest of 1:3."""
    story = ensemble()
    story.broadcast(1, (1, 4))
    for node in story.members:
        story.accept(node, (1, 4), digest((1, 3)))
    for node in story.members:
        story.deliver(node, (1, 4), digest((1, 3)))
    story.settle()
    return story


@legal("integrity")
def integrity_broadcast_and_skipped() -> Story:
    """Broadcast does not imply delivered: 1:4 reaches nobody before its primary dies, and is cut off later."""
    story = ensemble()
    story.propose(to=[1])
    story.crash(1)
    story.elect(2, epoch=2, members=[2, 3])
    story.write()
    story.boot(1)
    story.join(1)
    story.settle()
    return story


def _proposal_that_is_cut_off(variant: str) -> Story:
    """Return a run in which node 3 accepts a `variant` of 1:4 and misses epoch 2, which begins without it."""
    story = ensemble()
    zxid = story.propose(to=[])
    story.accept(3, zxid, digest(zxid, variant))
    story.crash(3)
    story.elect(2, epoch=2, members=[1, 2])
    story.boot(3)
    story.join(3)
    story.write()
    story.settle()
    return story


@violates("integrity")
def integrity_accepted_other_bytes() -> Story:
    """Node 3 accepts 1:4 with other bytes than node 1 had broadcast. Nobody delivers it, and node 3 cuts it off later."""
    return _proposal_that_is_cut_off("changed")


@legal("integrity")
def integrity_accepted_and_cut_off() -> Story:
    """Node 3 accepts 1:4 as node 1 had broadcast it. Nobody delivers it, and node 3 cuts it off later."""
    return _proposal_that_is_cut_off("")


# ---- total order ----


@violates("total order", "local primary order", "prefix", "state equality", "durability")
def total_order_skipped() -> Story:
    """Node 3 delivers 1:5 without 1:4, which the others had delivered."""
    story = ensemble()
    story.skip_at(3)
    story.settle()
    return story


@violates(
    "total order",
    "integrity",
    "local primary order",
    "prefix",
    "state equality",
    "durability",
    "reliable delivery",
    "quorum durability",
)
def total_order_skipped_before_other_bytes() -> Story:
    """Node 3 delivers 1:5 and 1:6 in one batch, without 1:4 and with other bytes for 1:6."""
    story = ensemble()
    seqs = [story.invoke() for _ in range(3)]
    zxids = [story.propose() for _ in range(3)]
    for node in (1, 2):
        story.deliver_batch(node, *zxids)
    for seq, zxid in zip(seqs, zxids, strict=True):
        story.complete(1, seq, zxid)
    story.deliver_batch(3, *zxids[1:], variant="changed")
    story.settle()
    return story


@violates("total order", "local primary order", "prefix", "state equality", "synchronization")
def total_order_skipped_and_repaired() -> Story:
    """The same, but then node 3 replaces its state by a snapshot that has both."""
    story = ensemble()
    story.skip_at(3)
    story.servers[3].delivered = list(story.servers[1].delivered)
    story.snapshot(3, "restored", (1, 5))
    story.settle()
    return story


@violates("total order", "local primary order", "causal order", "state equality")
def total_order_again_without_restart() -> Story:
    """Node 2 delivers 1:2 and 1:3 a second time in one life."""
    story = ensemble()
    story.deliver(2, (1, 2))
    story.deliver(2, (1, 3))
    story.settle()
    return story


@violates("total order", "local primary order", "causal order", "state equality")
def total_order_the_last_one_again() -> Story:
    """Node 2 delivers 1:3, the last one that it has delivered, a second time."""
    story = ensemble()
    story.deliver(2, (1, 3))
    story.settle()
    return story


@violates("total order", "local primary order", "prefix", "state equality")
def total_order_redelivery_with_a_hole() -> Story:
    """After its restart node 2 delivers 1:1 and 1:3 again, but not 1:2."""
    story = ensemble(writes=0)
    for _ in range(2):
        zxid = story.propose()
        for node in story.members:
            story.deliver(node, zxid)
    story.write()
    story.crash(2)
    story.boot(2)
    story.servers[2].log = [it for it in story.servers[2].log if it[0] != (1, 2)]
    story.event(2, "role", role="FOLLOWING", leader=1, why="elected")
    story.serve((2,), 1)
    story.settle()
    return story


@legal("total order")
def total_order_redelivery_after_restart() -> Story:
    """A restarted node delivers everything again, in the same order (LADIS 2008, section 2)."""
    story = ensemble()
    story.crash(2)
    story.boot(2)
    story.join(2)
    story.write()
    story.settle()
    return story


# ---- agreement ----


@violates("agreement", "primary integrity", "committed stays", "durability", "reliable delivery", "quorum durability")
def agreement_fork(read: bool = False) -> Story:
    """Node 1 delivers 1:4 on its own disk alone; nodes 2 and 3 go on without it."""
    story = ensemble()
    seq = story.invoke()
    story.propose(to=[1])
    story.deliver(1, (1, 4))
    story.complete(1, seq, (1, 4))
    story.crash(1)
    story.elect(2, epoch=2, members=[2, 3])
    story.write()
    if read:
        story.read(node=2)
    story.settle()
    return story


@violates("agreement", "integrity", "state equality", "durability", "reliable delivery", "quorum durability")
def agreement_same_zxid_other_bytes() -> Story:
    """Node 3 delivers 1:4 with other bytes than the others do."""
    story = ensemble()
    seq = story.invoke()
    story.propose()
    for node, variant in ((1, ""), (2, ""), (3, "changed")):
        story.deliver(node, (1, 4), digest((1, 4), variant))
    story.complete(1, seq, (1, 4))
    story.settle()
    return story


@violates("agreement", "integrity", "state equality", "durability", "reliable delivery", "quorum durability")
def agreement_other_bytes_within_a_batch() -> Story:
    """Node 3 delivers 1:4 and 1:5 in one batch, with other bytes for 1:5 than the others."""
    story = ensemble()
    seqs = [story.invoke(), story.invoke()]
    zxids = [story.propose(), story.propose()]
    for node in (1, 2):
        story.deliver_batch(node, *zxids)
    for seq, zxid in zip(seqs, zxids, strict=True):
        story.complete(1, seq, zxid)
    story.deliver_batch(3, *zxids, variant="changed")
    story.settle()
    return story


@legal("agreement")
def agreement_one_is_behind() -> Story:
    """Node 3 dies before it delivers 1:4. Its sequence is a prefix of the others'."""
    story = ensemble()
    seq = story.invoke()
    story.propose()
    story.deliver(1, (1, 4))
    story.deliver(2, (1, 4))
    story.complete(1, seq, (1, 4))
    story.crash(3)
    story.boot(3)
    story.join(3)
    story.settle()
    return story


# ---- local primary order ----


@violates("local primary order", "prefix", "values and versions")
def local_order_gap_everywhere() -> Story:
    """All nodes deliver 1:5 without 1:4, so nobody disagrees with anybody."""
    story = ensemble()
    story.propose()
    story.propose()
    for node in story.members:
        story.deliver(node, (1, 5))
    story.settle()
    return story


@violates("local primary order")
def local_order_gap_in_what_nobody_delivers() -> Story:
    """The primary of epoch 1 broadcasts 1:5 where 1:4 was next. It reaches nobody, and epoch 2 begins."""
    story = ensemble()
    story.broadcast(1, (1, 5))
    story.elect(2, epoch=2)
    story.write()
    story.settle()
    return story


@violates("local primary order")
def local_order_another_one_in_its_place() -> Story:
    """The primary broadcasts 1:4 a second time with other bytes, and that is the 1:4 that all nodes accept and deliver."""
    story = ensemble()
    story.broadcast(1, (1, 4))
    other = digest((1, 4), "changed")
    story.broadcast(1, (1, 4), other)
    for node in story.members:
        story.accept(node, (1, 4), other)
    for node in story.members:
        story.deliver(node, (1, 4), other)
    story.settle()
    return story


@violates("local primary order")
def local_order_above_the_limit() -> Story:
    """The nodes' counters may go up to 3, and node 1 broadcasts 1:4."""
    story = ensemble(counter_max=3)
    story.write()
    story.settle()
    return story


@legal("local primary order")
def local_order_up_to_the_limit() -> Story:
    """The nodes' counters may go up to 3: 1:3 is the last of epoch 1, and node 2 goes on in epoch 2."""
    story = ensemble(counter_max=3)
    story.elect(2, epoch=2)
    story.write(3)
    story.settle()
    return story


@violates("local primary order", "disk")
def local_order_epoch_begins_in_the_middle() -> Story:
    """The primary of epoch 2 broadcasts 2:2 first, and all deliver it."""
    story = ensemble()
    story.elect(2, epoch=2)
    story.broadcast(2, (2, 2))
    for node in story.members:
        story.accept(node, (2, 2))
    for node in story.members:
        story.deliver(node, (2, 2))
    story.settle()
    return story


@legal("local primary order")
def local_order_new_epoch_starts_over() -> Story:
    """After 1:3 comes 2:1: the counter starts again with each epoch, and 1:4 stays skipped."""
    story = ensemble()
    story.propose(to=[1])
    story.crash(1)
    story.elect(3, epoch=2, members=[2, 3])
    story.write(2)
    story.boot(1)
    story.join(1)
    story.settle()
    return story


# ---- global primary order ----


@violates(
    "global primary order", "agreement", "primary integrity", "causal order", "committed stays", "quorum durability"
)
def global_order_old_epoch_after_new() -> Story:
    """A proposal of epoch 1 comes back and is delivered everywhere after 2:1."""
    story = ensemble()
    story.propose(to=[1])
    story.elect(2, epoch=2)
    story.write()
    for node in story.members:
        story.deliver(node, (1, 4))
    story.settle()
    return story


@violates("global primary order", "total order", "causal order", "state equality")
def global_order_back_to_delivered() -> Story:
    """Node 3 delivers 1:3 again after 2:1, in one life."""
    story = ensemble()
    story.elect(2, epoch=2)
    story.write()
    story.deliver(3, (1, 3))
    story.settle()
    return story


@legal("global primary order")
def global_order_epoch_left_out() -> Story:
    """Epoch 2 was promised and never established; after epoch 1 comes epoch 3."""
    story = ensemble()
    story.crash(1)
    story.leader = 2
    story.promise(2, 2)
    story.promise(3, 2)
    story.elect(3, epoch=3, members=[2, 3])
    story.write()
    story.boot(1)
    story.join(1)
    story.settle()
    return story


# ---- primary integrity ----


def _new_primary_broadcasts_early(said: tuple[int, int]) -> Story:
    """The primary of epoch 2 has delivered nothing in its life when it broadcasts, and says that it had `said`."""
    story = ensemble()
    story.crash(2)
    story.boot(2)
    story.elect(2, epoch=2, deliver=False)
    story.broadcast(2, (2, 1), delivered=said)
    for node in (1, 2, 3):
        story.accept(node, (2, 1))
    story.serve((2, 1, 3), 2)
    story.settle()
    return story


@violates("primary integrity", "disk")
def primary_integrity_not_caught_up() -> Story:
    """The primary of epoch 2 broadcasts 2:1 before it has delivered the initial history, which others had."""
    return _new_primary_broadcasts_early((0, 0))


@violates("primary integrity")
def primary_integrity_says_what_is_not_so() -> Story:
    """The primary of epoch 2 says that it has delivered up to 1:3. Its trace shows nothing of it."""
    return _new_primary_broadcasts_early((1, 3))


@violates("primary integrity")
def primary_integrity_claims_too_much() -> Story:
    """With its second broadcast the primary of epoch 1 says that it has delivered 1:4, which it delivers at the end."""
    story = ensemble()
    story.propose()
    for counter in (5, 6):
        story.broadcast(1, (1, counter), delivered=(1, 4))
        for node in story.members:
            story.accept(node, (1, counter))
    for node in story.members:
        story.catch_up(node)
    story.settle()
    return story


@legal("primary integrity")
def primary_integrity_delivered_with_a_snapshot() -> Story:
    """The primary of epoch 2 has got what was delivered with a snapshot, and broadcasts next."""
    story = ensemble()
    story.crash(3, heal=False)
    story.members = [1, 2]
    story.write(3)
    story.boot(3)
    story.heal()
    story.join_with_a_snapshot(3, (1, 6))
    story.elect(3, epoch=2)
    story.write()
    story.settle()
    return story


@violates("primary integrity")
def primary_integrity_early_ready() -> Story:
    """The primary of epoch 2 broadcasts before a quorum has acknowledged NEWLEADER."""
    story = ensemble()
    story.leads(2)
    for node in (2, 1, 3):
        story.promise(node, 2)
    story.choose(2, 1, 3)
    story.broadcast(2, (2, 1))
    for node in story.members:
        story.synchronize(node, 2)
    for node in story.members:
        story.accept(node, (2, 1))
    story.establish(2, 2, last_zxid=[1, 3])
    story.serve(story.members, 2)
    story.settle()
    return story


@legal("primary integrity")
def primary_integrity_tail_that_nobody_delivers() -> Story:
    """The primary of epoch 2 does not have 1:4, which was accepted by its broadcaster only, and never delivered."""
    story = ensemble()
    story.propose(to=[1])
    story.elect(2, epoch=2)
    story.write()
    story.settle()
    return story


# ---- prefix ----


@violates("prefix", "local primary order", "total order", "state equality")
def prefix_hole_at_one_node() -> Story:
    """Node 2 delivers the third of a leader's proposals without the second."""
    story = ensemble()
    for counter in (4, 5):
        zxid = story.propose()
        for node in (1, 2, 3):
            if (node, counter) != (2, 4):
                story.deliver(node, zxid)
    story.settle()
    return story


@violates("prefix", "local primary order", "values and versions")
def prefix_first_of_an_epoch_missing() -> Story:
    """All nodes deliver 2:2 without 2:1, which its leader had proposed before."""
    story = ensemble()
    story.elect(3, epoch=2)
    story.propose()
    story.propose()
    for node in story.members:
        story.deliver(node, (2, 2))
    story.settle()
    return story


@legal("prefix")
def prefix_delivered_with_a_snapshot() -> Story:
    """Node 3 was away; it gets 1:4 to 1:6 with a snapshot, and goes on with 1:7."""
    story = ensemble()
    story.crash(3, heal=False)
    story.members = [1, 2]
    story.write(3)
    story.boot(3)
    story.heal()
    story.join_with_a_snapshot(3, (1, 6))
    story.write()
    story.settle()
    return story


# ---- causal order ----


@violates(
    "causal order", "global primary order", "agreement", "primary integrity", "committed stays", "quorum durability"
)
def causal_order_ladis_example() -> Story:
    """LADIS 2008, section 2: w2 of the first leader is delivered after w3 of the second one."""
    story = ensemble(writes=1)
    seq = story.invoke()
    story.propose(to=[1])
    story.elect(2, epoch=2)
    story.write(client=2)
    story.elect(1, epoch=3)
    story.deliver(1, (1, 2))
    story.complete(1, seq, None, "unknown")
    story.settle()
    return story


@violates("causal order", "local primary order")
def causal_order_broadcast_after_itself() -> Story:
    """Node 1 broadcasts 1:4 again when it has delivered 1:4."""
    story = ensemble()
    story.write()
    story.broadcast(1, (1, 4))
    story.settle()
    return story


@violates("causal order", "epochs")
def causal_order_broadcast_after_what_follows() -> Story:
    """Node 1, which has promised epoch 2, broadcasts 1:4 although it says that it has delivered 2:1."""
    story = ensemble()
    story.elect(2, epoch=2)
    story.write()
    story.broadcast(1, (1, 4))
    story.settle()
    return story


@legal("causal order")
def causal_order_snapshot_then_log() -> Story:
    """A restarted node begins with its snapshot at 1:3 and delivers the rest, in one ascending order."""
    story = ensemble()
    story.take_snapshot(2)
    story.write(2)
    story.crash(2)
    story.boot(2)
    story.join(2)
    story.settle()
    return story


# ---- reliable delivery ----


@violates("reliable delivery", "durability")
def reliable_delivery_left_behind() -> Story:
    """Node 3 is up and never delivers 1:4."""
    story = ensemble()
    seq = story.invoke()
    story.propose()
    story.deliver(1, (1, 4))
    story.deliver(2, (1, 4))
    story.complete(1, seq, (1, 4))
    story.settle()
    return story


@violates("reliable delivery", "durability")
def reliable_delivery_the_first_one_left_behind() -> Story:
    """The same with node 1, which had led until then."""
    story = ensemble()
    story.elect(2, epoch=2)
    seq = story.invoke()
    story.propose()
    story.deliver(2, (2, 1))
    story.deliver(3, (2, 1))
    story.complete(1, seq, (2, 1))
    story.settle()
    return story


@violates("reliable delivery", "durability")
def reliable_delivery_nothing_after_restart() -> Story:
    """Node 2 comes back, and delivers nothing in its second life."""
    story = ensemble()
    story.crash(2)
    story.boot(2)
    story.settle()
    return story


@legal("reliable delivery")
def reliable_delivery_of_what_came_late() -> Story:
    """The nodes have converged at 1:3. A fence that was under way is delivered before that is told."""
    story = ensemble()
    story.propose()
    story.settle(late=(1, 4))
    return story


@legal("durability")
def durability_of_what_came_late() -> Story:
    """The same, but it is a client's write, which is acknowledged."""
    story = ensemble()
    seq = story.invoke()
    story.propose()
    story.settle(late=(1, 4))
    story.complete(1, seq, (1, 4))
    return story


@violates("reliable delivery")
def reliable_delivery_left_behind_before_what_came_late() -> Story:
    """Node 3 has not delivered 1:4, where the nodes are said to have converged. 1:5 came late, and is owed by nobody."""
    story = ensemble()
    story.propose()
    story.deliver(1, (1, 4))
    story.deliver(2, (1, 4))
    story.propose()
    story.settle(late=(1, 5))
    return story


@violates("reliable delivery")
def reliable_delivery_left_behind_by_the_last_one() -> Story:
    """Node 3 has not delivered 1:5, where the nodes are said to have converged."""
    story = ensemble()
    story.commit()
    story.propose()
    story.deliver(1, (1, 5))
    story.deliver(2, (1, 5))
    story.propose()
    story.settle(late=(1, 6))
    return story


@leaves_unknown("reliable delivery", "PASS")
def reliable_delivery_owes_nothing_to_the_dead() -> Story:
    """Node 3 found its disk corrupt and does not start again. It is not correct; nobody owes it anything."""
    story = ensemble()
    story.crash(3, do="corrupt")
    story.servers[3].life, story.servers[3].n = 2, 0
    story.event(3, "exit", code=65, why="corrupt disk")
    story.servers[3].up = False
    story.members = [1, 2]
    story.write(2)
    story.settle(converged=False)
    return story
