"""Scenarios that give the disks before the start, or the state that all nodes must have at the end."""

from dataclasses import replace
from pathlib import Path

import pytest

from zab_chaos.faults.scenario import AT_ROOT, Expect, InitialDisk, Operation, Scenario, Workload
from zab_chaos.harness.explore.simulate import simulate
from zab_chaos.harness.runs.initial_disks import write_disk
from zab_chaos.model.verdict import Judgement
from zab_chaos.node.core import zxid as zx
from zab_chaos.node.store.disk import OrdinaryDisk
from zab_chaos.node.store.store import Store

pytestmark = pytest.mark.slow

ASKED = (
    Operation(at=0.1, value="a"),
    Operation(at=0.2, do="cas", version=1, value="b"),
    Operation(at=0.3, do="cas", version=1, value="c"),
)


def ends_with(**state: tuple[str | None, ...]) -> Scenario:
    return Scenario(
        name="state", about="-", duration=1.0, operations=ASKED, workload=Workload(clients=1, keys=1),
        expect=Expect(state={f"/{name.replace('_', '-')}": values for name, values in state.items()}),
    )  # fmt: skip


def test_the_state_at_the_end_is_what_was_expected() -> None:
    verdict = simulate(ends_with(key_0=("x", "b"), key_1=(None,)), 1, None).verdict
    assert verdict.exit == 0, verdict.reasons
    assert verdict.property("expected state").checked == 6


def test_another_state_is_a_violation_that_names_the_nodes() -> None:
    verdict = simulate(ends_with(key_0=("c", None)), 1, None).verdict
    assert verdict.violated == ["expected state"]
    assert "node 1 'b', node 2 'b', node 3 'b'; all must have 'c' or no such znode" in verdict.reasons[0]


def test_without_an_expected_state_the_nodes_are_not_asked() -> None:
    found = simulate(replace(ends_with(), expect=Expect()), 1, None).verdict.property("expected state")
    assert found.verdict is Judgement.NOT_APPLICABLE


BEFORE = tuple((1, counter) for counter in (1, 2, 3))


def starts_from(*disks: InitialDisk, held: dict[str, tuple[str | None, ...]]) -> Scenario:
    return Scenario(
        name="disks", about="-", duration=1.0, disks=disks, workload=Workload(clients=1, keys=1),
        expect=Expect(state=held),
    )  # fmt: skip


@pytest.mark.parametrize("faithful", ["faithful", "ordinary"])
def test_nodes_start_from_the_given_disks(faithful: str) -> None:
    """A quorum holds 1:3, so it may be committed, and all nodes get it."""
    longer = [InitialDisk(node=node, accepted_epoch=1, current_epoch=1, log=BEFORE) for node in (1, 2)]
    shorter = InitialDisk(node=3, accepted_epoch=4, current_epoch=1, log=BEFORE[:2])
    scenario = starts_from(*longer, shorter, held={"/before-1-3": ("1.3",), "/before-1-4": (None,)})
    verdict = simulate(replace(scenario, disk=faithful), 1, None).verdict
    assert verdict.exit == 0, verdict.reasons
    assert verdict.metrics["epochs"] >= 1


def test_a_later_epoch_wins_over_a_longer_log() -> None:
    """LADIS 2008, Figure 4: transactions that only the leader of an earlier epoch had logged are truncated."""
    old = InitialDisk(node=3, accepted_epoch=2, current_epoch=1, log=BEFORE)
    new = [InitialDisk(node=node, accepted_epoch=2, current_epoch=2, log=(*BEFORE[:1], (2, 1))) for node in (1, 2)]
    held: dict[str, tuple[str | None, ...]] = {"/before-1-3": (None,), "/before-2-1": ("2.1",)}
    verdict = simulate(starts_from(old, *new, held=held), 1, None).verdict
    assert verdict.exit == 0, verdict.reasons


def test_sequential_children_of_the_root_are_numbered_behind_those_on_the_given_disks() -> None:
    new = [InitialDisk(node=node, accepted_epoch=2, current_epoch=2, log=(*BEFORE[:1], (2, 1))) for node in (1, 2)]
    one = replace(starts_from(*new, held={}), workload=Workload(clients=1, keys=1, mix={AT_ROOT: 1}))
    verdict = simulate(one, 1, None).verdict
    assert verdict.exit == 0, verdict.reasons
    assert verdict.metrics["acked"] > 1


def test_a_written_disk_recovers_the_given_state(tmp_path: Path) -> None:
    disk = InitialDisk(node=1, accepted_epoch=9, current_epoch=7, log=(*BEFORE, (5, 1), (5, 2)))
    held = write_disk(tmp_path, disk, 4096)
    _, recovered, report = Store.open(OrdinaryDisk(tmp_path), bootstrap=False, segment_bytes=4096)
    assert (recovered.accepted_epoch, recovered.current_epoch, recovered.amnesiac) == (9, 7, False)
    assert [(zx.pair(first), len(txns)) for first, txns in recovered.runs] == [([1, 1], 3), ([5, 1], 2)]
    assert [(epoch, first) for epoch, first, _, _ in held["runs"]] == [(1, 1), (5, 1)]
    assert report.torn_bytes == 0
