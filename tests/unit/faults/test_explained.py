"""Concurrent faults: an exit that another fault explains does not count against a fault; an unexplained one does."""

from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from random import Random
from signal import SIGKILL
from typing import Any

import pytest

from tests.unit.faults.conftest import Patient
from tests.unit.faults.links_in_memory import LinksInMemory
from zab_chaos.faults.cluster import ClusterError
from zab_chaos.faults.cut_evidence import QUIET, LinkWitness
from zab_chaos.faults.disk import PowerCut
from zab_chaos.faults.host import THIS_HOST
from zab_chaos.faults.kind import FaultContext
from zab_chaos.faults.network import Traffic
from zab_chaos.faults.process import Crash, KillFault
from zab_chaos.faults.registry import KINDS
from zab_chaos.faults.scenario import FaultStep
from zab_chaos.faults.scheduler import FaultRecord, Scheduler


def step(do: str, **params: Any) -> FaultStep:
    defaults = {key.name: key.default for key in KINDS[do].keys}
    written = {name.replace("_at", "-at"): value for name, value in params.items()}
    return FaultStep(at=0.0, do=do, target="node-2", lasts=None, params=defaults | written)


@pytest.fixture
def scheduler(sleepers: Callable[..., Any], tmp_path: Path) -> Any:
    made = Scheduler(sleepers(3), None, (), 1, tmp_path / "faults.jsonl", host=Patient(), patience=0.5)
    made.begin(0.0)
    yield made
    made.close()


def healed(scheduler: Scheduler, run: FaultRecord) -> bool:
    scheduler.heal(run)
    assert run.recovered is not None
    return run.recovered.confirmed


@pytest.mark.parametrize("other", ["before", "after", None])
def test_a_paused_node_that_a_crash_point_ended_need_not_wake_up(scheduler: Any, other: str | None) -> None:
    if other == "before":
        scheduler.inject(step("crash-at", point="before-send:ACK"))
    pause = scheduler.inject(step("pause"))
    if other == "after":
        scheduler.inject(step("power-cut"))
    elif scheduler.cluster.alive(2):
        scheduler.cluster.kill(2)
    assert healed(scheduler, pause) is (other is not None)


@pytest.mark.parametrize("wakes", ["healing", "resume"])
@pytest.mark.parametrize("other", ["armed", "healed before", None])
def test_a_node_that_wakes_up_and_runs_to_the_point_of_a_pause_at_is_awake(
    scheduler: Any, monkeypatch: pytest.MonkeyPatch, other: str | None, wakes: str
) -> None:
    """It is paused again before anyone looks. Without a point ahead of it, it did not wake up."""
    cluster, resume = scheduler.cluster, scheduler.cluster.resume

    def resume_and_reach_point(node: int) -> None:
        resume(node)
        cluster.reach_point(node)

    if other is not None:
        at_point = scheduler.inject(step("pause-at", point="before-send:ACK", enough="none"))
    if other == "healed before":
        assert healed(scheduler, at_point)
    pause = scheduler.inject(step("pause"))
    monkeypatch.setattr(cluster, "resume", resume_and_reach_point)
    if wakes == "healing":
        assert healed(scheduler, pause) is (other == "armed")
    else:
        assert scheduler.inject(step("resume")).injected.confirmed is (other == "armed")
    monkeypatch.undo()
    if other == "armed":
        assert healed(scheduler, at_point)
        assert at_point.fault.reached == {2}


@pytest.mark.parametrize("armed", [True, False])
def test_a_node_that_a_crash_point_ended_while_it_stopped_is_down(
    scheduler: Any, monkeypatch: pytest.MonkeyPatch, armed: bool
) -> None:
    """A node that is asked to exit still does something, which may be what the point is at."""
    if armed:
        scheduler.inject(step("crash-at", point="after-send:ACK"))
    monkeypatch.setattr(scheduler.cluster, "stop", scheduler.cluster.kill)
    assert scheduler.inject(step("stop")).injected.confirmed is armed


