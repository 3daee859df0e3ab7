"""Cases about the state that the transactions make, and about what reads and refusals show of it."""

from typing import Any

from tests.corpus.cases import leaves_unknown, legal, violates
from tests.corpus.story import Story, ensemble


@violates("values and versions")
def values_lost_update() -> Story:
    """The second leader prepares a set on a tree that lacks the last write: version 3 is given twice."""
    story = ensemble()
    story.write()
    story.elect(2, epoch=2)
    seq = story.invoke()
    story.complete(1, seq, story.commit(txn=[1, seq, [["set", "/a", 3, 1000 + seq]]]), version=3)
    story.settle()
    return story


@violates("values and versions")
def values_created_over() -> Story:
    """A create that had to fail overwrites an acknowledged value."""
    story = ensemble()
    seq = story.invoke(op="create")
    story.complete(1, seq, story.commit((1, seq)))
    story.settle()
    return story


@violates("values and versions")
def values_condition_ignored() -> Story:
    """A set on condition that /a is at version 1 is done, although it is at version 2."""
    story = ensemble()
    seq = story.invoke(version=1)
    story.complete(1, seq, story.commit((1, seq)))
    story.settle()
    return story


@violates("values and versions")
def values_refused_by_a_state_that_has_gone_by() -> Story:
    """A write is acknowledged. Then another client sends a write that is valid from then on, and a deposed leader refuses
    it."""
    story = ensemble()
    story.write(client=2)
    seq = story.invoke(version=3)
    story.complete(1, seq, (1, 3), "failed", error="bad version")
    story.settle()
    return story


@violates("values and versions")
def values_refused_by_a_state_that_others_saw_replaced() -> Story:
    """A write that nobody acknowledged is read. Then another client's write, which is valid from then on, is refused."""
    story = ensemble()
    story.invoke(2)
    zxid = story.commit((2, 1))
    story.read(3, zxid)
    seq = story.invoke(version=3)
    story.complete(1, seq, (1, 3), "failed", error="bad version")
    story.settle()
    return story


@legal("values and versions")
def values_refused_before_others_saw_it_replaced() -> Story:
    """The same, but the write was sent before the read was answered."""
    story = ensemble()
    story.invoke(2)
    seq = story.invoke(version=3)
    zxid = story.commit((2, 1))
    story.read(3, zxid)
    story.complete(1, seq, (1, 3), "failed", error="bad version")
    story.settle()
    return story


@violates("values and versions")
def values_refused_by_the_state_before_the_first_write() -> Story:
    """Client 1 has created /a, the only write of the run. Then client 2 is told that there is no /a."""
    story = ensemble(writes=1)
    story.complete(2, story.invoke(2), outcome="failed", error="no node")
    story.settle()
    return story


@violates("values and versions")
def values_refused_by_the_last_of_two_answers() -> Story:
    """Two writes are acknowledged, 1:5 before 1:4. Then another client's write is refused in the light of 1:4."""
    story = ensemble()
    second, third = story.invoke(2), story.invoke(3)
    for client, seq in ((2, second), (3, third)):
        story.commit((client, seq))
    story.complete(3, third, (1, 5))
    story.complete(2, second, (1, 4))
    story.complete(1, story.invoke(version=4), (1, 4), "failed", error="bad version")
    story.settle()
    return story


@legal("values and versions")
def values_refused_while_another_write_is_under_way() -> Story:
    """The same, but the refused write was sent before the other one was acknowledged."""
    story = ensemble()
    seq = story.invoke(version=3)
    story.write(client=2)
    story.complete(1, seq, (1, 3), "failed", error="bad version")
    story.settle()
    return story


@violates("values and versions")
def values_deleted_under_another_version() -> Story:
    """A delete on condition of a version that has gone by is done."""
    story = ensemble()
    story.write(op="delete", version=0)
    story.settle()
    return story


@violates("values and versions")
def values_deleted_with_children() -> Story:
    """/a, which has a child, is deleted."""
    story = ensemble()
    story.write(path="/a/b")
    story.write(op="delete", path="/a")
    story.settle()
    return story


@violates("values and versions")
def values_created_without_a_parent() -> Story:
    """/b/c is created, and there is no /b."""
    story = ensemble()
    story.write(path="/b/c")
    story.settle()
    return story


