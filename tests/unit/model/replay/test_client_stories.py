"""The guarantees to clients across fail-overs, on real replicas round by round. Each test repeats a bug that there was once."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.model.replay.conftest import InMemoryEnsemble
from zab_chaos.model.replay.replay import replay
from zab_chaos.node.core.zxid import ZERO
from zab_chaos.node.events import ClientGone, ClientRequests, ClientUp, Received
from zab_chaos.node.tree.forwarding import Forward
from zab_chaos.node.tree.outcomes import Failed, Ok, Unknown
from zab_chaos.node.tree.requests import Create, Get, Request, Set

WRITER, LATER = 901, 902
MS = 1_000_000


@pytest.fixture
def ensemble(tmp_path: Path) -> InMemoryEnsemble:
    return InMemoryEnsemble(tmp_path / "run", 3)


def events(ensemble: InMemoryEnsemble, node: int) -> list[dict[str, Any]]:
    """Return the trace of a node's latest life."""
    path = ensemble.folder / "trace" / f"node-{node}-{ensemble.lives[node]}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_new_primary_judges_by_all_of_its_initial_history(ensemble: InMemoryEnsemble) -> None:
    """After a power cut all transactions are in the logs and none in the trees, and writes wait for the new leader."""
    ensemble.start(1, 2, 3)
    leader = ensemble.until_led()
    ensemble.ask(leader, ClientUp(WRITER, ZERO))
    ensemble.ask(leader, ClientRequests(WRITER, [(1, Create("/a", b"v0")), (2, Set("/a", b"v1", 0))]))
    ensemble.rounds(10)
    ensemble.kill(1, 2, 3)
    ensemble.start(1, 2, 3)
    ensemble.rounds(1)
    for node in ensemble.members:
        requests: list[tuple[int, Request]] = [
            (1, Create("/a", b"again")),
            (2, Set("/a", b"v2", 1)),
            (3, Create(f"/{node}")),
        ]
        ensemble.ask(node, ClientUp(LATER + node, ZERO), ClientRequests(LATER + node, requests))
    leader = ensemble.until_led()
    ensemble.rounds(10)
    told = {node: dict(ensemble.links[node].answers) for node in ensemble.members}
    assert [type(told[node][1]) for node in ensemble.members] == [Failed] * 3
    assert sum(isinstance(told[node][2], Ok) for node in ensemble.members) == 1
    assert [type(told[node][3]) for node in ensemble.members] == [Ok] * 3
    for replica in ensemble.replicas.values():
        znode = replica.application.tree.znodes["/a"]
        assert (znode.data, znode.version) == (b"v2", 2)
    order = [event["event"] for event in events(ensemble, leader) if event["event"] in ("deliver", "broadcast")]
    assert order[:2] == ["deliver", "broadcast"]
    ensemble.stop()
    assert [one.difference for one in replay(ensemble.folder)] == [None] * 6


def test_a_new_primary_prepares_waiting_requests_in_the_round_of_its_establishment(ensemble: InMemoryEnsemble) -> None:
    """The node does not sleep between the delivery of the initial history and the first broadcast."""
    ensemble.start(1, 2, 3)
    leader = ensemble.until_led()
    ensemble.rounds(3, writes=3, at=leader)
    ensemble.kill(leader)
    asked = False
    for _ in range(1000):
        for node, replica in list(ensemble.replicas.items()):
            ensemble.now += 1_000_000
            led = replica.machine.primary
            if replica.machine.role.name == "LEADING" and not asked:
                asked = True
                ensemble.ask(node, ClientUp(LATER, ZERO), ClientRequests(LATER, [(1, Create("/b"))]))
            ensemble.round(node, 0)
            if replica.machine.primary and not led:
                assert asked
                assert [e["event"] for e in events(ensemble, node)].count("broadcast") == 1
                return
    raise AssertionError("nobody leads")


def remove_from_inbox(ensemble: InMemoryEnsemble, node: int, peer: int, *kinds: type) -> list[Any]:
    """Remove the messages of these kinds from a peer from a node's inbox, and return them."""
    box = ensemble.links[node].inbox
    late = [it for it in box if type(it) is Received and it.peer == peer and isinstance(it.messages[0], kinds)]
    box[:] = [it for it in box if it not in late]
    return late


def rounds_without(ensemble: InMemoryEnsemble, count: int, *held: tuple[int, int, type]) -> list[Any]:
    """Execute rounds in which messages of (node, peer, kind) do not arrive. Return these messages."""
    late = []
    for _ in range(count):
        ensemble.now += 10 * MS
        for node in list(ensemble.replicas):
            for at, peer, kind in held:
                late += remove_from_inbox(ensemble, at, peer, kind)
            ensemble.round(node, 0)
    return late


