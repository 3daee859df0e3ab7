"""Cases about progress during the run."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import permutations
from typing import Any

from tests.corpus.cases import ends, leaves_unknown, legal, violates
from tests.corpus.story import Story, ensemble
from zab_chaos.node.clients.protocol import CLIENT_CLOSED, FORGOTTEN, NO_ANSWER, REFUSED, UNREAD
from zab_chaos.node.core.broadcast import EXHAUSTED

SECOND = 1_000_000_000


def _linked(nodes: int = 3, **expect: Any) -> Story:
    """Return a good beginning with all links open. Progress and answers are expected within 4 s."""
    story = ensemble(nodes=nodes, **{"progress_within": 4, "answered_within": 4, "delays_are_bounded": True} | expect)
    for node in story.servers:
        story.open_links(node, [peer for peer in story.servers if peer != node])
    return story


def _nothing_for(story: Story, span: float, node: int = 1) -> None:
    """Let a client send a write to a node twice a second, and give up each time."""
    for _ in range(int(2 * span)):
        seq = story.invoke(node=node)
        story.t += SECOND // 2
        story.complete(1, seq, None, "unknown")


@contextmanager
def _links_cut(story: Story, nodes: Iterable[int]) -> Iterator[None]:
    """Cut all links among these nodes, and open them again at the end."""
    cut = list(permutations(nodes, 2))
    story.inject("partition", story.servers, pairs=cut)
    for one, other in cut:
        story.event(one, "link", peer=other, state="closed", session=1, why="silent")
    yield
    story.heal()
    for one, other in cut:
        story.open_links(one, [other])


@violates("progress")
def progress_nobody_leads(stalls: int = 1) -> Story:
    """Nodes 1, 2 and 3 reach each other, writes wait, and for 6 s nothing is delivered."""
    story = _linked()
    for _ in range(stalls):
        _nothing_for(story, 6)
        story.write()
    story.settle()
    return story


def _two_disks_lost(story: Story) -> Story:
    """Let nodes 1 and 2 lose their disks, and end the run."""
    story.wipe(1, 2)
    for node in (1, 2):
        story.boot(node, "amnesiac")
        story.open_links(node, [peer for peer in story.servers if peer != node])
    _nothing_for(story, 6, node=3)
    story.leader = 0
    story.settle(converged=False)
    return story


@violates("progress")
def progress_nobody_leads_and_then_two_disks_are_lost() -> Story:
    """For 6 s nothing is delivered. That nodes 1 and 2 lose their disks after that is no excuse."""
    story = _linked()
    _nothing_for(story, 6)
    story.write()
    return _two_disks_lost(story)


@ends("BEYOND-FAULT-MODEL", "progress", "NOT-APPLICABLE")
def progress_nobody_leads_when_two_disks_are_lost() -> Story:
    """For 6 s nothing is delivered, after nodes 1 and 2 have lost their disks."""
    return _two_disks_lost(_linked())


def _visited_for_nothing(waits: float) -> Story:
    """Let one client after the other send a write and be closed after so many seconds, for 6 s in all."""
    story = _linked()
    for client in range(10, 10 + int(6 / waits)):
        seq = story.invoke(client, node=1)
        story.t += int(waits * SECOND)
        story.complete(client, seq, None, "unknown", error=CLIENT_CLOSED)
    story.write()
    story.settle()
    return story


@violates("progress")
def progress_nobody_leads_for_short_visits() -> Story:
    """The same with clients that are closed after a tenth of a second."""
    return _visited_for_nothing(0.1)


@legal("progress")
def progress_visits_are_too_short() -> Story:
    """The same, but the clients are closed after 50 ms: they may not even have been connected."""
    return _visited_for_nothing(0.05)


@violates("progress")
def progress_nobody_leads_and_one_can_not_begin() -> Story:
    """The same, and node 3's disk is corrupt: its second life has ended without a boot."""
    story = _linked()
    story.crash(3, do="corrupt")
    story.servers[3].life, story.servers[3].n = 2, 0
    story.event(3, "exit", code=65, why="corrupt disk")
    for node in (1, 2):
        story.event(node, "link", peer=3, state="closed", session=1, why="silent")
    story.members = [1, 2]
    _nothing_for(story, 6)
    story.write()
    story.settle()
    return story


@violates("progress")
def progress_nobody_leads_while_another_node_is_paused() -> Story:
    """Of five nodes, node 5 is paused after 3 of the 6 s. That is no excuse for the other four."""
    story = _linked(5)
    _nothing_for(story, 3)
    story.inject("pause", [5])
    _nothing_for(story, 3)
    story.heal()
    story.write()
    story.settle()
    return story


@legal("progress")
def progress_only_an_answer_is_lost() -> Story:
    """A write is delivered, and its answer is lost in an erratic network. The client waits for 6 s, and sends nothing else."""
    story = _linked()
    story.run["expect"]["answered_within"] = None
    seq = story.invoke(node=1)
    story.commit((1, seq))
    story.t += 6 * SECOND
    story.complete(1, seq, None, "unknown")
    story.write()
    story.settle()
    return story


@leaves_unknown("progress")
def progress_within_no_time() -> Story:
    """The bound in run.json is not a valid time."""
    story = ensemble(progress_within="soon")
    story.settle()
    return story


@legal("progress")
def progress_nobody_could_be_asked() -> Story:
    """For 6 s a client finds no node that accepts its writes. They are long overdue when it sends them, and not answered
    then."""
    story = _linked()
    due = story.t
    story.t += 6 * SECOND
    seq = story.invoke(due=due)
    story.complete(1, seq, None, "unknown")
    story.write()
    story.settle()
    return story


def _write_to(story: Story, node: int) -> None:
    """Let a client send a write to node 1, and the next one to the given node. 6 s later it has no answer."""
    seqs = [story.invoke(node=1), story.invoke(node=node)]
    story.t += 6 * SECOND
    for seq in seqs:
        story.complete(1, seq, None, "unknown")
    story.heal()
    story.write()
    story.settle()


