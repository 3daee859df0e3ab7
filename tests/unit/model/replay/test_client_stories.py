"""What clients are promised across fail-overs, on real replicas in lockstep. Each story is told as it went wrong once."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.model.replay.conftest import World
from zab_chaos.model.replay.replay import replay
from zab_chaos.node.core.zxid import ZERO
from zab_chaos.node.events import ClientGone, ClientRequests, ClientUp, Received
from zab_chaos.node.tree.forwarding import Forward
from zab_chaos.node.tree.outcomes import Failed, Ok, Unknown
from zab_chaos.node.tree.requests import Create, Get, Request, Set

WRITER, LATER = 901, 902
MS = 1_000_000


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "run", 3)


def events(world: World, node: int) -> list[dict[str, Any]]:
    """The node's latest life as its trace has it."""
    path = world.folder / "trace" / f"node-{node}-{world.lives[node]}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_new_primary_judges_by_all_of_its_initial_history(world: World) -> None:
    """After a power cut everything is in the logs and nothing in the trees, and writes wait for the new leader."""
    world.start(1, 2, 3)
    leader = world.until_led()
    world.ask(leader, ClientUp(WRITER, ZERO))
    world.ask(leader, ClientRequests(WRITER, [(1, Create("/a", b"v0")), (2, Set("/a", b"v1", 0))]))
    world.rounds(10)
    world.kill(1, 2, 3)
    world.start(1, 2, 3)
    world.rounds(1)
    for node in world.members:
        requests: list[tuple[int, Request]] = [
            (1, Create("/a", b"again")),
            (2, Set("/a", b"v2", 1)),
            (3, Create(f"/{node}")),
        ]
        world.ask(node, ClientUp(LATER + node, ZERO), ClientRequests(LATER + node, requests))
    leader = world.until_led()
    world.rounds(10)
    told = {node: dict(world.links[node].answers) for node in world.members}
    assert [type(told[node][1]) for node in world.members] == [Failed] * 3
    assert sum(isinstance(told[node][2], Ok) for node in world.members) == 1
    assert [type(told[node][3]) for node in world.members] == [Ok] * 3
    for replica in world.replicas.values():
        znode = replica.application.tree.znodes["/a"]
        assert (znode.data, znode.version) == (b"v2", 2)
    order = [event["event"] for event in events(world, leader) if event["event"] in ("deliver", "broadcast")]
    assert order[:2] == ["deliver", "broadcast"]
    world.stop()
    assert [one.difference for one in replay(world.folder)] == [None] * 6


def test_a_new_primary_prepares_what_has_waited_in_the_round_of_its_establishment(world: World) -> None:
    """No sleep lies between the delivery of the initial history and the first broadcast."""
    world.start(1, 2, 3)
    leader = world.until_led()
    world.rounds(3, writes=3, at=leader)
    world.kill(leader)
    asked = False
    for _ in range(1000):
        for node, replica in list(world.replicas.items()):
            world.now += 1_000_000
            led = replica.machine.primary
            if replica.machine.role.name == "LEADING" and not asked:
                asked = True
                world.ask(node, ClientUp(LATER, ZERO), ClientRequests(LATER, [(1, Create("/b"))]))
            world.round(node, 0)
            if replica.machine.primary and not led:
                assert asked
                assert [e["event"] for e in events(world, node)].count("broadcast") == 1
                return
    raise AssertionError("nobody leads")


def hold(world: World, node: int, peer: int, *kinds: type) -> list[Any]:
    """Take frames with such messages out of what has come to a node from a peer: they are late."""
    box = world.links[node].inbox
    late = [it for it in box if type(it) is Received and it.peer == peer and isinstance(it.messages[0], kinds)]
    box[:] = [it for it in box if it not in late]
    return late


def turn(world: World, count: int, *held: tuple[int, int, type]) -> list[Any]:
    """Rounds in which some messages do not arrive: (node, peer, kind). Returns them."""
    late = []
    for _ in range(count):
        world.now += 10 * MS
        for node in list(world.replicas):
            for at, peer, kind in held:
                late += hold(world, at, peer, kind)
            world.round(node, 0)
    return late


