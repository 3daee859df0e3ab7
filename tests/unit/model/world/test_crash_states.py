"""Crash states: what the trials find, and that they do not change the run."""

import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self, cast

import pytest

from tests.unit.node.store.shelf import freeze, snap, txns
from zab_chaos.faults.defects import DEFECTS
from zab_chaos.faults.scenario import FaultStep, Scenario, Workload
from zab_chaos.harness.backends.simulator.backend import SimBackend, SimDeployment, plan_of
from zab_chaos.harness.explore.simulate import simulate
from zab_chaos.harness.results import run_folder
from zab_chaos.harness.runs.run import execute
from zab_chaos.model.log_records import LogContents
from zab_chaos.model.verdict import Verdict
from zab_chaos.model.world import crash_states
from zab_chaos.model.world.crash_states import CrashTestedDisk, CrashTestedNode, ReferenceStore, TrialDisk
from zab_chaos.model.world.server import die
from zab_chaos.node.components import Components
from zab_chaos.node.config import Limits
from zab_chaos.node.core.ready import EpochRecord, MemberRecord, NewLeaderRecord, Record, Recovered, TruncRecord
from zab_chaos.node.core.zxid import Zxid, zxid
from zab_chaos.node.store.disk import Disk
from zab_chaos.node.store.errors import Corrupt, DiskFailed
from zab_chaos.node.store.log_record import RecordKind
from zab_chaos.node.store.recovery import RecoveryReport
from zab_chaos.node.store.store import Store

pytestmark = pytest.mark.slow

CRASH = FaultStep(at=1.0, do="crash", target="node-1", lasts=0.5)
SCENARIO = Scenario(
    name="crash-states", duration=2.0, crash_states=True, faults=(CRASH,),
    workload=Workload(clients=2, rate=50.0, payload_bytes=64),
    limits=Limits(snapshot_bytes=2**11, segment_bytes=2**12),
)  # fmt: skip


class Ran:
    """A simulated run whose files are kept."""

    def __init__(self, scenario: Scenario, folder: Path) -> None:
        self.folder = run_folder.create(folder, scenario.name, 1)
        self.deployment = SimDeployment(scenario, 1, None, self.folder, record=False)
        outcome, _ = execute(scenario, 1, self.deployment, SimBackend.abilities)
        self.verdict: Verdict = self.deployment.judge(outcome)
        self.deployment.records.close()

    def files(self) -> dict[str, bytes]:
        return {
            str(path.relative_to(self.folder.path)): path.read_bytes() for path in self.folder.path.rglob("*.jsonl")
        }


def test_an_honest_run_is_the_same_with_trials_and_without(tmp_path: Path) -> None:
    tried, plain = (Ran(replace(SCENARIO, crash_states=wanted), tmp_path / str(wanted)) for wanted in (True, False))
    assert (tried.verdict.exit, tried.files()) == (0, plain.files())
    for node in tried.deployment.machines.values():
        assert isinstance(node, CrashTestedNode)
        assert node.trials > 10
    assert not any(isinstance(node, CrashTestedNode) for node in plain.deployment.machines.values())


@pytest.mark.parametrize("defect", ["torn-tail-kept", "recovered-not-synced", "epoch-before-history"])
def test_a_possible_loss_is_reported_although_the_run_lost_nothing(defect: str) -> None:
    scenario = replace(SCENARIO, faults=())
    assert simulate(scenario, 1, DEFECTS[defect].path).verdict.violated == ["disk"]
    assert simulate(replace(scenario, crash_states=False), 1, DEFECTS[defect].path).verdict.exit == 0


class TrustsWhatIsLeft(Store):
    """Takes a temporary file for proof that the first start of the node was interrupted, and that it lost no disk."""

    @classmethod
    def open(cls, disk: Disk, *, bootstrap: bool, **options: Any) -> tuple[Self, Recovered, RecoveryReport]:
        return super().open(disk, bootstrap=bootstrap or bool(disk.list()), **options)


def test_the_first_start_on_a_wiped_disk_may_be_interrupted() -> None:
    wipe = FaultStep(at=1.0, do="wipe", target="node-1", lasts=0.5)
    scenario = replace(SCENARIO, faults=(wipe,))
    assert simulate(scenario, 2, None, plan_of(scenario, None)).verdict.exit == 0
    plan = replace(plan_of(scenario, None), parts=Components(store=TrustsWhatIsLeft))
    verdict = simulate(scenario, 2, None, plan).verdict
    assert verdict.violated == ["disk"]
    (violation,) = verdict.property("disk").violations
    assert "its disk had held f.p = 0, f.a = 0 and a history up to 0:0, with the mark of a lost disk" in violation.words
    assert simulate(replace(scenario, crash_states=False), 2, None, plan).verdict.exit == 0


