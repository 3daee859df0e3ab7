"""The pipeline's verdicts equal the oracle's word for word; with `--replay`, those of oracle and replay."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.corpus.build import CASES
from tests.integration.analyzed import Analyzed
from zab_chaos.harness.cli.app import main
from zab_chaos.harness.report.progress import Quiet
from zab_chaos.harness.runs.judgement import judge as judge_with_replay
from zab_chaos.harness.runs.options import options_for, read_scenario
from zab_chaos.harness.runs.run import run
from zab_chaos.model.oracle.oracle import judge
from zab_chaos.model.verdict import Verdict

pytestmark = pytest.mark.timeout(900)  # of a machine that does other things too
SECONDS = 3.0  # of a shipped scenario: enough for its first fault
DEFECT = "ack-before-sync"
WRONG = """
[scenario]
name = "wrong"
duration = 1

[expect.state]
"/key-0" = "never written"
"""


def same(said: dict[str, Any], verdict: Verdict) -> None:
    """`said` is the verdict; its metrics may be more."""
    told = msgspec.to_builtins(verdict)
    assert {**said, "metrics": None} == {**told, "metrics": None}
    ours, theirs = said["metrics"], told["metrics"]
    assert {name: ours[name] for name in theirs if name != "faults"} == {
        name: value for name, value in theirs.items() if name != "faults"
    }
    for fault, told_of in zip(ours.get("faults", []), theirs.get("faults", []), strict=True):
        assert fault.items() >= told_of.items()


def test_the_whole_corpus(analyzed: Analyzed) -> None:
    found = analyzed.below(analyzed.corpus)
    assert len(found) == len(CASES)
    for it in found.values():
        same(it.json, judge(Path(it.path)))
        assert it.verdict == json.loads(Path(it.path, "expected.json").read_text())["verdict"]
    written = [json.loads(line) for line in (analyzed.out / "verdicts.jsonl").read_text().splitlines()]
    assert written == [{"path": it.path, "copies": it.copies, **it.json} for it in analyzed.analysis.verdicts]


def simulated(name: str, results: Path, defect: str | None = None) -> Path:
    """Return a scenario for the simulator: a defect's unchanged, others shortened to a few seconds."""
    scenario = read_scenario(name, on="sim", nodes=None, defect=defect)
    if defect is None:
        faults = tuple(fault for fault in scenario.faults if fault.at < SECONDS - 1)
        scenario = replace(scenario, duration=SECONDS, faults=faults)
    wish = options_for(name, scenario, seed=1, results=results, on="sim")
    return run(scenario, wish, Quiet()).folder.path


def test_the_command_replays_recordings_and_prints_the_summary(
    analyze_here: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a good run, one with a known bug, one whose recording is damaged, and one that ends in another state than expected."""
    runs, out = tmp_path / "runs", tmp_path / "out"
    good = simulated("leader-crash", runs)
    bad = simulated(f"defects/{DEFECT}", runs, DEFECT)
    (tmp_path / "wrong.toml").write_text(WRONG)
    assert main(["run", str(tmp_path / "wrong.toml"), "--on", "sim", "--results", str(runs), "--quiet"]) == 1
    wrong = (runs / "latest").resolve()
    damaged = runs / "damaged"
    shutil.copytree(good, damaged)
    recording = sorted((damaged / "record").iterdir())[0]
    held = bytearray(recording.read_bytes())
    held[len(held) // 2] ^= 0xFF
    recording.write_bytes(held)
    capsys.readouterr()
    assert analyze_here(runs, "--replay", "--out", out, "--json") == 1
    told = capsys.readouterr()
    said = json.loads(told.out)
    assert said == json.loads((out / "summary.json").read_text())
    verdicts = {run["path"]: run["verdict"] for run in said["runs"]}
    assert verdicts == {str(good): "PASS", str(bad): "VIOLATION", str(wrong): "VIOLATION", str(damaged): "UNKNOWN"}
    written = {it["path"]: it for it in map(json.loads, (out / "verdicts.jsonl").read_text().splitlines())}
    for path, it in written.items():
        same({name: it[name] for name in it if name not in ("path", "copies")}, judge_with_replay(Path(path)))
        replayed = it["properties"][-1]
        assert (replayed["name"], replayed["verdict"]) == (
            "replay equality",
            "UNKNOWN" if path == str(damaged) else "PASS",
        )
    violated = [it["name"] for it in written[str(wrong)]["properties"] if it["verdict"] == "VIOLATION"]
    assert violated == ["expected state"]
    assert f"report   {out / 'report.html'}" in told.err
    steps = ("looking for runs", "starting Spark", "reading runs 1 to 4 of 4", "judging runs", "(9 of 9)")
    assert [words for words in steps if words not in told.err] == []
    page = (out / "report.html").read_text()
    assert all(Path(path).name in page for path in verdicts)
