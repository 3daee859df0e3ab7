"""The shipped scenarios and the known bugs in the simulated world."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from zab_chaos.faults.defects import DEFECTS
from zab_chaos.faults.nemesis import draw_params
from zab_chaos.faults.registry import KINDS
from zab_chaos.faults.scenario import Expect, FaultStep, Scenario, load
from zab_chaos.harness.backends.simulator.backend import SimBackend
from zab_chaos.harness.explore.simulate import simulate
from zab_chaos.harness.runs import catalogue
from zab_chaos.model.verdict import Judgement
from zab_chaos.node.channel import frame
from zab_chaos.node.channel.header import FrameHeader
from zab_chaos.node.config import Limits

LONG = ("long-mix", "nemesis")  # minutes
TICKETS = [name for name, path in catalogue.shipped().items() if load(path).ticket is not None]
OTHERS = ("defects/", "containers/", "zookeeper/")  # built to fail, and what only containers or ZooKeeper can do
HONEST_PARSE = frame.parse
HONEST = [name for name in catalogue.shipped() if not name.startswith(OTHERS) and name not in LONG]


@pytest.mark.parametrize("name", HONEST)
def test_a_shipped_scenario_ends_as_it_says(name: str, shipped: Callable[[str], Scenario]) -> None:
    scenario = shipped(name)
    done = simulate(scenario, 2, None)
    assert done.outcome == "finished"
    assert done.verdict.exit == scenario.expect.exit, done.verdict.reasons


@pytest.mark.parametrize("name", TICKETS)
def test_what_breaks_zookeeper_does_not_break_our_own_nodes(name: str, shipped: Callable[[str], Scenario]) -> None:
    done = simulate(shipped(name), 2, None)
    assert done.outcome == "finished"
    assert not done.verdict.violated, done.verdict.reasons


def with_less_load(scenario: Scenario) -> Scenario:
    return replace(scenario, workload=replace(scenario.workload, rate=min(scenario.workload.rate, 50.0)))


@pytest.mark.parametrize("name", sorted(DEFECTS))
def test_a_known_bug_is_caught_within_few_seeds(name: str) -> None:
    """Less load is enough for nearly all, and takes less time."""
    defect = DEFECTS[name]
    scenario = load(catalogue.shipped()[defect.scenario])
    light = with_less_load(scenario)
    for tried, seed in [(light, 1), (light, 2), *((scenario, seed) for seed in range(1, 9))]:
        verdict = simulate(tried, seed, defect.path).verdict
        if verdict.property(defect.property).verdict is Judgement.VIOLATION:
            return
    pytest.fail(f"{name} was not caught in 8 seeds")


@pytest.mark.parametrize("name", sorted(DEFECTS))
def test_without_the_bug_its_scenario_passes(name: str) -> None:
    done = simulate(with_less_load(load(catalogue.shipped()[DEFECTS[name].scenario])), 1, None)
    assert done.verdict.exit == 0, done.verdict.reasons


DRAWN = sorted(name for name, kind in KINDS.items() if kind.draw is not None and kind.needs <= SimBackend.abilities)


@pytest.mark.parametrize("name", DRAWN)
def test_every_kind_of_fault_that_can_be_drawn_takes_effect(name: str, shipped: Callable[[str], Scenario]) -> None:
    kind = KINDS[name]
    params = draw_params(kind, Random(name), {})
    step = FaultStep(at=0.5, do=name, target="one", lasts=1.0 if kind.heals else None, params=params)
    scenario = replace(shipped("steady-state"), faults=(step,), duration=3.0, expect=Expect(converges_within=30))
    done = simulate(scenario, 1, None)
    assert done.verdict.property("fault took effect").verdict is Judgement.PASS, done.verdict.reasons
    assert done.verdict.exit == 0, done.verdict.reasons


@pytest.mark.parametrize("do", ["crash", "wipe"])
def test_a_node_that_comes_back_dies_at_a_point_and_comes_back_again(
    do: str, shipped: Callable[[str], Scenario]
) -> None:
    params = {"crash-at": "after-sync:NEWLEADER", "enough": "all"}
    step = FaultStep(at=0.5, do=do, target="follower", lasts=1.5, params=params)
    done = simulate(replace(shipped("steady-state"), faults=(step,), duration=3.0), 1, None)
    assert done.verdict.exit == 0, done.verdict.reasons
    assert done.verdict.property("fault took effect").verdict is Judgement.PASS


@pytest.mark.parametrize("replaced", [True, False])
def test_a_disk_that_is_refused_is_replaced(replaced: bool, shipped: Callable[[str], Scenario]) -> None:
    params = {"file": "record-header", "zeros": False, "replace": replaced}
    step = FaultStep(at=0.5, do="corrupt", target="node-2", lasts=1.0, params=params)
    done = simulate(replace(shipped("steady-state"), faults=(step,), duration=3.0), 1, None)
    assert (done.verdict.exit == 0) == replaced, done.verdict.reasons


def test_late_frames_arrive_and_change_nothing(shipped: Callable[[str], Scenario]) -> None:
    params = {"ms": 700, "one_in": 1, "direction": "both", "pairs": None}
    late = FaultStep(at=0.2, do="late-frames", target="all", lasts=2.5, params=params)
    crash = FaultStep(at=1.0, do="crash", target="follower", lasts=0.3)
    scenario = replace(shipped("steady-state"), faults=(late, crash), duration=3.0)
    assert simulate(scenario, 1, None).verdict.exit == 0


BAD_FRAMES = {
    "corrupt-frames": {"one_in": 40, "direction": "both", "pairs": None},
    "misrouted-frames": {"one_in": 10},
}


def with_bad_frames(name: str, scenario: Scenario) -> Scenario:
    """Return a scenario with bad frames on all links, also while a node restarts."""
    bad = FaultStep(at=0.2, do=name, target="all", lasts=2.5, params=BAD_FRAMES[name])
    crash = FaultStep(at=1.0, do="crash", target="follower", lasts=0.3)
    return replace(scenario, faults=(bad, crash), duration=3.0)


@pytest.mark.parametrize("name", BAD_FRAMES)
@pytest.mark.parametrize("seed", range(1, 6))
def test_bad_frames_arrive_and_are_refused(name: str, seed: int, shipped: Callable[[str], Scenario]) -> None:
    done = simulate(with_bad_frames(name, shipped("steady-state")), seed, None)
    assert done.verdict.exit == 0, done.verdict.reasons


def to_anybody(data: bytes, cluster: int, _receiver: int, limit: int) -> FrameHeader:
    """Parse a frame as if it were addressed to the node that got it."""
    return HONEST_PARSE(data, cluster, int.from_bytes(data[21:25]), limit)


@pytest.mark.parametrize(
    ("name", "what", "careless"),
    [("corrupt-frames", "crc32", lambda *_: 0), ("misrouted-frames", "parse", to_anybody)],
)
def test_nodes_that_accept_bad_frames_are_caught(
    name: str, what: str, careless: object, shipped: Callable[[str], Scenario], monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = with_bad_frames(name, shipped("steady-state"))
    monkeypatch.setattr(frame, what, careless)
    assert any(simulate(scenario, seed, None).verdict.violated for seed in range(1, 4))


def test_a_damaged_snapshot_is_refused(shipped: Callable[[str], Scenario]) -> None:
    steps = (
        FaultStep(at=2.0, do="corrupt", target="node-2", params={"file": "snapshot", "zeros": False}),
        FaultStep(at=2.5, do="restart", target="node-2", params=KINDS["restart"].defaults | {"refuses": "must"}),
        FaultStep(at=3.0, do="wipe", target="node-2", lasts=0.5, params={}),
    )
    scenario = replace(shipped("steady-state"), faults=steps, duration=5.0, limits=Limits(snapshot_bytes=1024))
    done = simulate(scenario, 1, None)
    assert done.verdict.exit == 0, done.verdict.reasons


def test_a_run_ends_although_its_crash_point_can_not_be_reached_any_more(shipped: Callable[[str], Scenario]) -> None:
    """The run once hung here: nothing was left to do and the end had passed, and it waited for zero seconds for ever."""
    params = {"point": "before-sync:SNAPSHOT", "variant": "plain", "wipe": False, "crash-at": None, "enough": "all"}
    scenario = replace(
        shipped("follower-crash"),
        duration=2.0,
        faults=(
            FaultStep(at=0.5, do="crash-at", target="follower", params=params),
            FaultStep(at=1.0, do="crash", target="all"),
        ),
    )
    verdict = simulate(scenario, 1, None).verdict
    assert verdict.property("fault took effect").verdict != "PASS"
    assert verdict.exit == 2, verdict.reasons