@legal("progress")
def progress_the_client_waits_elsewhere() -> Story:
    """A client changes from node 1 to node 3 at once, and node 3 is paused. No client waits for nodes 1 and 2."""
    story = _linked()
    story.inject("pause", [3])
    _write_to(story, 3)
    return story


@violates("progress")
def progress_the_client_waits_at_the_next_node() -> Story:
    """The same, but it changes to node 2, which reaches node 1."""
    story = _linked()
    story.inject("pause", [3])
    _write_to(story, 2)
    return story


def _written_for(story: Story, span: float) -> None:
    """Let client 1 write twice a second."""
    for _ in range(int(2 * span)):
        story.t += SECOND // 2
        story.write()


def _connected(story: Story, state: str = "connected") -> None:
    story.event(2, "client", state=state, client=2)


@violates("progress")
def progress_a_session_hangs() -> Story:
    """Node 2 follows its leader, delivers what client 1 writes, and does not answer client 2."""
    story = _linked()
    _connected(story)
    seq = story.invoke(2, "get")
    _written_for(story, 6)
    story.complete(2, seq, outcome="unknown", node=2)
    story.settle()
    return story


def _queued(story: Story, *, answered_every: int) -> Story:
    """Let clients 2 to 5 ask node 2 one after the other. Then it answers them in turn, every few seconds."""
    asked = []
    for client in range(2, 6):
        story.event(2, "client", state="connected", client=client)
        asked.append((client, story.invoke(client, "get")))
        story.t += SECOND // 10
    for client, seq in asked:
        _written_for(story, answered_every)
        story.answer_read(client, seq, story.servers[2].last, node=2)
    story.settle()
    return story


@legal("progress")
def progress_more_requests_than_are_served() -> Story:
    """Node 2 serves one request after the other, each in 3 s of 4. The last one waits for 12 s."""
    return _queued(_linked(), answered_every=3)


@violates("progress")
def progress_earlier_requests_are_no_excuse() -> Story:
    """The same, but 5 s pass between two answers."""
    return _queued(_linked(), answered_every=5)


@violates("progress")
def progress_later_requests_are_no_excuse() -> Story:
    """Node 2 does not answer client 2, but client 3, who asks later, again and again."""
    story = _linked()
    _connected(story)
    story.event(2, "client", state="connected", client=3)
    forgotten = story.invoke(2, "get")
    for _ in range(6):
        _written_for(story, 1)
        seq = story.invoke(3, "get")
        _written_for(story, 1)
        story.answer_read(3, seq, story.servers[2].last, node=2)
    story.complete(2, forgotten, outcome="unknown", node=2)
    story.settle()
    return story


def _leaderless(story: Story, seconds: int, *, paused: bool = False) -> Story:
    """Let client 2 ask node 2, which has lost its leader, and has no answer for some seconds."""
    story.inject("pause", [1, 2] if paused else [1])
    for node in (2, 3):
        story.event(node, "role", role="LOOKING", leader=None, why="nothing was heard")
        story.event(node, "phase", phase="ELECTION", epoch=1)
    _connected(story)
    seq = story.invoke(2, "get")
    story.t += seconds * SECOND
    story.complete(2, seq, outcome="unknown", node=2)
    story.heal()
    for node in (2, 3):
        story.join(node)
    story.write()
    story.settle()
    return story


@violates("progress")
def progress_a_session_hangs_without_a_leader() -> Story:
    """Node 2 has no leader for 6 s, because node 1 is paused and node 3 supports nobody, and does not refuse client 2's
    request in 4 s."""
    return _leaderless(_linked(), 6)


@legal("progress")
def progress_a_session_waits_for_a_leader() -> Story:
    """The same for 3 s."""
    return _leaderless(_linked(), 3)


@legal("progress")
def progress_a_session_of_a_paused_node() -> Story:
    """The same as the first one, but node 2 is paused, too."""
    return _leaderless(_linked(), 6, paused=True)


@legal("progress")
def progress_a_session_comes_late() -> Story:
    """The same, but the client connected only 5 s after its request was due, and gave up a second later."""
    story = _linked()
    seq = story.invoke(2, "get")
    _written_for(story, 5)
    _connected(story)
    _written_for(story, 1)
    story.complete(2, seq, outcome="unknown", node=2)
    story.settle()
    return story


@legal("progress")
def progress_a_session_is_over() -> Story:
    """The same, but the client disconnected after a second, and notices that late."""
    story = _linked()
    _connected(story)
    seq = story.invoke(2, "get")
    _written_for(story, 1)
    _connected(story, "gone")
    _written_for(story, 5)
    story.complete(2, seq, outcome="unknown", node=2)
    story.settle()
    return story


@legal("progress")
def progress_a_session_behind_a_cut_link() -> Story:
    """The same, but the link from node 2 to its leader is disturbed, so the state that the client has seen may be on its
    way."""
    story = _linked()
    _connected(story)
    seq = story.invoke(2, "get")
    _written_for(story, 3)
    story.inject("latency", [1, 2], pairs=[[1, 2]])
    _written_for(story, 3)
    story.complete(2, seq, outcome="unknown", node=2)
    story.heal()
    story.settle()
    return story


@legal("progress")
def progress_a_session_at_who_has_no_leader() -> Story:
    """The same, but node 2 leaves its leader after 3 s, and comes back to it at the end."""
    story = _linked()
    _connected(story)
    seq = story.invoke(2, "get")
    _written_for(story, 3)
    story.event(2, "role", role="LOOKING", leader=None, why="nothing was heard")
    story.event(2, "phase", phase="ELECTION", epoch=1)
    story.members = [1, 3]
    _written_for(story, 3)
    story.join(2)
    story.complete(2, seq, outcome="unknown", node=2)
    story.settle()
    return story


