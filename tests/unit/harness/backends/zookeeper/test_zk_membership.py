"""A change of the members is asked for until the committed configuration has it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.exceptions import ConnectionLoss, ReconfigInProcessError

from zab_chaos.faults.cluster import ClusterError
from zab_chaos.harness.backends.zookeeper import membership, server
from zab_chaos.harness.backends.zookeeper.ensemble import ZooKeeperCluster
from zab_chaos.harness.backends.zookeeper.releases import Release
from zab_chaos.harness.backends.zookeeper.server import Plan, Ports
from zab_chaos.harness.results.run_folder import RunFolder


def configuration(*members: int) -> bytes:
    return "\n".join(
        [*(f"server.{node}=zk-{node}:1:2:participant;127.0.0.1:3" for node in members), "version=1"]
    ).encode()


class Ensemble:
    """Answers requests to change the members: with the next of `answers`, an exception or the members that are committed."""

    def __init__(self, *answers: Any) -> None:
        self.committed, self.answers, self.asked = [1, 2, 3], list(answers), list[tuple[str | None, str | None]]()
        self.behind = False  # what a read shows may be old

    def done(self, value: Any) -> Any:
        return SimpleNamespace(get=lambda timeout: value)

    def sync_async(self, _path: str) -> Any:
        self.behind = False
        return self.done(None)

    def get_async(self, path: str) -> Any:
        assert path == "/zookeeper/config"
        assert not self.behind
        self.behind = True
        return self.done((configuration(*self.committed), None))

    def reconfig_async(self, joining: str | None, leaving: str | None, members: None, version: int) -> Any:
        assert (members, version) == (None, -1)
        self.asked.append((joining, leaving))
        answer = self.answers.pop(0)
        if isinstance(answer, list):
            self.committed = answer
            return self.done((configuration(*answer), None))
        carried_out, error = answer
        self.committed = carried_out or self.committed
        raise error


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ZooKeeperCluster:
    ports = {node: Ports(10 + node, 20 + node, 30 + node, 40 + node) for node in (1, 2, 3)}
    plan = Plan(release=Release("3.9.5", (), tmp_path), java="java", ports=ports, observers=1, dynamic=True)
    tmp_path.joinpath("config").mkdir()
    monkeypatch.setattr(ZooKeeperCluster, "_awake", lambda _: ["127.0.0.1:1"])
    monkeypatch.setattr(membership, "PAUSE", 0.0)
    return ZooKeeperCluster(RunFolder(tmp_path), plan)


def answered_by(ensemble: Ensemble, monkeypatch: pytest.MonkeyPatch) -> Ensemble:
    @contextmanager
    def connected(_address: str, _seconds: float) -> Iterator[Ensemble]:
        yield ensemble

    monkeypatch.setattr(membership.tree, "connected", connected)
    return ensemble


def test_members_leave_and_join_with_their_addresses(
    cluster: ZooKeeperCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    ensemble = answered_by(Ensemble([2], [1, 2, 3]), monkeypatch)
    assert cluster.remove_members([1, 3], 9.0) == [2]
    assert cluster.add_members([1, 3], 9.0) == [1, 2, 3]
    assert ensemble.asked == [
        (None, "1,3"),
        ("server.1=zk-1:21:31;127.0.0.1:11,server.3=zk-3:23:33:observer;127.0.0.1:13", None),
    ]


def test_a_change_is_asked_for_again_unless_it_was_carried_out(
    cluster: ZooKeeperCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused, lost = (None, ReconfigInProcessError()), ([1, 2], ConnectionLoss())
    ensemble = answered_by(Ensemble(refused, [1, 2, 3], lost), monkeypatch)  # the second answer is of another change
    assert cluster.remove_members([3], 9.0) == [1, 2]
    assert len(ensemble.asked) == 3


def test_a_change_that_is_not_made_in_time_says_what_was_answered(
    cluster: ZooKeeperCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered_by(Ensemble((None, ReconfigInProcessError())), monkeypatch)
    with pytest.raises(
        ClusterError, match=r"not be changed within 0 s; the last answer was: 127.0.0.1:1: ReconfigInProcess"
    ):
        cluster.remove_members([3], 0.0)


def test_nobody_that_can_be_asked_is_told(cluster: ZooKeeperCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ZooKeeperCluster, "_awake", lambda _: [])
    with pytest.raises(ClusterError, match="no server can be asked"):
        cluster.add_members([3], 0.0)


def test_a_removed_server_starts_with_a_list_that_has_it(
    cluster: ZooKeeperCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server itself replaces the list of members in its configuration by the name of a file, after each change."""
    monkeypatch.setattr(server, "launch", lambda *_: None)
    config, kept = tmp_path / "config" / "node-3.cfg", tmp_path / "kept"
    written = config.read_text()
    config.write_text(f"dynamicConfigFile={kept}\n")
    for members, expected in (((1, 2, 3), f"dynamicConfigFile={kept}\n"), ((1, 2), written)):
        kept.write_bytes(configuration(*members))
        cluster._servers[3].spawn(cluster._plan.release, 1, None, tmp_path / "log")
        assert config.read_text() == expected


def test_servers_whose_members_can_change_have_their_client_address_in_the_list(
    cluster: ZooKeeperCluster, tmp_path: Path
) -> None:
    lines = tmp_path.joinpath("config", "node-3.cfg").read_text().split()
    assert "server.2=zk-2:22:32;127.0.0.1:12" in lines
    assert "server.3=zk-3:23:33:observer;127.0.0.1:13" in lines
    assert not [line for line in lines if line.startswith("clientPort")]
