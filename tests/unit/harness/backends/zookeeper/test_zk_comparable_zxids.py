"""Servers that show different zxids may have reached the same point; an ensemble is complete under one leader."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from zab_chaos.faults.cluster import Status
from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.backends import ensemble_state
from zab_chaos.harness.backends.zookeeper.deployment import ZooKeeperDeployment, with_comparable_zxids
from zab_chaos.harness.results.run_folder import RunFolder

Zxid = tuple[int, int]


def far(*zxids: Zxid) -> list[Zxid]:
    answers = {
        node: Status(
            node=node, life=1, role="FOLLOWING", phase="BROADCAST", leader=3, epoch=2, accepted_epoch=2, last_zxid=zxid,
            delivered=zxid, digest="", tree="", established=True, amnesiac=False, frames={}, armed=[], unsynced_bytes=0,
        )
        for node, zxid in enumerate(zxids, 1)
    }  # fmt: skip
    return [status.delivered for status in with_comparable_zxids(answers).values()]


def test_a_leader_without_a_transaction_is_put_at_the_end_of_the_epochs_before() -> None:
    assert far((1, 7), (1, 7), (2, 0)) == [(1, 7)] * 3
    assert far((0, 0), (0, 0), (1, 0)) == [(0, 0)] * 3


def test_servers_that_are_behind_stay_behind() -> None:
    assert far((1, 6), (1, 7), (2, 0)) == [(1, 6), (1, 7), (1, 7)]
    assert far((1, 7), (2, 1), (2, 0)) == [(1, 7), (2, 1), (1, 7)]
    assert far((1, 7), (1, 7), (1, 8)) == [(1, 7), (1, 7), (1, 8)]


@pytest.mark.parametrize(
    ("leaders", "complete"),
    [
        ((1, 1, 1), True),
        ((1, 1, 3), False),  # server 3 has not heard of the new leader
        ((1, 1, None), True),  # which server 3 follows is not known
        ((1, 1), False),
        ((1, 2, 3), False),
    ],
)
def test_an_ensemble_is_complete_when_all_servers_serve_under_one_leader(
    leaders: tuple[int | None, ...], complete: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = {
        node: Status(
            node=node, life=1, role="LEADING" if leader == node else "FOLLOWING", epoch=2, leader=leader, established=True
        )
        for node, leader in enumerate(leaders, 1)
    }  # fmt: skip
    monkeypatch.setattr(ensemble_state, "statuses", lambda _: answers)
    deployment = ZooKeeperDeployment(RunFolder(tmp_path), Scenario(name="x", about="-", nodes=3), "3.9.5")
    deployment.cluster = SimpleNamespace(nodes=[1, 2, 3], voters=[1, 2, 3])  # type: ignore[assignment]
    assert deployment.complete() is complete


def test_a_leader_and_the_voters_that_follow_it_make_an_ensemble(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    roles = {1: "FOLLOWING", 2: "LEADING", 3: "OBSERVING", 4: "OBSERVING"}
    answers = {
        node: Status(node=node, life=1, role=role, epoch=2, leader=2, established=True) for node, role in roles.items()
    }
    monkeypatch.setattr(ensemble_state, "statuses", lambda _: answers)
    deployment = ZooKeeperDeployment(RunFolder(tmp_path), Scenario(name="x", nodes=4, observers=2), "3.9.5")
    deployment.cluster = SimpleNamespace(nodes=[1, 2, 3, 4], voters=[1, 2])  # type: ignore[assignment]
    assert deployment.complete()
    del answers[4]
    assert not deployment.complete()
