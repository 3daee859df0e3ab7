"""One call: folders to tables, tables to verdicts and metrics, and all of it written down."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from pipeline.campaign import summary
from pipeline.facts import Facts
from pipeline.files import locate, readable
from pipeline.ingest import ingest
from pipeline.judge import Verdict, judge, worst
from pipeline.ledger import Ledger
from pipeline.measure import measured, nothing

Said = Callable[[str], None]
Judge = Callable[[SparkSession, Sequence[Verdict]], None]


@dataclass(frozen=True, slots=True)
class Analysis:
    """What was found. `read` of the runs were read anew; `summary` is what summary.json holds."""

    verdicts: list[Verdict]
    read: int
    summary: dict[str, Any]

    @property
    def verdict(self) -> str:
        """The worst of all."""
        return worst(it.verdict for it in self.verdicts)


def analyze(
    spark: SparkSession,
    places: Sequence[str],
    out: str,
    said: Said = lambda _: None,
    others: Mapping[str, Judge] | None = None,
) -> Analysis:
    """Judge and measure every run in or below `places`. Raises NoRuns. `others` judge too, by what they are doing meanwhile: each
    adds what it found to the verdicts.

    Below `out` (a path or a URI that Spark can write to): `tables/` (docs/tables.md), `metrics/<name>/`, `verdicts.jsonl` (a
    run's verdict a line, as in results/README.md) and `summary.json`.
    """
    root = locate(out)
    done = ingest(spark, places, f"{root}/tables", said)
    numbers: dict[int, dict[str, Any]] = {row["run"]: nothing() for row in done.runs}
    part = 0

    def measure(facts: Facts, ledger: Ledger) -> None:
        nonlocal part
        part += 1
        said("measuring")
        measured(facts, ledger, f"{root}/metrics", part, numbers)

    verdicts = judge(spark, f"{root}/tables", done, said, measure)
    for verdict in verdicts:
        verdict.json["metrics"] = numbers[verdict.run] if verdict.json["properties"] else {}
    for doing, judges in (others or {}).items():
        said(doing)
        judges(spark, verdicts)
    told = summary(verdicts)
    lines = [
        json.dumps({"path": it.path, "copies": it.copies, **it.json}, ensure_ascii=False) + "\n" for it in verdicts
    ]
    write_text(spark, f"{root}/verdicts.jsonl", "".join(lines))
    write_text(spark, f"{root}/summary.json", json.dumps(told, indent=2, ensure_ascii=False) + "\n")
    return Analysis(verdicts, len(done.read), told)


def write_text(spark: SparkSession, place: str, text: str) -> None:
    """A file, wherever Spark can write."""
    if place.startswith("file:/"):
        path = Path(readable(place))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return
    jvm: Any = spark.sparkContext._jvm
    path_ = jvm.org.apache.hadoop.fs.Path(place)
    stream = path_.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()).create(path_, True)
    stream.write(bytearray(text.encode()))
    stream.close()