@violates("values and versions")
def values_condition_of_a_second_step_ignored() -> Story:
    """The first step of a multi changes /a; the second step is done although it expects the old version."""
    story = ensemble()
    steps = [{"op": "set", "path": "/a", "value": 1}, {"op": "set", "path": "/a", "value": 2, "version": 2}]
    seq = story.invoke(op="multi", steps=steps)
    story.complete(1, seq, story.commit((1, seq)))
    story.settle()
    return story


@violates("values and versions")
def values_sequential_name_given_twice() -> Story:
    """A sequential name is given again after its znode was deleted."""
    story = ensemble()
    story.write(op="create", path="/a/n", sequential=True)
    story.write(op="delete", path="/a/n0000000000")
    seq = story.invoke(op="create", path="/a/n", sequential=True)
    zxid = story.commit(txn=[1, seq, [["create", "/a/n0000000000", 0, 1000 + seq]]])
    story.complete(1, seq, zxid)
    story.settle()
    return story


@violates("values and versions")
def values_created_at_another_version() -> Story:
    """/b is created, and begins at version 1."""
    story = ensemble()
    seq = story.invoke(op="create", path="/b")
    story.complete(1, seq, story.commit(txn=[1, seq, [["create", "/b", 1, 1000 + seq]]]))
    story.settle()
    return story


@violates("values and versions")
def values_set_of_nothing() -> Story:
    """/b, which does not exist, is set."""
    story = ensemble()
    seq = story.invoke(op="set", path="/b")
    story.complete(1, seq, story.commit(txn=[1, seq, [["set", "/b", 1, 1000 + seq]]]))
    story.settle()
    return story


@violates("values and versions")
def values_check_of_a_version_that_has_gone_by() -> Story:
    """A check of /a finds version 1, an earlier version of it."""
    story = ensemble()
    seq = story.invoke(op="check")
    story.complete(1, seq, story.commit(txn=[1, seq, [["check", "/a", 1, None]]]))
    story.settle()
    return story


@violates("values and versions")
def values_another_value_read() -> Story:
    """A read shows a value that /a has never had."""
    story = ensemble()
    story.read(value=7)
    story.settle()
    return story


@violates("values and versions")
def values_missing_znode_refused_to_who_asks_for_it() -> Story:
    """An `exists` of the missing /b is answered with the error "no node"; it must succeed and say that there is none."""
    story = ensemble()
    story.read(op="exists", path="/b", outcome="failed", error="no node")
    story.settle()
    return story


@violates("values and versions")
def values_refused_with_an_error_that_is_none() -> Story:
    """A read of the missing /b is refused with the name of an error that nodes use between themselves only."""
    story = ensemble()
    story.read(path="/b", error="forgotten client")
    story.settle()
    return story


@violates("values and versions")
def values_result_of_another_operation() -> Story:
    """The answer to a `get` of /a is right, and lists children, too."""
    story = ensemble()
    story.read(children=[])
    story.settle()
    return story


@violates("values and versions")
def values_good_path_refused() -> Story:
    """A read of /b, which does not exist, is refused as a bad path."""
    story = ensemble()
    story.read(path="/b", error="bad path")
    story.settle()
    return story


@legal("values and versions")
def values_bad_path_refused() -> Story:
    """A read of /b/ is refused as a bad path: no znode can have that path."""
    story = ensemble()
    story.read(path="/b/", error="bad path")
    story.settle()
    return story


def _child_without_a_name(error: str, path: str) -> Story:
    """Refuse a sequential create whose name would be the number alone."""
    story = ensemble()
    story.complete(1, story.invoke(op="create", path=path, sequential=True), None, "failed", error=error)
    story.settle()
    return story


@violates("values and versions")
def values_number_alone_refused() -> Story:
    """A sequential child of /a named by its number alone is refused as a bad path, although /a/0000000000 is valid."""
    return _child_without_a_name("bad path", "/a/")


@legal("values and versions")
def values_nameless_parent_refused() -> Story:
    """A sequential child of an empty name is refused: //0000000000 is not a path."""
    return _child_without_a_name("bad path", "//")


@violates("values and versions")
def values_good_request_refused() -> Story:
    """A valid set of /a is refused as a bad request."""
    story = ensemble()
    story.complete(1, story.invoke(), None, "failed", error="bad request")
    story.settle()
    return story


