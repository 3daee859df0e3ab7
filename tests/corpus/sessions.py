"""Cases about sessions that change nodes, about writes with an unknown outcome, and about reads that go back."""

from functools import partial
from typing import Any

from tests.corpus.cases import ends, legal, violates
from tests.corpus.story import STEP, Story, ensemble
from zab_chaos.node.clients.claims import FALSE_CLAIM
from zab_chaos.node.clients.protocol import FORGOTTEN
from zab_chaos.node.tree.refusal import MAY_BE_FORGOTTEN


def _forgotten(story: Story) -> Story:
    """Let node 2 say to a connected client that it does not know it."""
    words = f"node 2 does not serve this client: {FORGOTTEN}"
    story.complete(1, story.invoke(op="get", node=2), outcome="unknown", error=words, node=2)
    story.settle()
    return story


@violates("client order")
def client_order_forgotten() -> Story:
    """A node does not know a client that is connected to it, where none may be forgotten."""
    return _forgotten(ensemble(clients_are_kept=True))


@legal("client order")
def client_order_forgotten_by_a_full_node() -> Story:
    """The same where a node forgets clients that do not read their answers."""
    return _forgotten(ensemble())


def _write_of_others(story: Story) -> None:
    """Let clients 2 and 3 write."""
    for client in (2, 3):
        seq = story.invoke(client)
        story.commit(txn=[client, seq, [["set", "/a", 1 + client, 1000 * client + seq]]])


def _not_remembered(clients_max: int, *, wrote_last: bool = False) -> Story:
    """Let two clients write, and node 2 say to a third one that the ensemble may have forgotten it. `wrote_last`: although that
    one has written since."""
    story = ensemble(clients_are_kept=True, clients_max=clients_max)
    for client in (2, 3):
        story.write(client=client)
    if wrote_last:
        story.write()
    words = f"node 2 does not serve this client: {MAY_BE_FORGOTTEN}: it remembers the {clients_max} that wrote last"
    story.complete(1, story.invoke(node=2), outcome="unknown", error=words, node=2)
    story.settle()
    return story


@violates("client order")
def client_order_forgotten_by_an_ensemble_that_has_room() -> Story:
    """An ensemble that remembers three clients has forgotten one of three."""
    return _not_remembered(3)


@legal("client order")
def client_order_forgotten_by_a_full_ensemble() -> Story:
    """The same with an ensemble that remembers two."""
    return _not_remembered(2)


@violates("client order")
def client_order_forgotten_although_it_wrote_last() -> Story:
    """The same, but the client that is forgotten was the last to write."""
    return _not_remembered(2, wrote_last=True)


def _dropped(story: Story, why: str = "1 requests are waiting here") -> Story:
    """Let node 2 refuse to serve a client."""
    words = f"node 2 does not serve this client: {why}"
    story.complete(1, story.invoke(op="get", node=2), outcome="unknown", error=words, node=2)
    story.settle()
    return story


@violates("client order")
def client_order_dropped() -> Story:
    """A node drops a client that has one request."""
    return _dropped(ensemble(clients_are_kept=True, waiting=16))


@legal("client order")
def client_order_dropped_by_a_small_node() -> Story:
    """The same where more than one request of all clients is too much."""
    return _dropped(ensemble(clients_are_kept=True, waiting=4))


def _dropped_after_a_fault(seconds: float) -> Story:
    """Let node 2 refuse to serve a client, so many seconds after a fault was healed."""
    story = ensemble(clients_are_kept=True, waiting=16)
    story.inject("pause", [3])
    story.heal()
    story.t += int(seconds * 1e9)
    return _dropped(story)


@violates("client order")
def client_order_dropped_long_after_a_fault() -> Story:
    """The same as the first one, 6 s after a fault was healed. Within 5 s the links have settled."""
    return _dropped_after_a_fault(6)


@legal("client order")
def client_order_dropped_soon_after_a_fault() -> Story:
    """The same after 4 s."""
    return _dropped_after_a_fault(4)


def _taken_for_a_stranger(fault: str) -> Story:
    """Let node 2 drop a client as one of another ensemble, shortly after a fault of node 3."""
    story = ensemble(clients_are_kept=True, waiting=16)
    story.inject(fault, [3])
    story.heal()
    return _dropped(
        story, f"the client says that it has seen (1, 9), but this ensemble has come to (1, 2): {FALSE_CLAIM}"
    )