@pytest.mark.parametrize("fence", [1, 0])
def test_a_late_write_takes_no_effect_after_the_session_has_gone_on_elsewhere(world: World, fence: int) -> None:
    """Its FORWARD is late, and the client has gone on at another node. The one that does not tell its fence reads too early."""
    world.start(1, 2, 3)
    leader = world.until_led()
    follower = 1 if leader != 1 else 2
    world.ask(leader, ClientUp(LATER, ZERO), ClientRequests(LATER, [(1, Create("/a", b"v0"))]))
    world.rounds(5)
    world.ask(follower, ClientUp(WRITER, ZERO), ClientRequests(WRITER, [(1, Set("/a", b"first"))]))
    late = turn(world, 2, (leader, follower, Forward))
    assert len(late) == 1
    world.ask(follower, ClientGone(WRITER, "moved"))
    world.ask(leader, ClientUp(WRITER, ZERO, fence))
    world.ask(leader, ClientRequests(WRITER, [(2, Get("/a")), (3, Set("/a", b"second")), (4, Get("/a"))]))
    turn(world, 8, (leader, follower, Forward))
    told = dict(world.links[leader].answers[1:])
    assert [told[seq].data for seq in (2, 4)] == [b"v0", b"second"]
    world.links[leader].inbox += late
    world.ask(leader, ClientRequests(WRITER, [(5, Get("/a"))]))
    turn(world, 8)
    assert world.links[leader].answers[-1][1].data == b"second"
    assert world.links[follower].answers == []


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_look_up_after_unknown_sees_what_the_next_leader_will_deliver(world: World, elsewhere: bool) -> None:
    """The leader dies when its proposal of the write is in its followers' logs: whether it is committed is for the next one.

    The session stays on its node, or goes on at the other one. What it looks up there is what stays.
    """
    world.start(1, 2, 3)
    leader = world.until_led()
    node, other = [each for each in world.members if each != leader]
    world.ask(node, ClientUp(WRITER, ZERO), ClientRequests(WRITER, [(1, Create("/a", b"v0"))]))
    world.rounds(5)
    world.ask(node, ClientRequests(WRITER, [(2, Set("/a", b"v1", 0))]))
    followers = [world.replicas[each].machine for each in (node, other)]
    while not any(each.history.last > each.delivered for each in followers):
        world.rounds(1)
    world.kill(leader)
    asked: list[tuple[int, Request]] = [(3, Get("/a"))]
    if elsewhere:
        world.ask(node, ClientGone(WRITER, "moved"))
        world.ask(other, ClientUp(WRITER, ZERO, 2), ClientRequests(WRITER, asked))
    else:
        world.rounds(1)
        assert isinstance(dict(world.links[node].answers)[2], Unknown)
        world.ask(node, ClientRequests(WRITER, asked))
    at = other if elsewhere else node
    world.until_led()
    world.rounds(10)
    found = dict(world.links[at].answers)[3]
    assert isinstance(found, Ok)
    stays = {
        (r.application.tree.znodes["/a"].data, r.application.tree.znodes["/a"].version) for r in world.replicas.values()
    }
    assert stays == {(found.data, found.version)} == {(b"v1", 1)}


def test_a_restarted_node_reads_nothing_before_it_has_joined_a_leader(world: World) -> None:
    """What its disk holds may be older than what it had shown. Once it has joined, it answers without a leader too."""
    world.start(1, 2, 3)
    world.until_led()
    world.ask(1, ClientUp(WRITER, ZERO), ClientRequests(WRITER, [(1, Create("/a", b"v")), (2, Get("/a"))]))
    world.rounds(10)
    assert world.links[1].answers[-1][1].data == b"v"
    world.kill(1, 2, 3)
    world.start(1)
    world.rounds(2)
    world.ask(1, ClientUp(LATER, ZERO), ClientRequests(LATER, [(1, Get("/a"))]))
    world.rounds(10)
    assert world.links[1].answers == []
    world.rounds(100)  # longer than a node waits for a leader
    assert [(seq, outcome.error) for seq, outcome in world.links[1].answers] == [(1, "no leader")]
    world.start(2, 3)
    world.until_led()
    world.ask(1, ClientRequests(LATER, [(2, Get("/a"))]))
    world.rounds(5)
    assert world.links[1].answers[-1][1].data == b"v"
    world.kill(2, 3)
    world.rounds(2)
    assert not world.replicas[1].machine.in_broadcast
    world.ask(1, ClientRequests(LATER, [(3, Get("/a"))]))
    world.rounds(2)
    assert world.links[1].answers[-1][1].data == b"v"