@violates("progress")
def progress_a_star_does_not_elect() -> Story:
    """Nodes 1 to 4 do not reach each other, but all reach node 5: it could lead, and does not for 6 s."""
    story = _linked(5)
    with _links_cut(story, range(1, 5)):
        _nothing_for(story, 6)
    story.write()
    story.settle()
    return story


def _bridge(node: int) -> Story:
    """Node 1 leads with node 2, nodes 1 and 3 do not reach each other, and all clients are at one node for 6 s."""
    story = _linked()
    with _links_cut(story, [1, 3]):
        _nothing_for(story, 6, node)
    story.write()
    story.settle()
    return story


@legal("progress")
def progress_all_clients_are_beyond_a_bridge() -> Story:
    """Node 3 could lead with node 2, but node 1 does. Clients that write at node 3 have to leave it."""
    return _bridge(3)


@violates("progress")
def progress_all_clients_are_on_the_bridge() -> Story:
    """The same, but they are at node 2, which reaches the leader."""
    return _bridge(2)


def _resigning(*, delivers: bool) -> Story:
    """Node 1 resigns at the end of its counter, with a write under way or (`delivers`) after it has delivered all."""
    story = ensemble()
    seq = story.invoke()
    zxid = story.propose()
    if delivers:
        story.deliver(1, zxid)
    story.event(1, "role", role="LOOKING", leader=None, why=EXHAUSTED)
    story.complete(1, seq, None, "unknown")
    story.elect(1, epoch=2)
    story.settle()
    return story


@violates("progress")
def progress_a_leader_resigns_with_a_write_under_way() -> Story:
    return _resigning(delivers=False)


@legal("progress")
def progress_a_leader_resigns_when_it_has_delivered_all() -> Story:
    return _resigning(delivers=True)


@violates("progress")
def progress_nobody_is_elected() -> Story:
    """Node 1 leads no more, and for 6 s nobody does. Nobody writes."""
    return _without_a_leader(6)


@legal("progress")
def progress_somebody_is_elected_in_time() -> Story:
    """The same for 3.5 s, of 4."""
    return _without_a_leader(3.5)


def _without_a_leader(seconds: float) -> Story:
    story = _linked()
    story.event(1, "role", role="LOOKING", leader=None, why="lost the quorum")
    story.event(1, "phase", phase="ELECTION", epoch=1)
    story.t += int(seconds * SECOND)
    story.elect(2, epoch=2)
    story.write()
    story.settle()
    return story


@violates("progress")
def progress_nobody_is_ever_elected() -> Story:
    """New nodes reach each other for 6 s, and nobody begins to lead, so that the run ends before anybody writes."""
    story = Story(progress_within=4)
    story.start()
    for node in story.servers:
        story.open_links(node, [peer for peer in story.servers if peer != node])
    story.t += 6 * SECOND
    for node in story.servers:
        story.exit(node)
    story.run["outcome"] = "no leader was established within 6 s of the start"
    story.milestone("stopped")
    return story


@violates("progress")
def progress_elected_again_and_again() -> Story:
    """Within 6 s nodes begin to lead 24 times; each time they close their links and open them at once."""
    return _elections(24)


@legal("progress")
def progress_elected_in_the_end() -> Story:
    """Nodes begin to lead twelve times, but within the time in which a leader is to be found."""
    return _elections(12)


def _elections(turns: int) -> Story:
    """Let a node begin to lead four times a second, while no client writes."""
    story = _linked()
    for turn in range(turns):
        node = 1 + turn % 3
        for peer in (peer for peer in story.servers if peer != node):
            story.event(node, "link", peer=peer, state="closed", session=1, why="a new iteration")
        story.event(node, "role", role="LEADING", leader=node, why="elected")
        story.open_links(node, [peer for peer in story.servers if peer != node])
        story.t += SECOND // 4
    story.elect(1, epoch=2)
    story.write()
    story.settle()
    return story


@legal("progress")
def progress_nobody_reaches_a_quorum() -> Story:
    """For 6 s every link is cut: nobody could have led."""
    story = _linked()
    with _links_cut(story, story.servers):
        _gives_up(story, 1)
        _nothing_for(story, 6)
    story.elect(1, epoch=2)
    story.write()
    story.settle()
    return story


def _gives_up(story: Story, node: int) -> None:
    """Let a node return to the election."""
    story.event(node, "role", role="LOOKING", leader=None, why="lost the quorum")
    story.event(node, "phase", phase="ELECTION", epoch=1)


def _without_links_to(story: Story, peers: list[int]) -> Story:
    """Let node 1 lead for 6 s without links to these peers."""
    _cut(story, peers, 6)
    story.write()
    story.settle()
    return story


def _cut(story: Story, peers: list[int], seconds: float) -> None:
    """Let node 1 lose its links to these peers, and get them back some seconds later."""
    story.inject("partition", story.servers, pairs=[[1, peer] for peer in peers])
    fault = story.fault_ids
    for one, other in [(1, peer) for peer in peers] + [(peer, 1) for peer in peers]:
        story.event(one, "link", peer=other, state="closed", session=1, why="silent")
    story.t += int(seconds * SECOND)
    story.heal(id=fault)
    for peer in peers:
        story.open_links(1, [peer])
        story.open_links(peer, [1])


@violates("progress")
def progress_a_leader_alone() -> Story:
    """Node 1 leads for 6 s, of 4, without a link to anybody."""
    return _without_links_to(_linked(), [2, 3])


@legal("progress")
def progress_a_leader_with_one_of_two() -> Story:
    """The same, with a link to node 3: that is a quorum of three."""
    return _without_links_to(_linked(), [2])


@violates("progress")
def progress_a_leader_with_nodes_that_lost_their_disks() -> Story:
    """Node 1 leads for 6 s with a link to node 2, which has lost its disk and does not count yet."""
    return _without_a_disk(_linked())


