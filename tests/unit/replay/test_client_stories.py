"""What clients are promised across fail-overs, on real replicas in lockstep. Each story is told as it went wrong once."""

import json
from pathlib import Path
from typing import Any

import pytest

from model.replay import replay
from node.core.zxid import ZERO
from node.events import ClientRequests, ClientUp
from node.tree.outcomes import Failed, Ok
from node.tree.requests import Create, Set
from tests.unit.replay.conftest import World

WRITER, LATER = 901, 902


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
        requests = [(1, Create("/a", b"again")), (2, Set("/a", b"v2", 1)), (3, Create(f"/{node}"))]
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
