"""The scheduler: due faults are injected, begun ones are healed, and the log has what the processes showed."""

import dataclasses
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.faults.conftest import Play
from zab_chaos.faults.registry import KINDS
from zab_chaos.faults.scenario import FaultStep
from zab_chaos.faults.scheduler import LEADER_SECONDS, OMITTED_SECONDS, SETTLE_SECONDS, Scheduler
from zab_chaos.node.core.ready import EpochRecord
from zab_chaos.node.store.disk import OrdinaryDisk
from zab_chaos.node.store.errors import CorruptLog
from zab_chaos.node.store.log_record import HEADER_BYTES
from zab_chaos.node.store.reader import SegmentReader
from zab_chaos.node.store.store import Store


def step(at: float, do: str, target: Any = None, lasts: float | None = None, **params: Any) -> FaultStep:
    defaults = {key.name: key.default for key in KINDS[do].keys}
    written = {name.replace("_at", "-at"): value for name, value in params.items()}
    return FaultStep(at=at, do=do, target=target, lasts=lasts, params=defaults | written)


def test_a_crash_is_injected_at_its_time_and_heals_by_itself(play: Callable[..., Play]) -> None:
    p = play(step(2, "crash", "leader", 3))
    assert p.scheduler.due(101.0) == 102.0
    assert p.cluster.alive(1)
    pid = p.cluster.pid(1)
    assert p.scheduler.due(102.0) == 105.0
    assert not p.cluster.alive(1)
    assert [run.describe() for run in p.scheduler.active] == ["node 1 killed"]
    assert p.scheduler.due(104.9) == 105.0
    assert not p.cluster.alive(1)
    assert p.scheduler.due(105.0) is None
    assert p.cluster.alive(1)
    inject, heal = p.lines()
    assert inject | {"t": 0} == {
        "type": "inject",
        "t": 0,
        "id": 1,
        "do": "crash",
        "target": "leader",
        "nodes": [1],
        "params": {"keeps_cache": False, "crash-at": None, "enough": "all"},
        "confirmed": True,
        "evidence": {"1": {"pid": pid, "exit": -9}},
    }
    assert heal["confirmed"] is True
    assert heal["id"] == 1
    assert heal["t"] > inject["t"] > 0


def test_all_lose_power_and_come_back(play: Callable[..., Play]) -> None:
    p = play(step(0, "power-cut", "all", 1), step(3, "power-cut", "all", 1, variant="torn"))
    p.scheduler.due(100.0)
    assert not any(p.cluster.alive(node) for node in p.cluster.nodes)
    p.scheduler.due(101.0)
    assert all(p.cluster.alive(node) for node in p.cluster.nodes)
    p.scheduler.due(103.0)
    assert [(node, command) for node, command, _ in p.cluster.commands] == [(n, "power-cut") for n in (1, 2, 3)]
    assert len({arguments["seed"] for _, _, arguments in p.cluster.commands}) == 3
    p.scheduler.heal_all()
    assert p.told() == [("inject", 1, True), ("heal", 1, True), ("inject", 2, True), ("heal", 2, True)]


def test_a_slow_disk_is_slow_again_after_a_restart_and_a_shorter_fault(play: Callable[..., Play]) -> None:
    p = play(
        step(0, "slow-disk", "node-2", 9, ms=50),
        step(1, "slow-disk", "node-2", 1, ms=20),
        step(3, "crash", "node-2", 1),
    )
    for now in (100.0, 101.0, 102.0, 103.0, 104.0, 109.0):
        p.scheduler.due(now)
    assert [arguments["ms"] for _, _, arguments in p.cluster.commands] == [50, 20, 0, 50, 50, 0]


def test_a_restart_heals_the_crash_before_it(play: Callable[..., Play]) -> None:
    p = play(step(0, "crash", ["node-2"]), step(1, "restart", "one"))
    p.scheduler.due(100.0)
    assert len(p.scheduler.active) == 1
    p.scheduler.due(101.0)
    assert p.cluster.alive(2)
    assert p.scheduler.active == []
    assert p.told() == [("inject", 1, True), ("inject", 2, True), ("heal", 1, True), ("heal", 2, True)]


def test_a_paused_process_is_seen_stopped_and_wakes_up(play: Callable[..., Play]) -> None:
    p = play(step(0, "pause", "node-3", 1))
    p.scheduler.due(100.0)
    assert p.cluster.paused(3)
    p.scheduler.due(101.0)
    assert not p.cluster.paused(3)
    assert p.lines()[0]["evidence"]["3"]["state"] == "stopped"
    assert all(line["confirmed"] for line in p.lines())