@legal("progress")
def progress_a_leader_with_a_node_that_counts_again() -> Story:
    """The same, but node 2 is admitted again after a second."""
    return _without_a_disk(_linked(), admitted=True)


@legal("progress")
def progress_a_leader_that_is_paused() -> Story:
    """The same, but node 1 is paused meanwhile."""
    return _without_a_disk(_linked(), paused=True)


def _without_a_disk(story: Story, *, admitted: bool = False, paused: bool = False) -> Story:
    """Let node 1 lead for 6 s without a link to node 3, when node 2 has lost its disk and follows it again."""
    story.wipe(2)
    story.event(1, "link", peer=2, state="closed", session=1, why="the peer has started again")
    story.boot(2, "amnesiac")
    story.open_links(1, [2])
    story.open_links(2, [1, 3])
    if admitted:
        story.join(2)
    if paused:
        story.inject("pause", [1])
        pause = story.fault_ids
    _cut(story, [3], 6)
    if paused:
        story.heal(id=pause)
    if not admitted:
        story.join(2)
    story.write()
    story.settle()
    return story


@legal("progress")
def progress_one_side_only() -> Story:
    """For 6 s node 3 is down, and node 2 has its link to node 1 open, but node 1 not its link to node 2."""
    story = _linked()
    story.crash(3, heal=False)
    story.event(1, "link", peer=2, state="closed", session=1, why="silent")
    _nothing_for(story, 6)
    story.open_links(1, [2])
    story.boot(3)
    story.heal()
    story.join(3)
    story.write()
    story.settle()
    return story


@legal("progress")
def progress_nobody_wants_to_write() -> Story:
    """For 6 s no client sends anything."""
    story = _linked()
    story.t += 6 * SECOND
    story.write()
    story.settle()
    return story


@legal("progress")
def progress_refused_for_what_is_asked() -> Story:
    """For 6 s all writes are refused for their content. They were judged, so some node leads."""
    story = _linked()
    for _ in range(12):
        seq = story.invoke(op="set", path="/none")
        story.t += SECOND // 2
        story.complete(1, seq, (1, 3), "failed", error="no node")
    story.settle()
    return story


@legal("progress")
def progress_slow_disks() -> Story:
    """For 6 s the disks of two nodes are as good as stopped by a fault."""
    story = _linked()
    story.inject("slow-disk", [1, 2])
    _nothing_for(story, 6)
    story.heal()
    story.write()
    story.settle()
    return story


@legal("progress")
def progress_outage_within_the_bound() -> Story:
    """Node 1 leads and is killed; 2.5 s later, of 4, node 2 leads and writes go on."""
    story = _linked()
    story.crash(1)
    for node in (2, 3):
        story.event(node, "link", peer=1, state="closed", session=1, why="silent")
    _nothing_for(story, 2.5)
    story.elect(2, epoch=2, members=[2, 3])
    story.write()
    story.boot(1)
    story.join(1)
    story.settle()
    return story


@legal("progress")
def progress_begins_anew_with_a_fault_of_the_leader() -> Story:
    """For 7 s, of 4, nothing is delivered; in the middle node 5, which leads, is paused for a second."""
    story = _linked(5)
    story.elect(5, epoch=2)
    story.write()
    _nothing_for(story, 2.5, node=2)
    story.inject("pause", [5])
    _nothing_for(story, 1, node=2)
    story.heal()
    _nothing_for(story, 3.5, node=2)
    story.write()
    story.settle()
    return story


@legal("progress")
def progress_after_the_load() -> Story:
    """A client waits when the load ends, and is still not answered when its write is delivered 6 s later."""
    story = _linked()
    story.invoke()
    story.milestone("workload-stopped", invoked=len(story.asked))
    story.t += 6 * SECOND
    story.commit()
    story.milestone("safety-ended")
    story.milestone("converged", zxid=[1, 4], seconds=0.0)
    for node in story.servers:
        story.exit(node)
    story.milestone("stopped")
    return story


@legal("progress")
def progress_who_has_no_memory_does_not_count() -> Story:
    """For 6 s nodes 2, 3 and 5 reach each other, nodes 1 and 4 are down, and node 2 has no memory: two of five count."""
    story = _linked(5)
    story.crash(1, 4, heal=False)
    story.wipe(2)
    story.boot(2, "amnesiac")
    story.open_links(2, [3, 5])
    for node in (3, 5):
        story.open_links(node, [2])
    _nothing_for(story, 6)
    for node in (1, 4):
        story.boot(node)
        story.open_links(node, [peer for peer in story.servers if peer != node])
    story.heal(id=1)
    story.elect(3, epoch=2)
    story.write()
    story.settle()
    return story


def _last_question(answered_after: float) -> Story:
    """Let a client ask its last question, which is refused, and ask it again some seconds later, when it is answered."""
    story = _linked()
    story.milestone("last-question", seconds=8)
    seq = story.invoke(op="get", path="/")
    story.complete(1, seq, outcome="failed", error="overloaded")
    story.t += int(answered_after * SECOND)
    story.read(path="/")
    story.settle()
    return story


@violates("progress")
def progress_last_question_refused() -> Story:
    """A client is not served for more than 8 s after everything was healed. It never waits for an answer."""
    return _last_question(9)


@legal("progress")
def progress_last_question_answered() -> Story:
    """The same, but it is served after 7 s."""
    return _last_question(7)


@legal("progress")
def progress_last_question_behind_earlier_ones() -> Story:
    """A client's last question has no answer after 8 s, but in this time its earlier requests were answered in turn."""
    story = _linked()
    earlier = [story.invoke(op="get", path="/") for _ in range(3)]
    story.milestone("last-question", seconds=8)
    last = story.invoke(op="get", path="/")
    for seq in earlier:
        story.t += int(2.5 * SECOND)
        story.answer_read(1, seq, story.servers[1].last)
    story.t += SECOND
    story.complete(1, last, outcome="unknown")
    story.settle()
    return story


