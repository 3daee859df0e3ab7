"""A run whose folder was changed afterwards is never judged PASS."""

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from tests.simulated.edits import edited
from zab_chaos.faults.scenario import parse
from zab_chaos.harness.report.progress import Quiet
from zab_chaos.harness.runs.judgement import judge as judge_with_replay
from zab_chaos.harness.runs.options import RunOptions
from zab_chaos.harness.runs.run import run
from zab_chaos.model import manifest
from zab_chaos.model.oracle.oracle import judge
from zab_chaos.model.verdict import Judgement, Outcome

SCENARIO = """
[scenario]
name = "edits"
about = "a follower is killed and comes back"
duration = 0.6

[workload]
rate = 10
clients = 2
keys = 2

[[fault]]
at = 0.2
do = "crash"
target = "follower"
for = 0.2
"""
EDITED = 1000
JUDGED_BY_WHAT_IT_SAYS = 300
REPLAYED = 100
NOTICED_AT_LEAST = 0.92  # of the edits that change what traces, operations and faults say


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that ended with PASS."""
    wish = RunOptions(seed=1, results=tmp_path_factory.mktemp("results"), command="again", on="sim")
    ran = run(parse(SCENARIO), wish, Quiet())
    assert ran.verdict.verdict is Outcome.PASS, ran.verdict.reasons
    assert judge(ran.folder.path).to_json() == judge(ran.folder.path, stored=False).to_json()
    return ran.folder.path


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_no_edit_of_any_file_leaves_pass(folder: Path) -> None:
    random, names, done = Random(13), files(folder), Counter[str]()
    assert {"manifest.json", "verdict.json", "run.json", "ops.jsonl", "record/node-1-1.bin"} <= set(names)
    while done.total() < EDITED:
        name = random.choice(names)
        with edited(folder / name, name, random) as what:
            if what is None:
                continue
            done[name] += 1
            verdict = judge(folder)
            assert verdict.verdict is not Outcome.PASS, f"{what} in {name}"
    assert done.keys() == set(names)
    assert judge(folder).verdict is Outcome.PASS


def test_no_edit_of_a_trace_or_recording_looks_like_a_core_that_behaves_differently(folder: Path) -> None:
    random = Random(17)
    names = [name for name in files(folder) if name.startswith(("trace/", "record/"))]
    for _ in range(REPLAYED):
        name = random.choice(names)
        with edited(folder / name, name, random) as what:
            verdict = judge_with_replay(folder)
            assert verdict.property("replay equality").verdict is not Judgement.VIOLATION, f"{what} in {name}"
            assert what is None or verdict.verdict is not Outcome.PASS, f"{what} in {name}"


def test_most_edits_are_noticed_by_the_content_of_the_lines(folder: Path) -> None:
    """The manifest is written again after each edit, so that only the properties themselves can notice it."""
    random, noticed, done = Random(31), Counter[str](), Counter[str]()
    names = [name for name in files(folder) if name.startswith("trace/") or name in ("ops.jsonl", "faults.jsonl")]
    while done.total() < JUDGED_BY_WHAT_IT_SAYS:
        name = random.choice(names)
        with edited(folder / name, name, random, delete=False) as what:
            if what is None:
                continue
            manifest.seal(folder)
            done[what] += 1
            noticed[what] += judge(folder).verdict is not Outcome.PASS
    manifest.seal(folder)
    shares = {what: f"{noticed[what]} of {number}" for what, number in done.items()}
    assert noticed.total() >= NOTICED_AT_LEAST * done.total(), shares
