"""When a simulated server takes what has arrived."""

from typing import Any
from unittest.mock import MagicMock

from zab_chaos.model.world.machine import build
from zab_chaos.model.world.world import SimPlan, World

SECOND = 1_000_000_000


def test_a_command_during_a_sync_is_handled_when_the_sync_has_ended() -> None:
    world, sink = World(1), MagicMock()
    sink.recording.return_value = None
    _, nodes = build(world, SimPlan(nodes=3), sink)
    for node in nodes.values():
        node.spawn()
    server = nodes[1].server
    assert server is not None

    def sync_ends() -> int | None:
        return next((at for at, _, action, _ in world.heap if action == server._synced), None)

    assert world.run_until(lambda: sync_ends() is not None, 5 * SECOND)
    ends, answers = sync_ends(), list[Any]()
    server.ask("status", {}, answers.append)
    assert not answers
    assert world.run_until(lambda: bool(answers), SECOND)
    assert world.now == ends