@pytest.mark.parametrize("life", [0, 1])
def test_a_wiped_disk_is_known_and_one_that_was_replaced_is_not(life: int, tmp_path: Path) -> None:
    """A fault that damages files of a disk replaces all of them. The first life begins on an empty disk as a member."""
    disk = CrashTestedDisk(faithful=True, draw_sync=lambda: 0, die=die)
    reference = ReferenceStore()
    disk.node = cast("CrashTestedNode", SimpleNamespace(reference=reference, life=life))
    for empty in (disk.wipe, partial(disk.import_from, tmp_path)):
        empty()
        assert (reference.known, reference.durable.amnesiac) == (bool(life), bool(life))
    (tmp_path / "log-00000001").write_bytes(b"damaged")
    disk.import_from(tmp_path)
    assert not reference.known


class TriesAgain(Store):
    """Takes a successful sync as proof that the data of the failed sync before it is durable."""

    def make_durable(self) -> None:
        try:
            super().make_durable()
        except DiskFailed:
            super().make_durable()


def test_a_crash_state_tells_what_was_not_yet_synced() -> None:
    """The records and the names that the crash could take; and whether later lives wrote records of the simulator's own."""
    scenario = replace(SCENARIO, faults=())
    plan = replace(plan_of(scenario, None), parts=Components(store=TriesAgain))
    verdicts = [
        simulate(scenario, 1, DEFECTS["epoch-before-history"].path).verdict,
        simulate(scenario, 1, None, plan).verdict,
    ]
    words = "\n".join(violation.words for verdict in verdicts for violation in verdict.property("disk").violations)
    assert re.search(r"these records were not yet synced: EPOCH, (TRUNC|SNAP), NEWLEADER", words), words
    assert re.search(
        r"changes of its folder that were not yet synced when that life ended: (log|snapshot)-[0-9a-f]+(\.tmp)? created",
        words,
    ), words
    assert " and then, in lives that wrote records made up for the trial, a power cut" in words
    assert "the next start would have refused log-" in words
    assert "Restore the file" not in words  # there is none: it is what a start could have found


class StartsAnyway(Store):
    """Begins anew on a disk that it can't read."""

    @classmethod
    def open(cls, disk: Disk, **options: Any) -> tuple[Self, Recovered, RecoveryReport]:
        try:
            return super().open(disk, **options)
        except Corrupt:
            for name in disk.list():
                disk.remove(name)
            return super().open(disk, **options)


def test_a_start_on_a_damaged_disk_must_refuse_it_or_recover_what_it_held() -> None:
    scenario = replace(SCENARIO, faults=())
    plan = replace(plan_of(scenario, None), parts=Components(store=StartsAnyway))
    verdict = simulate(scenario, 1, None, plan).verdict
    assert verdict.violated == ["disk"]
    words = "\n".join(violation.words for violation in verdict.property("disk").violations)
    assert re.search(
        r"would have recovered .* from a damaged disk \((a sector of zeros|bit \d flipped) in log-", words
    ), words
    assert simulate(replace(scenario, crash_states=False), 1, None, plan).verdict.exit == 0


def test_disks_fail_in_the_lives_of_trials() -> None:
    scenario = replace(SCENARIO, faults=())
    plan = replace(plan_of(scenario, None), parts=Components(store=TriesAgain))
    assert simulate(scenario, 1, None, plan).verdict.violated == ["disk"]
    assert simulate(replace(scenario, crash_states=False), 1, None, plan).verdict.exit == 0


def test_one_sync_fails_and_those_before_and_after_it_succeed() -> None:
    disk, succeeded = TrialDisk(), []
    file = disk.create("log")
    disk.syncs_before_failure = 2
    for _ in range(4):
        file.write(b"x")
        try:
            file.sync()
        except OSError:
            succeeded.append(False)
        else:
            succeeded.append(True)
    assert succeeded == [True, True, False, True]


def test_the_sync_that_fails_need_not_be_the_first_of_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    fails_after: set[int | None] = set()

    class Notes(Store):
        def take_snapshot(self, zxid: Zxid, digest: int, state: bytes) -> None:
            if isinstance(self.disk, TrialDisk):
                fails_after.add(self.disk.syncs_before_failure)
            super().take_snapshot(zxid, digest, state)

    monkeypatch.setattr(crash_states, "SYNC_FAILURE_PROBABILITY", 1.0)
    scenario = replace(SCENARIO, faults=())
    simulate(scenario, 1, None, replace(plan_of(scenario, None), parts=Components(store=Notes)))
    assert any(fails_after)


