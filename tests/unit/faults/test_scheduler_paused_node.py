"""A fault inside a node that another fault has paused is healed when the node is resumed."""

from collections.abc import Callable
from typing import Any

import pytest

from zab_chaos.faults.cluster import ClusterError
from zab_chaos.faults.scenario import FaultStep


def test_a_disk_fault_is_healed_when_its_node_is_resumed(play: Callable[..., Any]) -> None:
    scheduler = play(
        FaultStep(at=0.0, do="slow-disk", target="node-1", lasts=1.0, params={"ms": 5}),
        FaultStep(at=0.5, do="pause", target="node-1", lasts=4.0, params={}),
    ).scheduler
    scheduler.due(100.0)
    scheduler.due(100.5)
    wish = scheduler.due(101.1)
    assert [run.step.do for run in scheduler.active] == ["slow-disk", "pause"]
    assert wish is not None
    assert 101.1 < wish < 102.0  # it looks again soon
    scheduler.due(104.6)
    scheduler.due(104.7)
    assert scheduler.active == []
    assert all(run.recovered is not None and run.recovered.confirmed for run in scheduler.records)


@pytest.mark.parametrize("reached", [True, False])
def test_a_point_that_is_reached_between_two_pauses_counts(play: Callable[..., Any], reached: bool) -> None:
    """The scheduler sees a node that another fault has paused, and after that one that is paused: by its point, or still."""
    point = {"point": "after-send:COMMIT", "enough": "all"}
    p = play(
        FaultStep(at=0.0, do="pause-at", target="node-1", lasts=2.0, params=point),
        FaultStep(at=0.5, do="pause", target="node-1", lasts=4.0, params={}),
    )
    p.scheduler.due(100.0)
    p.scheduler.due(100.5)
    if reached:
        p.cluster.resume(1)
        p.cluster.reach_point(1)
    p.scheduler.due(102.0)
    assert p.told()[2:] == [("heal", 1, reached), ("heal", 2, True)]


def test_a_node_that_another_fault_paused_and_a_third_one_killed_has_not_reached_its_point(
    play: Callable[..., Any],
) -> None:
    p = play(
        FaultStep(at=0.0, do="pause-at", target="node-1", params={"point": "after-send:COMMIT", "enough": "all"}),
        FaultStep(at=0.5, do="pause", target="node-1", params={}),
        FaultStep(at=1.0, do="crash", target="node-1", params={"keeps_cache": False, "crash-at": None}),
    )
    for now in (100.0, 100.5, 100.6, 101.0):
        p.scheduler.due(now)
    assert [run.step.do for run in p.scheduler.awaiting_effect] == ["pause-at"]
    p.scheduler.heal_all()
    assert ("heal", 1, False) in p.told()


def test_a_paused_node_does_not_change_how_the_others_are_killed(play: Callable[..., Any]) -> None:
    keeps = {"keeps_cache": True, "crash-at": None, "enough": "all"}
    p = play(FaultStep(at=0.0, do="crash", target=("node-1", "node-2"), lasts=1.0, params=keeps))
    p.cluster.pause(2)
    p.scheduler.due(100.0)
    assert [(node, command, keys["variant"]) for node, command, keys in p.cluster.commands] == [
        (1, "power-cut", "killed")
    ]
    assert not p.cluster.alive(1)
    assert not p.cluster.alive(2)
    assert p.told() == [("inject", 1, True)]


AT_POINT = {"point": "after-sync:TXN", "variant": "plain", "wipe": False, "crash-at": None, "enough": "none"}


@pytest.mark.parametrize(
    ("do", "params", "commands"),
    [("crash-at", AT_POINT, ["arm", "disarm"]), ("slow-disk", {"ms": 5}, ["slow-disk", "slow-disk"])],
)
def test_a_node_that_pauses_before_it_takes_the_command_of_a_healing_is_asked_again(
    play: Callable[..., Any], do: str, params: dict[str, Any], commands: list[str]
) -> None:
    """As at the point of another fault: it is healed when that fault has resumed it."""
    p = play(FaultStep(at=0.0, do=do, target="node-1", lasts=1.0, params=params))
    p.scheduler.patience = 0.1  # for the node to end, which it does not
    p.scheduler.due(100.0)
    control = p.cluster.control

    def pause_first(node: int, command: str, **arguments: Any) -> dict[str, Any]:
        p.cluster.pause(node)
        raise ClusterError("it is paused")

    p.cluster.control = pause_first
    wish = p.scheduler.due(101.0)
    assert wish is not None
    assert p.told() == [("inject", 1, True)]
    p.cluster.control = control
    p.scheduler.due(101.1)
    assert p.told() == [("inject", 1, True)]
    p.cluster.resume(1)
    p.scheduler.due(101.2)
    assert p.told() == [("inject", 1, True), ("heal", 1, True)]
    assert [command for _, command, _ in p.cluster.commands] == commands