def test_healing_everything_goes_in_a_safe_order_and_starts_the_dead(play: Callable[..., Play]) -> None:
    p = play(step(0, "crash", "node-1"), step(0, "slow-disk", "node-2", ms=5), step(0, "pause", "node-3"))
    p.scheduler.due(100.0)
    os.kill(p.cluster.pid(2), signal.SIGKILL)  # one that nobody is responsible for
    p.cluster.wait_exit(2, 5.0)
    healed = p.scheduler.heal_all()
    assert [run.step.do for run in healed] == ["pause", "slow-disk", "crash"]
    assert all(p.cluster.alive(node) and not p.cluster.paused(node) for node in p.cluster.nodes)
    assert p.scheduler.heal_all() == []


def test_a_failed_injection_is_unconfirmed_and_still_healed(play: Callable[..., Play]) -> None:
    p = play(step(0, "pause", ["node-1", "node-2"]), step(0, "crash", "node-3"))
    p.cluster.failing = lambda call, node: (call, node) == ("pause", 2)
    p.scheduler.due(100.0)
    assert p.cluster.paused(1)
    assert p.lines()[0]["evidence"] == {"error": "pause of node 2 fails"}
    p.cluster.failing = lambda call, node: False
    p.scheduler.close()
    assert not p.cluster.paused(1)
    assert p.cluster.alive(3)
    assert p.told()[:2] == [("inject", 1, False), ("inject", 2, True)]


def test_a_healing_that_fails_does_not_stop_the_others(play: Callable[..., Play]) -> None:
    p = play(step(0, "pause", "node-1"), step(0, "pause", "node-2"))
    p.scheduler.due(100.0)
    p.cluster.failing = lambda call, node: (call, node) == ("resume", 1)
    p.scheduler.heal_all()
    assert not p.cluster.paused(2)
    assert [(t, i, c) for t, i, c in p.told() if t == "heal"] == [
        ("heal", 1, False),
        ("heal", 2, True),
        ("heal", 0, False),
    ]


def test_a_leader_is_waited_for_and_not_for_ever(play: Callable[..., Play]) -> None:
    p = play(step(1, "crash", "leader", 2), step(2, "crash", "leader"))
    p.cluster.leading = None
    wish = p.scheduler.due(101.5)
    assert wish is not None
    assert 101.5 < wish < 102.0
    assert p.scheduler.records == []
    p.cluster.leading = 2
    assert p.scheduler.due(104.0) is not None
    assert p.scheduler.records[0].nodes == [2]
    assert p.scheduler.records[0].heals_at == 106.0
    p.cluster.leading = None
    p.scheduler.due(103.9 + LEADER_SECONDS)
    assert len(p.scheduler.records) == 1  # it waits since the step before it was carried out
    p.scheduler.due(104.0 + LEADER_SECONDS)
    assert p.scheduler.records[1].nodes == []
    assert ("inject", 2, False) in p.told()


def test_nodes_that_take_long_for_everything_have_longer_to_elect_a_leader(play: Callable[..., Play]) -> None:
    p = play(step(1, "crash", "leader"))
    p.scheduler.patience = 60.0
    p.cluster.leading = None
    p.scheduler.due(101.5)
    p.scheduler.due(160.9)
    assert p.scheduler.records == []
    assert p.scheduler.progress_deadline == 161.0
    p.scheduler.due(161.0)
    assert p.scheduler.records[0].nodes == []


def test_a_restart_waits_for_the_node_to_get_to_its_crash_point(play: Callable[..., Play]) -> None:
    p = play(step(0, "crash-at", "node-1", point="after-sync:TXN"), step(1, "restart", "one"))
    p.scheduler.due(100.0)
    p.scheduler.due(101.0)
    assert len(p.scheduler.records) == 1
    os.kill(p.cluster.pid(1), signal.SIGKILL)
    p.cluster.wait_exit(1, 5.0)
    p.scheduler.due(102.0)
    assert p.scheduler.records[1].nodes == [1]
    assert all(confirmed for _, _, confirmed in p.told())


def test_a_fault_awaits_another_ones_effect(play: Callable[..., Play]) -> None:
    dying = dataclasses.replace(step(0, "crash-at", "node-1", point="after-sync:TXN"), name="Dying")
    p = play(dying, dataclasses.replace(step(1, "crash", "node-2", 5), awaits="Dying"))
    p.scheduler.due(100.0)
    p.scheduler.due(101.0)
    assert len(p.scheduler.records) == 1
    os.kill(p.cluster.pid(1), signal.SIGKILL)
    p.cluster.wait_exit(1, 5.0)
    p.scheduler.due(103.0)
    assert p.scheduler.records[1].nodes == [2]