@violates("values and versions")
def values_bad_path_refused_as_bad_request() -> Story:
    """A set of a//b, an impossible path, is refused as a bad request: it is "bad path" for every such request."""
    story = ensemble()
    story.complete(1, story.invoke(path="a//b"), None, "failed", error="bad request")
    story.settle()
    return story


@legal("values and versions")
def values_empty_multi_refused() -> Story:
    """A multi without a step is refused."""
    story = ensemble()
    story.complete(1, story.invoke(op="multi", path="", steps=[]), None, "failed", error="bad request")
    story.settle()
    return story


def _multi_with_a_bad_path(error: str, zxid: tuple[int, int] | None = None) -> Story:
    """Refuse a multi whose first step expects another version than that of /a, and whose second step has an impossible path."""
    story = ensemble()
    steps = [{"op": "check", "path": "/a", "version": 7}, {"op": "create", "path": "b", "value": 1}]
    story.complete(1, story.invoke(op="multi", path="b", steps=steps), zxid, "failed", error=error)
    story.settle()
    return story


@violates("values and versions")
def values_bad_path_refused_for_the_state() -> Story:
    """A multi that is impossible in every state is refused for the version of /a. Then "bad path" would reveal a right
    version."""
    return _multi_with_a_bad_path("bad version", (1, 3))


@legal("values and versions")
def values_bad_path_refused_in_any_state() -> Story:
    """The same, refused for the path."""
    return _multi_with_a_bad_path("bad path")


def _called_by_dots(sequential: bool = False) -> Story:
    """Create a znode whose name is two dots, with a number behind it or not."""
    story = ensemble()
    seq = story.invoke(op="create", path="/a/..", **({"sequential": True} if sequential else {}))
    story.complete(1, seq, story.commit())
    story.settle()
    return story


@violates("values and versions")
def values_name_of_dots() -> Story:
    """A znode is called "..". ZooKeeper refuses such a path in every state."""
    return _called_by_dots()


@legal("values and versions")
def values_name_of_dots_and_a_number() -> Story:
    """The same, for a sequential znode: its name ends with a number."""
    return _called_by_dots(sequential=True)


@violates("values and versions")
def values_dots_refused_for_the_state() -> Story:
    """A set of /./a is refused because there is no such znode, and its path is wrong in every state."""
    story = ensemble()
    story.complete(1, story.invoke(op="set", path="/./a"), (1, 3), "failed", error="no node")
    story.settle()
    return story


def _without_a_parent(path: str, **fields: Any) -> Story:
    """Refuse a create because its parent does not exist."""
    story = ensemble()
    story.complete(1, story.invoke(op="create", path=path, **fields), (1, 3), "failed", error="no parent")
    story.settle()
    return story


@violates("values and versions")
def values_empty_name_refused_for_its_parent() -> Story:
    """A create of /b//c, which is not a path, is refused because it has no parent."""
    return _without_a_parent("/b//c")


@violates("values and versions")
def values_last_name_empty_and_refused_for_its_parent() -> Story:
    """The same with /b/c/."""
    return _without_a_parent("/b/c/")


@legal("values and versions")
def values_number_alone_refused_for_its_parent() -> Story:
    """A sequential child of /b would be called by its number alone, and there is no /b."""
    return _without_a_parent("/b/", sequential=True)


@legal("values and versions")
def values_version_that_is_none_refused() -> Story:
    """A set on condition of a version that no znode can have is refused as a bad request."""
    story = ensemble()
    story.complete(1, story.invoke(version=2**31), outcome="failed", error="bad request")
    story.settle()
    return story


@violates("values and versions")
def values_root_not_deleted_for_its_version() -> Story:
    """A delete of the root, which is impossible, is refused for its version."""
    story = ensemble()
    story.complete(1, story.invoke(op="delete", path="/", version=7), (1, 3), "failed", error="bad version")
    story.settle()
    return story


@violates("client order")
def values_refusal_without_a_state() -> Story:
    """A client that has written is told that there is no /b. The refusal names no state."""
    story = ensemble()
    story.complete(1, story.invoke(op="get", path="/b"), outcome="failed", error="no node")
    story.settle()
    return story


