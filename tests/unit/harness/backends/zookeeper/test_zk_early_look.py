"""Servers whose trees were read, and which were used after that: what was read then is no evidence of their end."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from tests.unit.harness.backends.zookeeper.conftest import LAST, write_log
from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.backends import ensemble_state
from zab_chaos.harness.backends.zookeeper import deployment as deployments
from zab_chaos.harness.backends.zookeeper import tree
from zab_chaos.harness.backends.zookeeper.deployment import ZooKeeperDeployment
from zab_chaos.harness.backends.zookeeper.ensemble import ZooKeeperCluster
from zab_chaos.harness.backends.zookeeper.evidence import RoleSample, RunEvidence
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.model.events import trace_name


def test_a_tree_is_not_that_of_a_server_which_went_on(cluster: ZooKeeperCluster, data: Path) -> None:
    """What it has logged since may never have been committed."""
    (shown,) = cluster.recorded_lives({1: "the tree"})
    write_log(data)
    cluster.kill(1)
    (ended,) = cluster.recorded_lives({})
    assert (shown.tree, ended.tree) == ("the tree", None)
    assert ended.disk_after.last > shown.disk_after.last


@pytest.fixture
def deployment(cluster: ZooKeeperCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ZooKeeperDeployment:
    """A deployment whose server has converged, and shows an empty tree."""
    monkeypatch.setattr(ensemble_state, "statuses", lambda _: {})
    monkeypatch.setattr(ensemble_state, "disagreement", lambda *_: None)
    monkeypatch.setattr(tree, "read", lambda _: tree.ServerTree({}, 7, 7))
    folder = RunFolder(tmp_path)
    folder.file("ops.jsonl").touch()
    made = ZooKeeperDeployment(folder, Scenario(name="by-hand", about="-", nodes=1, duration=1.0), "3.9.5")
    made.cluster = cluster
    made._sampler = SimpleNamespace(samples=[])  # type: ignore[assignment]
    return made


@pytest.mark.parametrize("settled", [False, True])
def test_an_ensemble_that_was_used_after_a_look_has_the_evidence_of_its_end(
    settled: bool, cluster: ZooKeeperCluster, data: Path, tmp_path: Path, deployment: ZooKeeperDeployment
) -> None:
    """An ensemble that is used by hand is looked at when it is ready, and may end without another look: by an interrupt, or
    because its toxiproxy is gone."""
    folder = RunFolder(tmp_path)
    folder.milestone("established")
    assert deployment.disagreement() is None
    if settled:
        folder.milestone("converged")
    else:
        cluster.kill(1)
        cluster.start(1)
        now = cluster.recorded_lives({})[-1].ended
        deployment._sampler.samples.append(RoleSample(now, 1, 2, "LEADING", 1, 1, True))
        write_log(data)
    cluster.close()
    deployment._write_traces()
    events: list[dict[str, Any]] = []
    for life in (1, 2):
        file = folder.file(trace_name(1, life))
        events += map(msgspec.json.decode, file.read_bytes().splitlines() if file.exists() else ())
    ends = [event["last_zxid"] for event in events if event["event"] == "left"]
    assert ends == ([[0, 0]] if settled else [[0, 0], list(divmod(LAST, 1 << 32))])
    assert folder.file("tree.jsonl").exists() == settled


def test_trees_are_not_read_again_for_the_report_if_the_last_look_has_read_all(
    deployment: ZooKeeperDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    monkeypatch.setattr(tree, "read", lambda address: read.append(address) or tree.ServerTree({}, 7, 7))
    monkeypatch.setattr(deployment.cluster, "role_status", lambda _: SimpleNamespace(established=True))
    assert deployment.disagreement() is None
    deployment.on_not_converged()
    assert (len(read), deployment._tree) == (1, tree.ServerTree({}, 7, 7))
    monkeypatch.setattr(ensemble_state, "disagreement", lambda *_: "different zxids")
    assert deployment.disagreement() == "different zxids"
    deployment.on_not_converged()
    assert len(read) == 2


@pytest.mark.parametrize("since", [6, 7])
def test_trees_that_changed_while_they_were_read_are_not_called_equal(
    since: int, cluster: ZooKeeperCluster, deployment: ZooKeeperDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[RunEvidence] = []
    monkeypatch.setattr(deployments, "write_evidence", lambda evidence, *_: written.append(evidence))
    monkeypatch.setattr(tree, "read", lambda _: tree.ServerTree({}, 7, since))
    assert deployment.disagreement() is None
    deployment.folder.milestone("converged")
    cluster.close()
    deployment._write_traces()
    assert [evidence.trees_equal for evidence in written] == [since == 7]


def test_the_sessions_of_all_clients_with_one_number_are_evidence(deployment: ZooKeeperDeployment) -> None:
    for number, session in ((1, 71), (2, 72), (1, 73)):
        client = deployment.client({1: "127.0.0.1:1"}, 1, number, 1.0)
        client.sessions.append(session)
        client.close()
    assert deployment._sessions() == {1: [71, 73], 2: [72]}