@violates("client order")
def client_order_taken_for_a_stranger() -> Story:
    """A node drops a client that has moved there, because it has not logged yet what the client has seen."""
    return _taken_for_a_stranger("partition")


@legal("client order")
def client_order_taken_for_a_stranger_by_a_slow_node() -> Story:
    """The same after a fault that slows a node."""
    return _taken_for_a_stranger("slow-disk")


def _overloaded_after(step: str) -> Story:
    """Let a node that waits for nothing say that it is overloaded, soon after a step of the schedule."""
    story = ensemble(clients_are_kept=True, waiting=16)
    story.inject(step, [1])
    story.heal()
    story.complete(1, story.invoke(op="get"), outcome="failed", error="overloaded")
    story.settle()
    return story


@violates("client order")
def client_order_overloaded_by_one_request() -> Story:
    """Nothing has happened to the node: the step only waited for its state."""
    return _overloaded_after("wait")


@legal("client order")
def client_order_overloaded_after_a_fault() -> Story:
    """Its links may be slow."""
    return _overloaded_after("latency")


def _second_answer(*, first_given_up_before: bool, together: bool = False) -> Story:
    """Let a client read twice, get the second answer, and give up the first read before that or after it, or at the same
    instant (`together`)."""
    story = ensemble()
    first, second = story.invoke(op="get"), story.invoke(op="get")
    give_up = partial(story.complete, 1, first, outcome="unknown", error="no answer within 10 s")
    answer = partial(story.answer_read, 1, second, (1, 3))
    for act in (give_up, answer) if first_given_up_before else (answer, give_up):
        act()
        story.t -= STEP if together else 0
    story.settle()
    return story


@violates("client order")
def client_order_an_answer_is_left_out() -> Story:
    """A client gets the answer to its second read, and waits for the first one until it gives up."""
    return _second_answer(first_given_up_before=False)


@legal("client order")
def client_order_given_up_before_a_later_answer() -> Story:
    """The same, but the client gives up the first read before the second is answered."""
    return _second_answer(first_given_up_before=True)


@legal("client order")
def client_order_given_up_with_a_later_answer() -> Story:
    """The same, but at the instant at which the second is answered."""
    return _second_answer(first_given_up_before=False, together=True)


@violates("client order")
def client_order_unknown_after_a_later_write() -> Story:
    """A write is unknown at node 2; its client goes to node 3 and writes. Then the first write takes effect."""
    story = ensemble()
    lost = story.invoke()
    story.waiting.remove((1, lost))
    story.complete(1, lost, outcome="unknown", node=2)
    story.write()
    story.commit(txn=[1, lost, [["set", "/a", 4, 1000 + lost]]])
    story.settle()
    return story


def _after_its_fence(*, read: bool = False) -> Story:
    """Let a client's lost write take effect after a fence at its number, with writes of others in between. `read`: it reads
    before its write takes effect."""
    story = ensemble(clients_max=2)
    lost = story.invoke()
    story.complete(1, lost, outcome="unknown", node=2)
    story.commit(txn=[1, lost, [["fence", "", None, None]]])
    _write_of_others(story)
    if read:
        story.read()
    story.commit(txn=[1, lost, [["set", "/a", 5, 1000 + lost]]])
    story.settle()
    return story


@violates("client order")
def client_order_after_a_forgotten_fence() -> Story:
    """A write takes effect after the fence at its number, when the nodes have forgotten its client."""
    return _after_its_fence()


@violates("client order")
def client_order_shown_before_its_write() -> Story:
    """The same, and the client reads before its write takes effect."""
    return _after_its_fence(read=True)


@violates("client order")
def client_order_unknown_after_a_later_read() -> Story:
    """A write is unknown; its client looks it up, does not find it, and then it takes effect."""
    story = ensemble()
    lost = story.invoke()
    story.complete(1, lost, outcome="unknown", node=2)
    story.read()
    story.commit(txn=[1, lost, [["set", "/a", 3, 1000 + lost]]])
    story.settle()
    return story