@violates("values and versions")
def values_write_refusal_without_a_state() -> Story:
    """A client other than the one that created /a is told that it does not exist. The refusal names no state."""
    story = ensemble()
    story.complete(2, story.invoke(2), outcome="failed", error="no node")
    story.settle()
    return story


@violates("values and versions")
def values_read_too_large() -> Story:
    """A read is refused for its size."""
    story = ensemble()
    story.complete(1, story.invoke(op="get"), (1, 3), "failed", error="too large")
    story.settle()
    return story


@violates("values and versions")
def values_small_write_too_large() -> Story:
    """A write is refused for its size, which is less than any that is recorded."""
    story = ensemble(request_bytes=2**20)
    story.complete(1, story.invoke(), outcome="failed", error="too large")
    story.settle()
    return story


@violates("values and versions")
def values_write_at_the_limit_too_large() -> Story:
    """A write is refused for its size, which is the largest that is allowed."""
    story = ensemble(request_bytes=2**20)
    story.complete(1, story.invoke(size=2**20), outcome="failed", error="too large")
    story.settle()
    return story


@legal("values and versions")
def values_write_beyond_the_limit_too_large() -> Story:
    """A write is refused for its size, which is one more than is allowed."""
    story = ensemble(request_bytes=2**20)
    story.complete(1, story.invoke(size=2**20 + 1), outcome="failed", error="too large")
    story.settle()
    return story


@violates("values and versions")
def values_write_beyond_the_limit() -> Story:
    """The same, but it is not refused."""
    story = ensemble(request_bytes=2**20)
    story.write(size=2**20 + 1)
    story.settle()
    return story


@violates("values and versions")
def values_bad_path_ahead_of_its_node() -> Story:
    """A client is told at 1:4 that a path is bad, by a node that has not delivered that."""
    story = ensemble()
    zxid = story.propose()
    story.complete(1, story.invoke(op="delete", path="b"), zxid, "failed", error="bad path", node=3)
    for node in story.members:
        story.deliver(node, zxid)
    story.settle()
    return story


def _back_while_a_write_is_under_way() -> Story:
    """Restart node 2 with all that it had, while the others go on without it."""
    story = ensemble()
    story.crash(2)
    story.members = [1, 3]
    story.write()
    story.boot(2)
    return story


@violates("values and versions")
def values_shown_before_a_leader() -> Story:
    """Node 2 has just started, and shows what it has recovered before it has a leader."""
    story = _back_while_a_write_is_under_way()
    story.read(2, (1, 3), node=2)
    story.join(2)
    story.settle()
    return story


@violates("values and versions")
def values_all_there_is_shown_before_a_leader() -> Story:
    """The same, and no node has more than that. Node 2 could not know this."""
    story = ensemble()
    story.crash(2)
    story.boot(2)
    story.read(2, (1, 3), node=2)
    story.join(2)
    story.settle()
    return story


@violates("values and versions")
def values_older_than_what_its_first_leader_had() -> Story:
    """Node 2 has just started and joined its leader, and shows what it has recovered; the leader had delivered more."""
    story = _back_while_a_write_is_under_way()
    story.synchronize(2, 1)
    story.event(2, "phase", phase="BROADCAST", epoch=1)
    story.read(2, (1, 3), node=2)
    story.catch_up(2)
    story.members = [1, 2, 3]
    story.settle()
    return story


@violates("values and versions")
def values_read_without_any_transaction() -> Story:
    """Nothing was ever broadcast, and a read returns a value."""
    story = ensemble(writes=0, min_acked=0)
    story.complete(1, story.invoke(op="get"), (0, 0), value=7, version=0)
    story.settle()
    return story


@leaves_unknown("values and versions", "PASS")
def values_nothing_to_read() -> Story:
    """Nothing was ever broadcast, and a read is told so. A run without any delivery says little, but no read was wrong."""
    story = ensemble(writes=0, min_acked=0)
    story.read(zxid=(0, 0))
    story.settle()
    return story


