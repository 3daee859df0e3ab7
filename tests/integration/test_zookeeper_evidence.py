"""Reads logs, epochs and trees that real servers of each release line have written."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.zookeeper import deployed, eventually, release, start_ensemble
from zab_chaos.harness.backends.zookeeper import tree, txnlog

pytestmark = [pytest.mark.zookeeper, pytest.mark.toxiproxy]


@pytest.mark.parametrize("version", ["3.4.10", "3.5.10", "3.8.4", "3.9.4"])
def test_logs_and_trees_of_all_servers_are_equal_and_contain_the_writes(tmp_path: Path, version: str) -> None:
    with deployed(tmp_path, version) as it:
        leader = start_ensemble(it)
        with tree.connected(it.cluster.client_address(leader), 10) as client:
            client.create("/a", b"1")
            client.set("/a", b"2")
            for number in range(20):
                client.create(f"/a/{number}", b"x" * number)
            client.delete("/a/7")
            changed = client.get("/a")[1].mzxid
        trees = {node: tree.read(it.cluster.client_address(node)) for node in it.cluster.nodes}
        assert tree.differences(trees) == []
        assert len({one.digest for one in trees.values()}) == 1
        assert len(trees[1].znodes) == 1 + 1 + 19
        assert (trees[1].znodes["/a"].version, trees[1].znodes["/a"].changed) == (1, changed)
        eventually(lambda: len({told.zxid for node in it.cluster.nodes if (told := it.cluster.srvr(node))}) == 1)
        it.cluster.kill_all(it.cluster.nodes)
        logs = {node: txnlog.read_disk(Path(it.cluster.disk_folder(node))) for node in it.cluster.nodes}
        digests = [{one.zxid: one.digest for one in log.transactions} for log in logs.values()]
        begin = max(min(held) for held in digests)  # what came before it may be in a snapshot only
        assert len({tuple((zxid, held[zxid]) for zxid in sorted(held) if zxid >= begin) for held in digests}) == 1
        assert {log.epochs for log in logs.values()} == {(1, 1)}
        assert all(log.damage == () and log.torn == 0 for log in logs.values())
        steps = [step for one in logs[leader].transactions for step in one.steps]
        assert ("delete", "/a/7", None, None) in steps
        assert [one.zxid for one in logs[leader].transactions if ("set", "/a", 1) in {it[:3] for it in one.steps}] == [
            changed
        ]


def test_the_tree_is_on_record_although_a_server_is_down_in_the_end(tmp_path: Path) -> None:
    with deployed(tmp_path, "3.9.5") as it:
        leader = start_ensemble(it)
        follower = next(node for node in it.cluster.nodes if node != leader)
        it.cluster.kill_all([follower])
        with tree.connected(it.cluster.client_address(leader), 10) as client:
            client.create("/a", b"1")
        eventually(lambda: (it.disagreement(), it.on_not_converged(), it._tree)[-1] is not None)
        it.folder.milestone("not-converged")
    znodes = [json.loads(line) for line in it.folder.file("tree.jsonl").read_bytes().splitlines()]
    assert [znode["path"] for znode in znodes] == ["/", "/a"]


def test_differences_of_trees_are_listed_by_path(tmp_path: Path) -> None:
    znode = tree.ServerZnode(1, 0, (1 << 32) + 1, (1 << 32) + 1, 0, 0, (1 << 32) + 1)
    other = tree.ServerZnode(1, 2, (1 << 32) + 1, (2 << 32) + 5, 0, 3, (1 << 32) + 9)
    trees = {
        1: tree.ServerTree({"/": znode, "/a": znode}, 9, 9),
        2: tree.ServerTree({"/": znode, "/a": other, "/b": znode}, 9, 9),
    }
    assert tree.differences(trees) == [
        "/a: node-1 has version 0 of 1:1, children version 0 of 1:1, node-2 has version 2 of 2:5, children version 3 of 1:9",
        "/b: node-1 has none, node-2 has version 0 of 1:1, children version 0 of 1:1",
    ]
    assert trees[1].digest != trees[2].digest


def test_a_run_whose_harness_was_killed_is_judged_from_the_disks(tmp_path: Path) -> None:
    release("3.9.4")
    scenario = tmp_path / "long.toml"
    scenario.write_text('[scenario]\nname = "long"\nabout = "A load."\nduration = 600\n')
    command = [sys.executable, "-m", "zab_chaos.harness", "run", str(scenario), "--zookeeper", "3.9.4"]
    with subprocess.Popen([*command, "--results", str(tmp_path)], stdout=subprocess.DEVNULL) as harness:
        operations = tmp_path / "latest" / "ops.jsonl"
        try:
            eventually(lambda: operations.exists() and operations.read_bytes().count(b'"outcome":"ok"') > 300)
            code, _ = verified(tmp_path)
            assert code == 4  # it is still in progress
        finally:
            harness.kill()
    folder = (tmp_path / "latest").resolve()
    eventually(lambda: verified(tmp_path)[0] == 2)
    _, answer = verified(tmp_path)
    (run,) = answer["runs"]
    found = {one["name"]: one for one in run["properties"]}
    for name in ("durability", "client order", "exactly once", "values and versions"):
        assert (found[name]["verdict"], found[name]["checked"] > 100) == ("PASS", True), found[name]
    assert "the run has not finished: it still goes on, or its harness was killed" in run["reasons"]
    assert sorted(path.name for path in folder.joinpath("trace").iterdir()) == [f"node-{n}-1.jsonl" for n in (1, 2, 3)]


def verified(results: Path) -> tuple[int, Any]:
    """Run `zab verify latest`, and return its exit code and its JSON output."""
    command = [sys.executable, "-m", "zab_chaos.harness", "verify", "latest", "--results", str(results), "--json"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return ended.returncode, json.loads(ended.stdout) if ended.stdout else None