@pytest.mark.parametrize("fence", [1, 0])
def test_a_late_write_takes_no_effect_after_the_session_has_gone_on_elsewhere(
    ensemble: InMemoryEnsemble, fence: int
) -> None:
    """Its FORWARD is late, and the client has connected to another node, with its fence or without."""
    ensemble.start(1, 2, 3)
    leader = ensemble.until_led()
    follower = 1 if leader != 1 else 2
    ensemble.ask(leader, ClientUp(LATER, ZERO), ClientRequests(LATER, [(1, Create("/a", b"v0"))]))
    ensemble.rounds(5)
    ensemble.ask(follower, ClientUp(WRITER, ZERO), ClientRequests(WRITER, [(1, Set("/a", b"first"))]))
    late = rounds_without(ensemble, 2, (leader, follower, Forward))
    assert len(late) == 1
    ensemble.ask(follower, ClientGone(WRITER, "moved"))
    ensemble.ask(leader, ClientUp(WRITER, ZERO, fence))
    ensemble.ask(leader, ClientRequests(WRITER, [(2, Get("/a")), (3, Set("/a", b"second")), (4, Get("/a"))]))
    rounds_without(ensemble, 8, (leader, follower, Forward))
    told = dict(ensemble.links[leader].answers[1:])
    assert [told[seq].data for seq in (2, 4)] == [b"v0", b"second"]
    ensemble.links[leader].inbox += late
    ensemble.ask(leader, ClientRequests(WRITER, [(5, Get("/a"))]))
    rounds_without(ensemble, 8)
    assert ensemble.links[leader].answers[-1][1].data == b"second"
    assert ensemble.links[follower].answers == []


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_look_up_after_unknown_sees_what_the_next_leader_will_deliver(
    ensemble: InMemoryEnsemble, elsewhere: bool
) -> None:
    """The leader dies when its proposal of the write is in its followers' logs: the next leader decides if it is committed.

    The session stays on its node, or moves to the other one. What it finds there must not change afterwards.
    """
    ensemble.start(1, 2, 3)
    leader = ensemble.until_led()
    node, other = [each for each in ensemble.members if each != leader]
    ensemble.ask(node, ClientUp(WRITER, ZERO), ClientRequests(WRITER, [(1, Create("/a", b"v0"))]))
    ensemble.rounds(5)
    ensemble.ask(node, ClientRequests(WRITER, [(2, Set("/a", b"v1", 0))]))
    followers = [ensemble.replicas[each].machine for each in (node, other)]
    while not any(each.history.last > each.delivered for each in followers):
        ensemble.rounds(1)
    ensemble.kill(leader)
    asked: list[tuple[int, Request]] = [(3, Get("/a"))]
    if elsewhere:
        ensemble.ask(node, ClientGone(WRITER, "moved"))
        ensemble.ask(other, ClientUp(WRITER, ZERO, 2), ClientRequests(WRITER, asked))
    else:
        ensemble.rounds(1)
        assert isinstance(dict(ensemble.links[node].answers)[2], Unknown)
        ensemble.ask(node, ClientRequests(WRITER, asked))
    at = other if elsewhere else node
    ensemble.until_led()
    ensemble.rounds(10)
    found = dict(ensemble.links[at].answers)[3]
    assert isinstance(found, Ok)
    stays = {
        (r.application.tree.znodes["/a"].data, r.application.tree.znodes["/a"].version)
        for r in ensemble.replicas.values()
    }
    assert stays == {(found.data, found.version)} == {(b"v1", 1)}


def test_a_restarted_node_reads_nothing_before_it_has_joined_a_leader(ensemble: InMemoryEnsemble) -> None:
    """The state on its disk may be older than the one it had shown. Once it has joined, it answers without a leader, too."""
    ensemble.start(1, 2, 3)
    ensemble.until_led()
    ensemble.ask(1, ClientUp(WRITER, ZERO), ClientRequests(WRITER, [(1, Create("/a", b"v")), (2, Get("/a"))]))
    ensemble.rounds(10)
    assert ensemble.links[1].answers[-1][1].data == b"v"
    ensemble.kill(1, 2, 3)
    ensemble.start(1)
    ensemble.rounds(2)
    ensemble.ask(1, ClientUp(LATER, ZERO), ClientRequests(LATER, [(1, Get("/a"))]))
    ensemble.rounds(10)
    assert ensemble.links[1].answers == []
    ensemble.rounds(100)  # longer than a node waits for a leader
    assert [(seq, outcome.error) for seq, outcome in ensemble.links[1].answers] == [(1, "no leader")]
    ensemble.start(2, 3)
    ensemble.until_led()
    ensemble.ask(1, ClientRequests(LATER, [(2, Get("/a"))]))
    ensemble.rounds(5)
    assert ensemble.links[1].answers[-1][1].data == b"v"
    ensemble.kill(2, 3)
    ensemble.rounds(2)
    assert not ensemble.replicas[1].machine.in_broadcast
    ensemble.ask(1, ClientRequests(LATER, [(3, Get("/a"))]))
    ensemble.rounds(2)
    assert ensemble.links[1].answers[-1][1].data == b"v"