def test_a_drawn_fault_spares_a_node_that_another_one_is_about_to_take_down(play: Callable[..., Play]) -> None:
    p = play(step(0, "disk-full", "node-1", 5), step(1, "clock-jump", "all", ms=5), nodes=5, keep_quorum=True)
    p.scheduler.due(100.0)
    p.scheduler.due(101.0)
    assert [run.nodes for run in p.scheduler.records] == [[1], [2, 3, 4, 5]]


def test_a_fault_does_not_await_another_one_for_ever(play: Callable[..., Play]) -> None:
    dying = dataclasses.replace(step(0, "crash-at", "node-1", point="after-sync:TXN"), name="Dying")
    p = play(dying, dataclasses.replace(step(1, "crash", "node-2", 5), awaits="Dying"))
    p.scheduler.due(100.0)
    p.scheduler.due(101.0 + SETTLE_SECONDS)
    assert p.scheduler.records[1].nodes == [2]


def test_a_restart_waits_for_a_limited_time_only(play: Callable[..., Play]) -> None:
    p = play(step(1, "restart", "one"))
    p.scheduler.due(101.0)
    assert p.scheduler.records == []
    p.scheduler.due(101.0 + LEADER_SECONDS)
    assert p.told() == [("inject", 1, False)]
    assert p.lines()[0]["evidence"] == {"error": "no node is down"}


def test_a_later_fault_hits_the_nodes_that_an_earlier_one_named(play: Callable[..., Play]) -> None:
    first = dataclasses.replace(step(0, "crash", "minority"), name="X")
    p = play(first, step(1, "restart", "X"), step(2, "pause", "X", 1), nodes=5)
    for now in (100.0, 101.0, 102.0):
        p.scheduler.due(now)
    hit = [run.nodes for run in p.scheduler.records]
    assert len(hit[0]) == 2
    assert hit[0] == hit[1] == hit[2]


def test_a_pause_at_a_point_is_confirmed_when_the_node_has_stopped_itself(play: Callable[..., Play]) -> None:
    p = play(
        step(0, "pause-at", ["node-1", "node-2"], 5, point="after-send:COMMIT"),
        step(6, "pause-at", "node-2", 1, point="after-send:COMMIT"),
    )
    p.scheduler.due(100.0)
    for node in (1, 2):
        p.cluster.reach_point(node)
    p.scheduler.due(101.0)
    p.scheduler.due(105.0)
    assert not p.cluster.paused(1)
    p.scheduler.due(106.0)
    p.scheduler.due(107.0)
    assert [(i, c) for t, i, c in p.told() if t == "heal"] == [(1, True), (2, False)]


def test_a_pause_at_a_point_just_before_the_end_is_confirmed(play: Callable[..., Play]) -> None:
    p = play(step(0, "pause-at", "node-1", point="after-send:COMMIT"))
    p.scheduler.due(100.0)
    p.cluster.reach_point(1)
    p.scheduler.heal_all()
    assert p.told() == [("inject", 1, True), ("heal", 1, True)]


def test_a_node_that_stays_paused_at_its_point_is_not_confirmed(play: Callable[..., Play]) -> None:
    """Nor does its healing last for ever: the next fault is healed."""
    p = play(step(0, "pause-at", "node-1", 1, point="after-send:COMMIT"), step(0, "crash", "node-2", 2))
    p.scheduler.due(100.0)
    p.cluster.reach_point(1)
    p.cluster.resume = lambda node: None
    p.cluster.failing = lambda call, node: p.cluster.paused(node)
    p.scheduler.due(101.0)
    p.scheduler.due(102.0)
    assert p.told()[2:] == [("heal", 1, False), ("heal", 2, True)]
    assert "node 1 was resumed 5 times" in p.lines()[2]["evidence"]["error"]


def test_a_node_paused_at_another_point_has_its_own_disarmed(play: Callable[..., Play]) -> None:
    """Two points on one node: the second fault heals while the node is paused at the first point, and its own still armed."""
    p = play(
        step(0, "pause-at", "node-1", 5, point="after-send:COMMIT"),
        step(0, "pause-at", "node-1", 5, point="before-sync:EPOCH"),
    )
    p.scheduler.due(100.0)
    p.cluster.pause(1)
    p.scheduler.due(105.0)
    assert not p.cluster.paused(1)
    lifted = [arguments["point"] for node, command, arguments in p.cluster.commands if command == "disarm"]
    assert sorted(lifted) == ["after-send:COMMIT", "before-sync:EPOCH"]


def test_a_crash_point_that_is_reached_is_confirmed(play: Callable[..., Play]) -> None:
    p = play(step(0, "crash-at", "node-2", 5, point="after-sync:TXN"))
    p.scheduler.due(100.0)
    assert p.lines()[0]["confirmed"] is True
    os.kill(p.cluster.pid(2), signal.SIGKILL)
    p.cluster.wait_exit(2, 5.0)
    p.scheduler.due(105.0)
    heal = p.lines()[1]
    assert heal["confirmed"] is True
    assert heal["evidence"]["2"]["exit"] == -9
    assert p.cluster.alive(2)


