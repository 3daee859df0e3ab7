"""Real ZooKeeper servers are started, killed, paused and partitioned, and leave no process behind."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.integration.zookeeper import await_leader, deployed, eventually, release, start_ensemble
from zab_chaos.faults.cluster import ClusterError
from zab_chaos.faults.cut_evidence import LinkWitness
from zab_chaos.faults.host import THIS_HOST
from zab_chaos.faults.network import NetworkError
from zab_chaos.harness.backends.zookeeper.client import ZooKeeperClient
from zab_chaos.harness.backends.zookeeper.server import CRASHED
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.node.tree.requests import Create

pytestmark = [pytest.mark.zookeeper, pytest.mark.toxiproxy]


def listening(pid: int) -> set[str]:
    found = psutil.Process(pid).net_connections("inet")
    return {one.laddr.ip for one in found if one.status == psutil.CONN_LISTEN}


def ended(folder: RunFolder) -> list[tuple[int, bool]]:
    """Return the servers that ended by themselves, and whether a crash point was armed for that."""
    path = folder.file("harness.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [(line["node"], line["armed"]) for line in lines if line["event"] == "ended"]


@pytest.mark.parametrize(
    "version", ["3.4.10", "3.4.14", "3.5.10", "3.6.4", "3.7.2", "3.8.0", "3.8.4", "3.9.3", "3.9.4"]
)
def test_every_release_line_forms_an_ensemble_that_listens_on_the_loopback_only(tmp_path: Path, version: str) -> None:
    with deployed(tmp_path, version) as it:
        leader = start_ensemble(it)
        status = it.cluster.status(leader)
        assert status is not None
        assert (status.role, status.epoch, status.accepted_epoch, status.life) == ("LEADING", 1, 1, 1)
        for node in it.cluster.nodes:
            pid = it.cluster.pid(node)
            assert pid is not None
            assert listening(pid) == {"127.0.0.1"}


def test_an_ensemble_is_complete_when_every_server_serves(tmp_path: Path) -> None:
    with deployed(tmp_path) as it:
        it.cluster.start_all([1, 2])
        eventually(it.formed)
        assert not it.complete()
        it.cluster.start(3)
        eventually(it.complete)
        assert it.formed()


def test_a_killed_leader_is_replaced_and_joins_again_after_a_restart(tmp_path: Path) -> None:
    with deployed(tmp_path) as it:
        first = start_ensemble(it)
        assert it.cluster.kill(first) == -signal.SIGKILL
        assert not it.cluster.alive(first)
        assert it.cluster.status(first) is None
        eventually(lambda: it.cluster.leader() not in (None, first))
        it.cluster.start(first)
        await_leader(it)
        assert it.cluster.epochs(first) == (2, 2)
        assert ended(it.folder) == []
        assert it.cluster.close() == []
        assert [it.cluster.wait_exit(node, 0) for node in it.cluster.nodes] == [143] * 3


def test_a_paused_server_does_not_answer_and_a_wiped_one_is_empty(tmp_path: Path) -> None:
    with deployed(tmp_path) as it:
        start_ensemble(it)
        it.cluster.pause(1)
        assert it.cluster.paused(1)
        assert it.cluster.status(1, 0.2) is None
        it.cluster.resume(1)
        await_leader(it)
        with pytest.raises(ClusterError, match="when it is down"):
            it.cluster.wipe(1)
        it.cluster.kill(1)
        it.cluster.wipe(1)
        assert it.cluster.epochs(1) == (0, 0)
        it.cluster.start(1)
        await_leader(it)


def test_a_server_crashes_at_its_crash_point(tmp_path: Path) -> None:
    with deployed(tmp_path) as it:
        it.cluster.start_all([2, 3])
        it.cluster.start(1, crash_at="after-sync:NEWLEADER")
        assert it.cluster.wait_exit(1, 60) == CRASHED
        assert it.cluster.epochs(1)[1] >= 1
        eventually(lambda: ended(it.folder) == [(1, True)])
        with pytest.raises(ClusterError, match="can't be made to crash at after-send:VOTE"):
            it.cluster.start(1, crash_at="after-send:VOTE")


def test_a_crash_point_is_armed_and_disarmed_while_a_server_runs(tmp_path: Path) -> None:
    with deployed(tmp_path) as it:
        leader = start_ensemble(it)
        first, second = (node for node in it.cluster.nodes if node != leader)
        for node, action in ((first, "crash"), (second, "pause")):
            it.cluster.control(node, "arm", point="before-write:TXN", action=action)
        it.cluster.control(first, "disarm", point="before-write:TXN", action="crash")
        client = ZooKeeperClient(it.addresses, leader)
        client.submit(Create("/written", b"1"))
        eventually(lambda: client.poll(0.05) or it.cluster.paused(second))
        assert it.cluster.alive(first)
        it.cluster.resume(second)
        client.close()
        assert await_leader(it) == leader


def test_a_leader_that_is_cut_off_is_replaced_and_joins_again_after_healing(tmp_path: Path) -> None:
    with deployed(tmp_path) as it:
        old = start_ensemble(it)
        others = [node for node in it.cluster.nodes if node != old]
        cut = [pair for other in others for pair in ((old, other), (other, old))]
        witness = LinkWitness(it.cluster, cut, THIS_HOST, it.network)
        it.network.cut(cut)
        assert witness.settle(10)
        assert sorted(it.network.broken()) == sorted(cut)
        eventually(lambda: it.cluster.leader() not in (None, old))
        status = it.cluster.status(old)
        assert status is not None
        assert not status.established
        links = witness.links()
        assert [link["at_inject"] == link["at_heal"] > 0 for link in links] == [True] * 4
        assert any(link["sent"] > 0 for link in links)
        assert witness.detours == []
        it.network.heal(cut)
        assert it.network.broken() == {}
        assert await_leader(it) != old
        assert it.network.take_foreign_changes() == []


def test_one_direction_of_a_link_can_be_cut_while_the_other_still_carries_data(tmp_path: Path) -> None:
    with deployed(tmp_path) as it:
        leader = start_ensemble(it)
        follower = next(node for node in it.cluster.nodes if node != leader)
        witness = LinkWitness(it.cluster, [(follower, leader)], THIS_HOST, it.network)
        it.network.cut([(follower, leader)], "stall", "deaf")
        assert witness.settle(10)
        before = it.network.traffic()[leader, follower].passed
        eventually(lambda: it.network.traffic()[leader, follower].passed > before)  # pings
        assert it.network.broken() == {(follower, leader): ["deaf"]}
        assert [link["at_inject"] == link["at_heal"] for link in witness.links()] == [True]
        with pytest.raises(NetworkError, match="can't be disabled alone"):
            it.network.cut([(follower, leader)], "disable")
        it.network.heal([(follower, leader)], "deaf")
        await_leader(it)


def test_the_servers_die_with_a_killed_harness(tmp_path: Path) -> None:
    release("3.9.4")
    program = (
        "import sys, pathlib\n"
        "from tests.integration.zookeeper import deployed\n"
        "with deployed(pathlib.Path(sys.argv[1])) as it:\n"
        "    it.cluster.start_all(it.cluster.nodes)\n"
        "    it.cluster.pause(1)\n"
        "    print(*[it.cluster.pid(node) for node in it.cluster.nodes], flush=True)\n"
        "    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as harness:  # fmt: skip
        assert harness.stdout is not None
        pids = [int(pid) for pid in harness.stdout.readline().split()]
        assert len(pids) == 3
        harness.kill()
        eventually(lambda: not any(psutil.pid_exists(pid) for pid in pids))
