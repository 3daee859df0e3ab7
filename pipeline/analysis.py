"""One call: folders to tables, tables to verdicts and metrics, and all of it written down."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from pipeline import metrics
from pipeline.campaign import summary
from pipeline.facts import Facts
from pipeline.ingest import ingest
from pipeline.judge import Verdict, judge, worst
from pipeline.ledger import Ledger
from pipeline.unavailability import longest

Said = Callable[[str], None]


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


def analyze(spark: SparkSession, places: Sequence[str], out: str, said: Said = lambda _: None) -> Analysis:
    """Judge and measure every run in or below `places`. Raises NoRuns.

    Below `out` (a path or a URI that Spark can write to): `tables/` (docs/tables.md), `metrics/<name>/`, `verdicts.jsonl` (a
    run's verdict a line, as in results/README.md) and `summary.json`.
    """
    root = out if re.match(r"[a-z][a-z0-9+.-]*:/", out) else f"file://{Path(out).absolute()}"
    done = ingest(spark, places, f"{root}/tables", said)
    numbers: dict[int, dict[str, Any]] = {run: _nothing() for run in done.chosen}
    part = 0

    def measure(facts: Facts, ledger: Ledger) -> None:
        nonlocal part
        part += 1
        said("measuring")
        _measure(facts, ledger, f"{root}/metrics", part, numbers)

    verdicts = judge(spark, f"{root}/tables", done.chosen, said, measure)
    for verdict in verdicts:
        verdict.json["metrics"] = numbers[verdict.run] if verdict.json["properties"] else {}
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
        path = Path(re.sub("^file:/+", "/", place))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return
    jvm: Any = spark.sparkContext._jvm
    path_ = jvm.org.apache.hadoop.fs.Path(place)
    stream = path_.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()).create(path_, True)
    stream.write(bytearray(text.encode()))
    stream.close()


def _nothing() -> dict[str, Any]:
    """The numbers of a run in which nothing happened."""
    return {
        "acked": 0, "failed": 0, "unknown": 0, "writes_acked": 0, "writes_failed": 0, "writes_unknown": 0, "delivered": 0,
        "latency_p50_ms": None, "latency_p90_ms": None, "latency_p99_ms": None, "latency_p999_ms": None,
        "latency_max_ms": None, "elections": 0, "epochs": 0, "lives": 0, "frames": 0, "frames_per_write": None,
        "durable_batches": 0, "transactions_per_batch": None, "faults": [], "longest_unavailability_s": 0.0,
        "election_s": None, "acked_per_second": None, "converged_s": None,
    }  # fmt: skip


def _measure(facts: Facts, ledger: Ledger, place: str, part: int, numbers: dict[int, dict[str, Any]]) -> None:
    """Write the metrics of these runs, and fill in each run's own numbers."""
    kept = {
        "latency": metrics.latency(facts),
        "throughput": metrics.throughput(facts),
        "unavailability": metrics.unavailability(facts),
        "recovery": metrics.recovery(facts, ledger),
        "elections": metrics.elections(facts),
        "catching_up": metrics.catching_up(facts),
    }
    kept = {name: facts.keep(frame) for name, frame in kept.items()}
    for name, frame in kept.items():
        frame.coalesce(1).write.mode("overwrite").parquet(f"{place}/{name}/part={part}")
    for row in metrics.outcomes(facts).collect():
        mine = numbers[row["run"]]
        mine[row["outcome"]] = mine.get(row["outcome"], 0) + row["number"]
        if row["writes"]:
            mine[f"writes_{row['outcome']}"] = row["number"]
    for row in metrics.counts(facts, ledger).collect():
        whole = row["name"] != "converged_s"
        numbers[row["run"]][row["name"]] = int(row["number"]) if whole else row["number"]
    for row in longest(facts).collect():
        numbers[row["run"]]["longest_unavailability_s"] = row["seconds"]
    _from_kept(kept, numbers)
    for row in facts.runs.select("run").collect():
        _ratios(numbers[row["run"]])


def _from_kept(kept: dict[str, DataFrame], numbers: dict[int, dict[str, Any]]) -> None:
    """A run's own numbers, from the metrics that are written."""
    for row in kept["latency"].where("of = 'all'").collect():
        for name in (*metrics.PERCENTILES, "max_ms"):
            numbers[row["run"]][f"latency_{name}"] = row[name]
    for row in sorted(kept["recovery"].collect(), key=lambda row: int(row["id"]) if row["id"].isdigit() else 0):
        fault = {name: row[name] for name in ("id", "do", "role", "nodes", "seconds")}
        fault["id"] = int(fault["id"]) if fault["id"].isdigit() else fault["id"]
        numbers[row["run"]]["faults"].append(fault)
    for row in kept["elections"].groupBy("run").avg("seconds").collect():
        numbers[row["run"]]["election_s"] = row["avg(seconds)"]
    for row in kept["throughput"].groupBy("run").avg("ok").collect():
        numbers[row["run"]]["acked_per_second"] = row["avg(ok)"]


def _ratios(mine: dict[str, Any]) -> None:
    """What follows from the counts."""
    mine["acked"] = mine.pop("ok", 0)
    mine["writes_acked"] = mine.pop("writes_ok", 0)
    batches, transactions = mine["durable_batches"], mine.pop("durable_transactions", 0)
    mine["transactions_per_batch"] = transactions / batches if batches else None
    mine["frames_per_write"] = mine["frames"] / mine["writes_acked"] if mine["writes_acked"] else None
