"""The `work` events of a life, compared with the recordings of its peers."""

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from zab_chaos.harness.cli.app import main
from zab_chaos.node.core.messages import Phase
from zab_chaos.node.recording import RecordingReader, Stepped, Synced
from zab_chaos.node.work_counters import REPORT_INTERVAL, WorkCounters

SCENARIO = """
[scenario]
name = "busy"
about = "A crash under load."
nodes = 3
duration = 4
record = true

[workload]
rate = 100

[[fault]]
at = 1.5
do = "crash"
target = "follower"
for = 0.5
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("work")
    (place / "busy.toml").write_text(SCENARIO)
    assert main(["run", str(place / "busy.toml"), "--on", "sim", "--results", str(place / "r")]) == 0
    return (place / "r" / "latest").resolve()


def work_of(run: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the `work` events of each life."""
    return {
        path.stem: [line for line in map(json.loads, path.read_text().splitlines()) if line["event"] == "work"]
        for path in sorted((run / "trace").glob("*.jsonl"))
    }


def test_counters_only_grow_and_are_traced_every_second(run: Path) -> None:
    for life, told in work_of(run).items():
        assert len(told) >= 3, life
        for before, after in pairwise(told):
            assert after["t"] - before["t"] < 1.2 * REPORT_INTERVAL, life
            assert after["frames"] >= before["frames"]
            assert after["syncs"] >= before["syncs"]
            assert all(after["messages"][kind] >= count for kind, count in before["messages"].items())


def test_the_sent_messages_are_those_that_the_peers_received(run: Path) -> None:
    """They differ only by messages on their way when a node died, and by those that a killed node did not count any more."""
    sent: Counter[str] = Counter()
    for told in work_of(run).values():
        sent.update(told[-1]["messages"])
    taken: Counter[str] = Counter()
    for path in sorted((run / "record").glob("*.bin")):
        for block in RecordingReader(path).blocks():
            taken.update(
                str(type(entry.message).__struct_config__.tag) for entry in block if isinstance(entry, Stepped)
            )
    assert {"VOTE", "PROPOSE", "ACK", "COMMIT", "PING"} <= taken.keys()
    for kind, count in taken.items():
        assert count * 0.9 - 10 <= sent[kind] <= count * 1.1 + 10, kind


def test_the_syncs_are_those_that_the_core_was_told(run: Path) -> None:
    """A sync with nothing to write (its group is not complete yet) is not counted."""
    for life, told in work_of(run).items():
        blocks = RecordingReader(run / "record" / f"{life}.bin").blocks()
        synced = sum(isinstance(entry, Synced) for block in blocks for entry in block)
        assert synced * 0.7 - 10 <= told[-1]["syncs"] <= synced + 5, life


def test_a_new_phase_is_traced_at_once() -> None:
    work = WorkCounters()
    assert work.due(Phase.ELECTION, 0)
    assert not work.due(Phase.ELECTION, REPORT_INTERVAL - 1)
    assert work.due(Phase.DISCOVERY, REPORT_INTERVAL - 1)
    assert not work.due(Phase.DISCOVERY, 2 * REPORT_INTERVAL - 2)
    assert work.due(Phase.DISCOVERY, 2 * REPORT_INTERVAL - 1)
