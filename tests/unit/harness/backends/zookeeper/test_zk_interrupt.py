"""An interrupt of a run on ZooKeeper: it ends soon, and its evidence is complete."""

import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.harness.backends.zookeeper.conftest import write_log
from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.backends.zookeeper import client as clients
from zab_chaos.harness.backends.zookeeper import deployment as deployments
from zab_chaos.harness.backends.zookeeper.client import ZooKeeperClient
from zab_chaos.harness.backends.zookeeper.deployment import ZooKeeperDeployment
from zab_chaos.harness.backends.zookeeper.ensemble import ZooKeeperCluster
from zab_chaos.harness.backends.zookeeper.evidence import RunEvidence
from zab_chaos.harness.backends.zookeeper.session_load import SessionLoad
from zab_chaos.harness.machine.interrupt import Forced, Interrupt, Stopped
from zab_chaos.harness.report.progress import Display
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.harness.workload.thread import LoadThread
from zab_chaos.model.events import trace_name


class Kept(Display):
    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, words: str) -> None:
        self.said.append(words)


@pytest.fixture
def deployment(cluster: ZooKeeperCluster, data: Path, tmp_path: Path) -> ZooKeeperDeployment:
    """A deployment with one server, which has written a log."""
    write_log(data)
    folder = RunFolder(tmp_path)
    scenario = Scenario(name="one", about="-", nodes=1, duration=1.0)
    made = ZooKeeperDeployment(folder, scenario, "3.9.5", Kept())
    made.cluster = cluster
    made._sampler = SimpleNamespace(samples=[])  # type: ignore[assignment]
    made.workload(1)
    return made


def interrupted_after(work: Callable[[RunEvidence], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Do something before the evidence is written."""
    write = deployments.write_evidence

    def slow(evidence: RunEvidence, *others: Any) -> None:
        work(evidence)
        write(evidence, *others)

    monkeypatch.setattr(deployments, "write_evidence", slow)


@pytest.mark.parametrize("earlier", [True, False])
def test_the_end_of_the_grace_period_does_not_end_the_reading_of_the_disks(
    earlier: bool, deployment: ZooKeeperDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal may come before, or during the reading."""

    def work(_: RunEvidence) -> None:
        if not earlier:
            signal.raise_signal(signal.SIGINT)
        time.sleep(0.6)

    interrupted_after(work, monkeypatch)
    deployment._hurry = earlier
    with Interrupt(grace=0.5):
        if earlier:
            signal.raise_signal(signal.SIGINT)
        deployment._write_traces()
        with pytest.raises(Stopped):
            signal.pause()
    assert deployment.folder.file(trace_name(1, 1)).exists()
    assert deployment._display.said == ([deployments.READING] if earlier else [])  # type: ignore[attr-defined]


def test_nothing_is_read_any_more_after_a_second_signal(deployment: ZooKeeperDeployment) -> None:
    deployment._stack.callback(deployment._write_traces)
    deployment.__exit__(Forced, Forced(), None)
    assert not any(deployment.folder.file("trace").iterdir())


def test_the_servers_end_at_once_and_before_the_clients_are_closed(
    cluster: ZooKeeperCluster, deployment: ZooKeeperDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(ZooKeeperClient, "give_up", lambda client: asked.append(client.number))
    made = deployment.client({1: "127.0.0.1:1"}, 1, 7, 1.0)
    deployment.on_interrupted()
    made.close()
    assert (cluster.alive(1), cluster._lives[1].code, asked) == (False, -signal.SIGKILL, [7])


def test_a_load_that_is_interrupted_while_it_ends_is_ended_before_its_operations_are_read(
    cluster: ZooKeeperCluster, deployment: ZooKeeperDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: list[tuple[float, bool]] = []
    evidence: list[int] = []

    def stop(_: LoadThread, grace: float) -> None:
        stopped.append((grace, cluster.alive(1)))
        if grace:
            raise Stopped

    monkeypatch.setattr(LoadThread, "stop", stop)
    interrupted_after(lambda _: evidence.append(len(stopped)), monkeypatch)
    load = deployment._load
    assert load is not None
    with pytest.raises(Stopped):
        load.stop(5.0)
    load.ended = False  # as if it had been interrupted once more
    deployment._write_traces()
    assert (stopped, evidence) == ([(5.0, True), (0.0, False)], [2])
    deployment._write_traces()
    assert len(stopped) == 2


def test_after_an_interrupt_the_servers_are_not_asked_what_they_have_of_the_sessions(
    deployment: ZooKeeperDeployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[bool] = []
    monkeypatch.setattr(SessionLoad, "_record_final_reads", lambda _: read.append(True))
    load = deployment._load
    assert load is not None
    load._session_load = SessionLoad({1: "127.0.0.1:1"}, tmp_path / "sessions.jsonl", 1, 1)
    deployment._hurry = True
    load.stop(0.0)
    assert read == []
    load._session_load = SessionLoad({1: "127.0.0.1:1"}, tmp_path / "sessions.jsonl", 1, 1)
    deployment._hurry = False
    load.stop(0.0)
    assert read == [True]


def test_a_client_that_has_given_up_is_closed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing listens at its server's port."""
    monkeypatch.setattr(clients, "CLOSE_SECONDS", 60.0)
    client = ZooKeeperClient({1: "127.0.0.1:1"}, 1, number=1)
    client.poll()
    assert client._current is not None
    client.give_up()
    assert client._kazoo._connection.connection_stopped.wait(10.0)
    client.close()
