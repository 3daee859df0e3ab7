"""Cases about requests: what took effect, how often, and what the client was told."""

import json

from tests.corpus.cases import leaves_unknown, legal, violates
from tests.corpus.story import Story, digest, ensemble


@violates("exactly once")
def once_told_two_outcomes() -> Story:
    """A client is told that the outcome of its write is unknown, and then that the write succeeded."""
    story = ensemble()
    seq = story.invoke()
    zxid = story.commit((1, seq))
    story.complete(1, seq, outcome="unknown", error="the connection broke")
    story.complete(1, seq, zxid)
    story.settle()
    return story


@violates("exactly once")
def once_twice() -> Story:
    """A write is prepared twice, by two leaders; its client gets the answer for the second time."""
    story = ensemble()
    seq = story.invoke()
    story.commit((1, seq))
    story.elect(2, epoch=2)
    zxid = story.commit(txn=[1, seq, [["set", "/a", 4, 1000 + seq]]])
    story.complete(1, seq, zxid, version=4)
    story.settle()
    return story


@violates("exactly once")
def once_unknown_twice() -> Story:
    """A write with an unknown outcome took effect twice."""
    story = ensemble()
    seq = story.invoke()
    story.commit((1, seq))
    story.commit(txn=[1, seq, [["set", "/a", 4, 1000 + seq]]])
    story.complete(1, seq, outcome="unknown")
    story.settle()
    return story


@violates("exactly once")
def once_failed_takes_effect() -> Story:
    """A write is refused because a node is overloaded, and takes effect all the same."""
    story = ensemble()
    seq = story.invoke()
    zxid = story.propose()
    story.complete(1, seq, outcome="failed", error="overloaded")
    for node in story.members:
        story.deliver(node, zxid)
    story.settle()
    return story


@violates("exactly once")
def once_told_another_zxid() -> Story:
    """A client is told that its write is 1:4, which is another client's; its own is 1:5."""
    story = ensemble()
    other, mine = story.invoke(2), story.invoke(1)
    story.commit((2, other))
    story.commit((1, mine))
    story.complete(2, other, outcome="unknown")
    story.complete(1, mine, (1, 4))
    story.settle()
    return story


@violates("exactly once")
def once_told_another_version() -> Story:
    """A set made version 3, and its client is told version 4."""
    story = ensemble()
    seq = story.invoke()
    story.complete(1, seq, story.commit((1, seq)), version=4)
    story.settle()
    return story


@violates("exactly once")
def once_told_another_path() -> Story:
    """A sequential create made /a/n0000000000, and its client is told /a/n0000000001."""
    story = ensemble()
    seq = story.invoke(op="create", path="/a/n", sequential=True)
    story.complete(1, seq, story.commit((1, seq)), path="/a/n0000000001")
    story.settle()
    return story


@violates("exactly once")
def once_told_another_step() -> Story:
    """The answer to a multi of two steps has a wrong version for the first one."""
    story = ensemble()
    seq = story.invoke(
        op="multi", steps=[{"op": "set", "path": "/a", "value": 1}, {"op": "create", "path": "/b", "value": 2}]
    )
    story.complete(1, seq, story.commit((1, seq)), steps=[["/a", 2], ["/b", 0]])
    story.settle()
    return story


@violates("exactly once")
def once_told_one_step_of_two() -> Story:
    """The answer to a multi of two steps has only the first one."""
    story = ensemble()
    seq = story.invoke(op="multi", steps=[{"op": "set", "path": "/a", "value": value} for value in (1, 2)])
    story.complete(1, seq, story.commit((1, seq)), steps=[["/a", 3]])
    story.settle()
    return story


@violates("exactly once")
def once_told_another_version_of_a_multi() -> Story:
    """The answer to a multi has the right versions of its steps, and a wrong one of its own."""
    story = ensemble()
    seq = story.invoke(op="multi", steps=[{"op": "set", "path": "/a", "value": 1}])
    story.complete(1, seq, story.commit((1, seq)), version=9)
    story.settle()
    return story