def test_a_node_that_a_crash_point_ended_just_before_it_would_be_stopped_is_left_out(
    scheduler: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die_once_chosen(*_: Any) -> list[int]:
        scheduler.cluster.kill(2)
        return [2]

    scheduler.inject(step("crash-at", point="after-send:ACK"))
    monkeypatch.setattr(scheduler, "_resolve", die_once_chosen)
    stopped = scheduler.inject(step("stop"))
    assert (stopped.injected.confirmed, stopped.injected.evidence) == (True, {})
    assert healed(scheduler, stopped)


def test_an_armed_node_that_another_fault_paused_need_not_confirm_its_point(
    scheduler: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, control = scheduler.cluster, scheduler.cluster.control

    def arm_and_pause(node: int, command: str, **arguments: Any) -> dict[str, Any]:
        answer: dict[str, Any] = control(node, command, **arguments)
        cluster.pause(node)
        return answer

    monkeypatch.setattr(cluster, "control", arm_and_pause)
    assert scheduler.inject(step("crash-at", point="before-send:ACK")).injected.confirmed


def test_before_a_node_is_restarted_all_faults_record_how_it_ended(scheduler: Any) -> None:
    once = scheduler.inject(step("crash-at", point="before-send:ACK")).fault
    twice = scheduler.inject(step("crash-at", point="after-send:ACK", crash_at="before-sync:ANY")).fault
    scheduler.cluster.kill(2)
    twice.record_exits()
    twice.watch(0.0)
    assert scheduler.cluster.alive(2)
    scheduler.cluster.stop(2)
    once.record_exits()
    assert once.exits == {2: -SIGKILL}


TOLD: list[tuple[str, dict[str, Any]]] = [
    ("disk-full", {}),
    ("clock-rate", {"rate": 2.0}),
    ("clock-jump", {"ms": 5}),
    ("pause-at", {"point": "before-send:ACK"}),
]


def told_too_late(
    scheduler: Any,
    monkeypatch: pytest.MonkeyPatch,
    strike: str,
    fault: tuple[str, dict[str, Any]],
    rest: tuple[int, ...],
) -> FaultRecord:
    """Inject a fault into these nodes and node 2, which is killed or paused just before it gets the command."""
    cluster, control = scheduler.cluster, scheduler.cluster.control

    def too_late(node: int, command: str, **arguments: Any) -> dict[str, Any]:
        if node == 2 and cluster.alive(2):
            getattr(cluster, strike)(2)
            raise ClusterError("node 2 did not answer")
        answer: dict[str, Any] = control(node, command, **arguments)
        return answer

    monkeypatch.setattr(cluster, "control", too_late)
    do, params = fault
    targets = tuple(f"node-{node}" for node in (*rest, 2))
    run: FaultRecord = scheduler.inject(replace(step(do, **params), target=targets))
    return run


OTHERS = pytest.mark.parametrize("rest", [(1,), ()])


@pytest.mark.parametrize("fault", TOLD, ids=[do for do, _ in TOLD])
@pytest.mark.parametrize("other", [True, False])
@OTHERS
def test_a_target_that_another_fault_ended_before_its_command_is_left_out(
    scheduler: Any,
    monkeypatch: pytest.MonkeyPatch,
    fault: tuple[str, dict[str, Any]],
    other: bool,
    rest: tuple[int, ...],
) -> None:
    """The exit must be explained, and at least one target must have taken the command."""
    if other:
        scheduler.inject(step("crash-at", point="before-send:ACK"))
    told = told_too_late(scheduler, monkeypatch, "kill", fault, rest)
    assert told.injected.confirmed is (other and bool(rest))


@pytest.mark.parametrize("fault", TOLD, ids=[do for do, _ in TOLD])
@OTHERS
def test_a_target_that_another_fault_paused_before_its_command_is_left_out(
    scheduler: Any, monkeypatch: pytest.MonkeyPatch, fault: tuple[str, dict[str, Any]], rest: tuple[int, ...]
) -> None:
    told = told_too_late(scheduler, monkeypatch, "pause", fault, rest)
    assert told.injected.confirmed is bool(rest)


@pytest.mark.parametrize("fault", [*TOLD, ("crash-at", {"point": "before-send:ACK"})], ids=lambda fault: fault[0])
@pytest.mark.parametrize("strike", ["kill", "pause"])
def test_other_faults_may_take_down_all_targets_of_a_drawn_fault(
    scheduler: Any, monkeypatch: pytest.MonkeyPatch, fault: tuple[str, dict[str, Any]], strike: str
) -> None:
    scheduler.drawn = True
    scheduler.inject(step("crash-at", point="before-send:ACK"))
    assert told_too_late(scheduler, monkeypatch, strike, fault, ()).injected.confirmed


@pytest.mark.parametrize("strike", ["kill", "status"])
def test_a_target_of_a_drawn_fault_must_not_end_unexplained_or_be_silent(
    scheduler: Any, monkeypatch: pytest.MonkeyPatch, strike: str
) -> None:
    scheduler.drawn = True
    assert not told_too_late(scheduler, monkeypatch, strike, TOLD[0], (1,)).injected.confirmed


@pytest.mark.parametrize("strike", ["kill", "pause"])
@OTHERS
def test_a_written_crash_point_that_no_node_took_is_not_confirmed(
    scheduler: Any, monkeypatch: pytest.MonkeyPatch, strike: str, rest: tuple[int, ...]
) -> None:
    """Not even if none of them has to reach it."""
    scheduler.inject(step("crash-at", point="before-send:ACK"))
    fault = "crash-at", {"point": "after-send:ACK", "enough": "none"}
    assert told_too_late(scheduler, monkeypatch, strike, fault, rest).injected.confirmed is bool(rest)


def test_a_fault_that_was_over_before_explains_nothing(scheduler: Any) -> None:
    crash = scheduler.inject(step("crash"))
    assert healed(scheduler, crash)
    pause = scheduler.inject(step("pause"))
    scheduler.cluster.kill(2)
    assert not healed(scheduler, pause)


@pytest.mark.parametrize(("damage", "explained"), [("truncate-file", True), ("crash", False)])
def test_only_damage_explains_that_a_node_refuses_its_disk(scheduler: Any, damage: str, explained: bool) -> None:
    (Path(scheduler.cluster.disk_folder(2)) / "log.1").write_bytes(b"x" * 200)
    slow = scheduler.inject(step("slow-disk", ms=5))
    scheduler.inject(step(damage))
    scheduler.cluster.refusing[2] = 65
    assert healed(scheduler, slow) is explained


KEEPS_CACHE = {"keeps_cache": True}
TORN = {"variant": "torn", "within_ms": 100}


@pytest.mark.parametrize(("kind", "params"), [(Crash, KEEPS_CACHE), (PowerCut, TORN)])
@pytest.mark.parametrize("explained", [True, False])
def test_a_kill_that_finds_a_node_gone_is_confirmed_if_another_fault_ended_it(
    sleepers: Callable[..., Any], kind: type[KillFault], params: dict[str, Any], explained: bool
) -> None:
    cluster = sleepers(3)

    def its_disk_fails_first(call: str, node: int) -> bool:
        if call == "power-cut" and node == 2:
            cluster.ending.add(2)
            cluster.status(2)
        return False

    cluster.failing = its_disk_fails_first
    fault = kind(
        FaultContext(cluster, None, Random(1), exit_explained=lambda node, status: explained), [1, 2, 3], params
    )
    fault.inject()
    assert [shown["exit"] for shown in fault.injected().evidence.values()] == [-9, 74, -9]
    assert fault.injected().confirmed is explained


def test_a_running_node_that_refuses_the_command_to_die_is_an_error(sleepers: Callable[..., Any]) -> None:
    cluster = sleepers(3)
    cluster.failing = lambda call, node: call == "power-cut" and node == 2
    fault = PowerCut(FaultContext(cluster, None, Random(1)), [1, 2, 3], TORN)
    with pytest.raises(ClusterError, match="power-cut of node 2 fails"):
        fault.inject()


def test_a_receiver_that_was_paused_at_the_cut_and_restarted_since_counts_from_0(sleepers: Callable[..., Any]) -> None:
    cluster = sleepers(2)
    cluster.frames = {(1, 2): 0}
    cluster.pause(2)
    witness = LinkWitness(cluster, [(1, 2)], THIS_HOST)
    assert witness.settle(5.0)
    cluster.kill(2)
    assert witness.links() == []
    cluster.start(2)
    assert witness.links() == [{"from": 1, "to": 2, "at_inject": 0, "at_heal": 0}]
    cluster.frames[1, 2] = 3
    assert witness.links() == [{"from": 1, "to": 2, "at_inject": 0, "at_heal": 3}]


def test_a_receiver_that_dies_just_after_its_answer_was_not_restarted(
    sleepers: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = sleepers(2)
    cluster.frames[1, 2] = 3
    witness = LinkWitness(cluster, [(1, 2)], THIS_HOST)
    assert witness.settle(5.0)
    answer = cluster.status(2)

    def last_answer(node: int, timeout: float) -> Any:
        cluster.kill(node)
        return answer

    monkeypatch.setattr(cluster, "status", last_answer)
    assert witness.links() == [{"from": 1, "to": 2, "at_inject": 3, "at_heal": 3}]


def test_a_receiver_that_was_paused_at_the_cut_and_just_resumed_shows_nothing(sleepers: Callable[..., Any]) -> None:
    cluster = sleepers(2)
    cluster.pause(2)
    witness = LinkWitness(cluster, [(1, 2)], THIS_HOST)
    assert witness.settle(5.0)
    cluster.resume(2)
    assert witness.links() == []


@pytest.mark.parametrize("counted", [True, False])
def test_a_receiver_that_does_not_answer_is_only_waited_for_if_the_proxies_do_not_count(
    sleepers: Callable[..., Any], patient: Any, monkeypatch: pytest.MonkeyPatch, counted: bool
) -> None:
    cluster, network = sleepers(2), LinksInMemory()
    network.counts = {(1, 2): Traffic(0, 0)} if counted else {}
    monkeypatch.setattr(cluster, "status", lambda node, timeout: None)
    witness = LinkWitness(cluster, [(1, 2)], patient, network)
    assert witness.settle(5.0)
    before = patient.now()
    witness.wait(10.0)
    assert (patient.now() - before >= 10.0) is not counted


@pytest.mark.parametrize("leaked", [0, 1])
def test_a_receiver_that_was_paused_at_the_cut_counts_from_when_it_received_earlier_frames(
    sleepers: Callable[..., Any], patient: Any, leaked: int
) -> None:
    cluster = sleepers(3)
    cluster.frames = {(1, 2): 3, (1, 3): 4}
    cluster.pause(2)
    witness = LinkWitness(cluster, [(1, 2), (1, 3)], patient)
    assert witness.settle(5.0)
    assert witness.watch()
    cluster.resume(2)
    assert witness.watch()
    cluster.frames[1, 2] = 7
    patient.time += QUIET
    assert witness.watch()  # there was more to take
    patient.time += QUIET
    assert not witness.watch()
    cluster.frames[1, 2] += leaked
    assert witness.links() == [
        {"from": 1, "to": 2, "at_inject": 7, "at_heal": 7 + leaked},
        {"from": 1, "to": 3, "at_inject": 4, "at_heal": 4},
    ]


def test_a_partition_whose_receivers_were_all_paused_is_confirmed_after_they_resumed(
    scheduler: Any, patient: Any
) -> None:
    scheduler.network, scheduler.host = LinksInMemory(), patient
    scheduler.cluster.frames = dict.fromkeys(permutations(scheduler.cluster.nodes, 2), 0)
    scheduler.begin(100.0)
    paused = scheduler.inject(replace(step("pause"), target="all"))
    cut = scheduler.inject(step("partition"))
    scheduler.heal(paused)
    assert scheduler.due(patient.now()) == patient.now() + QUIET
    patient.time += QUIET
    assert scheduler.due(patient.now()) is None
    assert healed(scheduler, cut)
    assert len(cut.recovered.evidence["links"]) == 4


@pytest.mark.parametrize(("kind", "params"), [(Crash, KEEPS_CACHE), (PowerCut, TORN), (PowerCut, {"variant": "plain"})])
def test_a_kill_leaves_out_nodes_that_had_ended_before(
    sleepers: Callable[..., Any], kind: type[KillFault], params: dict[str, Any]
) -> None:
    cluster = sleepers(3)
    cluster.kill(2)
    fault = kind(FaultContext(cluster, None, Random(1)), [1, 2, 3], params)
    fault.inject()
    assert fault.injected().confirmed
    assert sorted(fault.injected().evidence) == ["1", "3"]
