"""Servers of different releases: which program each life is, and what they log differently."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.harness.backends.zookeeper.test_zk_traces import evidence, lives, log, made_by_a_session, txn
from zab_chaos.faults.cluster import ClusterError, Upgradable
from zab_chaos.harness.backends.zookeeper import ensemble, points, txnlog
from zab_chaos.harness.backends.zookeeper.ensemble import ZooKeeperCluster
from zab_chaos.harness.backends.zookeeper.histories import transactions_by_zxid
from zab_chaos.harness.backends.zookeeper.releases import Release, resolved
from zab_chaos.harness.backends.zookeeper.server import ZooKeeperServer
from zab_chaos.harness.backends.zookeeper.server_log import read_version
from zab_chaos.harness.backends.zookeeper.traces import traces
from zab_chaos.harness.errors import HarnessError


@pytest.fixture
def started(cluster: ZooKeeperCluster, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The versions of the programs that were started from now on."""
    found: list[str] = []
    spawn: Callable[..., Any] = ZooKeeperServer.spawn

    def noted(server: ZooKeeperServer, release: Release, *rest: Any) -> Any:
        found.append(release.version)
        return spawn(server, release, *rest)

    def locate(named: str) -> Release:
        if named == "3.9.9":
            raise HarnessError("ZooKeeper 3.9.9 could not be fetched: no route to host")
        return Release(resolved(named), (), Path())

    monkeypatch.setattr(ZooKeeperServer, "spawn", noted)
    monkeypatch.setattr(ensemble, "locate", locate)
    return found


def test_each_life_has_the_release_that_was_installed_last(cluster: ZooKeeperCluster, started: list[str]) -> None:
    assert isinstance(cluster, Upgradable)
    cluster.kill(1)
    assert cluster.install(1, "3.8.6") == "3.8.6"
    for _ in range(2):
        cluster.start(1)
        cluster.kill(1)
    assert cluster.install(1, "old") == "3.9.5"
    cluster.start(1)
    assert started == ["3.8.6", "3.8.6", "3.9.5"]
    told = [(it["life"], it["release"]) for it in cluster._folder.lines("harness.jsonl") if it["event"] == "release"]
    assert told == [(1, "3.9.5"), (2, "3.8.6"), (3, "3.8.6"), (4, "3.9.5")]


def test_a_server_that_is_up_stays_what_it_is(cluster: ZooKeeperCluster, started: list[str]) -> None:
    with pytest.raises(ClusterError, match="node 1 is up"):
        cluster.install(1, "3.8.6")
    cluster.kill(1)
    cluster.start(1)
    assert started == ["3.9.5"]


@pytest.mark.parametrize(("name", "why"), [("3.9.9", "could not be fetched"), ("latest", "neither a version")])
def test_a_release_that_can_not_be_had_changes_nothing(
    cluster: ZooKeeperCluster, started: list[str], name: str, why: str
) -> None:
    cluster.kill(1)
    with pytest.raises(ClusterError, match=f"server 1 can't be of release {name}: .*{why}"):
        cluster.install(1, name)
    cluster.start(1)
    assert started == ["3.9.5"]


def test_crash_points_are_those_of_the_release_that_the_server_is_of(
    cluster: ZooKeeperCluster, started: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rules: list[str] = []
    monkeypatch.setattr(points, "submit", lambda port, command, rule, acted=None: rules.append(rule))
    cluster.control(1, "arm", point="before-write:TXN", action="crash")
    cluster.kill(1)
    cluster.install(1, "3.4.14")
    cluster.start(1)
    cluster.control(1, "arm", point="before-write:TXN", action="crash")
    assert ["append(Request)" in rule for rule in rules] == [True, False]
    assert "append(TxnHeader,Record)" in rules[1]


def test_the_end_of_a_session_is_the_same_transaction_whether_or_not_its_server_lists_the_znodes() -> None:
    header = struct.pack("!qiqqi", 7, 1, (1 << 32) | 5, 1, txnlog.CLOSE)
    listed = struct.pack("!ii", 1, 2) + b"/e"
    with_list, without = txnlog.decode(header + listed), txnlog.decode(header)
    assert with_list.digest == without.digest
    assert (with_list.steps, without.steps) == ((("delete", "/e", None, None),), ())


def test_of_two_servers_logs_the_one_that_lists_the_znodes_counts() -> None:
    start, made = txn(1, 1, client=7), made_by_a_session(2, "/e", 7)
    listed, short = (txn(1, 3, *steps, digest=33, client=7) for steps in ([("delete", "/e", None, None)], []))
    for one, other in ((listed, short), (short, listed)):
        ((found,),) = [
            forks
            for zxid, forks in transactions_by_zxid(lives(log(start, made, one), log(start, made, other))).items()
            if zxid == listed.zxid
        ]
        assert found.steps == listed.steps


def test_a_life_shows_the_version_that_its_server_said(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_text(
        "2026-11-30 11:53:24,524 INFO  [main] ZooKeeperServer - Server environment:zookeeper.version=3.8.6-6df2608, built on "
        "2026-01-28 20:28 UTC\n"
    )
    assert read_version(file) == "3.8.6-6df2608"
    assert read_version(tmp_path / "none") is None
    given = evidence(lives(log(txn(1, 1))), versions={(1, 1): "3.8.6-6df2608"})
    (boot,) = [event for event in traces(given)[1, 1] if event["event"] == "boot"]
    assert boot["release"] == "3.8.6-6df2608"