def die_in(p: Play, node: int) -> None:
    os.kill(p.cluster.pid(node), signal.SIGKILL)
    p.cluster.wait_exit(node, 5.0)


def test_a_reached_crash_point_is_recorded_before_another_healing_restarts_the_node(
    play: Callable[..., Play], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the exit of a later life would count as that of this one."""
    p = play(step(0, "pause", "node-1", 5), step(0, "crash-at", "node-2", 9, point="after-sync:TXN"))
    p.scheduler.due(100.0)
    resume, pid = p.cluster.resume, p.cluster.pid(2)

    def resume_and_start(node: int) -> None:
        resume(node)
        p.cluster.start(2)

    monkeypatch.setattr(p.cluster, "resume", resume_and_start)
    die_in(p, 2)
    p.scheduler.due(105.0)
    assert p.cluster.alive(2)
    p.scheduler.due(110.0)
    assert p.lines()[-1]["evidence"]["2"] == {"pid": pid, "reached": True, "exit": -9}


def test_a_killed_node_reaches_the_point_with_which_it_is_restarted(play: Callable[..., Play]) -> None:
    p = play(step(0, "crash", "node-2", 5, **{"crash-at": "before-sync:ANY"}))
    p.scheduler.due(100.0)
    assert p.cluster.armed[2] == ["before-sync:ANY"]
    die_in(p, 2)
    p.scheduler.due(105.0)
    assert p.told() == [("inject", 1, True), ("heal", 1, True)]


TWICE = {"point": "after-write:TXN", "crash-at": "before-sync:ANY"}


def test_a_node_reaches_a_second_crash_point_in_its_next_life(play: Callable[..., Play]) -> None:
    p = play(step(0, "crash-at", "node-2", 5, **TWICE))
    p.scheduler.due(100.0)
    die_in(p, 2)
    p.scheduler.due(101.0)
    assert (p.cluster.alive(2), p.cluster.armed[2]) == (True, ["before-sync:ANY"])
    die_in(p, 2)
    p.scheduler.due(102.0)
    assert not p.cluster.alive(2), "it is down until the fault heals"
    p.scheduler.due(105.0)
    assert p.told() == [("inject", 1, True), ("heal", 1, True)]
    assert (p.cluster.alive(2), p.cluster.armed[2]) == (True, [])


def test_a_reached_crash_point_is_recorded_before_another_fault_restarts_the_node(play: Callable[..., Play]) -> None:
    p = play(step(0, "crash-at", "node-2", 5, **TWICE), step(0, "crash-at", "node-2", 9, point="after-sync:EPOCH"))
    p.scheduler.due(100.0)
    pid = p.cluster.pid(2)
    die_in(p, 2)
    p.scheduler.due(101.0)
    assert p.cluster.alive(2)
    p.scheduler.due(105.0)
    p.scheduler.due(110.0)
    healed = {line["id"]: line["evidence"] for line in p.lines() if line["type"] == "heal"}
    assert healed[2]["2"] == {"pid": pid, "reached": True, "exit": -9}


def test_the_point_of_the_next_life_is_disarmed_if_it_is_not_reached(play: Callable[..., Play]) -> None:
    p = play(step(0, "crash-at", "node-2", 5, **TWICE))
    p.scheduler.due(100.0)
    die_in(p, 2)
    for now in (101.0, 105.0):
        p.scheduler.due(now)
    assert (2, "disarm", {"point": "before-sync:ANY", "action": "crash"}) in p.cluster.commands
    heal = p.lines()[1]
    assert (heal["confirmed"], heal["evidence"]["2"]["again"]["reached"]) == (False, False)


def test_a_crash_point_that_is_never_reached_is_unconfirmed(play: Callable[..., Play]) -> None:
    p = play(step(0, "crash-at", ["node-1", "node-2"], 5, point="after-sync:TXN"))
    p.scheduler.due(100.0)
    os.kill(p.cluster.pid(2), signal.SIGKILL)
    p.cluster.wait_exit(2, 5.0)
    p.scheduler.due(105.0)
    heal = p.lines()[1]
    assert heal["confirmed"] is False
    assert (heal["evidence"]["1"]["reached"], heal["evidence"]["2"]["reached"]) == (False, True)
    assert (1, "disarm", {"point": "after-sync:TXN", "action": "crash"}) in p.cluster.commands


@pytest.mark.parametrize(
    ("do", "exits", "reached"), [("crash-at", 74, False), ("fail-at", 74, True), ("fail-at", -9, False)]
)
def test_a_node_that_ends_otherwise_has_not_reached_its_point(
    play: Callable[..., Play], do: str, exits: int, reached: bool
) -> None:
    p = play(step(0, do, "node-2", 5, point="before-sync:TXN"))
    p.scheduler.due(100.0)
    if exits == 74:
        p.cluster.ending = {2}
        p.cluster.status(2)
    else:
        die_in(p, 2)
    p.scheduler.due(105.0)
    heal = p.lines()[1]
    assert (heal["confirmed"], heal["evidence"]["2"]["reached"], heal["evidence"]["2"]["exit"]) == (
        reached,
        reached,
        exits,
    )
    assert p.cluster.alive(2)


def test_another_point_than_that_of_the_fault_is_no_evidence(
    play: Callable[..., Play], monkeypatch: pytest.MonkeyPatch
) -> None:
    p = play(step(0, "crash-at", "node-2", point="before-send:ACK"))
    monkeypatch.setattr(p.cluster, "control", lambda *_, **__: {})
    p.cluster.armed[2] = ["after-sync:TXN"]
    p.scheduler.due(100.0)
    assert p.told() == [("inject", 1, False)]


def test_a_node_that_ends_before_its_point_is_armed(play: Callable[..., Play], monkeypatch: pytest.MonkeyPatch) -> None:
    p = play(step(0, "crash-at", "all", 5, point="after-sync:TXN", enough="none"))
    control = p.cluster.control

    def dies(node: int, command: str, **arguments: Any) -> dict[str, Any]:
        if node == 2:
            die_in(p, 2)
        answer: dict[str, Any] = control(node, command, **arguments)
        return answer

    monkeypatch.setattr(p.cluster, "control", dies)
    p.scheduler.due(100.0)
    assert p.told() == [("inject", 1, True)]
    assert [node for node, *_ in p.cluster.commands] == [1, 3]


def test_one_node_that_reaches_the_point_may_be_enough(play: Callable[..., Play]) -> None:
    p = play(step(0, "crash-at", "all", 5, point="before-send:NEWEPOCH", enough="one"))
    p.scheduler.due(100.0)
    os.kill(p.cluster.pid(3), signal.SIGKILL)
    p.cluster.wait_exit(3, 5.0)
    p.scheduler.due(105.0)
    assert p.told() == [("inject", 1, True), ("heal", 1, True)]


def test_a_kill_by_another_fault_does_not_count_as_reaching_the_point(play: Callable[..., Play]) -> None:
    p = play(step(0, "crash-at", "node-1", 5, point="after-sync:TXN"), step(1, "crash", "node-1", 1))
    for now in (100.0, 101.0, 102.0, 105.0):
        p.scheduler.due(now)
    assert ("heal", 1, False) in p.told()


def test_an_exit_status_of_its_own_shows_that_the_point_was_reached_before_another_fault(
    play: Callable[..., Play],
) -> None:
    """A JVM takes a moment to end. Meanwhile the next fault may ask it to end, and then sees it end."""
    p = play(step(0, "crash-at", "node-1", 5, point="after-sync:TXN"), step(1, "crash", "node-1", 1))
    p.cluster.crashed = 255
    p.scheduler.due(100.0)
    p.cluster.wait_exit = lambda node, _timeout: None if p.cluster.alive(node) else 255
    for now in (101.0, 102.0, 105.0):
        p.scheduler.due(now)
    assert ("heal", 1, True) in p.told()


def test_a_crash_point_armed_from_the_start(play: Callable[..., Play]) -> None:
    p = play(
        step(0, "crash", "node-1"),
        step(1, "restart", "node-1", crash_at="after-write:NEWLEADER"),
        step(2, "restart", "node-1"),
    )
    p.scheduler.due(100.0)
    p.scheduler.due(101.0)
    assert p.cluster.status(1).armed == ["after-write:NEWLEADER"]
    os.kill(p.cluster.pid(1), signal.SIGKILL)
    p.cluster.wait_exit(1, 5.0)
    p.scheduler.due(102.0)
    assert p.scheduler.active == []
    assert all(confirmed for _, _, confirmed in p.told())


def test_a_node_that_must_refuse_its_disk(play: Callable[..., Play]) -> None:
    p = play(step(0, "crash", "node-1"), step(1, "restart", "node-1", refuses="must"), step(2, "restart", "node-1"))
    p.scheduler.due(100.0)
    p.cluster.refusing = {1: 65}
    p.scheduler.due(101.0)
    assert p.lines()[1]["confirmed"] is True
    assert p.lines()[1]["evidence"] == {"1": {"exit": 65}}
    p.scheduler.due(102.0)
    assert ("inject", 3, False) in p.told(), "a refusal that nobody expects"


def test_a_node_that_must_refuse_its_disk_may_answer_before_it_has_read_it(play: Callable[..., Play]) -> None:
    p = play(step(0, "crash", "node-1"), step(1, "restart", "node-1", refuses="must"))
    p.scheduler.due(100.0)
    looks = iter((-9, None, None, 65))  # it runs, and so it answers, when it is looked at first
    p.cluster.wait_exit = lambda _node, _timeout: next(looks, 65)
    p.scheduler.due(101.0)
    assert p.lines()[1]["evidence"] == {"1": {"exit": 65}}


@pytest.mark.parametrize("refusing", [{}, {1: 70}], ids=["starts", "ends-otherwise"])
def test_a_node_that_should_have_refused_and_did_not(play: Callable[..., Play], refusing: dict[int, int]) -> None:
    p = play(step(0, "crash", "node-1"), step(1, "restart", "node-1", refuses="must"))
    p.scheduler.due(100.0)
    p.cluster.refusing = refusing
    p.scheduler.patience = 0.1  # a node that starts never ends
    p.scheduler.due(101.0)
    assert ("inject", 2, False) in p.told()


def test_disks_at_rest_are_really_damaged(play: Callable[..., Play]) -> None:
    p = play(step(0, "corrupt", "node-1"), step(0, "truncate-file", "node-2", bytes=10), step(0, "wipe", "node-3"))
    content = bytes(range(1, 101)) + bytes(400)
    paths = [Path(p.cluster.disk_folder(node)) / "log-0000000001" for node in (1, 2, 3)]
    for path in paths:
        path.write_bytes(content)
    p.scheduler.due(100.0)
    flipped = paths[0].read_bytes()
    (offset,) = [place for place in range(500) if flipped[place] != content[place]]
    assert offset < 75
    assert (flipped[offset] ^ content[offset]).bit_count() == 1
    assert paths[1].read_bytes() == content[:90]
    assert not paths[2].exists()
    assert not any(p.cluster.alive(node) for node in p.cluster.nodes)
    assert all(confirmed for _, _, confirmed in p.told())
    p.scheduler.heal_all()
    assert all(p.cluster.alive(node) for node in p.cluster.nodes)


def test_the_evidence_of_a_fault_that_finds_nothing_on_one_disk_has_the_others(play: Callable[..., Play]) -> None:
    p = play(step(0, "remove-file", ["node-1", "node-2"], file="log", which="all"))
    log = Path(p.cluster.disk_folder(1)) / "log-00000001"
    log.write_bytes(b"log")
    p.scheduler.due(100.0)
    (line,) = p.lines()
    assert line["confirmed"] is False
    assert line["evidence"]["1"]["wiped"] is True
    assert "there is no log on the disk" in line["evidence"]["error"]
    assert "wiped" not in line["evidence"]["2"]


def test_a_flipped_bit_in_a_records_header_is_where_it_should_be(play: Callable[..., Play]) -> None:
    p = play(step(0, "corrupt", "node-1", file="record-header"))
    disk = OrdinaryDisk(p.cluster.disk_folder(1))
    store, _, _ = Store.open(disk, bootstrap=True, segment_bytes=1 << 16)
    for epoch in range(1, 30):
        store.append(EpochRecord(epoch))
        store.sync()
    store.close()
    (path,) = Path(p.cluster.disk_folder(1)).glob("log-*")
    reader = SegmentReader(1, path.read_bytes())
    headers = [0, *(record.offset for record in reader.records(None))]
    p.scheduler.due(100.0)
    (line,) = p.lines()
    assert line["confirmed"] is True
    offset = line["evidence"]["1"]["offset"]
    assert any(header <= offset < header + HEADER_BYTES for header in headers)
    with pytest.raises(CorruptLog):
        Store.open(disk, bootstrap=False, segment_bytes=1 << 16)


def test_a_missing_file_to_damage_is_reported(play: Callable[..., Play]) -> None:
    p = play(step(0, "corrupt", "node-1", file="snapshot"))
    p.scheduler.due(100.0)
    assert "there is no snapshot" in p.lines()[0]["evidence"]["error"]


def test_a_late_fault_lasts_its_whole_time(play: Callable[..., Play]) -> None:
    """Node 1 takes 5 s to restart, which is longer than the time until the pause and its end."""
    p = play(step(0, "crash", "node-1", 1), step(1, "pause", "node-2", 2))

    def starts_slowly(call: str, _node: int) -> bool:
        p.host.time += 5.0 if call == "start" else 0.0
        return False

    p.cluster.failing = starts_slowly
    p.scheduler.due(100.0)
    p.scheduler.due(101.0)
    assert p.told() == [("inject", 1, True), ("heal", 1, True), ("inject", 2, True)]
    p.scheduler.due(107.9)
    assert p.cluster.paused(2)
    p.scheduler.due(108.0)
    assert not p.cluster.paused(2)


def test_stays_readable_is_passed_to_the_node(play: Callable[..., Play]) -> None:
    p = play(step(0, "disk-error", "node-2", 2, op="sync", stays_readable=True))
    for now in (100.0, 102.0):
        p.scheduler.due(now)
    told = [arguments for node, command, arguments in p.cluster.commands if command == "disk-error"]
    assert told == [{"op": "sync", "stays_readable": True}, {"op": None}]


def test_a_node_that_dies_of_its_disk_is_restarted(play: Callable[..., Play]) -> None:
    p = play(step(0, "disk-full", "node-1", 2), step(0, "disk-error", "node-2", 2, op="sync"))
    p.scheduler.due(100.0)
    p.cluster.stop(1)
    p.scheduler.due(102.0)
    assert p.cluster.alive(1)
    assert p.cluster.commands[-1] == (2, "disk-error", {"op": None})
    assert all(confirmed for _, _, confirmed in p.told())


def test_a_node_that_dies_of_its_disk_after_the_healing_is_restarted(play: Callable[..., Play]) -> None:
    """The node met the fault, and its process ends a moment after the healing."""
    p = play(step(0, "disk-full", "node-1", 2))
    p.scheduler.due(100.0)
    p.cluster.ending = {1}
    p.scheduler.due(102.0)
    assert p.cluster.lives[1] == 2
    assert p.lines()[-1]["evidence"]["ended"] == {"1": {"exit": 74}}
    assert all(confirmed for _, _, confirmed in p.told())


def test_without_a_network_a_cut_is_unconfirmed_and_no_traceback(play: Callable[..., Play]) -> None:
    p = play(step(0, "partition", "leader", 1, shape="isolate"))
    p.scheduler.due(100.0)
    p.scheduler.due(101.0)
    assert "no toxiproxy" in p.lines()[0]["evidence"]["error"]
    assert p.lines()[0]["pairs"] == [[1, 2], [1, 3], [2, 1], [3, 1]]


def test_a_drawn_fault_waits_until_the_ensemble_can_take_it(play: Callable[..., Play]) -> None:
    p = play(step(0, "crash", "node-1", 1), step(2, "wipe", "node-2", 1), keep_quorum=True)
    p.scheduler.due(100.0)
    p.scheduler.due(101.0)
    p.cluster.amnesiac = {3}
    p.scheduler.due(102.0)
    assert len(p.scheduler.records) == 1, "put off while node 3 is no member"
    p.cluster.amnesiac = set()
    p.scheduler.due(103.0)
    assert [run.step.do for run in p.scheduler.records] == ["crash", "wipe"]


def test_the_budget_of_drawn_faults_is_that_of_the_voters(play: Callable[..., Play]) -> None:
    p = play(step(0, "crash", "node-1", 4), step(1, "pause", "node-2", 1), nodes=5, keep_quorum=True)
    p.cluster.voters = (1, 2, 3)
    p.scheduler.due(100.0)
    p.scheduler.due(101.0)
    assert not p.cluster.paused(2)


@pytest.mark.parametrize("nodes", [3, 4])
def test_a_second_fault_waits_for_the_first(play: Callable[..., Play], nodes: int) -> None:
    p = play(step(0, "crash", "node-1", 4), step(1, "pause", "node-2", 1), nodes=nodes, keep_quorum=True)
    p.scheduler.due(100.0)
    p.scheduler.due(101.0)
    assert not p.cluster.paused(2)
    p.scheduler.due(104.0)
    p.scheduler.due(104.1)
    assert p.cluster.paused(2)


@pytest.mark.parametrize("ends", [True, False])
def test_a_node_that_reached_its_point_while_it_was_disarmed_is_brought_back(
    play: Callable[..., Play], ends: bool
) -> None:
    p = play(step(1, "crash", "node-3", 1), keep_quorum=True)
    (p.cluster.kill if ends else p.cluster.pause)(2)  # by nobody who is responsible for it
    p.scheduler.due(101.0)
    assert p.cluster.alive(2)
    assert not p.cluster.paused(2)
    p.scheduler.due(101.1)
    assert [run.nodes for run in p.scheduler.records] == [[3]]


def test_a_node_that_refused_its_disk_is_not_started_again_and_again(play: Callable[..., Play]) -> None:
    p = play(step(1, "crash", "node-3", 1), keep_quorum=True)
    p.cluster.kill(2)
    p.cluster.refusing[2] = 65
    p.cluster.start(2)
    lives = p.cluster.lives[2]
    p.scheduler.due(101.0)
    p.scheduler.due(101.1)
    assert (p.cluster.lives[2], p.scheduler.records) == (lives, [])


def test_the_same_seed_hits_the_same_nodes(sleepers: Callable[..., Any], tmp_path: Path) -> None:
    cluster = sleepers(5)
    steps = [step(0, "slow-disk", "minority", ms=5), step(0, "clock-rate", "one", rate=2.0)]
    hits = []
    for turn in range(3):
        with Scheduler(cluster, None, steps, 7, tmp_path / f"{turn}.jsonl") as scheduler:
            scheduler.begin(0.0)
            scheduler.due(0.0)
            hits.append([run.nodes for run in scheduler.records])
    assert hits[0] == hits[1] == hits[2]


def test_a_drawn_schedule_loses_no_second_disk_before_the_first_node_is_a_member_again(
    play: Callable[..., Play],
) -> None:
    p = play(step(0, "wipe", "node-1", 1), step(2, "wipe", "node-2", 1), step(5, "wipe", "node-3", 1), drawn=True)
    p.scheduler.due(100.0)
    p.scheduler.due(101.0)
    p.cluster.amnesiac = {1}
    p.scheduler.due(102.0)
    p.scheduler.due(102.0 + OMITTED_SECONDS)
    assert [run.nodes for run in p.scheduler.records] == [[1]]
    p.cluster.amnesiac = set()
    p.scheduler.due(105.0)
    assert [run.nodes for run in p.scheduler.records] == [[1], [3]]


def test_a_fault_without_a_target_is_left_out_of_a_drawn_schedule(play: Callable[..., Play]) -> None:
    p = play(step(0, "crash", "all"), step(1, "pause", "one", 1), step(3, "restart", "all"), drawn=True)
    p.scheduler.due(100.0)
    p.scheduler.due(101.0)
    p.scheduler.due(101.0 + OMITTED_SECONDS)
    p.scheduler.due(103.0)
    assert [(run.step.do, run.injected.confirmed) for run in p.scheduler.records] == [
        ("crash", True),
        ("restart", True),
    ]


def test_a_killed_node_is_restarted_with_the_point_of_crash_at_armed(play: Callable[..., Play]) -> None:
    point = {"crash-at": "after-sync:TXN", "enough": "none"}
    p = play(step(0, "crash", "node-2", 2, **point))
    first = p.cluster.pid(2)
    p.scheduler.due(100.0)
    assert p.cluster.pid(2) not in (None, first)
    assert p.cluster.armed[2] == ["after-sync:TXN"]
    assert p.scheduler.records[0].injected.confirmed
    p.cluster.kill(2)
    p.scheduler.due(101.0)
    assert not p.cluster.alive(2)
    p.scheduler.due(102.0)
    assert p.cluster.alive(2)
    assert p.told() == [("inject", 1, True), ("heal", 1, True)]


def test_a_node_that_ends_at_its_point_instead_of_disarming_it_has_reached_it(
    play: Callable[..., Play], monkeypatch: pytest.MonkeyPatch
) -> None:
    p = play(step(0, "crash-at", "node-2", 1, point="after-send:COMMIT"))
    p.scheduler.due(100.0)

    def ends(node: int, command: str, **arguments: Any) -> dict[str, Any]:
        return {"ended": p.cluster.kill(node)}  # as processes say it

    monkeypatch.setattr(p.cluster, "control", ends)
    p.scheduler.due(101.0)
    heal = p.lines()[-1]
    assert (heal["type"], heal["confirmed"], heal["evidence"]["2"]["reached"]) == ("heal", True, True)
    assert p.cluster.lives[2] == 2


def test_a_point_that_need_not_be_reached_is_disarmed(play: Callable[..., Play]) -> None:
    p = play(step(0, "crash-at", "node-2", 1, point="after-sync:TXN", enough="none"))
    p.scheduler.due(100.0)
    assert not p.scheduler.awaiting_effect
    assert len(p.scheduler.active) == 1
    p.scheduler.due(101.0)
    assert (2, "disarm", {"point": "after-sync:TXN", "action": "crash"}) in p.cluster.commands
    assert p.told() == [("inject", 1, True), ("heal", 1, True)]


def test_effects_are_the_nodes_by_the_names_of_faults(play: Callable[..., Play]) -> None:
    dying = dataclasses.replace(step(0, "crash-at", "node-1", point="after-sync:TXN"), name="Dying")
    p = play(dying, dataclasses.replace(step(1, "pause", "node-2", 5), name="Asleep"))
    p.scheduler.due(100.0)
    assert p.scheduler.effects == {}
    p.scheduler.due(101.0)
    assert p.scheduler.effects == {"Asleep": (2,)}
    p.cluster.kill(1)
    p.scheduler.due(101.1)
    assert p.scheduler.effects == {"Asleep": (2,), "Dying": (1,)}
