"""Cases about clients, states, recovery, links, and the experiment itself."""

import json
from typing import Any

from tests.corpus.cases import ends, leaves_unknown, legal, violates
from tests.corpus.story import STEP, Story, digest, ensemble
from zab_chaos.node.core import digest as dg

# ---- client order ----


@violates("client order")
def client_order_answers_swapped() -> Story:
    """Client 1 gets the answer to its second request before the one to its first."""
    story = ensemble()
    first, second = story.invoke(), story.invoke()
    for _ in range(2):
        zxid = story.propose()
        for node in story.members:
            story.deliver(node, zxid)
    story.complete(1, second, (1, 5))
    story.complete(1, first, (1, 4))
    story.settle()
    return story


@violates("client order")
def client_order_answers_of_reads_swapped() -> Story:
    """Client 2 gets the answer to its second read before the one to its first; both are true."""
    story = ensemble()
    first, second = story.invoke(2, "get"), story.invoke(2, "get")
    story.answer_read(2, second, (1, 3))
    story.answer_read(2, first, (1, 3))
    story.settle()
    return story


@violates("client order")
def client_order_effects_swapped() -> Story:
    """The answers come in order, but the first write's transaction follows the second one's."""
    story = ensemble()
    first, second = story.invoke(), story.invoke()
    story.commit((1, second))
    story.commit((1, first))
    story.complete(1, first, (1, 5))
    story.complete(1, second, (1, 4))
    story.settle()
    return story


@violates("client order", "exactly once")
def client_order_told_swapped() -> Story:
    """Two writes take effect in their order, and their client is told the zxid of the one for the other."""
    story = ensemble()
    first, second = story.invoke(), story.invoke()
    for seq in (first, second):
        story.commit((1, seq))
    story.complete(1, first, (1, 5))
    story.complete(1, second, (1, 4))
    story.settle()
    return story


@violates("client order")
def client_order_reads_go_back() -> Story:
    """Client 2 reads at 1:3, changes to a node that is behind, and reads at 1:2."""
    story = ensemble()
    story.read(2, (1, 3))
    story.read(2, (1, 2), node=2)
    story.settle()
    return story


@violates("client order", "exactly once")
def client_order_one_transaction_two_writes() -> Story:
    """Two clients are told that 1:4 was their write."""
    story = ensemble()
    mine, other = story.invoke(1), story.invoke(2)
    zxid = story.propose()
    for node in story.members:
        story.deliver(node, zxid)
    story.complete(1, mine, zxid)
    story.complete(2, other, zxid)
    story.settle()
    return story


@violates("client order", "exactly once")
def client_order_one_transaction_two_writes_of_one_client() -> Story:
    """A client is told that 1:4 was its write, and so was its next one."""
    story = ensemble()
    mine, next_ = story.invoke(), story.invoke()
    zxid = story.commit()
    story.complete(1, mine, zxid)
    story.complete(1, next_, zxid)
    story.settle()
    return story


@legal("client order")
def client_order_between_clients() -> Story:
    """Client 2 reads an older state than client 1 did before, at another node, which is behind."""
    story = ensemble()
    zxid = story.propose()
    for node in (1, 3):
        story.deliver(node, zxid)
    story.read(1, zxid)
    story.read(2, (1, 3), node=2)
    story.read(2, (1, 3), node=2)
    story.deliver(2, zxid)
    story.settle()
    return story


@violates("client order")
def client_order_older_than_the_node_had() -> Story:
    """Two clients read at node 2, for the first time, and are shown a state that it had left behind before they asked."""
    story = ensemble()
    story.read(1, (1, 2), node=2)
    story.read(2, (1, 2), node=2)
    story.settle()
    return story


@legal("client order")
def client_order_delivered_while_the_read_was_under_way() -> Story:
    """Node 2 answers a read with the state that it had when the read was sent, and has delivered more by then."""
    story = ensemble()
    seq = story.invoke(2, "get")
    story.write()
    story.answer_read(2, seq, (1, 3), node=2)
    story.settle()
    return story


@legal("client order")
def client_order_failed_and_unknown_between() -> Story:
    """A request fails, the next one is never answered, the one after it succeeds."""
    story = ensemble()
    failed, lost = story.invoke(version=9), story.invoke()
    story.complete(1, failed, (1, 3), "failed", error="bad version")
    story.complete(1, lost, None, "unknown")
    story.write()
    story.settle()
    return story


# ---- state equality ----


@violates("state equality")
def state_other_tree() -> Story:
    """Node 3 has delivered the same, and its tree is another one."""
    story = ensemble()
    zxid = story.propose()
    story.deliver(1, zxid)
    story.deliver(2, zxid)
    story.deliver(3, zxid, tree="0123456789abcdef")
    story.settle()
    return story


@violates("state equality")
def state_other_history() -> Story:
    """Node 2 reports a running digest that is not the one of the history up to there."""
    story = ensemble()
    zxid = story.propose()
    story.deliver(1, zxid)
    story.deliver(2, zxid, digest="0123456789abcdef")
    story.deliver(3, zxid)
    story.settle()
    return story


@violates("state equality")
def state_the_digest_at_another_zxid() -> Story:
    """Node 2 reports the running digest of 1:3 at 1:4."""
    story = ensemble()
    before = story.running(2)
    zxid = story.propose()
    story.deliver(1, zxid)
    story.deliver(2, zxid, digest=dg.show(before))
    story.deliver(3, zxid)
    story.settle()
    return story


@violates("state equality")
def state_dirty_snapshot() -> Story:
    """ZOOKEEPER-1549: node 1 takes a snapshot that holds 1:4, which is not committed."""
    story = ensemble()
    story.propose(to=[1])
    story.snapshot(1, "taken", (1, 4))
    story.settle()
    return story


@violates("state equality")
def state_snapshot_of_what_was_cut_off() -> Story:
    """Node 2 takes a snapshot at 1:4, which nobody has delivered. It has delivered 2:1 itself."""
    story = ensemble()
    story.propose(to=[1])
    story.crash(1)
    story.elect(2, epoch=2, members=[2, 3])
    story.write()
    story.snapshot(2, "taken", (1, 4))
    story.boot(1)
    story.join(1)
    story.settle()
    return story


@violates("state equality")
def state_snapshot_installed_too_early() -> Story:
    """Node 3 installs a snapshot at 1:4, which is not committed yet."""
    story = ensemble()
    seq = story.invoke()
    zxid = story.propose(to=[1, 2], of=(1, seq))
    story.servers[3].log.append((zxid, digest(zxid)))
    story.snapshot(3, "installed", zxid, digest=None, tree=None)
    story.event(3, "current_epoch", epoch=1, last_zxid=list(zxid))
    for node in (1, 2, 3):
        story.deliver(node, zxid)
    story.complete(1, seq, zxid)
    story.settle()
    return story


