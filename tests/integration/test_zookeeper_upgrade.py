"""A rolling upgrade of real servers, one of which is taken back: each life is of the release that it should be."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_zookeeper_command import zab
from tests.integration.zookeeper import release

pytestmark = [pytest.mark.zookeeper, pytest.mark.toxiproxy, pytest.mark.timeout(300)]

OLD, NEW = "3.8.4", "3.9.4"
SCENARIO = """
[scenario]
name = "rolling"
about = "A server is upgraded, dies at a step of the protocol, and is taken back; another one is upgraded."
nodes = 3
duration = 8

[workload]
rate = 100
sessions = 2
"""


def steps(*faults: dict[str, Any]) -> str:
    """Return the scenario with these faults, one after the other. After each of them all servers have to serve again."""
    text = SCENARIO
    for number, fault in enumerate(faults):
        wait = {"do": "wait", "target": "all", "state": "serves"}
        for at, table in ((number, fault), (number + 0.5, wait)):
            text += f"[[fault]]\nat = {at}\n" + "".join(f"{key} = {json.dumps(it)}\n" for key, it in table.items())
    return text + "[expect]\nmin_acked = 100\nconverges_within = 40\n"


def test_servers_are_upgraded_one_after_the_other_and_one_is_taken_back(tmp_path: Path) -> None:
    release(OLD)
    release(NEW)
    file = tmp_path / "rolling.toml"
    file.write_text(
        steps(
            {"do": "upgrade", "target": "node-1", "for": 0.2},
            {"do": "crash-at", "target": "node-1", "point": "before-write:TXN", "for": 0.5},
            {"do": "upgrade", "target": "node-3", "release": NEW, "for": 0.2},
            {"do": "upgrade", "target": "node-1", "release": "old", "for": 0.2},
        )
    )
    words = ["run", str(file), "--zookeeper", OLD, "--to", NEW, "--results", str(tmp_path), "--keep-data"]
    code, ran = zab(*words)
    assert (code, ran["verdict"]) == (0, "PASS"), ran["reasons"]
    assert ran["run"]["releases"] == {"old": OLD, "new": NEW}
    assert ran["run"]["command"].endswith(f"--zookeeper {OLD} --to {NEW}")
    expected = {1: [OLD, NEW, NEW, OLD], 2: [OLD], 3: [OLD, NEW]}
    folder = Path(ran["folder"])
    for node, releases in expected.items():
        for life, name in enumerate(releases, 1):
            first = json.loads((folder / "trace" / f"node-{node}-{life}.jsonl").read_text().splitlines()[0])
            assert (first["event"], first["release"].partition("-")[0]) == ("boot", name)
    judged = {one["name"]: one["checked"] for one in ran["properties"]}
    for name in ("durability", "agreement", "exactly once", "state equality", "sessions"):
        assert judged[name] > 30, name
    again, verified = zab("verify", ran["folder"])
    assert again == 0
    assert verified["runs"][0]["properties"] == ran["properties"]


def test_a_release_that_does_not_exist_is_refused_before_anything_starts(tmp_path: Path) -> None:
    release(OLD)
    file = tmp_path / "rolling.toml"
    file.write_text(steps({"do": "upgrade", "target": "node-1", "release": "3.99.1", "for": 0.2}))
    with pytest.raises(AssertionError, match=r"there is no ZooKeeper 3\.99\.1"):  # its stderr: it has printed no result
        zab("run", str(file), "--zookeeper", OLD, "--results", str(tmp_path / "results"))
    assert not (tmp_path / "results").exists()