def _cut_off(**expect: Any) -> Story:
    """Return a good beginning after which node 2 has no leader."""
    story = ensemble(**expect)
    story.event(2, "role", role="LOOKING", leader=None, why="nothing was heard")
    story.event(2, "phase", phase="ELECTION", epoch=1)
    return story


def _refused(story: Story, times: int, error: str = "no leader", node: int = 2) -> None:
    """Let a node refuse a write or a check of client 2 every second."""
    for number in range(times):
        story.t += SECOND
        seq = story.invoke(2, "check" if number % 2 else "set", node=node)
        story.complete(2, seq, outcome="failed", error=error, node=node)


def _join_again(story: Story) -> Story:
    story.join(2)
    story.settle()
    return story


@violates("progress")
def progress_a_client_stays_without_a_leader() -> Story:
    """A client goes on sending its writes to a node that has refused them for 2 s for want of a leader."""
    story = _cut_off(clients_know_all_nodes=True)
    _refused(story, 4)
    return _join_again(story)


@legal("progress")
def progress_a_client_leaves_in_time() -> Story:
    """The same, but its last write was sent before the 2 s were over."""
    story = _cut_off(clients_know_all_nodes=True)
    _refused(story, 3)
    return _join_again(story)


@legal("progress")
def progress_a_client_comes_back_without_a_leader() -> Story:
    """The same as the first one, but the client connects again before its last write."""
    story = _cut_off(clients_know_all_nodes=True)
    _refused(story, 3)
    _connected(story)
    _refused(story, 1)
    return _join_again(story)


@legal("progress")
def progress_a_client_turns_to_another_node() -> Story:
    """The same as the first one, but the client sends its last write to node 3, which has no leader either."""
    story = _cut_off(clients_know_all_nodes=True)
    story.event(3, "role", role="LOOKING", leader=None, why="nothing was heard")
    story.event(3, "phase", phase="ELECTION", epoch=1)
    _refused(story, 3)
    _refused(story, 1, node=3)
    story.join(3)
    return _join_again(story)


@legal("progress")
def progress_a_client_is_refused_for_another_reason() -> Story:
    """The same as the first one, but its second write is refused for another reason."""
    story = _cut_off(clients_know_all_nodes=True)
    _refused(story, 1)
    _refused(story, 1, "overloaded")
    _refused(story, 3)
    return _join_again(story)


@legal("progress")
def progress_a_client_that_knows_one_node() -> Story:
    """The same as the first one, where clients need not know all nodes."""
    story = _cut_off()
    _refused(story, 4)
    return _join_again(story)


def _pause(story: Story, node: int) -> None:
    story.inject("pause", [node])
    story.members.remove(node)


def _wake(story: Story, node: int) -> None:
    """End the pause of a node, which then gets what it has missed."""
    story.heal()
    story.members.append(node)
    for zxid, value in story.servers[story.leader].log[len(story.servers[node].log) :]:
        story.accept(node, zxid, value)
    story.catch_up(node)


def _alone(story: Story, *requests: float, paused: bool = False) -> Story:
    """Let client 2 send requests to node 3, and give each up after some seconds, while node 3 is paused, or all nodes are."""
    if paused:
        story.inject("pause", [1, 2])
    _pause(story, 3)
    for seconds in requests:
        seq = story.invoke(2, "get", node=3)
        _written_for(story, 0 if paused else seconds)
        story.t += int(seconds * SECOND) if paused else 0
        story.complete(2, seq, outcome="unknown", node=3)
    _wake(story, 3)
    if paused:
        story.heal(id=1)
    story.settle()
    return story


@violates("progress")
def progress_a_client_waits_for_a_node_that_does_not_greet_it() -> Story:
    """A client has no connection for 5 s, more than one second for each node and one, and two nodes are there."""
    return _alone(_linked(clients_know_all_nodes=True), 5)


@violates("progress")
def progress_a_client_waits_with_one_request_after_the_other() -> Story:
    """The same, but it gives each request up after 2.5 s."""
    return _alone(_linked(clients_know_all_nodes=True), 2.5, 2.5)


@violates("progress")
def progress_a_client_waits_after_its_connection() -> Story:
    """The same as the first one, but it was connected before that."""
    story = _linked(clients_know_all_nodes=True)
    _connected(story)
    _connected(story, "gone")
    return _alone(story, 5)


@legal("progress")
def progress_a_client_tries_all_nodes() -> Story:
    """The same as the first one for 3.5 s."""
    return _alone(_linked(clients_know_all_nodes=True), 3.5)


@legal("progress")
def progress_a_client_that_no_node_can_greet() -> Story:
    """The same as the first one, but all nodes are paused."""
    return _alone(_linked(clients_know_all_nodes=True), 5, paused=True)


@legal("progress")
def progress_a_client_waits_at_its_node() -> Story:
    """The same as the first one, but it is connected to a node."""
    story = _linked(clients_know_all_nodes=True)
    story.event(3, "client", state="connected", client=2)
    return _alone(story, 5)


@legal("progress")
def progress_a_client_that_knows_only_a_paused_node() -> Story:
    """The same as the first one, where clients need not know all nodes."""
    return _alone(_linked(), 5)


def _waits(story: Story, seconds: float, leader: int, *, cut: bool = False) -> Story:
    """Let node 3 be elected to follow a node, and wait for that one for some seconds, in which nodes 1 and 2 serve."""
    story.event(3, "role", role="LOOKING", leader=None, why="nothing was heard")
    story.event(3, "phase", phase="ELECTION", epoch=1)
    story.members = [1, 2]
    story.event(3, "role", role="FOLLOWING", leader=leader, why="elected")
    story.event(3, "phase", phase="DISCOVERY", epoch=1)
    if cut:
        story.inject("latency", [leader, 3], pairs=[[leader, 3]])
    _written_for(story, seconds)
    if cut:
        story.heal()
    story.event(3, "role", role="LOOKING", leader=None, why="discovery took too long")
    story.event(3, "phase", phase="ELECTION", epoch=1)
    story.join(3)
    story.settle()
    return story