@violates("state equality", "reliable delivery", "durability", "disk")
def state_snapshot_of_nothing_delivered() -> Story:
    """Node 2 starts from a snapshot at 1:9, a state that nobody has ever been in."""
    story = ensemble()
    story.crash(2)
    story.boot(2, snapshot_zxid=[1, 9], last_zxid=[1, 9])
    story.settle()
    return story


@violates("state equality", "synchronization")
def state_restored_what_nobody_had_delivered() -> Story:
    """In the middle of its life node 2 replaces its state by a snapshot at 1:9, a state that nobody has ever been in."""
    story = ensemble()
    story.snapshot(2, "restored", (1, 9))
    story.settle()
    return story


@violates("state equality")
def state_other_digest_after_restart() -> Story:
    """Node 2 starts from its snapshot at 1:3, whose running digest is not that of the history up to 1:3."""
    story = ensemble()
    story.take_snapshot(2)
    story.crash(2)
    story.boot(2, digest="0123456789abcdef")
    story.join(2)
    story.settle()
    return story


@violates("state equality")
def state_other_digest_of_a_snapshot() -> Story:
    """Node 2 takes a snapshot at 1:3, whose running digest is not that of the history up to 1:3."""
    story = ensemble()
    story.snapshot(2, "taken", (1, 3), digest="0123456789abcdef")
    story.settle()
    return story


@violates("state equality")
def state_other_tree_of_a_snapshot() -> Story:
    """Node 2 takes a snapshot at 1:3, and its tree is not the one that the nodes had there."""
    story = ensemble()
    story.snapshot(2, "taken", (1, 3), tree="0123456789abcdef")
    story.settle()
    return story


@violates("state equality")
def state_other_digest_of_nothing() -> Story:
    """Node 2 starts without a snapshot, and its running digest is not that of an empty history."""
    story = ensemble()
    story.crash(2)
    story.boot(2, digest="0123456789abcdef")
    story.join(2)
    story.settle()
    return story


@legal("state equality")
def state_snapshot_of_a_moment_ago() -> Story:
    """Node 2 has a snapshot at 1:2 when it has delivered 1:3 already. Its state is what it was."""
    story = ensemble()
    story.snapshot(2, "taken", (1, 2), digest=None, tree=None)
    story.write()
    story.settle()
    return story


@legal("state equality")
def state_batches_differ() -> Story:
    """Node 2 delivers 1:4 to 1:6 one by one, node 1 and 3 in one batch: the same digests at the end."""
    story = ensemble()
    zxids = [story.propose() for _ in range(3)]
    for zxid in zxids:
        story.deliver(2, zxid)
    for node in (1, 3):
        story.deliver_batch(node, *zxids)
    story.settle()
    return story


# ---- recovery ----


@violates("recovery", "reliable delivery")
def recovery_never() -> Story:
    """Node 3 comes back, follows nobody, and does not catch up."""
    story = ensemble()
    story.crash(3)
    story.boot(3)
    story.event(3, "link", peer=1, state="closed", session=1, why="silent")
    story.event(3, "role", role="LOOKING", leader=None, why="start")
    story.event(3, "vote", round=1, leader=3, zxid=[1, 3], epoch=1)
    story.settle(converged=False)
    return story


@leaves_unknown("recovery")
def recovery_of_a_node_that_refuses_its_disk() -> Story:
    """A fault has flipped a bit on node 3's disk. Node 3 notices that and stays down, so the nodes do not converge."""
    story = ensemble()
    story.crash(3, do="corrupt")
    story.servers[3].life, story.servers[3].n = 2, 0
    story.event(3, "exit", code=65, why="log-1, offset 4096: a bad record, with good ones behind it")
    story.members = [1, 2]
    story.write()
    story.settle(converged=False)
    return story


@violates("recovery")
def recovery_too_late() -> Story:
    """The nodes converge after 10.5 s; the scenario expects 10."""
    story = ensemble(converges_within=10)
    story.settle(seconds=10.5)
    return story


@violates("recovery")
def recovery_unavailable_for_too_long() -> Story:
    """Writes were due for 3 s before one succeeded; the scenario allows 2 s."""
    story = ensemble(unavailable_at_most="2s")
    seq = story.invoke()
    story.t += 3_000_000_000
    zxid = story.propose()
    for node in story.members:
        story.deliver(node, zxid)
    story.complete(1, seq, zxid)
    story.settle()
    return story


@legal("recovery")
def recovery_unavailable_for_as_long_as_allowed() -> Story:
    """Writes were due for exactly the 2 s that the scenario allows."""
    story = ensemble(unavailable_at_most="2s")
    due = story.t
    seq = story.invoke()
    zxid = story.commit((1, seq))
    story.t = due + 2_000_000_000 - STEP
    story.complete(1, seq, zxid)
    story.settle()
    return story


def _refused(story: Story, times: int) -> Story:
    """Node 2, which is alone, refuses a write each second for want of a leader, and joins again."""
    story.event(2, "role", role="LOOKING", leader=None, why="nothing was heard")
    story.event(2, "phase", phase="ELECTION", epoch=1)
    for _ in range(times):
        story.complete(1, story.invoke(node=2), outcome="failed", error="no leader", node=2)
        story.t += 1_000_000_000
    story.join(2)
    return story


@legal("recovery")
def recovery_writes_are_answered_or_not_wanted() -> Story:
    """Each second a write is refused for its content, for 3 s. Then one finds no leader, and the next is due after 5 s; 2 s are
    allowed."""
    story = ensemble(unavailable_at_most="2s")
    for _ in range(4):
        story.complete(1, story.invoke(version=7), (1, 3), "failed", error="bad version")
        story.t += 1_000_000_000
    _refused(story, 1)
    story.t += 4_000_000_000
    story.write()
    story.settle()
    return story


@violates("recovery")
def recovery_writes_are_refused_again_and_again() -> Story:
    """Each second a write is refused at once, for want of a leader, for 3 s; the scenario allows 2 s."""
    story = _refused(ensemble(unavailable_at_most="2s"), 4)
    story.settle()
    return story


@leaves_unknown("recovery")
def recovery_within_no_time() -> Story:
    """The bound in run.json is not a valid time."""
    story = ensemble(converges_within="soon")
    story.settle()
    return story