@violates("values and versions")
def values_older_than_its_first_epoch() -> Story:
    """Node 2 has just started and follows a new leader, and has not delivered the leader's initial history yet."""
    story = ensemble()
    for node in story.members:
        story.take_snapshot(node)
    story.write()
    story.crash(1)
    story.crash(2)
    story.boot(2)
    story.elect(3, epoch=2, members=[2, 3], deliver=False)
    story.event(2, "phase", phase="BROADCAST", epoch=2)
    story.read(2, (1, 3), node=2)
    story.catch_up(2)
    story.event(3, "phase", phase="BROADCAST", epoch=2)
    story.boot(1)
    story.join(1)
    story.settle()
    return story


@violates("values and versions")
def values_older_than_what_its_second_leader_had() -> Story:
    """Node 2 has just started and joined epoch 2, whose leader is lost before node 2 serves. It joins epoch 3, whose leader had
    delivered more, and shows what it has recovered."""
    story = ensemble(nodes=5)
    story.crash(2)
    story.elect(3, epoch=2, members=[1, 3, 4, 5])
    story.boot(2)
    story.promise(2, 2)
    story.synchronize(2, 2)
    story.write()
    story.elect(1, epoch=3, deliver=False)
    story.serve((1, 3, 4, 5), 3)
    story.event(2, "phase", phase="BROADCAST", epoch=3)
    story.read(2, (1, 3), node=2)
    story.catch_up(2)
    story.settle()
    return story


@legal("values and versions")
def values_older_than_what_its_leader_has_since() -> Story:
    """Node 2 has just started and joined its leader, and shows what the leader had delivered by then; now the leader has
    more."""
    story = _back_while_a_write_is_under_way()
    story.join(2)
    zxid = story.propose()
    story.deliver(1, zxid)
    story.read(2, (1, 4), node=2)
    story.deliver(2, zxid)
    story.deliver(3, zxid)
    story.settle()
    return story


@legal("values and versions")
def values_answer_of_an_earlier_life() -> Story:
    """A read that was sent before node 2 crashed is answered after its restart. Which life answered is not known."""
    story = ensemble()
    seq = story.invoke(2, "get")
    story.crash(2)
    story.boot(2)
    story.answer_read(2, seq, (1, 3), node=2)
    story.join(2)
    story.settle()
    return story


@violates("values and versions")
def values_dirty_read() -> Story:
    """A read shows version 3, which is that of the uncommitted 1:4, and names the state of 1:3."""
    story = ensemble()
    seq = story.invoke(2)
    zxid = story.propose()
    story.read(1, (1, 3), version=3, value=2001)
    for node in story.members:
        story.deliver(node, zxid)
    story.complete(2, seq, zxid)
    story.settle()
    return story


@violates("values and versions")
def values_read_ahead_of_its_node() -> Story:
    """Node 3 shows the state of 1:4 before it has delivered that."""
    story = ensemble()
    seq = story.invoke()
    zxid = story.propose()
    story.deliver(1, zxid)
    story.complete(1, seq, zxid)
    story.read(2, zxid, node=3)
    story.deliver(2, zxid)
    story.deliver(3, zxid)
    story.settle()
    return story


@violates("values and versions", "client order")
def values_of_a_state_that_never_was() -> Story:
    """A read names 1:4. The history goes on with 2:1 after 1:3, and its node has delivered both."""
    story = ensemble()
    story.elect(2, epoch=2)
    story.write()
    story.read(2, (1, 4), node=1)
    story.settle()
    return story


@violates("values and versions")
def values_existing_znode_not_found() -> Story:
    """A read is answered that there is no /a, which exists."""
    story = ensemble()
    seq = story.invoke(2, "get")
    story.complete(2, seq, (1, 3), "failed", error="no node")
    story.settle()
    return story


@violates("values and versions")
def values_children_stale() -> Story:
    """A list of children lacks the one that was created last."""
    story = ensemble()
    story.write(path="/a/b")
    story.write(path="/a/c")
    story.read(op="children", children=["b"])
    story.settle()
    return story


@violates("values and versions")
def values_children_named_twice() -> Story:
    """A list of children names one of them twice and another one not at all."""
    story = ensemble()
    story.write(path="/a/b")
    story.write(path="/a/c")
    story.read(op="children", children=["b", "b"])
    story.settle()
    return story


@violates("values and versions")
def values_child_named_twice() -> Story:
    """A list of children has all of them, and one of them twice."""
    story = ensemble()
    story.write(path="/a/b")
    story.read(op="children", children=["b", "b"])
    story.settle()
    return story


