"""Cases about progress: faults that are no excuse for others, nodes that do not keep up with their leader or serve nobody."""

from typing import Any

from tests.corpus.cases import legal, violates
from tests.corpus.progress import SECOND, _cut, _linked, _nothing_for, _written_for
from tests.corpus.story import Story
from zab_chaos.node.clients.protocol import REFUSED


def _looks(story: Story, node: int) -> None:
    """Let a node lose its leader."""
    story.event(node, "role", role="LOOKING", leader=None, why="lost the quorum")
    story.event(node, "phase", phase="ELECTION", epoch=story.servers[node].current_epoch)


# ---- faults that are no excuse ----


@violates("progress")
def progress_a_former_leader_is_no_excuse() -> Story:
    """Node 1, which led, is killed and starts again every 3 s, of 4. Nodes 2 and 3 elect nobody for 9 s."""
    story = _linked()
    for number in range(3):
        story.crash(1, heal=False)
        for node in (2, 3) if number == 0 else ():
            story.event(node, "link", peer=1, state="closed", session=1, why="silent")
            _looks(story, node)
        _nothing_for(story, 0.5, node=2)
        story.boot(1)
        story.heal()
        _nothing_for(story, 2.5, node=2)
    for node in story.servers:
        story.open_links(node, [peer for peer in story.servers if 1 in (node, peer) and node != peer])
    story.elect(2, epoch=2)
    story.write()
    story.settle()
    return story


@violates("progress")
def progress_a_step_that_waits_is_no_excuse() -> Story:
    """The schedule waits for a state of all nodes, and nothing is delivered for 6 s, of 4."""
    story = _linked()
    story.inject("wait", story.servers)
    _nothing_for(story, 6)
    story.write()
    story.settle()
    return story


def _cut_every_3_seconds(*pair: int) -> Story:
    story = _linked(5)
    for _ in range(3):
        story.inject("partition", story.servers, pairs=[list(pair)])
        _nothing_for(story, 0.5, node=2)
        story.heal()
        _nothing_for(story, 2.5, node=2)
    story.write()
    story.settle()
    return story


@violates("progress")
def progress_a_cut_far_from_the_leader_is_no_excuse() -> Story:
    """The link from node 4 to node 5 is cut every 3 s, of 4. Node 1 leads, and nothing is delivered for 9 s."""
    return _cut_every_3_seconds(4, 5)


@legal("progress")
def progress_begins_anew_with_a_cut_at_the_leader() -> Story:
    """The same with the link from node 1 to node 5: the leader may have changed each time."""
    return _cut_every_3_seconds(1, 5)


# ---- nodes that do not keep up ----


def _left_out(story: Story, seconds: float, *, role: str = "LOOKING") -> Story:
    """Let node 3 lose its leader, and join it again some seconds later."""
    _looks(story, 3)
    if role == "LEADING":
        story.event(3, "role", role=role, leader=3, why="elected")
        story.event(3, "phase", phase="DISCOVERY", epoch=1)
    story.members = [1, 2]
    _written_for(story, seconds)
    if role == "LEADING":
        _looks(story, 3)
    story.join(3)
    story.write()
    story.settle()
    return story


@violates("progress")
def progress_a_node_looks_for_a_leader_that_it_reaches() -> Story:
    """Node 1 leads with node 2. Node 3 reaches both, and joins them only after 6 s, of 4."""
    return _left_out(_linked(), 6)


@violates("progress")
def progress_a_node_wants_to_lead_though_it_reaches_a_leader() -> Story:
    """The same, but node 3 has begun to lead, without anybody."""
    return _left_out(_linked(), 6, role="LEADING")


@legal("progress")
def progress_a_node_finds_its_leader_in_time() -> Story:
    """The same after 3.5 s."""
    return _left_out(_linked(), 3.5)


@legal("progress")
def progress_a_node_reaches_nobody_but_the_leader() -> Story:
    """Node 3 looks for a leader for 6 s, when the link between it and node 2 is cut: it can't know whether node 1 leads."""
    story = _linked()
    story.inject("partition", story.servers, pairs=[[2, 3], [3, 2]])
    for one, other in ((2, 3), (3, 2)):
        story.event(one, "link", peer=other, state="closed", session=1, why="silent")
    _looks(story, 3)
    story.members = [1, 2]
    _written_for(story, 6)
    story.heal()
    story.open_links(2, [3])
    story.open_links(3, [2])
    story.join(3)
    story.write()
    story.settle()
    return story


def _behind(story: Story, seconds: float) -> Story:
    """Let node 3 follow node 1, and for some seconds neither accept nor deliver anything."""
    story.members = [1, 2]
    _written_for(story, seconds)
    for zxid, value in story.servers[1].log[len(story.servers[3].log) :]:
        story.accept(3, zxid, value)
    story.catch_up(3)
    story.members = [1, 2, 3]
    story.write()
    story.settle()
    return story


@violates("progress")
def progress_a_follower_is_behind() -> Story:
    """Node 3 follows node 1, and delivers what that delivers only 6 s later, of 4."""
    return _behind(_linked(), 6)


@legal("progress")
def progress_a_follower_is_a_little_behind() -> Story:
    """The same 3.5 s later."""
    return _behind(_linked(), 3.5)


@legal("progress")
def progress_a_follower_with_a_slow_disk_is_behind() -> Story:
    """The same 6 s later, when the disk of node 3 is slow."""
    story = _linked()
    story.inject("slow-disk", [3])
    story.members = [1, 2]
    _written_for(story, 3)
    story.heal()
    return _behind(story, 3)


