"""The verdicts of `zab analyze --replay` equal those of oracle and replay word for word."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.corpus.build import CASES
from tests.integration.analyzed import Analyzed
from zab_chaos.harness.runs.judgement import judge
from zab_chaos.model.verdict import Verdict

pytestmark = pytest.mark.timeout(900)  # of a machine that does other things too


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


def test_a_case_of_each_property_and_verdict(analyzed: Analyzed) -> None:
    found = analyzed.below(analyzed.corpus)
    assert len(found) >= len({case.property for case in CASES})
    assert {it.verdict for it in found.values()} == {case.verdict for case in CASES}
    for it in found.values():
        same(it.json, judge(Path(it.path)))
        assert it.verdict == json.loads(Path(it.path, "expected.json").read_text())["verdict"]
    written = [json.loads(line) for line in (analyzed.out / "verdicts.jsonl").read_text().splitlines()]
    assert written == [{"path": it.path, "copies": it.copies, **it.json} for it in analyzed.analysis.verdicts]


def test_recordings_are_replayed(analyzed: Analyzed) -> None:
    runs, replayed = analyzed.recorded, {}
    verdicts = {Path(it.path): it for it in analyzed.analysis.verdicts}
    for path in (runs.good, runs.bad, runs.wrong, runs.damaged):
        it = verdicts[path]
        same(it.json, judge(path))
        replayed[path] = (it.verdict, it.json["properties"][-1]["name"], it.json["properties"][-1]["verdict"])
    assert replayed == {
        runs.good: ("PASS", "replay equality", "PASS"),
        runs.bad: ("VIOLATION", "replay equality", "PASS"),
        runs.wrong: ("VIOLATION", "replay equality", "PASS"),
        runs.damaged: ("UNKNOWN", "replay equality", "UNKNOWN"),
    }
    violated = [it["name"] for it in verdicts[runs.wrong].json["properties"] if it["verdict"] == "VIOLATION"]
    assert violated == ["expected state"]


def test_the_command_prints_the_summary_and_ends_with_the_worst_verdict(analyzed: Analyzed) -> None:
    said = json.loads(analyzed.stdout)
    assert said == json.loads((analyzed.out / "summary.json").read_text())
    assert {run["path"]: run["verdict"] for run in said["runs"]} == {
        it.path: it.verdict for it in analyzed.analysis.verdicts
    }
    assert analyzed.code == analyzed.analysis.verdict.exit_code == 3
    report = analyzed.out / "report.html"
    assert f"report   {report}" in analyzed.stderr
    page = report.read_text()
    assert all(Path(it.path).name in page for it in analyzed.analysis.verdicts)
    steps = ("looking for runs", "starting Spark", "reading runs 1 to", "judging runs", "(9 of 9)")
    assert [words for words in steps if words not in analyzed.stderr] == []