@violates("values and versions")
def values_read_of_a_state_to_come() -> Story:
    """A read names 1:9, and the run ends before any node has delivered that."""
    story = ensemble()
    story.read(2, (1, 9))
    story.settle()
    return story


@violates("values and versions")
def values_children_left_out() -> Story:
    """An answer lists no children at all, and there is one."""
    story = ensemble()
    story.write(path="/a/b")
    story.read(op="children", children=None)
    story.settle()
    return story


@violates("values and versions")
def values_exists_at_another_version() -> Story:
    """/a is at version 2, and an `exists` is answered with version 1."""
    story = ensemble()
    story.read(op="exists", version=1)
    story.settle()
    return story


@violates("values and versions")
def values_exists_although_deleted() -> Story:
    """/a was deleted, and an `exists` is answered that it exists."""
    story = ensemble()
    story.write(op="delete", path="/a")
    story.read(op="exists", version=2)
    story.settle()
    return story


@violates("values and versions")
def values_refused_without_reason() -> Story:
    """A set on condition that /a is at version 2 is refused at 1:3, where it is."""
    story = ensemble()
    seq = story.invoke(version=2)
    story.complete(1, seq, (1, 3), "failed", error="bad version")
    story.settle()
    return story


@violates("values and versions")
def values_refused_for_another_reason() -> Story:
    """A delete of /a is refused because there is no such znode; it is there, and has children."""
    story = ensemble()
    story.write(path="/a/b")
    seq = story.invoke(op="delete")
    story.complete(1, seq, (1, 4), "failed", error="no node")
    story.settle()
    return story


@violates("values and versions")
def values_multi_refused_without_reason() -> Story:
    """A multi's second step finds what its first step made, and the multi is refused."""
    story = ensemble()
    steps = [{"op": "create", "path": "/b", "value": 1}, {"op": "check", "path": "/b", "version": 0}]
    seq = story.invoke(op="multi", steps=steps)
    story.complete(1, seq, (1, 3), "failed", error="no node")
    story.settle()
    return story


@violates("values and versions", "exactly once")
def values_order_in_time() -> Story:
    """Client 2 writes after client 1's write was acknowledged, and its transaction has the lower zxid."""
    story = ensemble()
    first = story.invoke(1)
    epoch_1_4 = [2, 1, [["set", "/a", 3, 2001]]]
    story.commit(txn=epoch_1_4)
    zxid = story.commit((1, first))
    story.complete(1, first, zxid)
    second = story.invoke(2)
    story.complete(2, second, (1, 4))
    story.settle()
    return story


@violates("values and versions", "exactly once")
def values_order_in_time_of_three() -> Story:
    """The same, and a write of client 3, which was sent early, comes between the two."""
    story = ensemble()
    first, between = story.invoke(1), story.invoke(3)
    story.commit(txn=[2, 1, [["set", "/a", 3, 2001]]])
    story.commit((3, between))
    story.complete(1, first, story.commit((1, first)))
    story.complete(2, story.invoke(2), (1, 4))
    story.complete(3, between, (1, 5))
    story.settle()
    return story


@legal("values and versions")
def values_two_clients_race() -> Story:
    """Two clients set /a on condition of version 2: the second one is refused, in the light of the first."""
    story = ensemble()
    first, second = story.invoke(1, version=2), story.invoke(2, version=2)
    zxid = story.commit((1, first))
    story.complete(2, second, zxid, "failed", error="bad version")
    story.complete(1, first, zxid)
    story.settle()
    return story


@legal("values and versions")
def values_refused_just_before() -> Story:
    """A set is refused because /a is at version 2, not 3; the very next transaction makes it 3."""
    story = ensemble()
    early, other = story.invoke(1, version=3), story.invoke(2)
    zxid = story.commit((2, other))
    story.complete(1, early, (1, 3), "failed", error="bad version")
    story.complete(2, other, zxid)
    story.settle()
    return story