@violates("client order")
def client_order_unknown_after_a_later_refusal() -> Story:
    """A write is unknown; a later one of the same session is refused in a state without it. Then it takes effect."""
    story = ensemble()
    lost = story.invoke()
    story.complete(1, lost, outcome="unknown", node=2)
    seq = story.invoke(version=3)
    story.complete(1, seq, (1, 3), "failed", error="bad version")
    story.commit(txn=[1, lost, [["set", "/a", 3, 1000 + lost]]])
    story.settle()
    return story


def _write_after_a_refusal(error: str, **fields: Any) -> Story:
    """Return a run with an unknown write that takes effect after its client was refused something impossible."""
    story = ensemble()
    lost = story.invoke()
    story.complete(1, lost, outcome="unknown", node=2)
    story.complete(1, story.invoke(op="delete", path="b"), outcome="failed", error=error, **fields)
    story.commit(txn=[1, lost, [["set", "/a", 3, 1000 + lost]]])
    story.settle()
    return story


@violates("client order")
def client_order_unknown_after_a_bad_path() -> Story:
    """An unknown write takes effect when its client has been told by another node that a path is bad."""
    return _write_after_a_refusal("bad path")


@ends("UNKNOWN", "client order", "PASS")
def client_order_unknown_after_a_bad_path_as_far_as_is_known() -> Story:
    """The same, but records are missing: what the node that refused had delivered is not known."""
    story = client_order_unknown_after_a_bad_path()
    story.run["nodes"] = 4
    return story


@legal("client order")
def client_order_unknown_after_a_refusal_of_nothing() -> Story:
    """The same, but the other node was overloaded, which says nothing."""
    return _write_after_a_refusal("overloaded")


@legal("client order")
def client_order_unknown_after_a_refusal_by_nobody() -> Story:
    """The same, but the client did not even send the request."""
    return _write_after_a_refusal("bad request", node=None)


@legal("client order")
def client_order_unknown_before_a_bad_path() -> Story:
    """An unknown write has taken effect when its client is told by another node that a path is bad."""
    story = ensemble()
    lost = story.invoke()
    story.complete(1, lost, outcome="unknown", node=2)
    story.commit(txn=[1, lost, [["set", "/a", 3, 1000 + lost]]])
    story.complete(1, story.invoke(op="delete", path="b"), outcome="failed", error="bad path")
    story.settle()
    return story


@violates("client order")
def client_order_after_its_fence() -> Story:
    """A write takes effect after the fence that was to keep it out."""
    story = ensemble()
    lost = story.invoke()
    story.complete(1, lost, outcome="unknown", node=2)
    story.commit(txn=[1, lost, [["fence", "", None, None]]])
    story.commit(txn=[1, lost, [["set", "/a", 3, 1000 + lost]]])
    story.settle()
    return story


@violates("client order")
def client_order_superseded_by_nothing() -> Story:
    """A write is refused as superseded, and nothing of its client came after it."""
    story = ensemble()
    seq = story.invoke()
    story.complete(1, seq, (1, 3), "failed", error="superseded")
    story.write()
    story.settle()
    return story


@violates("client order")
def client_order_superseded_by_a_fence() -> Story:
    """A write is refused as superseded behind a fence of its client, which keeps out what was unknown when it was ordered."""
    story = ensemble()
    lost = story.invoke()
    story.commit(txn=[1, lost, [["fence", "", None, None]]])
    story.complete(1, lost, (1, 4), "failed", error="superseded")
    story.settle()
    return story


@violates("client order")
def client_order_read_of_a_later_write() -> Story:
    """A read shows what its client asked for after it."""
    story = ensemble()
    read = story.invoke(1, "get")
    late = story.invoke(1)
    zxid = story.commit((1, late))
    story.answer_read(1, read, zxid)
    story.complete(1, late, zxid)
    story.settle()
    return story


@violates("client order")
def client_order_refusal_older_than_a_read() -> Story:
    """A read shows version 3. The set that its client sent after it, for version 3, is refused in the light of version 2."""
    story = ensemble()
    read, seq = story.invoke(1, "get"), story.invoke(version=3)
    zxid = story.write(client=2)
    story.answer_read(1, read, zxid)
    story.complete(1, seq, (1, 3), "failed", error="bad version")
    story.settle()
    return story


