"""Drawn schedules: the same for the same seed, and never more broken at once than the budget allows."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zab_chaos.faults import shapes
from zab_chaos.faults.nemesis import BETWEEN, RECOVERY, REJOINING, draw, is_exclusive
from zab_chaos.faults.partition import cut_pairs
from zab_chaos.faults.registry import KINDS
from zab_chaos.faults.scenario import FaultStep, Nemesis
from zab_chaos.faults.targets import size
from zab_chaos.node.crash_points import POINTS, check_action, parse

# A busy machine is slow, not wrong.
unhurried = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])

EVERYTHING = {name: 1.0 for name, kind in KINDS.items() if kind.draw is not None}
TAKES_NODES = (
    "crash", "stop", "pause", "power-cut", "disk-full", "disk-error", "wipe", "corrupt", "truncate-file", "crash-at",
    "pause-at", "fail-at", "remove-member",
)  # fmt: skip

seeds = st.integers(0, 2**63 - 1)
ensembles = st.integers(1, 9)


def nemesis(keep_quorum: bool = True) -> Nemesis:
    return Nemesis(every=(0.2, 1.5), heal_after=(0.5, 6.0), faults=EVERYTHING, keep_quorum=keep_quorum)


def worst_victims(step: FaultStep, nodes: int, taken: set[int], random: Random) -> list[int]:
    """Return the worst possible targets: nodes that no other fault has hit."""
    free = [node for node in range(1, nodes + 1) if node not in taken]
    random.shuffle(free)
    return free[: size(step.target, nodes)] if step.target is not None else []


def has_quorum(nodes: Sequence[int], cut: Iterable[tuple[int, int]], down: Iterable[int] = ()) -> bool:
    """Return whether some node can exchange messages with a majority, in both directions."""
    lost, gone = set(cut), set(down)
    up = [node for node in nodes if node not in gone]
    return any(
        sum(peer == node or ((node, peer) not in lost and (peer, node) not in lost) for peer in up) > len(nodes) // 2
        for node in up
    )


@pytest.mark.parametrize(
    ("nodes", "cut", "down", "expected"),
    [
        (3, [], [], True),
        (3, [], [1], True),
        (3, [], [1, 2], False),
        (3, [(1, 2)], [3], False),
        (5, shapes.ring(range(1, 6)), [], True),
        (5, shapes.bridge(range(1, 6), 1, Random(0)), [], True),
        (5, shapes.bridge(range(1, 6), 1, Random(0)), [1], False),
        (4, shapes.halves(range(1, 5), Random(0)), [], False),
    ],
)
def test_cuts_that_leave_a_quorum(nodes: int, cut: shapes.Pairs, down: list[int], expected: bool) -> None:
    assert has_quorum(range(1, nodes + 1), cut, down) is expected


def has_budget(steps: list[FaultStep], nodes: int, at: float, random: Random) -> bool:
    """Return whether a quorum is left at this time if every fault hits nodes that no other one has hit."""
    hit: set[int] = set()
    down: set[int] = set()
    cut: set[tuple[int, int]] = set()
    for step in steps:
        end = step.at + (step.lasts or 0) + (REJOINING if is_exclusive(step) else RECOVERY)
        if not step.at <= at < end or not KINDS[step.do].impairs:
            continue
        victims = worst_victims(step, nodes, hit, random)
        hit.update(victims)
        if step.do in TAKES_NODES:
            assert len(victims) == size(step.target, nodes), "more victims than there are nodes"
            down.update(victims)
        elif step.do == "partition":
            cut.update(cut_pairs(step.params, range(1, nodes + 1), victims, random))
        else:
            down.update(victims)  # a disturbed link counts as if its node were gone
    return has_quorum(range(1, nodes + 1), cut, down)


@unhurried
@given(seeds, ensembles)
def test_the_same_seed_gives_the_same_schedule(seed: int, nodes: int) -> None:
    assert draw(nemesis(), nodes, 60.0, seed) == draw(nemesis(), nodes, 60.0, seed)


def test_another_seed_gives_another_schedule() -> None:
    assert len({str(draw(nemesis(), 5, 60.0, seed)) for seed in range(50)}) == 50


@unhurried
@given(seeds, st.integers(3, 9))
def test_a_quorum_is_left_at_every_time(seed: int, nodes: int) -> None:
    steps = draw(nemesis(), nodes, 60.0, seed)
    for step in steps:
        assert has_budget(steps, nodes, step.at, Random(seed))


@unhurried
@given(seeds, ensembles)
def test_beside_a_lost_disk_nothing_is_broken(seed: int, nodes: int) -> None:
    steps = draw(nemesis(), nodes, 60.0, seed)
    for wipe in (step for step in steps if step.do == "wipe"):
        assert wipe.lasts is not None
        back = wipe.at + wipe.lasts + REJOINING
        assert not [step for step in steps if wipe.at < step.at < back]
        assert size(wipe.target, nodes) == 1
        for earlier in (step for step in steps if step.at < wipe.at and KINDS[step.do].impairs):
            assert earlier.at + (earlier.lasts or 0) + RECOVERY <= wipe.at


@unhurried
@given(seeds)
def test_small_ensembles_have_no_fault_budget(seed: int) -> None:
    for nodes in (1, 2):
        assert not [step for step in draw(nemesis(), nodes, 60.0, seed) if KINDS[step.do].impairs]


def test_without_the_quorum_rule_everything_happens_but_disks_stay_single() -> None:
    steps = [step for seed in range(40) for step in draw(nemesis(keep_quorum=False), 5, 60.0, seed)]
    assert {"all", "majority"} <= {step.target for step in steps}
    assert all(size(step.target, 5) == 1 for step in steps if step.do == "wipe")


def test_disks_are_damaged_only_where_a_quorum_is_kept() -> None:
    steps = [step for seed in range(40) for step in draw(nemesis(keep_quorum=False), 5, 60.0, seed)]
    assert not {"corrupt", "truncate-file"} & {step.do for step in steps}


@unhurried
@given(seeds)
def test_without_the_quorum_rule_disks_are_lost_one_after_another_soon(seed: int) -> None:
    steps = [step for step in draw(nemesis(keep_quorum=False), 5, 60.0, seed) if step.do == "wipe"]
    for one, other in itertools.pairwise(steps):
        assert one.lasts is not None
        assert other.at >= one.at + one.lasts + BETWEEN


def test_crash_points_of_every_step_are_drawn_by_their_weights() -> None:
    aimed = Nemesis(every=(0.2, 0.5), faults={"crash-at": 1.0, "fail-at": 1.0, "wipe": 1.0}, keep_quorum=False)
    steps = [step for seed in range(60) for step in draw(aimed, 5, 60.0, seed)]
    points = [str(step.params["point"]) for step in steps if "point" in step.params]
    assert {point.split("#")[0] for point in points} == set(POINTS)
    assert all(parse(point) for point in points)
    assert all(check_action("fail", step.params["point"]) is None for step in steps if step.do == "fail-at")
    assert {step.params["enough"] for step in steps if "point" in step.params} == {"none"}
    for kind in ("wipe", "crash-at"):
        assert {step.params["crash-at"] is not None for step in steps if step.do == kind} == {True, False}
    only = replace(aimed, points=dict.fromkeys(POINTS, 0.0) | {"after-sync:MEMBER": 1.0}, faults={"crash-at": 1.0})
    assert {step.params["point"].split("#")[0] for step in draw(only, 5, 60.0, 1)} == {"after-sync:MEMBER"}


def test_every_kind_with_a_weight_is_drawn_and_no_other() -> None:
    drawn = {step.do for seed in range(60) for step in draw(nemesis(), 5, 120.0, seed)}
    assert drawn == set(EVERYTHING)
    only = Nemesis(every=(1.0, 1.0), faults={"crash": 1.0, "wipe": 0.0})
    assert {step.do for step in draw(only, 5, 60.0, 1)} == {"crash"}


def test_no_power_cut_on_the_ordinary_disk() -> None:
    only = Nemesis(every=(1.0, 1.0), faults={"power-cut": 1.0})
    assert draw(only, 5, 60.0, 1, faithful=True)
    assert not draw(only, 5, 60.0, 1, faithful=False)


def test_times_lie_within_the_run() -> None:
    for seed in range(20):
        times = [step.at for step in draw(nemesis(), 5, 30.0, seed)]
        assert times == sorted(times)
        assert all(0 < at < 30 for at in times)


@given(seeds, st.integers(2, 9))
def test_faults_of_a_burst_come_together_and_then_nothing_is_broken_for_a_while(seed: int, burst: int) -> None:
    given = Nemesis(every=(2.0, 4.0), heal_after=(0.1, 6.0), faults={"latency": 1.0}, keep_quorum=False, burst=burst)
    steps = draw(given, 5, 60.0, seed)
    gaps = [after.at - before.at for before, after in itertools.pairwise(steps)]
    assert [gap > 1.0 for gap in gaps] == [number % burst == 0 for number in range(1, len(steps))]
    assert all(0.1 <= (step.lasts or 0.0) <= 6.0 for step in steps)


def test_some_faults_of_bursts_are_soon_over_while_others_go_on() -> None:
    given = Nemesis(every=(2.0, 4.0), heal_after=(0.1, 10.0), faults={"latency": 1.0}, keep_quorum=False, burst=5)
    lengths = sorted(step.lasts or 0.0 for step in draw(given, 5, 600.0, 1))
    assert 0.6 < lengths[len(lengths) // 2] < 1.5


def test_an_ensemble_of_one_may_lose_its_disk_where_no_quorum_is_kept() -> None:
    lost = [any(is_exclusive(step) for step in draw(nemesis(keep), 1, 120.0, 1)) for keep in (True, False)]
    assert lost == [False, True]
