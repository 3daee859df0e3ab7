"""The record of a server's lives: how each has ended, what its disk held then, and its roles."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.harness.backends.zookeeper.conftest import LAST, write_log
from zab_chaos.faults.cluster import Status
from zab_chaos.harness.backends.processes.life import ProcessLife
from zab_chaos.harness.backends.zookeeper import ensemble
from zab_chaos.harness.backends.zookeeper.ensemble import DISK_REFUSED, ZooKeeperCluster
from zab_chaos.harness.backends.zookeeper.releases import Release
from zab_chaos.harness.backends.zookeeper.sampler import RoleSampler
from zab_chaos.harness.backends.zookeeper.server import CRASHED, Plan, Ports
from zab_chaos.harness.errors import HarnessError
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.node.store.errors import CORRUPT_EXIT


def ended_by_itself(cluster: ZooKeeperCluster, code: int) -> None:
    life = cluster._lives[1]
    assert isinstance(life, ProcessLife)
    assert life.process.stdin is not None
    life.process.stdin.write(b"%d\n" % code)
    life.process.stdin.flush()
    assert cluster.wait_exit(1, 10.0) == code


def test_only_a_server_that_ended_by_itself_has_an_exit(cluster: ZooKeeperCluster) -> None:
    cluster.kill(1)
    cluster.start(1)
    ended_by_itself(cluster, 3)
    cluster.start(1)
    assert [life.code for life in cluster.recorded_lives({})] == [None, 3, None]


@pytest.mark.parametrize("restarted", [False, True])
def test_a_server_that_ran_out_of_memory_is_no_evidence_against_zookeeper(
    restarted: bool, cluster: ZooKeeperCluster
) -> None:
    log = cluster.log(1, 1)
    log.parent.mkdir(exist_ok=True)
    log.write_text("Terminating due to java.lang.OutOfMemoryError: Java heap space\n")
    cluster.check_memory()  # it is up
    ended_by_itself(cluster, 3)
    if restarted:
        cluster.start(1)
    for _ in range(2):
        with pytest.raises(
            HarnessError, match=r"node-1 ran out of memory: java.lang.OutOfMemoryError: Java heap space"
        ):
            cluster.check_memory()


def test_a_life_has_left_what_the_next_one_has_not_written_yet(cluster: ZooKeeperCluster, data: Path) -> None:
    ended_by_itself(cluster, 3)
    cluster.start(1)
    write_log(data)
    first, second = cluster.recorded_lives({})
    assert (first.disk_after.last, second.disk_before.last, second.disk_after.last) == (0, 0, LAST)
    assert first.ended <= second.began


@pytest.mark.parametrize(
    ("mode", "role", "leader"),
    [("leader", "LEADING", 1), ("follower", "FOLLOWING", 3), ("observer", "OBSERVING", 3), (None, "LOOKING", None)],
)
def test_the_mode_of_a_server_is_its_role_and_whoever_serves_has_a_leader(
    mode: str | None, role: str, leader: int | None, cluster: ZooKeeperCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = (
        f"Zxid: 0x100000002\nMode: {mode}\n" if mode else "This ZooKeeper instance is not currently serving requests\n"
    )
    monkeypatch.setattr(ensemble.four_letter_words, "ask", lambda *_: answer)
    monkeypatch.setattr(cluster, "_find_leader", lambda _: 3)
    status = cluster.role_status(1)
    assert status is not None
    assert (status.role, status.leader, status.established) == (role, leader, mode is not None)


def test_a_follower_has_a_connection_to_its_leaders_quorum_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And one to the election port of each server, or from it."""
    ports = {node: Ports(*range(10 * node, 10 * node + 4)) for node in (1, 2, 3)}
    (tmp_path / "config").mkdir()
    plan = Plan(release=Release("3.9.5", (), tmp_path), java="java", ports=ports)
    cluster = ZooKeeperCluster(RunFolder(tmp_path), plan)
    life: Any = SimpleNamespace(node=1, pid=0)
    elections = [ports[node].election for node in (1, 2, 3)]
    for to, leader in (([ports[3].quorum], 3), ([ports[2].quorum], 2), ([], None), ([ports[1].quorum], None)):
        there = [SimpleNamespace(raddr=SimpleNamespace(port=port)) for port in (*elections, *to)]
        monkeypatch.setattr(ensemble, "sockets", lambda _, there=there: [SimpleNamespace(raddr=()), *there])
        assert cluster._find_leader(life) == leader


@pytest.mark.parametrize("how", ["by itself", "stop", "kill"])
def test_a_life_is_over_when_its_server_is_gone_and_not_when_the_next_one_begins(
    how: str, cluster: ZooKeeperCluster
) -> None:
    if how == "by itself":
        ended_by_itself(cluster, 3)
        cluster.take_unexpected_ends()  # as the harness does all the time
    else:
        getattr(cluster, how)(1)
    gone = time.monotonic_ns()
    cluster.start(1)
    first, second = cluster.recorded_lives({})
    assert first.ended <= gone < second.began


@pytest.mark.parametrize(
    ("code", "words", "status"),
    [
        (1, DISK_REFUSED, CORRUPT_EXIT),
        (1, "something else", 1),
        (CRASHED, DISK_REFUSED, CRASHED),
        (-9, DISK_REFUSED, -9),
    ],
)
def test_a_server_that_was_ended_has_not_refused_its_disk(
    code: int, words: str, status: int, cluster: ZooKeeperCluster, tmp_path: Path
) -> None:
    nobody: Any = None
    life = ProcessLife(1, 1, nobody, tmp_path / "log")
    life.log.write_text(f"{words}\nthe last line\n")
    assert cluster._exit_status(life, code) == status


def test_the_first_answer_of_each_life_is_a_sample() -> None:
    """Also if the server is what it was before, of which nothing else is on record in this life."""
    answers = [Status(node=1, life=life, role="FOLLOWING", leader=2, established=True) for life in (1, 1, 2, 2)]
    told = iter(answers)
    servers: Any = SimpleNamespace(paused=lambda _: False, role_status=lambda *_: next(told))
    sampler = RoleSampler(servers)
    for _ in answers:
        sampler._sample(1)
    assert [(sample.life, sample.role) for sample in sampler.samples] == [(1, "FOLLOWING"), (2, "FOLLOWING")]