@legal("recovery")
def recovery_just_in_time() -> Story:
    """The nodes converge after 9 s of 10, and nothing was due while nothing went."""
    story = ensemble(converges_within="10s", unavailable_at_most="2s")
    story.t += 5_000_000_000
    story.settle(seconds=9)
    return story


@violates("recovery")
def recovery_does_not_last() -> Story:
    """The nodes converge, and nothing happens to them any more. 3 s later node 2 leaves its leader."""
    story = ensemble()
    story.settle(leaves=3)
    return story


@legal("recovery")
def recovery_is_late_to_notice() -> Story:
    """The same, but 0.5 s later: it may have noticed then what was broken before."""
    story = ensemble()
    story.settle(leaves=0.5)
    return story


@violates("recovery")
def recovery_leaves_something_over() -> Story:
    """The nodes converge and stay together, but one of them still has the session of a client that is gone."""
    story = ensemble()
    story.settle(held="node-2: 1 sessions")
    return story


# ---- channels ----


def _channel(
    story: Story, session: int, first: int, last: int, ended: str, incarnation: int = 1, peer: int = 1
) -> None:
    story.event(2, "channel", peer=peer, incarnation=incarnation, session=session, first=first, last=last, ended=ended)


@violates("channels")
def channels_begins_in_the_middle() -> Story:
    """Node 2 takes frame 3 of a new session first: frames 0 to 2 belong to nobody."""
    story = ensemble()
    _channel(story, 1, 0, 10, "closed")
    _channel(story, 2, 3, 7, "closed")
    story.settle()
    return story


@violates("channels")
def channels_goes_on_after_a_gap() -> Story:
    """Frames 11 to 13 are lost, and node 2 takes frame 14 of the same session."""
    story = ensemble()
    _channel(story, 1, 0, 10, "gap")
    _channel(story, 1, 14, 20, "exit")
    story.settle()
    return story


@violates("channels")
def channels_a_gap_before_what_is_not_known() -> Story:
    """The same, but which frames node 2 took then is not on record."""
    story = ensemble()
    _channel(story, 1, 0, 10, "gap")
    story.settle()
    return story


@violates("channels")
def channels_old_session_comes_back() -> Story:
    """Frames that were queued in session 1 are taken after session 2 began."""
    story = ensemble()
    _channel(story, 1, 0, 10, "session")
    _channel(story, 2, 0, 4, "session")
    _channel(story, 1, 11, 12, "exit")
    story.settle()
    return story


@violates("channels")
def channels_old_session_begins_again() -> Story:
    """The same, and these frames are the first ones of session 1."""
    story = ensemble()
    _channel(story, 2, 0, 4, "session")
    _channel(story, 1, 0, 2, "exit")
    story.settle()
    return story


@violates("channels")
def channels_goes_on_after_the_end() -> Story:
    """Session 1 was closed; a frame of it arrives afterwards and is taken, although it is the next one."""
    story = ensemble()
    _channel(story, 1, 0, 10, "closed")
    _channel(story, 1, 11, 11, "exit")
    story.settle()
    return story


@violates("channels")
def channels_goes_on_after_a_session_that_was_replaced() -> Story:
    """Session 1 ended because another one was to follow. Then frames of session 1 are taken again."""
    story = ensemble()
    _channel(story, 1, 0, 10, "session")
    _channel(story, 1, 11, 12, "exit")
    story.settle()
    return story


@violates("channels")
def channels_goes_on_with_the_next_life() -> Story:
    """The sender starts again, and node 2 takes the frames of its new life in the session that was with the former one."""
    story = ensemble()
    _channel(story, 1, 0, 10, "closed")
    _channel(story, 2, 0, 4, "session")
    _channel(story, 2, 0, 3, "exit", incarnation=2)
    story.settle()
    return story


@violates("channels")
def channels_of_somebody_else() -> Story:
    """Node 2 takes frames of the session that node 1 has with node 3."""
    story = ensemble()
    story.open_links(1, [3])
    _channel(story, 1, 0, 10, "closed")
    story.settle()
    return story


def _close(story: Story, why: str, *, converged: bool = True) -> None:
    story.open_links(2, [1])
    story.event(2, "link", peer=1, state="closed", session=1, why=why)
    story.settle(converged=converged)


GARBLED = "a bad frame: the checksum does not fit"


@violates("channels")
def channels_a_frame_that_is_none() -> Story:
    """Node 2 can't read what node 1 sends, and nothing damages frames. A slow link does not."""
    story = ensemble()
    story.inject("latency", [1])
    story.heal()
    _close(story, GARBLED)
    return story


@legal("channels")
def channels_a_frame_that_a_fault_garbled() -> Story:
    """The same, while a fault flips bits."""
    story = ensemble()
    story.inject("corrupt-frames", [1])
    story.heal()
    _close(story, GARBLED)
    return story


@leaves_unknown("channels", "PASS")
def channels_a_frame_that_a_fault_off_the_record_may_have_garbled() -> Story:
    """The same without such a fault, and a line of the record is missing."""
    story = ensemble()
    story.open_links(2, [1])
    story.event(2, "link", peer=1, state="closed", session=1, why=GARBLED)
    story.settle(invoked=99)
    return story


def _lose_frames(fault: str = "", *, reliable: bool = True) -> Story:
    """Node 2 finds that frames of node 1 are missing. `fault`: what has happened to both before, and was healed in time."""
    story = ensemble(links_are_reliable=reliable)
    if fault:
        story.inject(fault, [1, 2], pairs=[[1, 2]])
        story.heal()
    story.open_links(1, [2])
    _close(story, "frame 3 came where 2 was due")
    return story


@violates("channels")
def channels_frames_are_missing() -> Story:
    """No fault has affected nodes 1 and 2."""
    return _lose_frames()


@legal("channels")
def channels_frames_are_missing_after_a_fault() -> Story:
    """The same right after a partition."""
    return _lose_frames("partition")


@legal("channels")
def channels_frames_are_missing_in_an_erratic_network() -> Story:
    """The same without a fault, where the network loses frames."""
    return _lose_frames(reliable=False)


def _send_too_much(frame_bytes: int, size: int | None = None, *, converged: bool = True) -> Story:
    """Node 2 can't send what node 1 needs. One client has written, one request of `size` bytes among others."""
    story = ensemble(frame_bytes=frame_bytes, snapshot_bytes=2**20)
    for written in (None, size, None):
        seq = story.invoke(size=written)
        story.complete(1, seq, story.commit((1, seq)))
    _close(
        story,
        f"a frame to send has {frame_bytes + 1} bytes, and at most {frame_bytes} may be sent",
        converged=converged,
    )
    return story


