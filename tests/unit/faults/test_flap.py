"""Cut and flapping links: a cut is judged by the frame counters of its receivers; without counters its effect is unknown."""

from collections.abc import Callable
from random import Random
from typing import Any, cast

import pytest

from tests.unit.faults.links_in_memory import LinksInMemory, params_of
from zab_chaos.faults.kind import FaultContext
from zab_chaos.faults.partition import Flap, Partition, can_release
from zab_chaos.faults.registry import KINDS


@pytest.fixture
def flap(sleepers: Callable[..., Any], patient: Any) -> Flap:
    """A flap of the links of node 1 of two nodes, after the first cut."""
    params = params_of(KINDS["flap"], down=1.0, up=1.0)
    cluster = sleepers(2)
    cluster.frames = {(1, 2): 7, (2, 1): 7}
    made = Flap(FaultContext(cluster, cast(Any, LinksInMemory()), Random(1), patience=5.0, host=patient), [1], params)
    made.inject()
    made.watch(0.0)
    return made


def again(flap: Flap, turn: float) -> None:
    """Heal the links and cut them again."""
    flap.watch(turn)
    flap.watch(turn + 1)


def test_cuts_in_which_no_frame_arrives_are_confirmed(flap: Flap) -> None:
    again(flap, 1)
    flap.heal()
    assert flap.recovered().evidence == {"cuts": 2, "silent": 2, "leaked": 0}
    assert flap.recovered().confirmed


def test_a_single_leak_prevents_confirmation(flap: Flap) -> None:
    again(flap, 1)
    flap.cluster.frames[1, 2] += 1  # type: ignore[attr-defined]
    again(flap, 3)
    flap.heal()
    assert flap.recovered().evidence == {"cuts": 3, "silent": 2, "leaked": 1}
    assert not flap.recovered().confirmed


@pytest.mark.parametrize("how", ["kill", "pause"])
def test_cuts_without_a_running_receiver_are_silent(flap: Flap, how: str) -> None:
    for node in (1, 2):
        getattr(flap.cluster, how)(node)
    flap.heal()
    assert flap.recovered().confirmed


@pytest.mark.parametrize("moving", [0, 1])
def test_receivers_that_have_just_resumed_are_watched_for_a_while(
    flap: Flap, patient: Any, monkeypatch: pytest.MonkeyPatch, moving: int
) -> None:
    """If a receiver's counts do not settle, it is unknown which frames were in flight before the cut."""
    flap.watch(1)
    for node in (1, 2):
        flap.cluster.pause(node)
    flap.watch(2)
    for node in (1, 2):
        flap.cluster.resume(node)

    def sleep(seconds: float) -> None:
        patient.time += seconds
        flap.cluster.frames.update({link: count + moving for link, count in flap.cluster.frames.items()})  # type: ignore[attr-defined]

    monkeypatch.setattr(patient, "sleep", sleep)
    flap.heal()
    assert flap.recovered().evidence == {"cuts": 2, "silent": 2 - moving, "leaked": 0}
    assert flap.recovered().confirmed


def test_at_least_one_cut_must_be_confirmed(flap: Flap) -> None:
    flap.silent = 0
    assert not flap.recovered().confirmed


@pytest.mark.parametrize(("crossed", "answers", "confirmed"), [(0, True, True), (1, True, False), (0, False, False)])
def test_a_partition_is_judged_by_the_counters_before_it_is_healed(
    sleepers: Callable[..., Any], patient: Any, crossed: int, answers: bool, confirmed: bool
) -> None:
    cluster = sleepers(2)
    cluster.frames = {(1, 2): 7, (2, 1): 7}

    def on_heal() -> None:
        cluster.frames[1, 2] += 5

    links, params = LinksInMemory(on_heal), params_of(KINDS["partition"])
    cut = Partition(FaultContext(cluster, cast(Any, links), Random(1), patience=5.0, host=patient), [1], params)
    cut.inject()
    assert cut.injected().confirmed
    cluster.frames[1, 2] += crossed
    if not answers:
        cluster.status = lambda *_, **__: None
    cut.heal()
    assert cut.recovered().confirmed is confirmed


@pytest.mark.parametrize(("strike", "released"), [("status", True), ("pause", False), ("kill", False)])
def test_what_a_link_holds_back_is_released_only_if_both_ends_run(flap: Flap, strike: str, released: bool) -> None:
    getattr(flap.cluster, strike)(2)
    assert can_release(flap.context, ((1, 2),)) is released
