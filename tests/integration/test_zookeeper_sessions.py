"""Sessions, ephemeral znodes and watches on real servers, while a leader is killed and the next one is cut off."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_zookeeper_command import zab
from tests.integration.zookeeper import release

pytestmark = [pytest.mark.zookeeper, pytest.mark.toxiproxy, pytest.mark.timeout(300)]

SCENARIO = """
[scenario]
name = "sessions"
about = "Clients with sessions, ephemeral znodes and watches; the leader is killed, and the next one is cut off."
nodes = 3
duration = 10

[workload]
rate = 50
sessions = 4

[[fault]]
at = 2
do = "crash"
target = "leader"
for = 1

[[fault]]
at = 5
do = "partition"
shape = "isolate"
target = "leader"
for = 2.5

[expect]
min_acked = 30
converges_within = 60
"""


def verified(folder: str, lines: list[dict[str, Any]]) -> dict[str, str]:
    """Write these lines to sessions.jsonl, and return the verdict of `zab verify` on each property."""
    Path(folder, "sessions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    code, found = zab("verify", folder)
    assert code == 2  # the folder is not as it was sealed
    return {one["name"]: one["verdict"] for one in found["runs"][0]["properties"]}


def behind(lines: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Return the lines with each read after a sync changed as if it had been answered at the beginning of its epoch."""
    synced: set[int] = set()
    for line in lines:
        if line["type"] == "synced":
            synced.add(line["client"])
        late = line["type"] == "look" and line["client"] in synced
        yield {**line, "zxid": [line["zxid"][0], 0]} if late else line


@pytest.mark.parametrize(
    "version", ["3.5.10", "3.9.4"]
)  # before 3.6 a log does not list the ephemeral znodes of a closed session
def test_a_crash_and_a_partition_violate_no_session_property(tmp_path: Path, version: str) -> None:
    release(version)
    file = tmp_path / "sessions.toml"
    file.write_text(SCENARIO)
    code, ran = zab("run", str(file), "--zookeeper", version, "--results", str(tmp_path))
    assert (code, ran["verdict"]) == (0, "PASS"), ran["reasons"]
    judged = {one["name"]: one for one in ran["properties"]}
    lines = [json.loads(line) for line in Path(ran["folder"], "sessions.jsonl").read_text().splitlines()]
    made = {line["session"] for line in lines if line["type"] == "made"}
    assert made & {line["session"] for line in lines if line["type"] == "ended"}
    assert {"fired", "lost", "over", "removed", "wrote"} <= {line["type"] for line in lines}
    assert any("/lock/" in line["path"] for line in lines if line["type"] == "ask")  # it watches the one before it
    again = [line for line in lines if line["type"] == "again"]
    assert len(again) > 3
    assert sum(line["type"] == "stand" for line in lines) > 3
    assert judged["sessions"]["checked"] > 100
    assert judged["ephemerals"]["checked"] > 20
    assert judged["watches"]["checked"] > 10
    assert judged["sync"]["checked"] > 3
    assert not [line for line in lines if line.get("last")]  # nothing is left
    code, found = zab("verify", ran["folder"])
    assert code == 0
    assert found["runs"][0]["properties"] == ran["properties"]
    made_one = next(line for line in lines if line["type"] == "made")
    there = {"changed": made_one["zxid"], "owner": made_one["session"]}
    lie = {**made_one, "type": "look", "node": 1, "zxid": [99, 1], **there}
    assert verified(ran["folder"], [*lines, lie])["ephemerals"] == "UNKNOWN"
    kept = (line for line in lines if line["type"] == "look" and "owner" not in line)
    stale = next(line for line in kept if line["zxid"] > line.get("changed", [99]))
    wrong = [{**line, "changed": [1, 1]} if line is stale else line for line in lines]
    assert verified(ran["folder"], wrong)["sessions"] == "UNKNOWN"
    assert verified(ran["folder"], [*behind(lines)])["sync"] == "UNKNOWN"
    emptied = [{**line, "children": []} if line.get("children") else line for line in lines]
    assert verified(ran["folder"], emptied)["sessions"] == "UNKNOWN"
    first = next(line for line in lines if line["type"] == "write" and line["path"] == made_one["path"])
    assert verified(ran["folder"], [line for line in lines if line is not first])["sessions"] == "UNKNOWN"
    unread = [{**line, "value": 7} if "value" in line and line["type"] == "look" else line for line in lines]
    assert verified(ran["folder"], unread)["sessions"] == "UNKNOWN"
    unmoved = [{**line, "zxid": [*line["zxid"][:1], 0]} if line["type"] == "removed" else line for line in lines]
    assert verified(ran["folder"], unmoved)["sessions"] == "UNKNOWN"
    unwritten = [{**line, "value": 0} if line["type"] == "wrote" else line for line in lines]
    assert verified(ran["folder"], unwritten)["sessions"] == "UNKNOWN"
    shown = Path(ran["folder"], "tree.jsonl")
    shown.write_text(shown.read_text().replace('"children_version":', '"children_version":1', 1))
    assert verified(ran["folder"], lines)["state equality"] == "UNKNOWN"
    deaf = [line for line in lines if line["type"] != "fired"]
    assert verified(ran["folder"], deaf)["watches"] == "UNKNOWN"