@violates("channels")
def channels_a_frame_that_is_too_large() -> Story:
    """Nobody wrote much, so all that a node may lack fits into a frame."""
    return _send_too_much(8_000)


@violates("channels")
def channels_a_frame_that_is_too_large_for_the_largest_limit() -> Story:
    """An eighth of the frame is more than what is logged between two snapshots."""
    return _send_too_much(2**25)


@leaves_unknown("channels")
def channels_a_state_that_is_too_large() -> Story:
    """A client wrote what fills more than a quarter of a frame: the state alone may be too large, for all that is known."""
    return _send_too_much(8_000, size=2_100)


@violates("recovery", "channels")
def recovery_what_fits_is_not_sent() -> Story:
    """The nodes do not converge, and a node could not send what had to fit into a frame."""
    return _send_too_much(8_000, converged=False)


@leaves_unknown("recovery")
def recovery_what_may_not_fit_is_not_sent() -> Story:
    """The same, where the state alone may be too large for a frame."""
    return _send_too_much(8_000, size=2_100, converged=False)


@leaves_unknown("channels", "PASS")
def channels_of_a_session_that_may_not_be_on_record() -> Story:
    """The same, but records are missing. The line that says that node 1 has a session with node 2 may be one of them."""
    story = ensemble()
    story.open_links(1, [3])
    _channel(story, 1, 0, 10, "closed")
    story.settle(invoked=99)
    return story


@legal("channels")
def channels_of_a_sender_whose_trace_ends_before() -> Story:
    """Node 3 had opened a session with node 1, and is killed; that it had opened one with node 2, too, is not on record."""
    story = ensemble()
    story.open_links(3, [1])
    story.crash(3)
    _channel(story, 1, 0, 10, "closed", peer=3)
    story.boot(3)
    story.join(3)
    story.settle()
    return story


def _ended(seconds: float, fault: str = "", later: float = 0.0, bound: float = 4.0) -> Story:
    """Node 2 ends without saying which frames it took from node 1 in a session of some seconds. `fault`: what both had
    then, `later` seconds before the end."""
    story = ensemble(progress_within=bound)
    _channel(story, 1, 0, 10, "closed", peer=3)
    for node in (1, 2):
        story.open_links(node, [3 - node])
    story.t += int(seconds * 1e9)
    if fault:
        story.inject(fault, [1, 2], pairs=[[1, 2]])
        story.heal()
    story.t += int(later * 1e9)
    story.settle(frames=False)
    return story


@violates("channels")
def channels_the_last_frames_are_not_on_record() -> Story:
    """Nodes 1 and 2 had a session for 6 s, and ended because they were asked to."""
    return _ended(6)


@legal("channels")
def channels_the_last_session_was_short() -> Story:
    """The same with a session of 4 s, in which they may have heard nothing."""
    return _ended(4)


@legal("channels")
def channels_the_last_session_was_cut() -> Story:
    """The same with a session of 6 s, whose link was cut for a while."""
    return _ended(6, "partition")


@legal("channels")
def channels_the_last_session_was_quiet() -> Story:
    """The same with timeouts of 4 s, a fifth of the time in which something must go on."""
    return _ended(6, bound=20)


@violates("channels")
def channels_the_last_session_was_cut_long_before() -> Story:
    """The same, and after that they were left alone for 6 s."""
    return _ended(1, "partition", later=6)


@violates("channels")
def channels_frames_of_a_life_to_come() -> Story:
    """Node 2 takes frames of life 2 of node 1, which is in its first life all the time."""
    story = ensemble()
    story.open_links(2, [1])
    _channel(story, 1, 0, 10, "closed", incarnation=2)
    story.settle()
    return story


@legal("channels")
def channels_frames_of_the_next_life() -> Story:
    """Node 3 starts again, and node 2 opens a session with its life 2 and takes frames of it."""
    story = ensemble()
    story.crash(3)
    story.boot(3)
    story.open_links(3, [2])
    story.open_links(2, [3])
    story.join(3)
    _channel(story, 1, 0, 10, "exit", incarnation=2, peer=3)
    story.settle(frames=False)
    return story


@legal("channels")
def channels_new_session_after_a_loss() -> Story:
    """Session 1 is closed, and the next one begins with frame 0. So does the first one of the sender's next life."""
    story = ensemble()
    _channel(story, 1, 0, 10, "closed", peer=3)
    _channel(story, 2, 0, 4, "session", peer=3)
    story.crash(3)
    story.boot(3)
    story.join(3)
    _channel(story, 1, 0, 3, "exit", incarnation=2, peer=3)
    story.settle()
    return story


# ---- sanity ----


@violates("sanity")
def sanity_abort() -> Story:
    """Node 3 finds another digest than the leader's, and stops itself."""
    story = ensemble()
    story.event(3, "abort", why="digest differs at 1:3")
    story.event(3, "exit", code=70, why="abort")
    story.servers[3].up = False
    story.settle()
    return story


@violates("sanity")
def sanity_code_70() -> Story:
    """Node 3 ends with the code of a failed sanity check."""
    story = ensemble()
    story.event(3, "exit", code=70, why="COMMIT beyond the log")
    story.servers[3].up = False
    story.settle()
    return story


@legal("sanity")
def sanity_disk_full_is_honest() -> Story:
    """Node 3 ends because its disk is full. It can't go on, but nothing impossible has happened."""
    story = ensemble()
    story.inject("disk-full", [3])
    story.event(3, "exit", code=74, why="disk full")
    story.servers[3].up = False
    story.heal()
    story.boot(3)
    story.join(3)
    story.settle()
    return story


# ---- fault took effect ----


@leaves_unknown("fault took effect")
def fault_not_confirmed() -> Story:
    """A crash point was armed and never reached."""
    story = ensemble()
    story.inject("crash-at", [2], confirmed=False, evidence={"armed": "after-sync:TXN", "reached": False})
    story.heal()
    story.settle()
    return story


@leaves_unknown("fault took effect")
def fault_without_an_exit_status() -> Story:
    """Node 3 was to be started again. It says that it has ended, and nobody has seen that."""
    story = ensemble()
    story.event(3, "exit", code=0, why="asked to")
    story.crash(3, do="restart", evidence={"3": {"pid": story.pid(3), "exit": None}})
    story.boot(3)
    story.join(3)
    story.settle()
    return story


@leaves_unknown("fault took effect")
def fault_healing_not_confirmed() -> Story:
    """Node 3 was paused, and that it was woken could not be confirmed."""
    story = ensemble()
    story.inject("pause", [3])
    story.heal(confirmed=False)
    story.settle()
    return story


