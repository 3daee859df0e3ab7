"""Faults of single frames are confirmed by the number of frames that were hit on each link."""

from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from zab_chaos.faults.kind import FaultContext
from zab_chaos.faults.links import SomeFrames
from zab_chaos.faults.registry import KINDS

Counts = dict[tuple[int, int], tuple[int, int]]


class Links:
    """Links that accept every toxic, with frame counts set by the test."""

    def __init__(self) -> None:
        self.counts: Counts = {}
        self.on: dict[tuple[int, int], list[Any]] = {}
        self.left: dict[tuple[int, int], list[str]] = {}  # the effects that healing does not remove

    def disturb(self, pairs: Any, toxics: Any, _name: str, fresh: bool) -> None:
        self.on = dict.fromkeys(pairs, toxics)

    def toxics(self, pair: tuple[int, int]) -> list[Any]:
        return self.on[pair]

    def heal(self, *_: Any) -> None:
        self.on = {}

    def broken(self) -> dict[tuple[int, int], list[str]]:
        return self.left

    def frames(self, pair: tuple[int, int], _kind: str) -> tuple[int, int]:
        return self.counts.get(pair, (0, 0))


@pytest.fixture
def links() -> Links:
    return Links()


@pytest.fixture(params=["late-frames", "corrupt-frames", "misrouted-frames"])
def fault(request: pytest.FixtureRequest, sleepers: Callable[..., Any], links: Links) -> SomeFrames:
    """A fault of node 1 of three, injected."""
    kind = KINDS[request.param]
    params = {key.name: key.default for key in kind.keys} | {"ms": 5, "one_in": 7}
    links.counts = {(1, 2): (10, 3)}
    made = kind.make(FaultContext(sleepers(3), cast(Any, links), Random(1)), [1], params)
    assert isinstance(made, SomeFrames)
    made.inject()
    assert made.injected().confirmed
    return made


def healed(fault: SomeFrames, links: Links, counts: Counts) -> SimpleNamespace:
    links.counts = counts
    fault.heal()
    shown = fault.recovered()
    return SimpleNamespace(confirmed=shown.confirmed, frames=shown.evidence["frames"], hit=shown.evidence["hit"])


def test_frames_are_counted_from_the_injection_on(fault: SomeFrames, links: Links) -> None:
    shown = healed(fault, links, {(1, 2): (30, 5), (1, 3): (4, 1)})
    assert (shown.confirmed, shown.frames, shown.hit) == (True, 24, 3)


def test_frames_without_a_hit_disprove_the_fault(fault: SomeFrames, links: Links) -> None:
    assert not healed(fault, links, {(1, 2): (30, 3), (1, 3): (4, 1)}).confirmed


def test_links_without_frames_need_no_hit(fault: SomeFrames, links: Links) -> None:
    assert healed(fault, links, {(1, 2): (11, 4)}).confirmed


@pytest.mark.parametrize("drawn", [True, False])
def test_only_a_drawn_fault_may_hit_no_frame_at_all(drawn: bool, fault: SomeFrames, links: Links) -> None:
    fault.context.drawn = drawn
    assert healed(fault, links, {(1, 2): (10, 3)}).confirmed is drawn


def test_the_frames_that_the_targets_send_are_misrouted(sleepers: Callable[..., Any], links: Links) -> None:
    fault = KINDS["misrouted-frames"].make(
        FaultContext(sleepers(4), cast(Any, links), Random(1)), [1, 2], {"one_in": 1}
    )
    assert {source for source, _ in fault.pairs} == {1, 2}
    assert len(fault.pairs) == 6


def test_a_toxic_must_be_on_every_link_and_later_on_none(fault: SomeFrames, links: Links) -> None:
    links.on[1, 2] = []
    assert not fault.injected().confirmed
    links.left = {(1, 2): [fault.name]}
    assert not healed(fault, links, {(1, 2): (20, 4)}).confirmed
