"""ZooKeeper's servers on disks with power cuts: they keep acknowledged writes, and a server that does not sync is caught."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.zookeeper import deployed, release, start_ensemble
from tests.mounted import possible
from zab_chaos.faults.filesystem import mount
from zab_chaos.faults.scenario import load

pytestmark = [pytest.mark.zookeeper, pytest.mark.toxiproxy, pytest.mark.fuse, pytest.mark.timeout(600)]

HEAD = """
[scenario]
name = "disks"
about = "What can happen to disks, one after the other."
nodes = 3
duration = {duration}

[workload]
rate = 150

[expect]
min_acked = 30
converges_within = 120
"""


def fault(at: float, do: str, target: str, lasts: float = 2.0, **keys: Any) -> str:
    own = "".join(f"{name} = {json.dumps(value)}\n" for name, value in keys.items())
    return f'[[fault]]\nat = {at}\ndo = "{do}"\ntarget = "{target}"\nfor = {lasts}\n{own}'


def ran(folder: Path, duration: float, faults: list[str], *options: str) -> tuple[int, Any, list[Any]]:
    """Run a scenario with these faults, and return the exit code, the verdict and the lines of faults.jsonl."""
    possible()
    release("3.9.4")
    file = folder / "disks.toml"
    file.write_text(HEAD.format(duration=duration) + "".join(faults))
    command = [sys.executable, "-m", "zab_chaos.harness", "run", str(file), "--zookeeper", "3.9.4", "--json"]
    ended = subprocess.run(
        [*command, "--results", str(folder / "results"), *options], capture_output=True, text=True, timeout=500
    )
    assert ended.stdout, ended.stderr
    verdict = json.loads(ended.stdout)
    assert mount.mounts_below(folder) == []
    lines = (Path(verdict["folder"]) / "faults.jsonl").read_text().splitlines()
    return ended.returncode, verdict, [json.loads(line) for line in lines]


@pytest.mark.parametrize("variant", ["plain", "torn", "reordered", "pages"])
def test_a_release_without_defects_keeps_acknowledged_writes_in_a_power_cut(tmp_path: Path, variant: str) -> None:
    code, verdict, faults = ran(tmp_path, 5, [fault(2, "power-cut", "all", variant=variant, within_ms=5000)])
    assert (code, verdict["verdict"]) == (0, "PASS"), verdict["reasons"]
    assert verdict["run"]["disk"] == "fuse"
    evidence = faults[0]["evidence"]
    assert [evidence[str(node)]["cuts"] for node in (1, 2, 3)] == [1, 1, 1]
    may_lose_nothing = variant in ("plain", "pages")  # nothing may be unsynced at that instant; all pages may survive
    assert may_lose_nothing or sum(evidence[node]["lost_bytes"] for node in evidence) > 0


@pytest.mark.sample
def test_a_server_that_does_not_sync_loses_an_acknowledged_write_and_the_verdict_names_it(tmp_path: Path) -> None:
    code, verdict, _ = ran(tmp_path, 6, [fault(2, "power-cut", "all")], "--defect", "no-force-sync")
    assert (code, verdict["verdict"]) == (1, "VIOLATION")
    durability = next(one for one in verdict["properties"] if one["name"] == "durability")
    assert durability["verdict"] == "VIOLATION"
    assert "was acknowledged, but nodes 1, 2 and 3" in json.dumps(durability)
    assert "--defect no-force-sync" in verdict["run"]["command"]


def test_a_failed_run_is_shrunk_by_running_candidates_again(tmp_path: Path) -> None:
    faults = [fault(1, "power-cut", "all", 1.0), fault(6, "latency", "all", 1.0, ms=2)]
    code, verdict, _ = ran(tmp_path, 8, faults, "--defect", "no-force-sync")
    assert code == 1
    command = [sys.executable, "-m", "zab_chaos.harness", "shrink", verdict["folder"], "--budget", "2", "--json"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert ended.returncode == 0, ended.stderr
    answer = json.loads(ended.stdout)
    small = load(answer["file"])
    assert [step.do for step in small.faults] == ["power-cut"], "one second is enough, half a second is not"
    assert small.duration == 1
    assert answer["command"].endswith("--on zookeeper --zookeeper 3.9.4 --defect no-force-sync")
    assert mount.mounts_below(tmp_path) == []


@pytest.mark.parametrize(
    ("do", "keys", "effect", "done"),
    [
        ("slow-disk", {"ms": 20}, "slowed", None),
        ("disk-full", {}, "full", "writes"),
        ("disk-error", {"op": "write"}, "failed", "writes"),
        ("disk-error", {"op": "sync"}, "failed", "syncs"),
    ],
)
def test_a_slow_full_or_failing_disk_is_confirmed_by_the_file_systems_own_counts(
    tmp_path: Path, do: str, keys: dict[str, Any], effect: str, done: str | None
) -> None:
    """The fault must have taken effect; how well a server copes with it is not checked here."""
    _, verdict, faults = ran(tmp_path, 7, [fault(2, do, "follower", 3, **keys)])
    judged = {one["name"]: one["verdict"] for one in verdict["properties"]}
    assert (judged["fault took effect"], judged["durability"]) == ("PASS", "PASS"), verdict["reasons"]
    disk = next(one["evidence"]["disk"] for one in faults if one["type"] == "heal")
    assert len(disk) == 1
    for counts in disk.values():
        assert counts[effect] > 0
        assert done is None or counts[done] == 0


def test_without_a_disk_fault_nothing_is_mounted_and_a_power_cut_by_hand_is_refused(tmp_path: Path) -> None:
    with deployed(tmp_path) as it:
        start_ensemble(it)
        assert mount.mounts_below(tmp_path) == []
        assert it.cluster.disk_state(1) is None
        with pytest.raises(Exception, match='disk = "faithful" or "fuse"'):
            it.cluster.cut_power([1])
