"""Pipeline and oracle say the same: of the whole corpus, of simulated runs with and without known bugs, of a real one."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness import catalogue
from harness.cli import main
from harness.commands.run import read, wish_for
from harness.judgement import judge as judge_with_replay
from harness.progress import Quiet
from harness.replays import replayed
from harness.sim import run_sim
from model.oracle import judge
from pipeline.analysis import Analysis, analyze
from tests.corpus.build import CASES

pytestmark = pytest.mark.timeout(900)  # of a machine that does other things too

SECONDS = 6.0  # of a shipped scenario: enough for its first faults
RATE = 40.0  # operations a second at most
DEFECTIVE = ("ack-before-sync", "commit-without-quorum", "gap-accepted", "no-truncate", "raw-zmq")
REAL = """
[scenario]
name = "real"
about = "Two seconds of load, and a crash."
nodes = 3
duration = 2
[workload]
rate = 50
[[fault]]
at = 0.5
do = "crash"
target = "leader"
for = 0.5
"""


def told(folder: Path) -> dict[str, Any]:
    """The oracle's verdict."""
    said: dict[str, Any] = msgspec.to_builtins(judge(folder))
    return said


def differences(piped: dict[str, Any], oracle: dict[str, Any]) -> list[str]:
    """Where two verdicts on one run are not the same. What cannot be read is told in each judge's own words."""
    found = [f"{name}: {piped[name]} / {oracle[name]}" for name in ("verdict", "exit") if piped[name] != oracle[name]]
    if list(map(plain, piped["reasons"])) != list(map(plain, oracle["reasons"])):
        found.append(f"reasons: {piped['reasons']} / {oracle['reasons']}")
    mine = {item["name"]: item for item in piped["properties"]}
    for theirs in oracle["properties"]:
        ours = mine.pop(theirs["name"], None)
        if ours is None:
            found.append(f"{theirs['name']} is missing")
            continue
        for name in ("verdict", "checked", "more", "source", "statement", "violations"):
            if readable(ours[name]) != readable(theirs[name]):
                found.append(f"{theirs['name']}, {name}: {ours[name]} / {theirs[name]}")
    return found + [f"{name} is too many" for name in mine]


def readable(value: Any) -> Any:
    """Violations by their words and lines."""
    if not isinstance(value, list):
        return value
    return [(plain(it["words"]), [(ref["file"], ref["line"]) for ref in it["evidence"]]) for it in value]


def plain(words: str) -> str:
    """Without the parser's own words for what it could not read."""
    return words.partition(" is not readable")[0]


def agree(analysis: Analysis) -> list[str]:
    return [f"{it.path}: {words}" for it in analysis.verdicts for words in differences(it.json, told(Path(it.path)))]


def test_the_whole_corpus_in_one_call(spark: Any, corpus: Path, tmp_path: Path) -> None:
    analysis = analyze(spark, [str(corpus)], str(tmp_path / "out"))
    assert len(analysis.verdicts) == len(CASES)
    assert agree(analysis) == []
    for it in analysis.verdicts:
        expected = json.loads(Path(it.path, "expected.json").read_text())
        said = it.judgements()
        assert it.verdict == expected["verdict"], it.path
        assert sorted(name for name in said if said[name] == "VIOLATION") == expected["violated"], it.path
        assert said.get(expected["property"]) == expected["judgement"], it.path


def test_a_difference_is_seen(corpus: Path) -> None:
    """The comparison itself: another verdict, another count, other words, other lines, a property less are all seen."""
    oracle = told(corpus / "agreement-fork")
    assert differences(told(corpus / "agreement-fork"), oracle) == []

    def changed(**fields: Any) -> list[str]:
        piped = told(corpus / "agreement-fork")
        at = next(n for n, it in enumerate(piped["properties"]) if it["violations"])
        piped["properties"][at].update(fields)
        return differences(piped, oracle)

    assert changed(verdict="PASS")
    assert changed(checked=0)
    assert changed(more=7)
    assert changed(violations=[])
    assert changed(name="something else")
    assert differences({**oracle, "exit": 0}, oracle)


def simulated(name: str, results: Path, defect: str | None = None) -> Path:
    """A scenario in the simulated world: a defect's as it is, of the others the first seconds under a light load."""
    scenario = read(name, on="sim", nodes=None, defect=defect)
    if defect is None:
        light = replace(scenario.workload, rate=min(scenario.workload.rate, RATE))
        faults = [fault for fault in scenario.faults if fault.at < SECONDS - 1]
        scenario = replace(scenario, workload=light, duration=min(scenario.duration, SECONDS), faults=faults)
    wish = wish_for(name, scenario, seed=1, results=results, on="sim")
    return run_sim(scenario, wish, Quiet()).folder.path


@pytest.fixture(scope="module")
def campaign(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Every shipped scenario and some defects, simulated, and a damaged recording: analyzed and replayed in one call."""
    root = tmp_path_factory.mktemp("campaign")
    good = {name: simulated(name, root) for name in catalogue.shipped() if "/" not in name}
    bad = {name: simulated(f"defects/{name}", root, name) for name in DEFECTIVE}
    damaged = root / "damaged" / "1"
    shutil.copytree(good["leader-crash"], damaged)
    recording = sorted((damaged / "record").iterdir())[0]
    held = bytearray(recording.read_bytes())
    held[len(held) // 2] ^= 0xFF
    recording.write_bytes(held)
    facts = json.loads((damaged / "run.json").read_text())
    (damaged / "run.json").write_text(json.dumps({**facts, "run": "damaged"}))
    analysis = analyze(spark, [str(root)], str(root / "out"), others={"replaying": replayed})
    return {
        "good": good, "bad": bad, "damaged": damaged,
        "verdicts": {Path(it.path): it.json for it in analysis.verdicts},
    }  # fmt: skip


def test_simulated_runs_of_every_scenario_and_of_defects(campaign: dict[str, Any]) -> None:
    """Oracle and replay on one side, queries and executors on the other."""
    found = []
    for folder, piped in campaign["verdicts"].items():
        oracle = msgspec.to_builtins(judge_with_replay(folder))
        found += [f"{folder}: {words}" for words in differences(piped, oracle)]
        assert piped["properties"][-1]["name"] == "replay equality"
        assert piped["properties"][-1]["checked"] > 0
    assert found == []
    assert len(campaign["verdicts"]) == len(campaign["good"]) + len(campaign["bad"]) + 1
    caught = [name for name, folder in campaign["bad"].items() if campaign["verdicts"][folder]["exit"] == 1]
    assert len(caught) >= 3, caught


def test_a_damaged_recording_is_found(campaign: dict[str, Any]) -> None:
    piped = campaign["verdicts"][campaign["damaged"]]
    assert [it["name"] for it in piped["properties"] if it["verdict"] == "VIOLATION"] == ["replay equality"]
    assert (piped["verdict"], piped["exit"]) == ("VIOLATION", 1)
    assert piped["reasons"][-1].startswith("replay equality is violated: ")


@pytest.mark.processes
@pytest.mark.toxiproxy
def test_a_real_run(spark: Any, tmp_path: Path) -> None:
    scenario = tmp_path / "real.toml"
    scenario.write_text(REAL)
    assert main(["run", str(scenario), "--results", str(tmp_path / "r"), "-q"]) in (0, 2)
    (run,) = (tmp_path / "r" / "real").iterdir()
    analysis = analyze(spark, [str(run)], str(tmp_path / "out"), others={"replaying": replayed})
    (it,) = analysis.verdicts
    assert differences(it.json, msgspec.to_builtins(judge_with_replay(run))) == []
