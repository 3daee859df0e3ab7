"""Bugs that are masked when alone: the shipped defects remove the masks, which must work without them."""

from dataclasses import replace

import pytest

from zab_chaos.faults.defects import DEFECTS
from zab_chaos.faults.defects.election import PushesOwnHistory, VotesByZxid
from zab_chaos.faults.defects.storage import DirtySnapshot, NewestSnapshot, StaleHandle
from zab_chaos.faults.scenario import Scenario, load
from zab_chaos.harness.backends.simulator.backend import plan_of
from zab_chaos.harness.explore.simulate import simulate
from zab_chaos.harness.runs import catalogue
from zab_chaos.model.verdict import Judgement, Verdict
from zab_chaos.model.world.server import SimServer
from zab_chaos.node.components import Components
from zab_chaos.node.core.peer import Peer
from zab_chaos.node.store.recovery import Recovery
from zab_chaos.node.store.store import Store

SEEDS = (1, 2)


def scenario_of(defect: str) -> Scenario:
    return load(catalogue.shipped()[DEFECTS[defect].scenario])


def judged(scenario: Scenario, seed: int, peer: type[Peer] = Peer, store: type[Store] = Store) -> Verdict:
    plan = replace(plan_of(scenario, None), parts=Components(peer=peer, store=store))
    return simulate(scenario, seed, None, plan).verdict


@pytest.mark.parametrize("half", [VotesByZxid, PushesOwnHistory])
@pytest.mark.parametrize("seed", SEEDS)
def test_each_half_of_best_history_ignored_is_masked_by_the_other(half: type[Peer], seed: int) -> None:
    verdict = judged(scenario_of("best-history-ignored"), seed, peer=half)
    assert verdict.exit == 0, verdict.reasons


def test_starting_from_the_newest_snapshot_is_right_while_snapshots_are_clean() -> None:
    class OnlyNewest(Store):
        recovery = NewestSnapshot

    verdict = judged(scenario_of("dirty-snapshot"), 1, store=OnlyNewest)
    assert verdict.exit == 0, verdict.reasons


class OnlyDirty(DirtySnapshot):
    """A store that writes dirty snapshots; its recovery is correct."""

    recovery = Recovery


class OnlyStale(StaleHandle):
    """A store that leaves holes in its log; its reader is correct."""

    recovery = Recovery


@pytest.mark.parametrize(
    ("defect", "half", "refusal"),
    [
        ("dirty-snapshot", OnlyDirty, "the log no longer reaches below"),
        ("stale-handle", OnlyStale, "although one of sync"),
    ],
)
def test_a_correct_recovery_refuses_the_disk_instead_of_losing_anything(
    defect: str, half: type[Store], refusal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[str] = []

    class Watched(SimServer):
        def _fail(self, error: Exception) -> None:
            refused.append(str(error))
            super()._fail(error)

    monkeypatch.setattr("zab_chaos.model.world.machine.SimServer", Watched)
    verdict = judged(scenario_of(defect), 1, store=half)
    assert verdict.property(DEFECTS[defect].property).verdict is Judgement.PASS, verdict.reasons
    assert refused
    assert all(refusal in words for words in refused), refused