@legal("fault took effect")
def fault_of_a_process_without_a_number() -> Story:
    """Node 3 was paused and woken, and the evidence names no process."""
    story = ensemble()
    story.inject("pause", [3], evidence={"3": {"state": "stopped"}})
    story.heal(evidence={"3": {"state": "running"}})
    story.settle()
    return story


@leaves_unknown("fault took effect")
def fault_paused_node_was_woken_too_early() -> Story:
    """Node 3 was paused, and was awake before the pause was healed, although no fault had woken it."""
    story = ensemble()
    story.inject("pause", [3], evidence={"3": {"state": "stopped"}})
    story.heal(evidence={"3": {"state": "running"}, "awake": [3]})
    story.settle()
    return story


@legal("fault took effect")
def fault_paused_node_was_woken_by_another_fault() -> Story:
    """Node 3 was paused, and awake before the pause was healed, because a step of the schedule had resumed it."""
    story = ensemble()
    story.inject("pause", [3], evidence={"3": {"state": "stopped"}})
    paused = story.fault_ids
    story.inject("resume", [3], evidence={"3": {"state": "running"}})
    story.heal(evidence={})
    story.heal(id=paused, evidence={"3": {"state": "running"}, "awake": [3]})
    story.settle()
    return story


@leaves_unknown("fault took effect")
def fault_never_healed() -> Story:
    """Node 3 was paused, and nothing says that it was woken, although the run finished."""
    story = ensemble()
    story.inject("pause", [3])
    story.settle()
    return story


@leaves_unknown("fault took effect")
def fault_frames_crossed_a_cut_link() -> Story:
    """The link from node 1 to node 2 was cut, and node 2 took 8 frames from it meanwhile."""
    story = ensemble()
    story.inject("partition", [1], pairs=[[1, 2]])
    story.heal(evidence=[{"from": 1, "to": 2, "at_inject": 40, "at_heal": 48}])
    story.settle()
    return story


@leaves_unknown("fault took effect")
def fault_bytes_crossed_a_cut_link() -> Story:
    """The link from node 1 to node 2 was cut, and 8 of the bytes that node 1 sent meanwhile have passed its proxies."""
    story = ensemble()
    story.inject("partition", [1], pairs=[[1, 2]])
    story.heal(evidence={"links": [{"from": 1, "to": 2, "at_inject": 40, "at_heal": 48, "sent": 90}]})
    story.settle()
    return story


@leaves_unknown("fault took effect")
def fault_cut_with_a_detour() -> Story:
    """The healing of a cut is confirmed, and its evidence says that the nodes had a connection past their proxies."""
    story = ensemble()
    story.inject("partition", [1], pairs=[[1, 2]])
    story.heal(evidence={"error": "node 1 and node 2 have a connection past the proxies"})
    story.settle()
    return story


@leaves_unknown("fault took effect")
def fault_killed_node_went_on() -> Story:
    """Node 2 was killed, the fault was healed, and the killed process still writes."""
    story = ensemble()
    story.crash(2)
    story.event(2, "vote", round=2, leader=2, zxid=[1, 3], epoch=1)
    story.settle()
    return story


@leaves_unknown("fault took effect")
def fault_killed_node_without_evidence_went_on() -> Story:
    """A crash of node 2 is confirmed, without any evidence, and the process delivers on after the healing."""
    story = ensemble()
    story.inject("crash", [2])
    story.heal()
    story.write()
    story.settle()
    return story


@leaves_unknown("fault took effect")
def fault_wiped_disk_is_still_there() -> Story:
    """Node 3's disk was wiped, and its next life starts with all that it held."""
    story = ensemble()
    story.crash(3, do="wipe", evidence={"3": {"pid": story.pid(3), "exit": -9, "wiped": True}})
    story.boot(3)
    story.join(3)
    story.settle()
    return story


@leaves_unknown("fault took effect")
def fault_frames_leaked_through_a_flapping_link() -> Story:
    """A flapping link is confirmed, and its evidence says that frames arrived during one of its cuts."""
    story = ensemble()
    story.inject("flap", [1], pairs=[[1, 2]], evidence={"quiet": True})
    story.heal(evidence={"cuts": 2, "silent": 1, "leaked": 1})
    story.settle()
    return story


@leaves_unknown("fault took effect")
def fault_healed_and_still_on() -> Story:
    """The healing of a slow link is confirmed, and its evidence says that the link is still slow."""
    story = ensemble()
    story.inject("latency", [1], pairs=[[1, 2]], evidence={"links": 1})
    story.heal(evidence={"still on": ["1 to 2"]})
    story.settle()
    return story


def _paused(*seconds: float) -> Story:
    """Return a run in which node 3 is paused for 2 s, and delivers a write at each of these times."""
    story = ensemble()
    story.inject("pause", [3])
    begun = story.t
    for at in seconds:
        story.t = begun + int(at * 1e9)
        story.write()
    story.t = begun + 2 * 10**9
    story.heal()
    story.settle()
    return story


@leaves_unknown("fault took effect")
def fault_paused_node_went_on() -> Story:
    """Node 3 delivers again and again during a pause that was confirmed."""
    return _paused(0.3, 0.7, 1.1, 1.5, 1.9)


@legal("fault took effect")
def fault_paused_node_delivers_until_it_is_frozen() -> Story:
    """It takes a container engine 0.6 s to freeze node 3, which delivers until then, and 0.3 s to confirm that it is awake."""
    return _paused(0.1, 0.3, 0.6, 1.7, 1.9)


@legal("fault took effect")
def fault_paused_node_delivers_before_its_waking_is_confirmed() -> Story:
    """Node 3 delivers shortly before it is confirmed that it is awake."""
    return _paused(1.9)


@legal("fault took effect")
def fault_next_process_has_the_same_number() -> Story:
    """Node 2 is killed, and the process of its next life happens to have the number of the killed one."""
    story = ensemble()
    pid = story.pid(2)
    story.crash(2)
    story.boot(2, pid=pid)
    story.join(2)
    story.settle()
    return story


@leaves_unknown("fault took effect")
def fault_two_lives_at_once() -> Story:
    """The second life of node 2 begins, and the first one still writes."""
    story = ensemble()
    old = story.servers[2]
    story.crash(2, heal=False)
    life, n = old.life, old.n
    story.boot(2)
    story.join(2)
    line = {"t": story.now(), "node": 2, "life": life, "n": n + 1, "event": "vote", "round": 1, "leader": 2}
    story.traces[2, life].append(json.dumps(line) + "\n")
    story.heal()
    story.settle()
    return story