@violates("progress")
def progress_a_follower_does_not_join() -> Story:
    """Node 3 waits for node 1 for 6 s, of 4, which leads, and is not let in."""
    return _waits(_linked(), 6, 1)


@legal("progress")
def progress_a_follower_joins_late() -> Story:
    """The same for 3 s."""
    return _waits(_linked(), 3, 1)


@legal("progress")
def progress_a_follower_behind_a_slow_link() -> Story:
    """The same as the first one, but the link between the two is slow."""
    return _waits(_linked(), 6, 1, cut=True)


@violates("progress")
def progress_a_follower_of_a_follower() -> Story:
    """Node 3 waits for node 2 for 6 s, which follows node 1."""
    return _waits(_linked(), 6, 2)


@legal("progress")
def progress_a_follower_of_a_node_that_looks_for_a_leader() -> Story:
    """The same, but node 2 has left its leader."""
    story = _linked()
    story.event(2, "role", role="LOOKING", leader=None, why="nothing was heard")
    story.event(2, "phase", phase="ELECTION", epoch=1)
    story.event(3, "role", role="FOLLOWING", leader=2, why="elected")
    story.event(3, "phase", phase="DISCOVERY", epoch=1)
    story.inject("pause", [1])
    story.t += 6 * SECOND
    story.heal()
    for node in (2, 3):
        story.event(node, "role", role="LOOKING", leader=None, why="discovery took too long")
        story.event(node, "phase", phase="ELECTION", epoch=1)
        story.join(node)
    story.write()
    story.settle()
    return story


def _slower(do: str, **params: Any) -> Story:
    """Let nobody lead for 6 s, of 4, while a fault makes the nodes slower."""
    story = _linked()
    nodes, pairs = [1, 2, 3], [[a, b] for a in (1, 2, 3) for b in (1, 2, 3) if a != b]
    story.inject(do, nodes, params=params, **({"pairs": pairs} if do == "latency" else {}))
    _nothing_for(story, 6)
    story.heal()
    story.write()
    story.settle()
    return story


@violates("progress")
def progress_nobody_leads_behind_slightly_slow_links() -> Story:
    """All links are slower by up to 20 ms, a two hundredth of the bound."""
    return _slower("latency", ms=15, jitter_ms=5)


@legal("progress")
def progress_nobody_leads_behind_slow_links() -> Story:
    """The same, but by up to 21 ms."""
    return _slower("latency", ms=15, jitter_ms=6)


@violates("progress")
def progress_nobody_leads_on_slightly_slow_disks() -> Story:
    """All syncs take 20 ms more."""
    return _slower("slow-disk", ms=20)


@legal("progress")
def progress_nobody_leads_on_disks_that_are_slow_by_an_unknown_time() -> Story:
    """All syncs take longer; faults.jsonl does not say by how much."""
    return _slower("slow-disk", ms="20")


@violates("progress")
def progress_nobody_leads_by_slightly_wrong_clocks() -> Story:
    """All clocks are too fast by a quarter."""
    return _slower("clock-rate", rate=1.25)


@legal("progress")
def progress_nobody_leads_by_wrong_clocks() -> Story:
    """All clocks are too slow by a half."""
    return _slower("clock-rate", rate=0.5)


def _without_disk(story: Story, seconds: float, *, cut: bool = False) -> Story:
    """Let node 3 lose its disk, come back, reach nodes 1 and 2, which serve, and be no member for some seconds."""
    story.wipe(3)
    story.members = [1, 2]
    story.boot(3, "amnesiac")
    story.open_links(3, [1, 2])
    if cut:
        story.inject("latency", [1, 3], pairs=[[1, 3]])
    _written_for(story, seconds)
    if cut:
        story.heal()
    return story


def _admitted(story: Story) -> Story:
    story.join(3)
    story.write()
    story.settle()
    return story


@violates("progress")
def progress_a_node_without_disk_is_not_admitted() -> Story:
    """Node 3 has lost its disk, reaches the leader for 6 s, of 4, and is no member."""
    return _admitted(_without_disk(_linked(), 6))


@ends("VIOLATION", "progress", "VIOLATION", "progress")
def progress_a_node_without_disk_is_not_admitted_and_a_quorum_is_lost() -> Story:
    """The same, and then node 2 loses its disk, too, so that only node 1 remains. That is no excuse."""
    story = _without_disk(_linked(), 6)
    story.wipe(2)
    story.boot(2, "amnesiac")
    story.settle(converged=False)
    return story


@legal("progress")
def progress_a_node_without_disk_is_admitted_late() -> Story:
    """The same as the first one, for 3 s."""
    return _admitted(_without_disk(_linked(), 3))


@legal("progress")
def progress_a_node_without_disk_behind_a_slow_link() -> Story:
    """The same as the first one, but the link between the node and the leader is slow."""
    return _admitted(_without_disk(_linked(), 6, cut=True))


@violates("progress")
def progress_a_member_is_admitted_once_more() -> Story:
    """Node 3 has lost its disk and is a member again. Then node 2 is down for 6 s, and nobody leads before it is back and
    admits node 3 anew."""
    story = _without_disk(_linked(), 1)
    story.join(3)
    story.open_links(1, [3])
    story.open_links(2, [3])
    story.crash(2, heal=False)
    _nothing_for(story, 6)
    story.boot(2)
    story.heal()
    story.elect(1, epoch=2, members=[1, 2, 3])
    story.confirm(2, 2)
    story.event(3, "member", epoch=2, quorum=[1, 2])
    story.write()
    story.settle()
    return story


