"""Sessions, ephemeral znodes and watches on real servers: their promises are kept while a leader dies and one is cut off."""

import json
from pathlib import Path

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


def test_a_crash_and_a_partition_break_no_promise(tmp_path: Path) -> None:
    release("3.9.4")
    file = tmp_path / "sessions.toml"
    file.write_text(SCENARIO)
    code, ran = zab("run", str(file), "--zookeeper", "3.9.4", "--results", str(tmp_path))
    assert (code, ran["verdict"]) == (0, "PASS"), ran["reasons"]
    judged = {one["name"]: one for one in ran["properties"]}
    lines = [json.loads(line) for line in Path(ran["folder"], "sessions.jsonl").read_text().splitlines()]
    made = {line["session"] for line in lines if line["type"] == "made"}
    assert made & {line["session"] for line in lines if line["type"] == "ended"}
    assert {"fired", "lost", "over"} <= {line["type"] for line in lines}
    assert judged["ephemerals"]["checked"] > 20
    assert judged["watches"]["checked"] > 10
    assert not [line for line in lines if line.get("last")]  # nothing is left
    again, verified = zab("verify", ran["folder"])
    assert again == 0
    assert verified["runs"][0]["properties"] == ran["properties"]
    lie = next(line for line in lines if line["type"] == "made" and line["session"] in made)
    lines.append({**lie, "type": "look", "node": 1, "zxid": [99, 1], "changed": lie["zxid"], "owner": lie["session"]})
    Path(ran["folder"], "sessions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    changed, verified = zab("verify", ran["folder"])
    assert changed == 2  # the folder is not as it was sealed
    assert "ephemerals is not certain" in " ".join(verified["runs"][0]["reasons"])