# ---- nodes that serve nobody ----


def _unserved(story: Story, *, served: bool = False, **where: Any) -> Story:
    """Let clients 2 and 3 ask node 2 for 12 s and give up every 2 s. If `served`, client 4 gets an answer each time."""
    for client in (2, 3, 4):
        story.event(2, "client", state="connected", client=client)
    for _ in range(6):
        asked = [(client, story.invoke(client, "get", node=2)) for client in (2, 3)]
        _written_for(story, 2)
        for client, seq in asked:
            story.complete(client, seq, outcome="unknown", node=2)
        if served:
            seq = story.invoke(4, "get", node=2)
            story.answer_read(4, seq, story.servers[2].last, node=2)
    story.settle()
    return story


@violates("progress")
def progress_a_node_serves_nobody() -> Story:
    """Node 2 follows its leader and delivers, and answers none of the clients that ask it. No client waits for 4 s."""
    return _unserved(_linked())


@legal("progress")
def progress_a_node_serves_somebody() -> Story:
    """The same, but it answers another client every 2 s: it may have too much to do."""
    return _unserved(_linked(), served=True)


@legal("progress")
def progress_a_node_serves_nobody_of_those_that_leave_at_once() -> Story:
    """The same as the first one, but each client leaves after 0.5 s, and the next one comes."""
    story = _linked()
    for client in range(2, 26):
        story.event(2, "client", state="connected", client=client)
        seq = story.invoke(client, "get", node=2)
        _written_for(story, 0.5)
        story.complete(client, seq, outcome="unknown", node=2)
    story.settle()
    return story


@legal("progress")
def progress_a_node_serves_nobody_behind_a_cut_link() -> Story:
    """The same as the first one, but the link to its leader is cut for a moment every few seconds."""
    story = _linked()
    for client in (2, 3):
        story.event(2, "client", state="connected", client=client)
    for _ in range(3):
        asked = [(client, story.invoke(client, "get", node=2)) for client in (2, 3)]
        _cut(story, [2], 0.5)
        _written_for(story, 3)
        for client, seq in asked:
            story.complete(client, seq, outcome="unknown", node=2)
    story.settle()
    return story


@violates("progress")
def progress_nothing_but_fences() -> Story:
    """For 6 s node 1 delivers a fence every second, and none of the writes that wait."""
    story = _linked()
    for _ in range(6):
        seq = story.invoke()
        story.t += SECOND
        story.commit((1, seq), txn=[1, seq, [["fence", "", None, None]]])
        story.complete(1, seq, None, "unknown")
    story.write()
    story.settle()
    return story


@legal("progress")
def progress_nothing_but_fences_for_rejected_clients() -> Story:
    """The clients' writes did not wait: they are more than may wait at a node, which rejects the clients at once."""
    story = _linked()
    for _ in range(12):
        seq = story.invoke()
        story.complete(1, seq, None, "unknown", error=f"node 1 {REFUSED}: it sends 3 more; 1 of one client may wait")
        story.t += SECOND // 2
        story.commit((1, seq), txn=[1, seq, [["fence", "", None, None]]])
    story.write()
    story.settle()
    return story


# ---- leaders that give up ----


def _changing(times: int, *, cut: bool = False, lost: bool = False, bounded: bool = True) -> Story:
    """Let one node after the other be established as the leader, and give up after a moment, for 0.6 s each. If `cut`, a link
    between two of the nodes is cut for a moment each time. If `lost`, a frame between two of them is lost each time."""
    story = _linked(delays_are_bounded=bounded)
    for epoch in range(2, 2 + times):
        if cut:
            story.inject("partition", story.servers, pairs=[[2, 3]])
            story.heal()
        if lost:
            story.event(2, "link", peer=3, state="closed", session=1, why="frame 3 came where 2 was due")
            story.open_links(2, [3])
        for node in story.servers:
            _looks(story, node)
        story.t += SECOND // 2
        story.elect(1 + epoch % 3, epoch)
        story.t += SECOND // 10
    story.write()
    story.settle()
    return story


@violates("progress")
def progress_leaders_give_up_again_and_again() -> Story:
    """Within 12 s 16 leaders are established, though nothing disturbs them. Nobody writes."""
    return _changing(16)


@legal("progress")
def progress_leaders_give_up_a_few_times() -> Story:
    """The same with nine leaders."""
    return _changing(9)


@legal("progress")
def progress_leaders_change_with_each_fault() -> Story:
    """The same with 16, each after the link between nodes 2 and 3 was cut for a moment."""
    return _changing(16, cut=True)


@legal("progress")
def progress_leaders_change_with_each_lost_frame() -> Story:
    """The same with 16, each after node 2 found that a frame of node 3 is missing."""
    return _changing(16, lost=True)


@legal("progress")
def progress_leaders_change_often_in_an_erratic_network() -> Story:
    """The same with 16, and messages may take longer than nodes wait for them."""
    return _changing(16, bounded=False)


@legal("progress")
def progress_a_leader_whose_connections_are_reset_is_elected_again_and_again() -> Story:
    """Within 12 s node 3 is established 20 times: its connections are reset all the time, and the others could lead."""
    story = _linked()
    story.inject("reset", [3], pairs=[[3, 1], [3, 2]])
    for epoch in range(2, 22):
        for node in story.servers:
            _looks(story, node)
        story.t += SECOND // 2
        story.elect(3, epoch)
        story.t += SECOND // 10
    story.heal()
    story.write()
    story.settle()
    return story