@legal("progress")
def progress_a_node_without_disk_and_no_quorum_to_admit_it() -> Story:
    """The same as the first one, but node 2 has crashed, so that nobody could confirm the admission."""
    story = _linked()
    story.crash(2, heal=False)
    story.wipe(3)
    story.boot(3, "amnesiac")
    story.open_links(3, [1])
    story.t += 6 * SECOND
    story.heal(id=1)
    story.boot(2)
    story.members = [1]
    story.join(2)
    return _admitted(story)


@legal("progress")
def progress_a_node_without_disk_and_a_leader_behind_slow_links() -> Story:
    """Of five nodes, node 5 has lost its disk and reaches the leader, node 1, whose links to all others are slow. Nodes 2, 3
    and 4 could have led all the time."""
    story = _linked(5)
    story.wipe(5)
    story.members = [1, 2, 3, 4]
    story.boot(5, "amnesiac")
    story.open_links(5, [1, 2, 3, 4])
    story.inject("latency", [1], pairs=[[1, 2], [1, 3], [1, 4]])
    _written_for(story, 6)
    story.heal()
    story.join(5)
    story.write()
    story.settle()
    return story


def _silent(story: Story, seconds: float, *, awake: bool = True, again: bool = False, stands: float = 0.0) -> Story:
    """Let client 2 send a request to node 3, which then is paused for some seconds, or is killed and starts `again`. Meanwhile
    client 1 writes, but `stands` still for some seconds."""
    story.run["expect"]["clients_are_awake"] = awake
    story.event(3, "client", state="connected", client=2)
    seq = story.invoke(2, "get", node=3)
    if again:
        story.crash(3)
        story.boot(3)
        story.members = [1, 2]
        story.open_links(3, [1, 2])
        story.join(3)
    else:
        _pause(story, 3)
    story.t += int(stands * SECOND)
    _written_for(story, seconds - stands)
    if not again:
        _wake(story, 3)
    story.complete(2, seq, outcome="unknown", node=3)
    story.settle()
    return story


@violates("progress")
def progress_a_client_waits_for_a_paused_node() -> Story:
    """Node 3 is paused for 5 s, and its client waits for its answer all the time."""
    return _silent(_linked(), 5)


@legal("progress")
def progress_a_client_waits_for_a_node_that_is_paused_for_a_short_time() -> Story:
    """The same for 3.5 s, less than twice the silence after which a client leaves."""
    return _silent(_linked(), 3.5)


@legal("progress")
def progress_a_client_that_sleeps_waits_for_a_paused_node() -> Story:
    """The same for 5 s, where a client may look at its connection later."""
    return _silent(_linked(), 5, awake=False)


@legal("progress")
def progress_a_client_waits_for_a_paused_node_while_the_machine_stands_still() -> Story:
    """The same for 5 s, where no client sends anything for 1.5 s: their process may have stood still."""
    return _silent(_linked(), 5, stands=1.5)


@violates("progress")
def progress_a_client_waits_for_a_former_life() -> Story:
    """Node 3 is killed and starts again, and its client waits for 5 s for the answer of its former life."""
    return _silent(_linked(), 5, again=True)


@legal("progress")
def progress_a_client_waits_for_a_former_life_for_a_short_time() -> Story:
    """The same for 3.5 s."""
    return _silent(_linked(), 3.5, again=True)


@legal("progress")
def progress_a_client_comes_back_to_a_node_that_started_again() -> Story:
    """The same for 5 s, but the client connects to the new life, which answers it late."""
    story = _linked()
    story.run["expect"]["clients_are_awake"] = True
    story.event(3, "client", state="connected", client=2)
    seq = story.invoke(2, "get", node=3)
    story.crash(3)
    story.boot(3)
    story.members = [1, 2]
    story.open_links(3, [1, 2])
    story.event(3, "client", state="connected", client=2)
    story.join(3)
    _written_for(story, 5)
    story.complete(2, seq, outcome="unknown", node=3)
    story.settle()
    return story


BROKEN = "the connection broke (127.0.0.1:20003)"


def _broken(*, runs_on: float = 2.0, paused: bool = False, awake: bool = True) -> Story:
    """Let client 2 lose its connection to node 3, which `runs_on` for some seconds, some time after a pause of node 3."""
    story = _linked(clients_are_awake=awake)
    if paused:
        _pause(story, 3)
        _wake(story, 3)
    _written_for(story, 3)
    story.event(3, "client", state="connected", client=2)
    seq = story.invoke(2, "get", node=3)
    _written_for(story, 3)
    story.complete(2, seq, outcome="unknown", node=3, error=BROKEN)
    _written_for(story, runs_on)
    story.settle()
    return story


@violates("progress")
def progress_a_connection_breaks() -> Story:
    """Client 2 loses its connection to node 3, which goes on, and no fault affects it."""
    return _broken()


@violates("progress")
def progress_a_connection_breaks_long_after_a_pause() -> Story:
    """The same, 6 s after node 3 was paused."""
    return _broken(paused=True)


@legal("progress")
def progress_a_connection_breaks_soon_after_a_pause() -> Story:
    """Node 3 is paused while client 2 waits, and then finds that the client has not been heard of."""
    story = _linked(clients_are_awake=True)
    _written_for(story, 6)
    story.event(3, "client", state="connected", client=2)
    seq = story.invoke(2, "get", node=3)
    _pause(story, 3)
    _written_for(story, 2)
    _wake(story, 3)
    _written_for(story, 1)
    story.complete(2, seq, outcome="unknown", node=3, error=BROKEN)
    _written_for(story, 2)
    story.settle()
    return story


@legal("progress")
def progress_a_connection_breaks_at_the_end() -> Story:
    """Node 3 ends less than a second later: it may have been about to end."""
    return _broken(runs_on=0)


@legal("progress")
def progress_a_connection_breaks_while_the_machine_stands_still() -> Story:
    """No client sends anything for 1.5 s before."""
    story = _linked(clients_are_awake=True)
    _written_for(story, 6)
    story.event(3, "client", state="connected", client=2)
    seq = story.invoke(2, "get", node=3)
    story.t += 3 * SECOND // 2
    story.write()
    story.complete(2, seq, outcome="unknown", node=3, error=BROKEN)
    _written_for(story, 2)
    story.settle()
    return story


