"""Judges runs on Spark's executors, with the same judge as `zab verify` (`zab_chaos.model.oracle.oracle`)."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import SparkSession

from zab_chaos.model.verdict import Outcome, Verdict, ended_as_expected
from zab_chaos.pipeline.ingest import Progress, RunRow

Judge = Callable[[Path], Verdict]
RUNS_AT_ONCE = 500  # runs judged between two words of progress
TASKS_PER_CORE = 8  # so that long and short runs even out; a task of Spark's costs as much as ten short runs


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """A run and its verdict. `facts` is its row in the table `runs`, `json` the content of its verdict.json. `copies` are other
    folders with the same contents. `campaign` names its campaign if two are compared."""

    run: int
    path: str
    facts: RunRow
    json: dict[str, Any]
    copies: list[str]
    campaign: str = ""

    @property
    def verdict(self) -> Outcome:
        return Outcome(self.json["verdict"])

    @property
    def expect(self) -> dict[str, Any]:
        """The scenario's [expect]. A run with a defect should violate a property."""
        return {"verdict": "VIOLATION"} if self.facts["defect"] else json.loads(self.facts["expect"] or "{}")

    @property
    def as_expected(self) -> bool:
        violated = [item["name"] for item in self.json["properties"] if item["verdict"] == "VIOLATION"]
        return ended_as_expected(self.expect, self.verdict, violated)


def judge_runs(spark: SparkSession, rows: Sequence[RunRow], judge: Judge, progress: Progress) -> list[JudgedRun]:
    """Judge the runs and return them in order. Of folders with the same contents only the first is judged."""
    same: dict[str, list[RunRow]] = {}
    for row in rows:
        same.setdefault(row["fingerprint"], []).append(row)
    firsts = [group[0] for group in same.values()]
    context, verdicts = spark.sparkContext, list[bytes]()
    for begin in range(0, len(firsts), RUNS_AT_ONCE):
        paths = [row["path"] for row in firsts[begin : begin + RUNS_AT_ONCE]]
        progress(f"judging runs {begin + 1} to {begin + len(paths)} of {len(firsts)}")
        tasks = min(len(paths), TASKS_PER_CORE * context.defaultParallelism)
        verdicts += context.parallelize(paths, tasks).map(partial(_judge_folder, judge)).collect()
    return [
        JudgedRun(
            row["run"], row["path"], row, msgspec.json.decode(text), [it["path"] for it in same[row["fingerprint"]][1:]]
        )
        for row, text in zip(firsts, verdicts, strict=True)
    ]


def _judge_folder(judge: Judge, path: str) -> bytes:
    return msgspec.json.encode(judge(Path(path)))
