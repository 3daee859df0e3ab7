"""One analysis for all tests of its results: Spark takes as long for one run as for hundreds of short ones."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from tests.corpus.story import ensemble
from tests.integration import damage
from tests.integration.handmade import handmade
from zab_chaos.harness.cli.app import main
from zab_chaos.pipeline import judging
from zab_chaos.pipeline.analysis import Analysis, analyze
from zab_chaos.pipeline.folders import find
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


@dataclass(frozen=True, slots=True)
class Analyzed:
    """The analysis, in the folder `out`, and what was analyzed: the folders with the cases of the corpus, with the damaged runs
    (`damage.py`) and with two campaigns of eight runs; the run that was worked out by hand (`handmade.py`); a simulated one.
    """

    corpus: Path
    damaged: Path
    campaigns: tuple[Path, Path]
    hand: Path
    simulated: Path
    out: Path
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
    (place / "measured.toml").write_text(SCENARIO)
    assert main(["run", str(place / "measured.toml"), "--on", "sim", "--results", str(place / "simulated")]) == 0
    simulated = (place / "simulated" / "latest").resolve()
    out = place / ODD
    found = find([str(folder) for folder in (corpus, place / "damaged", *campaigns, place / "hand", simulated)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judging, "RUNS_AT_ONCE", len(found) - 10)  # so that there are two batches
        analysis = analyze(spark, found, out)
    frames = {table.name: spark.read.parquet(escape_path(f"file://{out}/metrics/{table.name}")) for table in METRICS}
    return Analyzed(
        corpus=corpus,
        damaged=place / "damaged",
        campaigns=campaigns,
        hand=place / "hand",
        simulated=simulated,
        out=out,
        analysis=analysis,
        types={name: frame.dtypes for name, frame in frames.items()},
        metrics={name: frame.collect() for name, frame in frames.items()},
    )
