"""Schedules that lose or fork what ZooKeeper has acknowledged: on releases that have the bug, and on those that have not."""

import time
from pathlib import Path

import pytest

from tests.integration.zookeeper import Recorded, eventually, judged, led, stage
from zab_chaos.harness.backends.zookeeper import tree
from zab_chaos.harness.backends.zookeeper.server import CRASHED
from zab_chaos.node.tree.requests import Create

pytestmark = [pytest.mark.zookeeper, pytest.mark.toxiproxy]


@pytest.mark.parametrize(("version", "loses"), [("3.8.4", True), ("3.9.4", False)])
def test_zookeeper_4643_a_crash_after_the_current_epoch_is_written(tmp_path: Path, version: str, loses: bool) -> None:
    """A follower writes the new epoch before it has the new history, and dies. With the higher epoch and the shorter history
    it wins the next election."""
    began = time.monotonic_ns()
    with stage(tmp_path, version) as it:
        servers = it.cluster
        servers.start_all([2, 3])
        eventually(lambda: servers.leader() == 3)  # with equal histories the highest id wins
        servers.start(1)
        assert led(it) == 3
        client = Recorded(it, tmp_path / "ops.jsonl", 3)
        client.at(3).do(Create("/before", b"1"))
        eventually(lambda: len({words.zxid for node in servers.nodes if (words := servers.words(node))}) == 1)
        servers.kill(1)
        lost = client.at(3).do(Create("/acknowledged", b"2"))
        servers.kill(2)
        eventually(lambda: (words := servers.words(3)) is not None and not words.serving)
        servers.start(1, crash_at="after-current-epoch")
        assert servers.wait_exit(1, 60) == CRASHED
        servers.kill(3)
        servers.start_all([1, 2])
        eventually(lambda: servers.leader() in (1, 2))
        client.at(1).do(Create("/after", b"3"))
        servers.start(3)
        led(it)
        client.at(3).do(Create("/end", b"4"))
        there = tree.read(servers.client_address(1)).znodes
        client.close()
        assert ("/acknowledged" in there) is not loses
        verdict = judged(it, {1: client.client.sessions}, tmp_path / "ops.jsonl", began)
        found = verdict.violated
        assert ("durability" in found) is loses, verdict.reasons
        if loses:
            (durability,) = (one for one in verdict.properties if one.name == "durability")
            assert f"({lost.zxid >> 32}:{lost.zxid & 0xFFFFFFFF}) was acknowledged" in durability.violations[0].words
        else:
            assert found == [], verdict.reasons


@pytest.mark.parametrize(("version", "forks"), [("3.4.10", True), ("3.4.14", False), ("3.9.4", False)])
def test_zookeeper_2845_a_leader_that_gave_up_keeps_what_was_never_committed(
    tmp_path: Path, version: str, forks: bool
) -> None:
    """A leader has logged a write that nobody else has, and gives up leading without a restart. It joins the next leader, and
    its log still has the write, which its next start brings back."""
    began = time.monotonic_ns()
    with stage(tmp_path, version) as it:
        servers = it.cluster
        servers.start_all(servers.nodes)
        old = led(it)
        others = [node for node in servers.nodes if node != old]
        client = Recorded(it, tmp_path / "ops.jsonl", old)
        client.at(old).do(Create("/before", b"1"))
        for node in others:
            servers.pause(node)
        client.submit(Create("/never-committed", b"2"))
        client.client.poll(0.3)
        servers.kill_all(others)
        eventually(lambda: (words := servers.words(old)) is not None and not words.serving)
        servers.pause(old)
        servers.start_all(others)
        eventually(lambda: servers.leader() in others)
        client.at(others[0]).do(Create("/after", b"3"))
        servers.resume(old)
        led(it)
        servers.kill(old)
        servers.start(old)
        led(it)
        client.at(others[0]).do(Create("/end", b"4"))
        client.close()
        trees = {node: tree.read(servers.client_address(node)) for node in servers.nodes}
        assert bool(tree.differences(trees)) is forks
        verdict = judged(it, {1: client.client.sessions}, tmp_path / "ops.jsonl", began)
        assert ("state equality" in verdict.violated) is forks, verdict.reasons
        if not forks:
            assert verdict.violated == [], verdict.reasons