@legal("progress")
def progress_a_connection_of_a_client_that_sleeps_breaks() -> Story:
    """Client 2 looks at its connection from time to time only."""
    return _broken(awake=False)


def _forgotten(
    *,
    why: str = UNREAD,
    told: bool = False,
    later: float = 2.0,
    waits: float = 2.0,
    moves: bool = False,
    paused: bool = False,
) -> Story:
    """Let node 3 forget client 2, which sends a request `later` and waits so long for the answer, or is `told` at once."""
    story = _linked()
    _written_for(story, 2)
    story.event(3, "client", state="connected", client=2)
    story.event(3, "client", state="gone", client=2, why=why)
    _written_for(story, later)
    if paused:
        _pause(story, 3)
        _wake(story, 3)
    seq = story.invoke(2, "get", node=2 if moves else 3)
    _written_for(story, waits)
    words = f"{REFUSED}: {FORGOTTEN}" if told else f"{NO_ANSWER} {waits:g} s"
    story.complete(2, seq, outcome="unknown", node=3, error=f"node 3 {words}")
    _written_for(story, 2)
    story.settle()
    return story


@violates("progress")
def progress_a_forgotten_client_is_not_told() -> Story:
    """Node 3 has forgotten client 2, and does not say so when the client sends a request."""
    return _forgotten()


@legal("progress")
def progress_a_forgotten_client_is_told() -> Story:
    """The same, but client 2 is told."""
    return _forgotten(told=True)


@legal("progress")
def progress_a_forgotten_client_does_not_wait_long() -> Story:
    """The same, but client 2 waits for half a second only."""
    return _forgotten(waits=0.5)


@legal("progress")
def progress_a_client_that_has_just_been_forgotten_is_not_told() -> Story:
    """The same, but client 2 sends the request soon: what it has not read may leave no room yet."""
    return _forgotten(later=0.5)


@legal("progress")
def progress_a_client_without_a_connection_is_not_told() -> Story:
    """The same, but node 3 forgot client 2 because its connection was gone."""
    return _forgotten(why="its connection is gone")


@legal("progress")
def progress_a_client_that_moves_to_a_node_that_had_forgotten_it_is_not_told() -> Story:
    """The same, but client 2 was at node 2 when it sent the request, and only then moves to node 3."""
    return _forgotten(moves=True)


@legal("progress")
def progress_a_paused_node_does_not_tell_a_forgotten_client() -> Story:
    """The same, but node 3 is paused just before the client sends its request."""
    return _forgotten(paused=True)


def _elected_without_session(seconds: float) -> Story:
    """Let node 3 follow node 2, with which it has closed its session, for so long."""
    story = _linked(noticed_within=0.3)
    story.event(3, "link", peer=2, state="closed", session=1, why="a new iteration")
    story.event(3, "role", role="FOLLOWING", leader=2, why="elected")
    story.t += int(seconds * SECOND)
    story.event(3, "role", role="LOOKING", leader=None, why="discovery took too long")
    story.open_links(3, [2])
    story.event(3, "role", role="FOLLOWING", leader=1, why="elected")
    story.write()
    story.settle()
    return story


@violates("progress")
def progress_a_node_follows_one_without_a_session() -> Story:
    """Node 3 follows node 2 for half a second, and has no session with it."""
    return _elected_without_session(0.5)


@violates("progress")
def progress_a_node_votes_for_one_that_is_gone() -> Story:
    """Node 3 loses its session with node 2, for which it votes, and does not vote anew for half a second."""
    story = _linked(noticed_within=0.3)
    story.event(3, "vote", round=2, leader=2)
    story.event(3, "link", peer=2, state="closed", session=1, why="a new iteration")
    story.t += SECOND // 2
    story.event(3, "vote", round=2, leader=1)
    story.open_links(3, [2])
    story.write()
    story.settle()
    return story


@legal("progress")
def progress_a_node_loses_its_session_as_it_is_elected() -> Story:
    """The same, but node 3 looks again at once: it has lost the session in the round in which it was elected."""
    return _elected_without_session(0)


def _unnoticed(seconds: float = 1.0, *, fault: str = "", pairs: list[Any] | None = None, **expect: Any) -> Story:
    """Let node 1 end its session with node 3 so many seconds after that node was killed. A fault may hit node 1, or links."""
    story = _linked(**{"noticed_within": 0.3} | expect)
    if fault:
        story.inject(fault, [3] if pairs else [1], pairs=pairs, params={"ms": 900})
    story.crash(3)
    story.members = [1, 2]
    _written_for(story, seconds)
    story.event(1, "link", peer=3, state="closed", session=1, why="a new iteration")
    if fault:
        story.heal(id=1)
    story.boot(3)
    story.open_links(3, [1, 2])
    story.open_links(1, [3])
    story.join(3)
    story.settle()
    return story


@violates("progress")
def progress_a_killed_node_is_unnoticed() -> Story:
    """Node 3 is killed, and node 1 goes on with their session for a second."""
    return _unnoticed()


@legal("progress")
def progress_a_killed_node_is_noticed() -> Story:
    """The same, but node 1 ends the session at once."""
    return _unnoticed(0)


@legal("progress")
def progress_a_killed_node_is_unnoticed_on_a_machine() -> Story:
    """The same, where a node may notice the end of a connection later."""
    return _unnoticed(noticed_within=None)


@legal("progress")
def progress_a_killed_node_is_unnoticed_behind_a_slow_link() -> Story:
    """The same, but the link is slow."""
    return _unnoticed(fault="latency", pairs=[[3, 1]])


@legal("progress")
def progress_a_killed_node_is_unnoticed_by_a_slow_one() -> Story:
    """The same, but node 1's disk is slow."""
    return _unnoticed(fault="slow-disk")