@legal("fault took effect")
def fault_crash_point_reached_before_the_heal() -> Story:
    """A crash point is armed; its evidence has an exit status only when it was reached, at the heal."""
    story = ensemble()
    story.inject("crash-at", [2], evidence={"2": {"pid": story.pid(2), "reached": False}})
    pid = story.pid(2)
    story.boot(2)
    story.heal(evidence={"2": {"pid": pid, "reached": True, "exit": -9}, "up": True})
    story.join(2)
    story.settle()
    return story


def _dies_at(fired: str) -> Story:
    """Node 2 dies at the point `fired`. The fault's own point is after-sync:TXN."""
    story = ensemble()
    story.inject("crash-at", [2], params={"point": "after-sync:TXN", "enough": "all"})
    pid = story.pid(2)
    story.event(2, "fault", do="crash-at", state="armed", detail="after-sync:TXN")
    story.event(2, "fault", do="crash-at", state="fired", detail=fired)
    story.boot(2)
    story.heal(evidence={"2": {"pid": pid, "reached": True, "exit": -9}, "up": True})
    story.join(2)
    story.settle()
    return story


@legal("fault took effect")
def fault_crash_point_is_traced() -> Story:
    """A node's trace ends with the crash point that its fault names."""
    return _dies_at("after-sync:TXN")


@leaves_unknown("fault took effect")
def fault_crash_point_is_another_one() -> Story:
    """A node's trace ends with another crash point than the one that its fault is said to have reached."""
    return _dies_at("before-send:ACK")


def _point_not_reached(*states: str, other: str | None = None) -> Story:
    """Node 2 need not reach the point that a fault arms, and traces these states of it. `other`: another fault meanwhile."""
    story = ensemble()
    story.inject("pause-at", [2], params={"point": "after-sync:TXN", "enough": "none"})
    for state in states:
        story.event(2, "fault", do="crash-at", state=state, detail="after-sync:TXN")
    if other is not None:
        story.inject(other, [2])
        story.heal()
    story.heal(id=1, evidence={"2": {"pid": story.pid(2), "reached": False}, "awake": []})
    story.write()
    story.settle()
    return story


@legal("fault took effect")
def fault_crash_point_need_not_be_reached() -> Story:
    """A node has armed a crash point and did not reach it, and need not have."""
    return _point_not_reached("armed", "lifted")


@legal("fault took effect")
def fault_crash_point_was_not_armed_because_of_another_fault() -> Story:
    """A node did not arm a crash point: another fault had paused it."""
    return _point_not_reached(other="pause")


@legal("fault took effect")
def fault_crash_point_was_not_armed_by_a_node_that_ended() -> Story:
    """A node did not arm a crash point: it died first, at the point of a fault that began before and goes on."""
    story = ensemble()
    pid = story.pid(2)
    story.inject("crash-at", [2], params={"point": "before-sync:ANY", "enough": "all"})
    story.inject("crash-at", [2], params={"point": "after-sync:TXN", "enough": "none"})
    for state in ("armed", "fired"):
        story.event(2, "fault", do="crash-at", state=state, detail="before-sync:ANY")
    story.boot(2)
    story.heal(id=2, evidence={"2": {"pid": pid, "reached": False}, "up": True})
    story.heal(id=1, evidence={"2": {"pid": pid, "reached": True, "exit": -9}, "up": True})
    story.join(2)
    story.settle()
    return story


@leaves_unknown("fault took effect")
def fault_crash_point_was_not_armed() -> Story:
    """A node need not have reached a crash point, but it has not even armed it."""
    return _point_not_reached()


def _armed_twice(faults: int) -> Story:
    """Node 2 arms a point twice, and so many faults have asked for it; it dies when it reaches the point."""
    story = ensemble()
    pid = story.pid(2)
    for _ in range(faults):
        story.inject("crash-at", [2], params={"point": "after-sync:TXN", "enough": "all"})
    for state in ("armed", "armed", "fired"):
        story.event(2, "fault", do="crash-at", state=state, detail="after-sync:TXN")
    story.boot(2)
    for fault in range(faults, 0, -1):
        story.heal(id=fault, evidence={"2": {"pid": pid, "reached": True, "exit": -9}, "up": True})
    story.join(2)
    story.settle()
    return story


@legal("fault took effect")
def fault_crash_point_of_two_faults() -> Story:
    """Two faults arm the same crash point."""
    return _armed_twice(2)


@leaves_unknown("fault took effect")
def fault_crash_point_is_armed_twice() -> Story:
    """One fault arms a crash point, and the node has armed it twice: a second crash is on nobody's record."""
    return _armed_twice(1)


def _slow_disk(node: int, *states: str, do: str = "slow-disk", **params: Any) -> Story:
    """A slow disk, or another fault, inside node 2 that the trace of `node` shows in these states."""
    story = ensemble()
    story.inject(do, [2], params=params, evidence={"answers": {"2": {"life": story.servers[2].life}}})
    for state in states:
        story.event(node, "fault", do=do, state=state, detail="")
    story.heal()
    story.write()
    story.settle()
    return story


@legal("fault took effect")
def fault_inside_a_node_is_traced() -> Story:
    """The trace of node 2 shows when its disk is slow."""
    return _slow_disk(2, "armed", "lifted")


def _clock_jumps(answers: Any) -> Story:
    """The clock of node 2 jumps after the fault is over. `answers`: those of the fault's evidence."""
    story = ensemble()
    story.inject("clock-jump", [2], params={"ms": 500}, evidence={"answers": answers})
    if answers:
        story.event(2, "fault", do="clock-jump", state="fired", detail="500 ms")
    story.heal()
    story.write()
    story.event(2, "fault", do="clock-jump", state="fired", detail="500 ms")
    story.settle()
    return story


@legal("fault took effect")
def fault_clock_jumps_when_its_node_goes_on() -> Story:
    """Node 2 was paused when its clock was to jump, and has not answered: it executes the command later."""
    return _clock_jumps({})


@leaves_unknown("fault took effect")
def fault_clock_jumps_again() -> Story:
    """The clock of node 2 has jumped. That it jumps once more is no fault's doing."""
    return _clock_jumps({"2": {"life": 1}})


@legal("fault took effect")
def fault_clock_at_its_own_rate() -> Story:
    """The clock of node 2 is to run as it does anyway: it traces that as the end of another rate."""
    return _slow_disk(2, "lifted", "lifted", do="clock-rate", rate=1)


@leaves_unknown("fault took effect")
def fault_clock_rate_is_only_lifted() -> Story:
    """The clock of node 2 was to be fast, and its trace shows only the end of that."""
    return _slow_disk(2, "lifted", do="clock-rate", rate=2)