@violates("exactly once")
def once_checked_at_what_nobody_delivered() -> Story:
    """A check succeeds at 1:4, which its node has cut off since: the check has no transaction."""
    story = ensemble()
    story.propose(to=[1])
    story.crash(1)
    story.elect(2, epoch=2, members=[2, 3])
    story.write()
    story.complete(2, story.invoke(2, op="check"), (1, 4), version=2)
    story.boot(1)
    story.join(1)
    story.settle()
    return story


@violates("exactly once")
def once_told_another_path_in_a_multi() -> Story:
    """A multi has set /a, and its client is told that it has set /b."""
    story = ensemble()
    seq = story.invoke(op="multi", steps=[{"op": "set", "path": "/a", "value": 1}])
    story.complete(1, seq, story.commit((1, seq)), steps=[["/b", 3]])
    story.settle()
    return story


@violates("exactly once", "values and versions")
def once_sequential_without_a_number() -> Story:
    """A sequential create of /a/n has made /a/new."""
    story = ensemble()
    seq = story.invoke(op="create", path="/a/n", sequential=True)
    story.complete(1, seq, story.commit(txn=[1, seq, [["create", "/a/new", 0, 1000 + seq]]]))
    story.settle()
    return story


@violates("exactly once", "values and versions")
def once_refused_for_its_version_takes_effect() -> Story:
    """A set is refused for the version of /a, and takes effect all the same."""
    story = ensemble()
    seq = story.invoke()
    zxid = story.propose()
    story.complete(1, seq, (1, 3), outcome="failed", error="bad version", version=None)
    for node in story.members:
        story.deliver(node, zxid)
    story.settle()
    return story


@violates("exactly once", "values and versions")
def once_fence_that_writes() -> Story:
    """A fence of client 1 also sets /a, which the client had not asked for."""
    story = ensemble()
    seq = story.invoke()
    story.commit(txn=[1, seq, [["fence", "", None, None], ["set", "/a", 3, 7]]])
    story.complete(1, seq, outcome="unknown")
    story.settle()
    return story


def _two_primaries() -> tuple[Story, int]:
    """Return a run in which node 2 also broadcasts in epoch 1, whose primary is node 1, and the seq of the write that client 1
    has sent."""
    story = ensemble()
    seq = story.invoke()
    story.broadcast(1, (1, 4), digest((1, 4), "of node 1"), of=(1, seq))
    story.txns.clear()
    story.complete(1, seq, outcome="unknown")
    return story, seq


@violates("exactly once", "one leader an epoch", "primary integrity", "local primary order")
def once_other_value_by_a_second_primary() -> Story:
    """The nodes deliver 1:4 as the second primary has broadcast it, with another value than the client had asked for."""
    story, seq = _two_primaries()
    story.broadcast(2, (1, 4), txn=[1, seq, [["set", "/a", 3, 7]]])
    for node in story.members:
        story.accept(node, (1, 4))
    for node in story.members:
        story.deliver(node, (1, 4))
    story.settle()
    return story


@violates("exactly once", "one leader an epoch", "primary integrity", "local primary order")
def once_other_value_proposed_by_a_second_primary() -> Story:
    """The second primary has broadcast 1:4 with another value than the client had asked for, and no node delivers it."""
    story, seq = _two_primaries()
    story.broadcast(2, (1, 4), txn=[1, seq, [["set", "/a", 3, 7]]])
    story.elect(1, epoch=2)
    story.settle()
    return story


@violates("exactly once")
def once_nobody_asked() -> Story:
    """1:4 is the effect of a request that client 1 never sent."""
    story = ensemble()
    story.commit(txn=[1, 99, [["set", "/a", 3, 7]]])
    story.settle()
    return story


@violates("exactly once")
def once_before_it_is_asked() -> Story:
    """A write takes effect after it was due, but before its client sends it."""
    story = ensemble()
    due = story.now()
    zxid = story.commit(txn=[1, 4, [["set", "/a", 3, 1004]]])
    story.complete(1, story.invoke(due=due), zxid)
    story.settle()
    return story


