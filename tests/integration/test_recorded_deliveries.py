"""Runs of a store whose nodes record what they broadcast and deliver (`sequencer`): these records are judged, too."""

import re
from pathlib import Path

import pytest

from tests.integration.test_example_backend import installed, judgements, zab

pytestmark = [pytest.mark.processes, pytest.mark.toxiproxy]

RECORDED = {
    "integrity", "total order", "agreement", "local primary order", "global primary order", "primary integrity", "prefix",
    "causal order", "reliable delivery", "one leader an epoch", "committed stays", "quorum durability",
    "state equality",
}  # fmt: skip
CLIENTS = {"linearizable keys", "durability", "recovery", "progress", "fault took effect", "trace integrity"}
SCENARIO = """
[scenario]
name = "followers"
about = "A follower is paused, cut off and killed. Node 1 always leads."
nodes = 3
duration = 4
[workload]
clients = 3
rate = 60
keys = 3
payload_bytes = 32
mix = { set = 1, get = 1 }
[[fault]]
at = 0.5
do = "pause"
target = "node-2"
for = 0.5
[[fault]]
at = 1.5
do = "partition"
shape = "isolate"
target = "node-3"
for = 0.5
[[fault]]
at = 2.5
do = "crash"
target = "node-3"
for = 0.2
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    tmp_path.joinpath("followers.toml").write_text(SCENARIO)
    return installed(tmp_path, Path(__file__).parent / "sequencer", "sequencer = sequencer:Sequencer")


def test_what_nodes_record_is_judged(environment: dict[str, str], tmp_path: Path) -> None:
    code, answer, _ = zab(environment, tmp_path, "run", "followers.toml", "--on", "sequencer")
    assert (code, answer["verdict"]) == (0, "PASS"), answer["reasons"]
    found = judgements(answer)
    assert {name for name, verdict in found.items() if verdict == "PASS"} == RECORDED | CLIENTS
    assert answer["run"]["evidence"] == "history+zab"
    (folder,) = tmp_path.glob("results/followers/*-1")
    names = ["node-1-1", "node-2-1", "node-3-1", "node-3-2"]
    assert sorted(path.name for path in (folder / "trace").iterdir()) == [f"{name}.jsonl" for name in names]
    assert zab(environment, tmp_path, "verify", "latest")[1]["runs"][0]["properties"] == answer["properties"]


@pytest.mark.parametrize(
    ("bug", "violated"),
    [
        ("skips", {"total order", "local primary order", "prefix"}),
        ("differs", {"state equality"}),
        ("changes", {"integrity", "agreement", "reliable delivery"}),
        ("early", {"quorum durability"}),
    ],
)
def test_what_no_client_can_see_is_found(
    environment: dict[str, str], tmp_path: Path, bug: str, violated: set[str]
) -> None:
    code, answer, _ = zab(environment, tmp_path, "run", "followers.toml", "--on", "sequencer", "--defect", bug)
    assert (code, answer["verdict"]) == (1, "VIOLATION"), answer["reasons"]
    assert {name for name, verdict in judgements(answer).items() if verdict == "VIOLATION"} == violated
    assert ("node 1" if bug == "early" else "node 2") in answer["reasons"][0]


def test_a_line_without_the_documented_form_is_shown(environment: dict[str, str], tmp_path: Path) -> None:
    words = ["run", "followers.toml", "--on", "sequencer", "--defect", "misrecords"]
    code, answer, _ = zab(environment, tmp_path, *words)
    assert (code, answer["verdict"]) == (3, "HARNESS-ERROR")
    wrong = r"\nnode 2, life 1, line \d+: Expected `array`, got `str` - at `\$.zxid`: "
    assert re.search(wrong, answer["reasons"][0])
