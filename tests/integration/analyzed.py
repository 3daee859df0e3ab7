"""One `zab analyze` for all tests of its results: Spark takes as long for one run as for hundreds of short ones."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from tests.corpus.story import ensemble
from tests.integration import damage
from tests.integration.handmade import handmade
from zab_chaos.harness.cli.app import main
from zab_chaos.harness.explore import spark_session
from zab_chaos.harness.report.progress import Quiet
from zab_chaos.harness.runs.options import options_for, read_scenario
from zab_chaos.harness.runs.run import run
from zab_chaos.pipeline import analysis, judging
from zab_chaos.pipeline.analysis import Analysis
from zab_chaos.pipeline.judging import JudgedRun
from zab_chaos.pipeline.metric_columns import METRICS
from zab_chaos.pipeline.tables import escape_path

ODD = "a [1] {x} %20 ü"  # looks like a pattern to Spark, but is a folder's name
# Of the simulated run.
SCENARIO = """
[scenario]
name = "measured"
about = "A leader's crash, a follower's wipe, a cut and another crash, under load."
nodes = 3
duration = 6

[workload]
rate = 40
mix = { set = 3, create = 1, get = 1 }

[limits]
snapshot_bytes = 4096

[[fault]]
at = 1
do = "crash"
target = "leader"
for = 0.7

[[fault]]
at = 2.5
do = "wipe"
target = "follower"
for = 0.5

[[fault]]
at = 4
do = "partition"
shape = "isolate"
target = "leader"
for = 0.8

[[fault]]
at = 5.2
do = "crash"
target = "leader"
for = 0.5
"""


SECONDS = 3.0  # of a shipped scenario: enough for its first fault
DEFECT, RATE = "ack-before-sync", 30.0  # enough to show it
WRONG = """
[scenario]
name = "wrong"
duration = 1

[expect.state]
"/key-0" = "never written"
"""


@dataclass(frozen=True, slots=True)
class Recorded:
    """Recorded runs: a good one, one with a known bug, one that ends in another state than expected, and the good one with a
    damaged recording."""

    good: Path
    bad: Path
    wrong: Path
    damaged: Path


@dataclass(frozen=True, slots=True)
class Analyzed:
    """The analysis, in the folder `out`, and what was analyzed: the folders with the cases of the corpus, with the damaged runs
    (`damage.py`) and with two campaigns of eight runs; recorded runs; one that was worked out by hand (`handmade.py`); another
    simulated one. `code`, `stdout` and `stderr` are the command's exit code and what it printed.
    """

    corpus: Path
    damaged: Path
    campaigns: tuple[Path, Path]
    recorded: Recorded
    hand: Path
    simulated: Path
    out: Path
    code: int
    stdout: str
    stderr: str
    analysis: Analysis
    types: dict[str, list[tuple[str, str]]]  # of each metric's columns
    metrics: dict[str, list[Row]]

    def numbers(self, folder: Path) -> dict[str, Any]:
        """Return the numbers of one run."""
        numbers: dict[str, Any] = self._verdict(folder).json["metrics"]
        return numbers

    def rows(self, metric: str, folder: Path) -> list[Row]:
        """Return the rows of a metric for one run."""
        run = self._verdict(folder).run
        return [row for row in self.metrics[metric] if row["run"] == run]

    def below(self, folder: Path) -> dict[str, JudgedRun]:
        """Return the verdicts on the runs in a folder, by their names."""
        return {Path(it.path).name: it for it in self.analysis.verdicts if Path(it.path).parent == folder}

    def _verdict(self, folder: Path) -> JudgedRun:
        return self.below(folder.parent)[folder.name]


@contextmanager
def on_this_spark(spark: SparkSession) -> Iterator[pytest.MonkeyPatch]:
    """In this block, `zab analyze` in this process takes the session `spark`."""

    @contextmanager
    def there(*_: object) -> Iterator[SparkSession]:
        yield spark

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spark_session, "spark", there)
        yield patch


def analyze_all(spark: SparkSession, corpus: Path, place: Path) -> Analyzed:
    """Write the other runs below `place`, and analyze them together with the corpus."""
    damage.write(place / "damaged")
    campaigns = place / "before", place / "after"
    for number in range(8):
        for campaign in campaigns:
            story = ensemble(writes=20 + number)  # as no other run has
            if campaign.name == "after":
                story.deliver(2, (1, 2))  # a second time
            story.settle()
            story.save(campaign / str(number))
    handmade().save(place / "hand")
    simulated = _simulated(SCENARIO, place / "simulated")
    recorded = _recorded(place / "recorded")
    out = place / ODD
    folders = (corpus, place / "damaged", *campaigns, place / "recorded", place / "hand", simulated)
    analyses: list[Analysis] = []

    def analyze(*arguments: Any) -> Analysis:
        analyses.append(original(*arguments))
        return analyses[-1]

    original = analysis.analyze
    with on_this_spark(spark) as patch, redirect_stdout(StringIO()) as stdout, redirect_stderr(StringIO()) as stderr:
        patch.setattr(analysis, "analyze", analyze)
        patch.setattr(judging, "RUNS_AT_ONCE", 64)  # so that there are two batches
        code = main(["analyze", *map(str, folders), "--replay", "--out", str(out), "--json"])
    frames = {table.name: spark.read.parquet(escape_path(f"file://{out}/metrics/{table.name}")) for table in METRICS}
    return Analyzed(
        corpus=corpus,
        damaged=place / "damaged",
        campaigns=campaigns,
        recorded=recorded,
        hand=place / "hand",
        simulated=simulated,
        out=out,
        code=code,
        stdout=stdout.getvalue(),
        stderr=stderr.getvalue(),
        analysis=analyses[0],
        types={name: frame.dtypes for name, frame in frames.items()},
        metrics={name: frame.collect() for name, frame in frames.items()},
    )


def _simulated(scenario: str, results: Path, code: int = 0) -> Path:
    """Run a scenario, given as a text, in the simulator. Return the run's folder."""
    results.mkdir(exist_ok=True)
    file = results / "scenario.toml"
    file.write_text(scenario)
    assert main(["run", str(file), "--on", "sim", "--results", str(results), "--quiet"]) == code
    return (results / "latest").resolve()


def _shipped(name: str, results: Path, defect: str | None = None) -> Path:
    """Run a shipped scenario in the simulator: a defect's under little load, others for seconds. Return the run's folder."""
    scenario = read_scenario(name, on="sim", nodes=None, defect=defect)
    if defect is None:
        faults = tuple(fault for fault in scenario.faults if fault.at < SECONDS - 1)
        scenario = replace(scenario, duration=SECONDS, faults=faults)
    else:
        scenario = replace(scenario, workload=replace(scenario.workload, rate=RATE))
    wish = options_for(name, scenario, seed=1, results=results, on="sim")
    return run(scenario, wish, Quiet()).folder.path


def _recorded(results: Path) -> Recorded:
    """Make the recorded runs."""
    good = _shipped("leader-crash", results)
    damaged = results / "damaged"
    shutil.copytree(good, damaged)
    recording = sorted((damaged / "record").iterdir())[0]
    held = bytearray(recording.read_bytes())
    held[len(held) // 2] ^= 0xFF
    recording.write_bytes(held)
    bad = _shipped(f"defects/{DEFECT}", results, DEFECT)
    return Recorded(good=good, bad=bad, wrong=_simulated(WRONG, results, 1), damaged=damaged)
