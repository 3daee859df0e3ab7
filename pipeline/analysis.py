"""The whole analysis of `zab analyze`: reads run folders into tables, judges the runs, computes metrics, writes the results."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from zab_chaos.model.oracle import oracle
from zab_chaos.model.verdict import Outcome, worst
from zab_chaos.pipeline.campaign import select_campaign, summary
from zab_chaos.pipeline.folders import SourceFolder
from zab_chaos.pipeline.ingest import Progress, ingest
from zab_chaos.pipeline.judging import Judge, JudgedRun, judge_runs
from zab_chaos.pipeline.measure import measure_runs
from zab_chaos.pipeline.tables import Rows

LITTLE_DATA = 2**25  # bytes of runs, at most


@dataclass(frozen=True, slots=True)
class Analysis:
    """The verdicts, campaign by campaign. `newly_read`: how many runs were new or changed; `summary`: the content of summary.json."""

    verdicts: list[JudgedRun]
    newly_read: int
    summary: dict[str, Any]

    @property
    def verdict(self) -> Outcome:
        """The worst verdict of all runs."""
        return worst(it.verdict for it in self.verdicts)


def analyze(
    spark: SparkSession,
    campaigns: Mapping[str, Sequence[SourceFolder]],
    out: Path,
    progress: Progress = lambda _: None,
    judge: Judge = oracle.judge,
) -> Analysis:
    """Judge and measure the runs of the campaigns, given by their names, and write the results to the folder `out`.

    It gets `tables/` (docs/tables.md), `metrics/<name>/`, `verdicts.jsonl` (one verdict per line, as in results/README.md)
    and `summary.json`. The executors must see the runs and `out` under the same paths as the driver.
    """
    out = out.absolute()
    found = list({folder.path: folder for folders in campaigns.values() for folder in folders}.values())
    _plan_for(spark, sum(folder.bytes for folder in found))
    done = ingest(spark, found, out / "tables", progress)
    judged = judge_runs(spark, done.runs, judge, progress)
    usable = [it for it in judged if it.json["properties"]]
    rows = Rows(spark, out / "tables", [it.facts for it in usable])
    numbers = measure_runs(rows, out / "metrics", {it.run: it.json["metrics"] for it in usable}, progress)
    spark.catalog.clearCache()
    for it in usable:
        it.json["metrics"] = numbers[it.run]
    verdicts = [it for name, folders in campaigns.items() for it in select_campaign(judged, name, folders)]
    result = summary(verdicts)
    with (out / "verdicts.jsonl").open("w", encoding="utf-8") as file:
        for it in judged:
            file.write(json.dumps({"path": it.path, "copies": it.copies, **it.json}, ensure_ascii=False) + "\n")
    (out / "summary.json").write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return Analysis(verdicts, done.newly_read, result)


def _plan_for(spark: SparkSession, size: int) -> None:
    """Set how Spark plans queries over runs of `size` bytes. With little data, to adapt a query's plan after each of its steps, and to
    have several tasks for one step, takes longer than it saves."""
    little = size <= LITTLE_DATA
    spark.conf.set("spark.sql.adaptive.enabled", not little)
    spark.conf.set("spark.sql.shuffle.partitions", 1 if little else 4 * spark.sparkContext.defaultParallelism)
