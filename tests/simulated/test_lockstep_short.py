"""The shortest run in lockstep that has a round, a sync, a power cut and a recovery: the simulator's bytes.

More, and longer ones, are in tests/integration/test_lockstep.py; this one is here so that a change of a node, of a server
or of the simulated world cannot part the two worlds unnoticed.
"""

from pathlib import Path

import pytest

from zab_chaos.faults.scenario import load
from zab_chaos.harness.backends.lockstep.compare import first_difference
from zab_chaos.harness.cli.app import main
from zab_chaos.harness.report.progress import Quiet
from zab_chaos.harness.runs.options import RunOptions
from zab_chaos.harness.runs.run import FinishedRun, run

SCENARIO = """
[scenario]
name = "short"
about = "A leader loses its power, with unsynced bytes in the air."
nodes = 3
duration = 1.5

[workload]
clients = 2
keys = 2
rate = 40

[[fault]]
at = 0.5
do = "power-cut"
target = "leader"
variant = "torn"
for = 0.3

[expect]
min_acked = 5
converges_within = 20
"""


def in_both(scenario: str, seed: int, folder: Path, *, keep_data: bool = False) -> list[FinishedRun]:
    """It ran in the simulator, and in lockstep."""
    path = folder / "scenario.toml"
    path.write_text(scenario)
    return [
        run(load(path), RunOptions(seed=seed, results=folder / on, command=on, keep_data=keep_data, on=on), Quiet())
        for on in ("sim", "lockstep")
    ]


@pytest.mark.processes
def test_a_short_run_is_the_simulators(tmp_path: Path) -> None:
    simulated, ran = in_both(SCENARIO, 5, tmp_path, keep_data=True)
    assert first_difference(simulated.folder.path, ran.folder.path) is None
    assert (ran.verdict.exit, ran.verdict) == (0, simulated.verdict)
    assert len(list(ran.folder.file("trace").iterdir())) == 4
    facts = simulated.folder.read_run(), ran.folder.read_run()
    assert facts[0]["dump"] is not None
    assert facts[0]["dump"] == facts[1]["dump"]
    assert [each["backend"] for each in facts] == ["sim", "lockstep"]


BAD_FRAMES = """
[[fault]]
at = 0.2
do = "corrupt-frames"
target = "all"
one_in = 20
for = 0.4

[[fault]]
at = 0.7
do = "misrouted-frames"
target = "leader"
one_in = 5
for = 0.3
"""


@pytest.mark.processes
def test_refused_frames_are_passed_on_to_the_processes(tmp_path: Path) -> None:
    simulated, ran = in_both(SCENARIO.partition("[[fault]]")[0] + BAD_FRAMES, 1, tmp_path)
    assert first_difference(simulated.folder.path, ran.folder.path) is None
    assert (ran.verdict.exit, ran.verdict) == (0, simulated.verdict)
    traces = "".join(file.read_text() for file in ran.folder.file("trace").iterdir())
    assert "the checksum does not fit" in traces
    assert "addressed to node" in traces


def test_only_lockstep_is_compared(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "steady-state", "--on", "sim", "--compare"]) == 4
    assert "it needs --on lockstep" in capsys.readouterr().err


def test_the_command_compares_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "short.toml"
    path.write_text(SCENARIO.replace("1.5", "0.6").replace("0.5", "0.2"))
    assert main(["run", str(path), "--on", "lockstep", "--seed", "1", "--compare", "--results", str(tmp_path)]) in (
        0,
        2,
    )
    out = capsys.readouterr().out
    assert "EQUAL: the same bytes" in out
    assert out.count(str(tmp_path)) >= 2
    runs = [each.parent for each in tmp_path.glob("short/*/run.json")]
    assert len(runs) == 2


WRONG_CLOCKS = """
[[fault]]
at = 0.1
do = "crash"
target = "node-2"
for = 0.1

[[fault]]
at = 0.2
do = "clock-jump"
target = "follower"
ms = 20

[[fault]]
at = 0.3
do = "clock-rate"
target = "leader"
rate = 1.5
for = 0.3

[[fault]]
at = 0.7
do = "slow-disk"
target = "all"
ms = 10
for = 0.4
"""


@pytest.mark.processes
def test_wrong_clocks_and_disks_show_in_the_processes(tmp_path: Path) -> None:
    """Also in a second life, whose disk counts from 0."""
    simulated, ran = in_both(SCENARIO.partition("[[fault]]")[0] + WRONG_CLOCKS, 5, tmp_path)
    assert (simulated.verdict.exit, ran.verdict.exit) == (0, 0)
    told = [one.folder.file("faults.jsonl").read_text() for one in (simulated, ran)]
    assert told[0] == told[1]
    assert told[0].count('"confirmed":true') == 8
    assert '"life":2' in told[0]