@legal("client order")
def client_order_refusal_as_old_as_a_read() -> Story:
    """A read shows what the refusal of the next write rests on, too; both are told when there is something newer."""
    story = ensemble()
    read, seq = story.invoke(1, "get"), story.invoke(version=3)
    story.write(client=2)
    story.answer_read(1, read, (1, 3))
    story.complete(1, seq, (1, 3), "failed", error="bad version")
    story.settle()
    return story


@violates("client order", "values and versions")
def client_order_node_goes_back() -> Story:
    """Node 2 shows 1:3, restarts from its snapshot at 1:2, and shows that to a session that has seen nothing."""
    story = ensemble(writes=2)
    for node in story.servers:
        story.take_snapshot(node)
    story.write()
    story.read(1, (1, 3), node=2)
    story.crash(2)
    story.boot(2)
    story.read(2, (1, 2), node=2)
    story.join(2)
    story.settle()
    return story


@violates("client order", "values and versions")
def client_order_node_goes_back_behind_an_early_read() -> Story:
    """Node 2 shows 1:4 and 1:5, restarts from its snapshot at 1:3, and shows that. The read that shows 1:4 was sent early."""
    story = ensemble()
    for node in story.servers:
        story.take_snapshot(node)
    early = story.invoke(3, "get")
    story.write()
    story.write()
    story.read(1, (1, 5), node=2)
    story.crash(2)
    story.boot(2)
    story.read(2, (1, 3), node=2)
    story.join(2)
    story.answer_read(3, early, (1, 4), node=2)
    story.settle()
    return story


@violates("client order", "values and versions")
def client_order_node_goes_back_without_a_read() -> Story:
    """Node 2 acknowledges 1:4, restarts, and shows 1:3 to another session."""
    story = ensemble()
    for node in story.servers:
        story.take_snapshot(node)
    seq = story.invoke()
    story.complete(1, seq, story.commit((1, seq)), node=2)
    story.crash(2)
    story.boot(2)
    story.read(2, (1, 3), node=2)
    story.join(2)
    story.settle()
    return story


@legal("client order")
def client_order_unknown_before_the_next_answer() -> Story:
    """An unknown write takes effect just before what its client asks next, on another node."""
    story = ensemble()
    lost = story.invoke()
    story.complete(1, lost, outcome="unknown", node=2)
    story.commit(txn=[1, lost, [["set", "/a", 3, 1000 + lost]]])
    story.read()
    seq = story.invoke(version=2)
    story.complete(1, seq, (1, 4), "failed", error="bad version")
    story.write()
    story.settle()
    return story


@legal("client order")
def client_order_fenced() -> Story:
    """An unknown write takes effect before its fence; another one never does. A fence may come twice."""
    story = ensemble()
    first, second = story.invoke(), story.invoke()
    for seq in (first, second):
        story.complete(1, seq, outcome="unknown", node=2)
    story.commit(txn=[1, first, [["set", "/a", 3, 1000 + first]]])
    for _ in range(2):
        story.commit(txn=[1, second, [["fence", "", None, None]]])
    story.read()
    story.write()
    story.settle()
    return story


@legal("client order")
def client_order_reads_cross() -> Story:
    """Two reads are on their way to node 1 at once; the one that was sent later is answered first, and newer."""
    story = ensemble()
    early = story.invoke(3, "get")
    late = story.invoke(2, "get")
    story.commit()
    story.answer_read(2, late, (1, 4))
    story.answer_read(3, early, (1, 3))
    story.settle()
    return story


@legal("client order")
def client_order_of_lines_that_were_written_late() -> Story:
    """Two clients read the same state at node 1, one after the other. The lines of the second one come first in the file."""
    story = ensemble()
    story.read(2)
    story.read(3)
    lines = story.files["ops.jsonl"]
    lines[-4:] = [*lines[-2:], *lines[-4:-2]]
    story.settle()
    return story


@legal("client order")
def client_order_node_lost_its_disk() -> Story:
    """Node 2 leads epoch 2, shows 2:1, loses its disk, and follows the leader of epoch 1, who does not know that this is over.
    It can't remember what it had shown."""
    story = ensemble()
    story.elect(2, epoch=2, members=[2, 3])
    story.read(2, story.write())
    story.wipe(2)
    story.boot(2, "amnesiac")
    story.leader = 1
    story.promise(2, 1)
    story.synchronize(2, 1)
    story.serve((2,), 1)
    story.read(3, node=2)
    story.elect(3, epoch=3)
    story.settle()
    return story