@leaves_unknown("fault took effect")
def fault_inside_another_node() -> Story:
    """The disk of node 2 was to be slow, and that of node 3 is."""
    return _slow_disk(3, "armed", "lifted")


@leaves_unknown("fault took effect")
def fault_inside_a_node_is_not_traced() -> Story:
    """The disk of node 2 was to be slow, and its trace does not show that."""
    return _slow_disk(2)


@leaves_unknown("fault took effect")
def fault_inside_a_node_is_not_lifted() -> Story:
    """The disk of node 2 is said to be healed, and its trace does not show that."""
    return _slow_disk(2, "armed")


@leaves_unknown("fault took effect")
def fault_crash_point_did_not_kill() -> Story:
    """The evidence at the heal says that node 2 died at the crash point; its process writes on."""
    story = ensemble()
    story.inject("crash-at", [2], evidence={"2": {"pid": story.pid(2), "reached": False}})
    story.heal(evidence={"2": {"pid": story.pid(2), "reached": True, "exit": -9}, "up": True})
    story.write()
    story.settle()
    return story


@legal("fault took effect")
def fault_cut_and_kill_confirmed() -> Story:
    """A link is cut and no frame crosses it; a node is killed and its next life is another one."""
    story = ensemble()
    story.inject("partition", [1], pairs=[[1, 3]], evidence=[{"from": 1, "to": 3, "at_inject": 40}])
    story.heal(evidence=[{"from": 1, "to": 3, "at_inject": 40, "at_heal": 40}])
    story.crash(3)
    story.boot(3)
    story.join(3)
    story.settle()
    return story


# ---- trace integrity ----


@leaves_unknown("trace integrity")
def trace_of_a_life_missing() -> Story:
    """Node 2 took frames of node 3's second life, and there is no trace of that."""
    story = ensemble()
    story.crash(3)
    _channel(story, 1, 0, 3, "exit", incarnation=2, peer=3)
    story.settle()
    return story


@leaves_unknown("trace integrity")
def trace_operations_missing() -> Story:
    """The workload counted one operation more than there is on record."""
    story = ensemble()
    story.settle(invoked=len(story.asked) + 1)
    return story


@leaves_unknown("trace integrity")
def trace_event_missing() -> Story:
    """A line in the middle of node 2's trace is gone: its events are not numbered without gaps."""
    story = ensemble()
    story.event(2, "vote", round=1, leader=1, zxid=[1, 3], epoch=1)
    story.write()
    lines = story.traces[2, 1]
    del lines[next(i for i, line in enumerate(lines) if '"vote"' in line)]
    story.settle()
    return story


@leaves_unknown("trace integrity")
def trace_without_boot() -> Story:
    """Node 2's second life delivers, and nothing says what its disk held."""
    story = ensemble()
    story.crash(2)
    server = story.servers[2]
    server.life, server.n, server.up, server.delivered = 2, 0, True, []
    story.join(2)
    story.settle()
    return story


def _life_that_could_not_begin(*, events_before: int) -> Story:
    """Let node 2 refuse its corrupt disk in its second life, whose trace lacks its first lines (`events_before`)."""
    story = ensemble()
    story.crash(2, do="corrupt")
    server = story.servers[2]
    server.life, server.n = 2, events_before
    story.event(2, "exit", code=65, why="log-1, offset 4096: a bad record, with good ones behind it")
    story.wipe(2)
    story.boot(2, "amnesiac")
    story.join(2)
    story.write()
    story.settle()
    return story


@legal("trace integrity")
def trace_of_a_life_that_could_not_begin() -> Story:
    """Node 2's disk is corrupt: its second life says so and ends, without a boot. The third starts on an empty disk."""
    return _life_that_could_not_begin(events_before=0)


@leaves_unknown("trace integrity")
def trace_unreadable_line() -> Story:
    """A line of node 3's trace, a delivery, is not JSON any more. The hole that it leaves is no violation."""
    story = ensemble()
    story.traces[3, 1][-1] = story.traces[3, 1][-1].replace("{", "[", 1)
    story.settle()
    return story


@leaves_unknown("trace integrity")
def trace_unreadable_line_of_a_life_that_was_killed() -> Story:
    """The same, and node 3 was killed later. A kill excuses only a last line that is incomplete."""
    story = ensemble()
    story.traces[3, 1][-1] = story.traces[3, 1][-1].replace("{", "[", 1)
    story.crash(3)
    story.boot(3)
    story.join(3)
    story.settle()
    return story


@leaves_unknown("trace integrity")
def trace_torn_with_another_node_killed() -> Story:
    """Node 2's trace ends in the middle of a line, and node 3 was killed."""
    story = ensemble()
    story.crash(3)
    story.boot(3)
    story.join(3)
    story.settle()
    story.traces[2, 1][-1] = story.traces[2, 1][-1][:30]
    return story


@leaves_unknown("trace integrity")
def trace_torn_without_a_kill() -> Story:
    """Node 2's trace ends in the middle of a line, and nothing killed it."""
    story = ensemble()
    story.settle()
    story.traces[2, 1][-1] = story.traces[2, 1][-1][:30]
    return story


@leaves_unknown("trace integrity")
def trace_request_sent_twice() -> Story:
    """A line of ops.jsonl stands there twice: client 1 sends its second request again."""
    story = ensemble()
    story.files["ops.jsonl"].insert(3, story.files["ops.jsonl"][2])
    story.settle()
    return story


@leaves_unknown("trace integrity")
def trace_request_with_a_number_that_was_passed() -> Story:
    """Client 5 sends its second request, and then its first one."""
    story = ensemble()
    for before in (1, 0):
        story.seqs[5] = before
        story.invoke(5, "get")
    story.settle()
    return story


@leaves_unknown("trace integrity")
def trace_fault_healed_that_was_not_there() -> Story:
    """A fault is healed, and nothing says that it was injected."""
    story = ensemble()
    story.heal(id=7)
    story.settle()
    return story


@leaves_unknown("trace integrity")
def trace_fault_healed_twice() -> Story:
    """A fault is healed a second time."""
    story = ensemble()
    story.crash(3)
    story.heal()
    story.boot(3)
    story.join(3)
    story.settle()
    return story


@leaves_unknown("trace integrity")
def trace_request_answered_twice() -> Story:
    """A line of ops.jsonl stands there twice: client 1 gets the answer to its last request again."""
    story = ensemble()
    story.files["ops.jsonl"].append(story.files["ops.jsonl"][-1])
    story.settle()
    return story