def test_a_start_of_the_run_that_loses_something_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The starts of the run itself are checked against the reference model, too."""
    told: list[str] = []
    monkeypatch.setattr(CrashTestedNode, "_report", lambda self, why: told.append(why))
    monkeypatch.setattr(LogContents, "matches", lambda self, found: False)
    monkeypatch.setattr(CrashTestedNode, "_try", lambda self: None)
    simulate(SCENARIO, 1, None)
    assert told
    assert all(why.startswith("its start has recovered f.p = 1, f.a = 1 and a history up to 1:") for why in told)


def test_an_ordinary_disk_is_not_tried() -> None:
    deployment = SimDeployment(replace(SCENARIO, disk="ordinary"), 1, None, None, record=False)
    assert not any(isinstance(node, CrashTestedNode) for node in deployment.machines.values())


# ---- the reference model of a store ----

OLD = [(zxid(1, 1), b"a"), (zxid(1, 2), b"b")]


def reference(*waiting: Record) -> ReferenceStore:
    """Return a reference store with two transactions of epoch 1, and these records waiting."""
    one = ReferenceStore()
    one.on_recovery(recovered())
    for record in waiting:
        one.append(record)
    return one


def recovered(*more: tuple[Zxid, bytes], promise: int = 1, current: int = 1, keep: int = 2) -> Recovered:
    runs = [(zxid_, [data]) for zxid_, data in [*OLD[:keep], *more]]
    return Recovered(accepted_epoch=promise, current_epoch=current, runs=runs)


def test_any_prefix_of_the_waiting_records_may_be_recovered() -> None:
    it = reference(EpochRecord(2), txns(zxid(1, 3), b"c", b"d"))
    c, d = (zxid(1, 3), b"c"), (zxid(1, 4), b"d")
    for found in (recovered(), recovered(promise=2), recovered(c, promise=2), recovered(c, d, promise=2)):
        assert it.allows(found)
    for found in (recovered(c), recovered(d, promise=2), recovered(keep=1), recovered((zxid(1, 3), b"x"), promise=2)):
        assert not it.allows(found)


def test_the_records_that_are_not_synced_are_named_by_kind() -> None:
    it = reference(EpochRecord(2), txns(zxid(1, 3), b"c", b"d"), snap([(zxid(2, 5), b"x")]), NewLeaderRecord(2))
    assert it.describe().endswith(", and these records were not yet synced: EPOCH, 2 TXN, SNAP, NEWLEADER")
    assert all(name in RecordKind.__members__ for name in ("EPOCH", "TXN", "SNAP", "NEWLEADER"))
    it.on_sync()
    assert "not yet synced" not in it.describe()


def test_synced_records_must_be_recovered() -> None:
    it = reference(EpochRecord(2), txns(zxid(1, 3), b"c"))
    it.on_sync()
    assert it.allows(recovered((zxid(1, 3), b"c"), promise=2))
    assert not it.allows(recovered(promise=2))


def test_a_group_is_recovered_completely_or_not_at_all() -> None:
    group = (TruncRecord(zxid(1, 1)), txns(zxid(2, 1), b"n"), NewLeaderRecord(2))
    new = recovered((zxid(2, 1), b"n"), current=2, keep=1)
    open_one, closed = reference(*group[:2]), reference(*group)
    open_one.on_sync()  # an open group is not written
    for it in (open_one, closed):
        assert it.allows(recovered())
        assert not it.allows(recovered(keep=1))
    assert closed.allows(new)
    assert not open_one.allows(new)
    closed.on_sync()
    assert not closed.allows(recovered())


def test_a_snapshot_stands_for_what_it_was_taken_of() -> None:
    it = reference(txns(zxid(1, 3), b"c"))
    above = [(zxid(1, 3), [b"c"])]
    taken = (zxid(1, 2), 7, b"state")
    told = Recovered(accepted_epoch=1, current_epoch=1, snapshot=taken, runs=above)
    assert not it.allows(told)
    it.add_snapshot(*taken)
    assert it.allows(told)
    assert it.allows(replace(told, runs=[]))
    assert not it.allows(replace(told, snapshot=(zxid(1, 2), 7, b"another")))
    assert not it.allows(replace(told, snapshot=(zxid(1, 1), 7, b"state")))


def test_a_snapshot_that_replaces_the_history_leaves_nothing_of_it() -> None:
    installed = snap([(zxid(2, 5), b"x")])
    it = reference(installed, NewLeaderRecord(2), MemberRecord())
    it.on_sync()
    told = Recovered(
        accepted_epoch=1, current_epoch=2, snapshot=(zxid(2, 5), installed.digest, freeze([(zxid(2, 5), b"x")]))
    )
    assert it.allows(told)
    assert not it.allows(recovered(current=2))
    assert not it.allows(replace(told, amnesiac=True))
