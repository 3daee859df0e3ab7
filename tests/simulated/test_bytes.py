"""The same seed gives the same bytes, with any hash seed of the interpreter; another seed does not."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from zab_chaos.faults.defects import DEFECTS
from zab_chaos.faults.scenario import Scenario
from zab_chaos.harness.backends.simulator.backend import SimBackend, SimDeployment
from zab_chaos.harness.report.progress import Display, Quiet
from zab_chaos.harness.results import run_folder
from zab_chaos.harness.results.run_folder import RunFolder
from zab_chaos.harness.runs.judgement import judge
from zab_chaos.harness.runs.options import RunOptions
from zab_chaos.harness.runs.run import run

RUN = """
import sys
from dataclasses import replace
from pathlib import Path
from zab_chaos.faults.scenario import load
from zab_chaos.harness.runs import catalogue
from zab_chaos.harness.report.progress import Quiet
from zab_chaos.harness.runs.options import RunOptions
from zab_chaos.harness.runs.run import run
scenario = load(catalogue.shipped()[sys.argv[1]])
scenario = replace(scenario, workload=replace(scenario.workload, rate=40.0))
wish = RunOptions(seed=int(sys.argv[2]), results=Path(sys.argv[3]), command="again", keep_data=True, on="sim")
run(scenario, wish, Quiet())
"""
ROOT = Path(__file__).resolve().parents[2]


def digests(folder: Path, scenario: str, seed: int, hash_seed: str) -> dict[str, str]:
    """Return every file's digest. The commit is taken out of run.json, because files of this checkout may change meanwhile."""
    subprocess.run(
        [sys.executable, "-c", RUN, scenario, str(seed), str(folder)],
        check=True, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}, timeout=120,
    )  # fmt: skip
    found = run_folder.find(folder, "latest").path
    facts = json.loads(found.joinpath("run.json").read_text())
    found.joinpath("run.json").write_text(json.dumps({**facts, "commit": None}))
    return {
        str(path.relative_to(found)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(found.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("scenario", ["power-outage-torn", "defects/stale-epoch-accepted"])
def test_same_seed_same_bytes(tmp_path: Path, scenario: str) -> None:
    one = digests(tmp_path / "one", scenario, 3, "0")
    assert one == digests(tmp_path / "two", scenario, 3, "12345")
    other = digests(tmp_path / "three", scenario, 4, "0")
    assert {name for name in one if one[name] != other.get(name)} > {"ops.jsonl", "faults.jsonl", "verdict.json"}
    kinds = {name.split("/")[0] for name in one}
    assert {"trace", "record", "data", "ops.jsonl", "harness.jsonl", "run.json", "scenario.toml"} <= kinds


@pytest.mark.parametrize(("scenario", "defect"), [("crash-in-discovery", None), ("no-truncate", "no-truncate")])
def test_the_files_are_judged_as_the_run_was(
    tmp_path: Path, scenario: str, defect: str | None, shipped: Callable[[str], Scenario]
) -> None:
    name = scenario if defect is None else f"defects/{scenario}"
    bug = (defect, DEFECTS[defect].path) if defect is not None else None
    wish = RunOptions(seed=2, results=tmp_path, command="", defect=bug, on="sim")
    ran = run(shipped(name), wish, Quiet())
    assert (ran.verdict.exit == 1) == (defect is not None)
    assert judge(ran.folder.path).to_json() == ran.folder.file("verdict.json").read_bytes()


class DamagedRecording(SimDeployment):
    """A world in which one bit of a node's recording is flipped after the run."""

    path: Path

    def finish(self) -> None:
        super().finish()
        path = self.path / "record" / "node-2-1.bin"
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)


def opened(
    _backend: SimBackend, scenario: Scenario, wish: RunOptions, folder: RunFolder, _screen: Display
) -> DamagedRecording:
    deployment = DamagedRecording(scenario, wish.seed, None, folder, wish.record)
    deployment.path = folder.path
    return deployment


@pytest.mark.parametrize("damaged", [False, True])
def test_a_recorded_run_is_replayed_and_a_damaged_recording_is_found(
    tmp_path: Path, damaged: bool, shipped: Callable[[str], Scenario], monkeypatch: pytest.MonkeyPatch
) -> None:
    wish = RunOptions(seed=2, results=tmp_path, command="", on="sim")
    if damaged:
        monkeypatch.setattr(SimBackend, "open", opened)
    verdict = run(shipped("leader-pause"), wish, Quiet()).verdict
    found = verdict.property("replay equality")
    assert found.checked > 1000
    assert (found.verdict, verdict.exit) == (("VIOLATION", 1) if damaged else ("PASS", 0))
    assert any("node 2, life 1" in violation.words for violation in found.violations) == damaged
