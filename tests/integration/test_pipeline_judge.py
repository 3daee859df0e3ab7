"""The pipeline's verdicts equal the oracle's word for word; with `--replay`, those of oracle and replay."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.corpus.build import CASES
from zab_chaos.harness.report.progress import Quiet
from zab_chaos.harness.runs.judgement import judge as judge_with_replay
from zab_chaos.harness.runs.options import options_for, read_scenario
from zab_chaos.harness.runs.run import run
from zab_chaos.model.oracle.oracle import judge
from zab_chaos.model.verdict import Verdict
from zab_chaos.pipeline import judging
from zab_chaos.pipeline.analysis import analyze
from zab_chaos.pipeline.folders import find

pytestmark = pytest.mark.timeout(900)  # of a machine that does other things too
SECONDS = 3.0  # of a shipped scenario: enough for its first fault
DEFECT = "ack-before-sync"


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


def test_the_whole_corpus_in_one_call(
    spark: Any, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "RUNS_AT_ONCE", len(CASES) - 1)
    analysis = analyze(spark, find([str(corpus)]), tmp_path / "out")
    assert len(analysis.verdicts) == len(CASES)
    for it in analysis.verdicts:
        same(it.json, judge(Path(it.path)))
        assert it.verdict == json.loads(Path(it.path, "expected.json").read_text())["verdict"]
    written = [json.loads(line) for line in (tmp_path / "out" / "verdicts.jsonl").read_text().splitlines()]
    assert written == [{"path": it.path, "copies": it.copies, **it.json} for it in analysis.verdicts]


def simulated(name: str, results: Path, defect: str | None = None) -> Path:
    """Return a scenario for the simulator: a defect's unchanged, others shortened to a few seconds."""
    scenario = read_scenario(name, on="sim", nodes=None, defect=defect)
    if defect is None:
        faults = tuple(fault for fault in scenario.faults if fault.at < SECONDS - 1)
        scenario = replace(scenario, duration=SECONDS, faults=faults)
    wish = options_for(name, scenario, seed=1, results=results, on="sim")
    return run(scenario, wish, Quiet()).folder.path


def test_simulated_runs_are_replayed_too(spark: Any, tmp_path: Path) -> None:
    """A good run, one with a known bug, and one whose recording is damaged."""
    good = simulated("leader-crash", tmp_path / "runs")
    simulated(f"defects/{DEFECT}", tmp_path / "runs", DEFECT)
    damaged = tmp_path / "runs" / "damaged"
    shutil.copytree(good, damaged)
    recording = sorted((damaged / "record").iterdir())[0]
    held = bytearray(recording.read_bytes())
    held[len(held) // 2] ^= 0xFF
    recording.write_bytes(held)
    found = {
        Path(it.path): it
        for it in analyze(spark, find([str(tmp_path / "runs")]), tmp_path / "out", judge=judge_with_replay).verdicts
    }
    assert len(found) == 3
    for folder, it in found.items():
        same(it.json, judge_with_replay(folder))
        assert it.json["properties"][-1]["name"] == "replay equality"
    assert found[damaged].verdict == "UNKNOWN"
    assert [found[run].json["properties"][-1]["verdict"] for run in (damaged, good)] == ["UNKNOWN", "PASS"]