@legal("values and versions")
def values_multi_touches_a_path_twice() -> Story:
    """A multi sets /a, finds it at the new version, and sets it again; one more creates, and deletes what it made."""
    story = ensemble()
    twice = [
        {"op": "set", "path": "/a", "value": 1, "version": 2},
        {"op": "check", "path": "/a", "version": 3},
        {"op": "set", "path": "/a", "value": 2, "version": 3},
    ]
    story.write(op="multi", steps=twice)
    story.read()
    gone = [{"op": "create", "path": "/a/b", "value": 3}, {"op": "delete", "path": "/a/b", "version": 0}]
    story.write(op="multi", steps=gone)
    story.read(op="children")
    story.settle()
    return story


@legal("values and versions")
def values_multi_refused_in_its_second_step() -> Story:
    """The first step of a multi is possible, the second is not: nothing of the multi is done."""
    story = ensemble()
    steps = [{"op": "set", "path": "/a", "value": 1}, {"op": "check", "path": "/a", "version": 2}]
    seq = story.invoke(op="multi", steps=steps)
    story.complete(1, seq, (1, 3), "failed", error="bad version")
    story.read()
    story.settle()
    return story


@legal("values and versions")
def values_multi_refused_behind_a_sequential_step() -> Story:
    """The first step of a multi would make /a/n0000000002, because two children were created and one of them deleted. The
    second step expects another version of that."""
    story = ensemble()
    for _ in range(2):
        story.write(op="create", path="/a/n", sequential=True)
    story.write(op="delete", path="/a/n0000000000")
    steps = [
        {"op": "create", "path": "/a/n", "sequential": True, "value": 1},
        {"op": "check", "path": "/a/n0000000002", "version": 7},
    ]
    seq = story.invoke(op="multi", steps=steps)
    story.complete(1, seq, (1, 6), "failed", error="bad version")
    story.settle()
    return story


@legal("values and versions")
def values_sequential_after_a_delete() -> Story:
    """The number of a deleted sequential znode is not given again, and ordinary creations count too."""
    story = ensemble()
    for _ in range(2):
        story.write(op="create", path="/a/n", sequential=True)
    story.write(op="delete", path="/a/n0000000001")
    story.write(path="/a/b")
    story.write(op="create", path="/a/", sequential=True)
    story.read(op="children")
    story.settle()
    return story


@legal("values and versions")
def values_created_anew() -> Story:
    """/a is deleted and created again: its versions begin with 0 again, and so does its count of children."""
    story = ensemble()
    story.write(op="create", path="/a/n", sequential=True)
    story.write(op="delete", path="/a/n0000000000")
    story.write(op="delete", path="/a")
    story.write(op="create", path="/a")
    story.write(op="create", path="/a/n", sequential=True)
    story.write(path="/a")
    story.read()
    story.settle()
    return story


@violates("values and versions")
def values_no_leader_where_there_is_one() -> Story:
    """A write is refused for want of a leader, by the leader."""
    story = ensemble()
    seq = story.invoke()
    story.complete(1, seq, outcome="failed", error="no leader")
    story.settle()
    return story


@legal("values and versions")
def values_no_leader_for_a_moment() -> Story:
    """A write is refused for want of a leader, by a node that has a leader again when it answers."""
    story = ensemble()
    seq = story.invoke()
    story.elect(2, epoch=2)
    story.complete(1, seq, outcome="failed", error="no leader", node=1)
    story.settle()
    return story


@legal("values and versions")
def values_nothing_yet() -> Story:
    """Reads and refusals before the first transaction: the tree is empty but for its root."""
    story = ensemble(writes=0)
    story.read(1, (0, 0))
    story.read(1, (0, 0), op="children", path="/")
    seq = story.invoke(2, op="check", path="/b")
    story.complete(2, seq, None, "failed", error="no node")
    story.write(3)
    story.settle()
    return story


@legal("values and versions")
def values_a_write_that_nobody_waited_for() -> Story:
    """A later write of another client comes first. That is legal: the earlier write was not acknowledged by then."""
    story = ensemble()
    early = story.invoke(1)
    late = story.invoke(2)
    story.complete(2, late, story.commit((2, late)))
    story.complete(1, early, story.commit((1, early)))
    story.settle()
    return story


@violates("values and versions")
def values_read_without_a_zxid() -> Story:
    """Client 2 is told that /a does not exist, and not at which zxid: before the first transaction that would be true."""
    story = ensemble()
    story.complete(2, story.invoke(2, op="exists"))
    story.settle()
    return story