@violates("exactly once")
def once_proposed_before_it_is_asked() -> Story:
    """A deposed leader had proposed a write after it was due, but before its client sends it."""
    story = ensemble()
    due = story.now()
    story.propose([1], txn=[1, 4, [["set", "/a", 3, 1004]]])
    story.complete(1, story.invoke(due=due), outcome="unknown")
    return _deposed(story)


@violates("exactly once")
def once_proposed_and_nobody_asked() -> Story:
    """A deposed leader had proposed a write of client 1 that the client never sent."""
    story = ensemble()
    story.propose([1], txn=[1, 99, [["set", "/a", 3, 7]]])
    return _deposed(story)


def _deposed(story: Story) -> Story:
    """Depose the leader, node 1: the others go on without it, and then it follows them."""
    story.elect(2, epoch=2, members=[2, 3])
    story.write(2)
    story.join(1)
    story.settle()
    return story


@violates("exactly once")
def once_nobody_asked_on_a_connection() -> Story:
    """1:4 is the effect of a request that client 1 never sent on its connection to node 1."""
    story = ensemble()
    story.event(1, "client", state="connected", client=1)
    story.commit(txn=[1, 99, [["set", "/a", 3, 7]]])
    story.settle()
    return story


@violates("exactly once")
def once_by_a_client_that_no_node_knows() -> Story:
    """1:4 is the effect of a request of client 77, which has connected to no node."""
    story = ensemble()
    story.commit(txn=[77, 1, [["set", "/a", 3, 7]]])
    story.settle()
    return story


@violates("exactly once")
def once_fence_where_nobody_was() -> Story:
    """Client 1 is fenced at a seq that it has not reached, and its next write is not answered."""
    story = ensemble()
    story.commit(txn=[1, 99, [["fence", "", None, None]]])
    story.complete(1, story.invoke(), outcome="unknown")
    story.settle()
    return story


@violates("exactly once")
def once_fence_before_its_write() -> Story:
    """Client 1 is fenced at the seq of a write that it sends later."""
    story = ensemble()
    before = story.invoke()
    story.commit(txn=[1, before + 1, [["fence", "", None, None]]])
    for seq in (before, story.invoke()):
        story.complete(1, seq, outcome="unknown")
    story.settle()
    return story


@violates("exactly once")
def once_other_value() -> Story:
    """The delivered transaction has another value than the client requested."""
    story = ensemble()
    seq = story.invoke()
    zxid = story.commit(txn=[1, seq, [["set", "/a", 3, 7]]])
    story.complete(1, seq, zxid)
    story.settle()
    return story


@violates("exactly once")
def once_answered_before_delivery() -> Story:
    """Node 2 answers a write that a quorum has accepted, and delivers it afterwards."""
    story = ensemble()
    seq = story.invoke()
    zxid = story.propose()
    story.deliver(1, zxid)
    story.complete(1, seq, zxid, node=2)
    for node in (2, 3):
        story.deliver(node, zxid)
    story.settle()
    return story


@violates("exactly once")
def once_acknowledged_without_a_zxid() -> Story:
    """A write has taken effect, and the answer does not name its zxid."""
    story = ensemble()
    seq = story.invoke()
    story.commit((1, seq))
    story.complete(1, seq)
    story.settle()
    return story


@violates("exactly once")
def once_other_value_in_a_second_step() -> Story:
    """The first step of a multi is as requested; the second one has another value."""
    story = ensemble()
    seq = story.invoke(op="multi", steps=[{"op": "set", "path": "/a", "value": value} for value in (1, 2)])
    story.complete(1, seq, story.commit(txn=[1, seq, [["set", "/a", 3, 1], ["set", "/a", 4, 7]]]))
    story.settle()
    return story