@leaves_unknown("trace integrity")
def trace_line_twice() -> Story:
    """A line of node 2's trace stands there twice."""
    story = ensemble()
    lines = story.traces[2, 1]
    lines.append(lines[-1].replace('"deliver"', '"vote"'))
    story.settle()
    return story


@leaves_unknown("trace integrity")
def trace_life_that_could_not_begin_without_its_first_line() -> Story:
    """Node 2's disk is corrupt, and its second life ends without a boot. The trace of that life begins with event 2."""
    return _life_that_could_not_begin(events_before=1)


@leaves_unknown("trace integrity")
def trace_fault_injected_twice() -> Story:
    """A line of faults.jsonl stands there twice."""
    story = ensemble()
    story.crash(3)
    story.files["faults.jsonl"].insert(0, story.files["faults.jsonl"][0])
    story.boot(3)
    story.join(3)
    story.settle()
    return story


@leaves_unknown("trace integrity")
def trace_life_missing() -> Story:
    """The trace of node 2's first life is not there."""
    story = ensemble()
    story.crash(2)
    story.boot(2)
    story.join(2)
    story.settle()
    del story.traces[2, 1]
    return story


@legal("trace integrity")
def trace_torn_by_a_kill() -> Story:
    """Node 2 is killed while it writes a line: nobody saw the effect of that event."""
    story = ensemble()
    story.traces[2, 1].append('{"t": 1, "node": 2, "li')
    story.crash(2)
    story.boot(2)
    story.join(2)
    story.settle()
    return story


@leaves_unknown("trace integrity", "PASS")
def trace_torn_by_an_interrupt() -> Story:
    """The user interrupts the run, and node 2 is killed while it writes a line."""
    story = ensemble()
    story.run["outcome"] = "interrupted"
    story.milestone("interrupted")
    story.traces[2, 1].append('{"t": 1, "node": 2, "li')
    return story


# ---- verdicts that do not follow from a single property ----


@ends("UNKNOWN", "durability", "NOT-APPLICABLE")
def unknown_nothing_acknowledged() -> Story:
    """Transactions are delivered, but no client was ever told that a write succeeded."""
    story = ensemble(writes=0)
    zxid = story.propose()
    for node in story.members:
        story.deliver(node, zxid)
    story.settle()
    return story


@ends("UNKNOWN", "integrity", "NOT-APPLICABLE")
def unknown_nothing_delivered() -> Story:
    """The ensemble forms, and nothing is ever written."""
    story = ensemble(writes=0)
    story.settle()
    return story


@ends("UNKNOWN", "integrity", "NOT-APPLICABLE")
def unknown_nothing_delivered_and_nothing_expected() -> Story:
    """The same, and no acknowledged write was expected either."""
    story = ensemble(writes=0, min_acked=0)
    story.settle()
    return story


@ends("UNKNOWN", "recovery", "UNKNOWN")
def unknown_without_the_end() -> Story:
    """The run finished, but nobody wrote down whether the nodes converged."""
    return ensemble()


@ends("UNKNOWN", "reliable delivery", "UNKNOWN")
def unknown_who_came_to_the_end() -> Story:
    """The same: nor is it known by when everything was to be delivered."""
    return ensemble()


@ends("UNKNOWN", "integrity", "PASS")
def unknown_interrupted() -> Story:
    """Ctrl-C: what was seen is fine, and it was not everything."""
    story = ensemble()
    story.settle()
    story.run["outcome"] = "interrupted"
    return story


@ends("HARNESS-ERROR", "integrity", "PASS")
def harness_error() -> Story:
    """toxiproxy died. Whatever the nodes did, the experiment failed."""
    story = ensemble()
    story.settle()
    story.run["outcome"] = "harness-error: toxiproxy ended with exit status 2"
    return story


@ends(
    "VIOLATION",
    "agreement",
    "VIOLATION",
    "agreement",
    "integrity",
    "state equality",
    "durability",
    "reliable delivery",
    "quorum durability",
)
def violation_although_a_fault_is_unconfirmed() -> Story:
    """What was delivered contradicts itself; that a fault could not be confirmed excuses nothing."""
    return _contradiction(confirmed=False)


@ends(
    "HARNESS-ERROR",
    "agreement",
    "VIOLATION",
    "agreement",
    "integrity",
    "state equality",
    "durability",
    "quorum durability",
)
def violation_although_the_harness_failed() -> Story:
    """What was delivered contradicts itself, whatever became of the harness. What had to happen in time is not certain."""
    story = _contradiction()
    story.run["outcome"] = "harness-error: toxiproxy ended with exit status 2"
    return story


def _contradiction(**fault: Any) -> Story:
    """Node 3 delivers another transaction than the others, after a fault."""
    story = ensemble()
    story.inject("crash-at", [2], **fault)
    seq = story.invoke()
    story.propose()
    for node, variant in ((1, ""), (2, ""), (3, "changed")):
        story.deliver(node, (1, 4), digest((1, 4), variant))
    story.complete(1, seq, (1, 4))
    story.settle()
    return story


@ends("PASS", "agreement", "PASS")
def steady_state() -> Story:
    """Nothing happens but work."""
    story = ensemble(nodes=5, writes=5, min_acked=5)
    story.read()
    story.settle()
    return story


# ---- expected state ----


def _holding(*values: dict[str, str | None], allowed: tuple[str | None, ...] = ("x", None)) -> Story:
    """Return the story of nodes that hold these znodes at the end, where /a is to be one of `allowed`: x, or missing."""
    story = ensemble(state={"/a": list(allowed)})
    story.settle()
    story.milestone("state", held={str(node): held for node, held in enumerate(values, 1)})
    return story


@violates("expected state")
def state_not_as_expected() -> Story:
    """All nodes hold the same at the end, and it is not what the scenario expects."""
    return _holding({"/a": "y"}, {"/a": "y"}, {"/a": "y"})


@violates("expected state")
def state_differs_between_nodes() -> Story:
    """Each node holds one of the expected values at the end, and node 2 another one than the others."""
    return _holding({"/a": "x"}, {"/a": None}, {"/a": "x"})


@leaves_unknown("expected state")
def state_not_read() -> Story:
    """Node 3 did not answer at the end."""
    return _holding({"/a": "x"}, {"/a": "x"}, {})


@legal("expected state")
def state_one_of_two() -> Story:
    """All nodes hold the second of the expected values at the end: no znode."""
    return _holding({"/a": None}, {"/a": None}, {"/a": None})


@legal("expected state")
def state_the_only_one() -> Story:
    """All nodes hold the only expected value at the end."""
    return _holding({"/a": "x"}, {"/a": "x"}, {"/a": "x"}, allowed=("x",))
