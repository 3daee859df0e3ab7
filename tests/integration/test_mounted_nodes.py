"""Our own nodes as ordinary processes on disks whose power can be cut: what the faithful disk shows, shown without its help."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.mounted import as_an_ordinary_user, possible
from zab_chaos.faults.defects import DEFECTS
from zab_chaos.faults.filesystem import mount

pytestmark = [pytest.mark.processes, pytest.mark.toxiproxy, pytest.mark.fuse, pytest.mark.timeout(240)]


def ran(results: Path, scenario: str, *options: str) -> Any:
    """The verdict of a run on mounted disks."""
    possible()
    found = verdict(results, scenario, *options)
    assert mount.mounts_below(results) == []
    return found


def verdict(results: Path, scenario: str, *options: str, user: Sequence[str] = (), home: Path | None = None) -> Any:
    """The same for another user: `user` is before the command."""
    command = [*user, sys.executable, "-m", "zab_chaos.harness", "run", scenario, "--disk", "fuse", "--json", *options]
    ended = subprocess.run(
        [*command, "--results", str(results)],
        env={**os.environ, "HOME": str(home)} if home else None,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert ended.stdout, ended.stderr
    found = json.loads(ended.stdout)
    assert ended.returncode == found["exit"], ended.stderr
    return found


def shows(results: Path, name: str, seed: int) -> bool:
    """Whether what the bug must break is broken. That it is there is seen in every run; that the power cut takes what was
    acknowledged and not synced is a matter of microseconds."""
    broken = ran(results, f"defects/{name}", "--defect", name, "--seed", str(seed))
    assert broken["verdict"] == "VIOLATION", broken["reasons"]
    return DEFECTS[name].property in {one["name"] for one in broken["properties"] if one["verdict"] == "VIOLATION"}


def test_a_bug_about_durability_is_caught_and_correct_nodes_pass(tmp_path: Path) -> None:
    name = "ack-before-sync"
    assert any(shows(tmp_path, name, seed) for seed in (1, 2, 3))
    correct = ran(tmp_path, f"defects/{name}")
    assert correct["verdict"] == "PASS", correct["reasons"]
    assert correct["run"]["disk"] == "fuse"
    assert correct["run"]["command"].endswith("--disk fuse")


def test_nodes_lose_pages_and_disks_and_go_on(tmp_path: Path) -> None:
    file = tmp_path / "disks.toml"
    file.write_text(
        """
[scenario]
name = "disks"
about = "Power cuts, damage, a lost disk, a full one."
nodes = 3
duration = 12

[workload]
rate = 100

[[fault]]
at = 1
do = "power-cut"
variant = "pages"
within_ms = 5000
target = "all"
for = 1

[[fault]]
at = 4
do = "wipe"
target = "one"
for = 1

[[fault]]
at = 6.5
do = "power-cut"
variant = "torn"
within_ms = 5000
target = "one"
for = 0.5

[[fault]]
at = 8
do = "wait"
target = "all"
state = "serves"

[[fault]]
at = 8.1
do = "disk-full"
target = "follower"
until = "Met"
as = "Full"

[[fault]]
at = 8.2
do = "wait"
target = "Full"
state = "down"
as = "Met"
"""
    )
    found = ran(tmp_path / "results", str(file))
    assert found["verdict"] == "PASS", found["reasons"]
    lines = [json.loads(line) for line in (Path(found["folder"]) / "faults.jsonl").read_text().splitlines()]
    pages, torn = [line["evidence"] for line in lines if line["type"] == "inject" and line["do"] == "power-cut"]
    full = [line for line in lines if line["type"] == "heal"][-1]["evidence"]
    assert [pages[str(node)]["cuts"] for node in (1, 2, 3)] == [1, 1, 1]
    assert sum(lost["lost_bytes"] for lost in torn.values()) > 0  # of the pages all may survive
    assert all(counts["full"] > 0 for counts in full["disk"].values())
    assert all(ended["exit"] == 74 for ended in full["ended"].values())


def test_a_user_without_the_rights_of_root_cuts_power() -> None:
    with as_an_ordinary_user() as (user, folder):
        (folder / "cut.toml").write_text(
            """
[scenario]
name = "cut"
nodes = 3
duration = 4

[[fault]]
at = 1
do = "power-cut"
variant = "torn"
within_ms = 5000
target = "all"
for = 1
"""
        )
        found = verdict(folder / "results", str(folder / "cut.toml"), user=user, home=folder)
        assert found["verdict"] == "PASS", found["reasons"]
        assert Path(found["folder"]).stat().st_uid != 0
        cut = json.loads((Path(found["folder"]) / "faults.jsonl").read_text().splitlines()[0])["evidence"]
        assert sum(cut[node]["lost_bytes"] for node in cut) > 0