@violates("exactly once")
def once_half_a_multi() -> Story:
    """Only the first of a multi's two steps is delivered."""
    story = ensemble()
    steps = [{"op": "set", "path": "/a", "value": 1}, {"op": "create", "path": "/b", "value": 2}]
    seq = story.invoke(op="multi", steps=steps)
    story.commit(txn=[1, seq, [["set", "/a", 3, 1]]])
    story.complete(1, seq, outcome="unknown")
    story.settle()
    return story


@leaves_unknown("exactly once")
def once_nobody_asked_as_far_as_is_known() -> Story:
    """The same as `once_nobody_asked`, but records are missing, those of node 4: it may have been asked for there."""
    story = once_nobody_asked()
    story.run["nodes"] = 4
    return story


@leaves_unknown("exactly once")
def once_not_said_what_one_does() -> Story:
    """One broadcast does not record the content of its transaction, all others do."""
    return _one_unknown_content()


@leaves_unknown("values and versions")
def values_not_said_what_one_does() -> Story:
    """The same."""
    return _one_unknown_content()


def _one_unknown_content() -> Story:
    """Return a run whose last broadcast does not record the content of its transaction."""
    story = ensemble()
    lines = story.traces[1, 1]
    place = max(number for number, line in enumerate(lines) if '"broadcast"' in line)
    lines[place] = json.dumps({k: v for k, v in json.loads(lines[place]).items() if k != "txns"}) + "\n"
    story.settle()
    return story


@leaves_unknown("exactly once")
def once_without_contents() -> Story:
    """No broadcast records the content of its transactions, as in runs of old versions."""
    story = ensemble()
    story.settle()
    lines = story.traces[1, 1]
    for number, line in enumerate(lines):
        lines[number] = json.dumps({k: v for k, v in json.loads(line).items() if k != "txns"}) + "\n"
    return story


@legal("exactly once")
def once_unknown_and_done() -> Story:
    """An unknown write has taken effect, before the client's next answer."""
    story = ensemble()
    seq = story.invoke()
    story.commit((1, seq))
    story.complete(1, seq, outcome="unknown")
    story.read()
    story.settle()
    return story


@legal("exactly once")
def once_delivered_again() -> Story:
    """Node 2 delivers everything again after its restart: the same transactions, at the same places."""
    story = ensemble()
    story.crash(2)
    story.boot(2)
    story.join(2)
    story.write()
    story.settle()
    return story


@legal("exactly once")
def once_by_a_client_without_a_record() -> Story:
    """Client 77 has connected to node 1 and keeps no record."""
    story = ensemble()
    story.event(1, "client", state="connected", client=77)
    story.commit(txn=[77, 1, [["set", "/a", 3, 7]]])
    story.settle()
    return story


@legal("exactly once")
def once_two_clients_race() -> Story:
    """Two clients write to one path at once, and each gets the answer to its own write."""
    story = ensemble()
    mine, other = story.invoke(1), story.invoke(2)
    story.commit((2, other))
    story.commit((1, mine))
    story.complete(1, mine, (1, 5))
    story.complete(2, other, (1, 4))
    story.settle()
    return story


@legal("exactly once")
def once_refused_and_asked_again() -> Story:
    """A write fails because a node is overloaded. Its client sends it again with a new seq, and that one takes effect."""
    story = ensemble()
    seq = story.invoke()
    story.complete(1, seq, outcome="failed", error="overloaded")
    story.write()
    story.settle()
    return story


@violates("client order")
def client_order_a_number_for_nothing() -> Story:
    """Client 1 used seq 4 for a request of its own, and its next one has seq 5."""
    story = ensemble()
    story.seqs[1] += 1
    story.write()
    story.settle()
    return story


@legal("client order")
def client_order_a_number_for_what_was_refused() -> Story:
    """Client 1 used seq 4 for a write that was refused."""
    story = ensemble()
    story.complete(1, story.invoke(op="create"), outcome="failed", error="node exists", zxid=(1, 3))
    story.write()
    story.settle()
    return story
