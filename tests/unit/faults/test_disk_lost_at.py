"""Crash points with `wipe`: the disk is lost when the point is reached; a drawn schedule loses one disk at a time."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.faults.conftest import Play
from zab_chaos.faults.nemesis import draw, is_exclusive
from zab_chaos.faults.registry import KINDS
from zab_chaos.faults.scenario import FaultStep, Nemesis, ScenarioError, parse
from zab_chaos.faults.targets import size


def lost_at(at: float, target: Any, lasts: float) -> FaultStep:
    defaults = {key.name: key.default for key in KINDS["crash-at"].keys}
    params = {**defaults, "point": "after-send:ACK-E", "wipe": True, "enough": "none"}
    return FaultStep(at=at, do="crash-at", target=target, lasts=lasts, params=params)


def reach(play: Play, *nodes: int) -> None:
    """Let nodes die as at their armed point."""
    for node in nodes:
        (Path(play.cluster.disk_folder(node)) / "log-1").write_bytes(b"x")
        os.kill(play.cluster.pid(node), signal.SIGKILL)
        play.cluster.wait_exit(node, 5.0)


def holds(play: Play, node: int) -> bool:
    return Path(play.cluster.disk_folder(node)).exists()


def test_the_disk_is_gone_when_the_point_is_reached_and_not_before(play: Callable[..., Play]) -> None:
    p = play(lost_at(0, "node-2", 5))
    p.scheduler.due(100.0)
    assert holds(p, 2)
    reach(p, 2)
    p.scheduler.due(101.0)
    assert not holds(p, 2)
    assert not p.cluster.alive(2), "it is down until the fault heals"
    p.scheduler.due(105.0)
    assert p.cluster.alive(2)
    assert p.told() == [("inject", 1, True), ("inject", 2, True), ("heal", 1, True), ("heal", 2, True)]
    wipe = p.lines()[1]
    assert (wipe["do"], wipe["nodes"], wipe["evidence"]) == ("wipe", [2], {"2": {"wiped": True}})


@pytest.mark.parametrize("at_the_end", [True, False])
def test_the_disk_of_a_node_that_dies_just_before_the_healing_is_lost_too(
    play: Callable[..., Play], at_the_end: bool
) -> None:
    """The node reaches the point after the scheduler has looked for the last time, at the latest while it is disarmed."""
    p = play(lost_at(0, "node-2", 5))
    p.scheduler.due(100.0)

    def die(command: str, node: int) -> bool:
        if command == "disarm":
            reach(p, node)
        return command == "disarm"

    p.cluster.failing = die
    p.scheduler.heal_all() if at_the_end else p.scheduler.due(105.0)
    p.scheduler.due(106.0)
    assert not holds(p, 2)
    assert p.cluster.alive(2)
    assert p.told() == [("inject", 1, True), ("inject", 2, True), ("heal", 1, True), ("heal", 2, True)]


def test_a_restart_of_a_node_that_has_just_died_there_finds_the_disk_lost(play: Callable[..., Play]) -> None:
    p = play(lost_at(0, "node-2", 5))
    p.scheduler.due(100.0)
    reach(p, 2)
    keys = {key.name: key.default for key in KINDS["restart"].keys}
    restart = p.scheduler.inject(FaultStep(at=0.0, do="restart", target="node-2", lasts=None, params=keys))
    assert restart.step.do == "restart"
    assert p.cluster.alive(2)
    assert not holds(p, 2)
    assert [line["do"] for line in p.lines() if line["type"] == "inject"] == ["crash-at", "restart", "wipe"]
    times = [line["t"] for line in p.lines()]
    assert times == sorted(times), "the judge takes a line that is earlier than the one before it as damage"


def test_a_node_that_does_not_reach_the_point_keeps_its_disk(play: Callable[..., Play]) -> None:
    p = play(lost_at(0, ("node-1", "node-2"), 5))
    (Path(p.cluster.disk_folder(1)) / "log-1").write_bytes(b"x")
    p.scheduler.due(100.0)
    reach(p, 2)
    p.scheduler.due(101.0)
    p.scheduler.due(105.0)
    assert (holds(p, 1), holds(p, 2)) == (True, False)
    assert [line["nodes"] for line in p.lines() if line.get("do") == "wipe"] == [[2]]


def test_a_node_that_is_up_again_keeps_its_disk(play: Callable[..., Play]) -> None:
    """The node was started again before the scheduler saw that it had been down."""
    p = play(lost_at(0, "node-2", 5))
    p.scheduler.due(100.0)
    reach(p, 2)
    p.cluster.start(2)
    p.scheduler.due(101.0)
    assert holds(p, 2)
    assert [run.step.do for run in p.scheduler.records] == ["crash-at"]


@pytest.mark.parametrize("drawn", [True, False])
def test_a_drawn_schedule_loses_no_second_disk(play: Callable[..., Play], drawn: bool) -> None:
    """Node 1 loses its disk before node 2 reaches its point, and is not a member again by then."""
    wipe = FaultStep(at=1, do="wipe", target="node-1", lasts=1, params={"crash-at": None, "enough": "all"})
    p = play(lost_at(0, "node-2", 9), wipe, drawn=drawn)
    (Path(p.cluster.disk_folder(1)) / "log-1").write_bytes(b"x")
    p.scheduler.due(100.0)
    p.scheduler.due(101.0)
    p.cluster.amnesiac = {1}
    p.scheduler.due(102.0)
    reach(p, 2)
    p.scheduler.due(103.0)
    assert (holds(p, 1), holds(p, 2)) == (False, drawn)


def test_a_drawn_crash_with_wipe_has_one_target_and_counts_as_a_lost_disk() -> None:
    only = Nemesis(every=(0.2, 0.5), faults={"crash-at": 1.0, "wipe": 1.0}, keep_quorum=False)
    steps = [step for seed in range(40) for step in draw(only, 5, 60.0, seed)]
    taking = [step for step in steps if step.do == "crash-at" and step.params["wipe"]]
    assert taking
    assert all(is_exclusive(step) and size(step.target, 5) == 1 for step in taking)
    assert {step.params["variant"] for step in taking} == {"plain"}
    assert any(step.target == "all" for step in steps if step.do == "crash-at" and not step.params["wipe"])


def test_a_variant_and_a_wipe_exclude_each_other() -> None:
    text = """
[scenario]
name = "both"
about = "A part of the disk, and all of it."
nodes = 3
duration = 5

[[fault]]
at = 1
do = "crash-at"
target = "one"
point = "after-sync:EPOCH"
variant = "torn"
wipe = true
"""
    with pytest.raises(ScenarioError, match="wipe = true loses all of it"):
        parse(text)
