"""A run of real processes, with a power cut and a killed leader in it, replays equal; with one byte changed it does not."""

import json
from pathlib import Path

import pytest

from zab_chaos.harness.cli.app import main

pytestmark = [pytest.mark.processes, pytest.mark.toxiproxy]

SCENARIO = """
[scenario]
name = "replayed"
about = "Three seconds of load, a leader killed, a follower without power."
nodes = 3
duration = 3
[workload]
rate = 100
keys = 8
[[fault]]
at = 0.5
do = "crash"
target = "leader"
for = 1
[[fault]]
at = 2
do = "power-cut"
target = "follower"
for = 0.5
"""


def test_what_real_processes_recorded_is_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, results = tmp_path / "scenario.toml", tmp_path / "results"
    file.write_text(SCENARIO)
    main(["run", str(file), "--results", str(results), "--quiet"])
    run = results / "latest"
    verdict = json.loads((run / "verdict.json").read_text())
    found = next(item for item in verdict["properties"] if item["name"] == "replay equality")
    assert (found["verdict"], found["violations"]) == ("PASS", [])
    assert found["checked"] > 1000
    recorded = sorted((run / "record").iterdir())
    assert len(recorded) == 5, "three first lives and two second ones"
    assert main(["replay", "latest", "--results", str(results)]) == 0
    data = bytearray(recorded[-1].read_bytes())
    data[len(data) // 2] ^= 1
    recorded[-1].write_bytes(data)
    assert main(["replay", "latest", "--results", str(results)]) == 2
    assert f"record/{recorded[-1].name} was changed" in capsys.readouterr().out
