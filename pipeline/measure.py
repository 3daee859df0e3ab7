"""Computes the metrics of runs: writes them as tables, and reduces them to a few numbers of each run."""

from operator import itemgetter
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from zab_chaos.pipeline import metrics, metrics_recovery, metrics_work
from zab_chaos.pipeline.ingest import Progress
from zab_chaos.pipeline.metric_columns import METRICS
from zab_chaos.pipeline.tables import Rows, escape_path

Numbers = dict[str, Any]
METRIC_QUERIES = {
    "latency": metrics.latency,
    "throughput": metrics.throughput,
    "unavailability": metrics.unavailability,
    "recovery": metrics_recovery.recovery,
    "hits": metrics_recovery.hits,
    "elections": metrics_recovery.elections,
    "catching_up": metrics_recovery.catching_up,
    "messages": metrics_work.messages,
    "batches": metrics_work.batches,
}
_WITHOUT_VALUE = (
    "latency_p90_ms", "latency_p999_ms", "latency_max_ms", "acked_per_second", "election_s", "election_rounds",
    "election_messages", "catch_up_s", "frames", "syncs", "frames_per_write", "messages_per_write", "syncs_per_write",
    "transactions_per_batch",
)  # fmt: skip


def measure_runs(
    rows: Rows, place: Path, judged: dict[int, Numbers], progress: Progress = lambda _: None
) -> dict[int, Numbers]:
    """Write the metrics of the runs below the folder `place`. Return each run's numbers: those of its verdict (`judged`), and those
    computed here. A number that could not be measured is None, which is not 0."""
    written = {}
    for number, (name, query) in enumerate(METRIC_QUERIES.items(), 1):
        progress(f"measuring {name} ({number} of {len(METRIC_QUERIES)})")
        written[name] = _write_metric(query(rows), place / name)
    numbers = {
        run: {**dict.fromkeys(_WITHOUT_VALUE), "catch_up": [], "messages": {}, "durable_batches": 0, **own}
        for run, own in judged.items()
    }
    _add_client_numbers(rows, written, numbers)
    _add_faults(written, numbers)
    _add_node_numbers(rows, written, numbers)
    for run_numbers in numbers.values():
        _add_ratios(run_numbers)
    return numbers


def _write_metric(frame: DataFrame, place: Path) -> DataFrame:
    """Write a metric and read it back, with the columns that its table documents."""
    (table,) = [it for it in METRICS if it.name == place.name]
    frame.select(*table.names).write.mode("overwrite").parquet(f"file://{place}")
    return frame.sparkSession.read.schema(table.ddl).parquet(escape_path(f"file://{place}"))


def _add_client_numbers(rows: Rows, written: dict[str, DataFrame], numbers: dict[int, Numbers]) -> None:
    """Add the numbers of the clients."""
    for row in written["latency"].where("of = 'all'").collect():
        numbers[row["run"]] |= {f"latency_{name}": row[name] for name in ("p90_ms", "p999_ms", "max_ms")}
    for run, rate in metrics.acked_per_second(rows).collect():
        numbers[run]["acked_per_second"] = rate


def _add_faults(written: dict[str, DataFrame], numbers: dict[int, Numbers]) -> None:
    """Add to each fault of the verdict the role and the state of the nodes that it hit."""
    was: dict[tuple[int, str], list[str]] = {}
    for row in sorted(written["hits"].collect(), key=itemgetter("node")):
        was.setdefault((row["run"], row["id"]), []).append(row["was"])
    found = {(row["run"], row["id"]): row for row in written["recovery"].collect()}
    for run, run_numbers in numbers.items():
        for fault in run_numbers["faults"]:
            fault |= {name: found[run, str(fault["id"])][name] for name in ("role", "stood_still")}
            fault["was"] = was.get((run, str(fault["id"])), [])


def _add_node_numbers(rows: Rows, written: dict[str, DataFrame], numbers: dict[int, Numbers]) -> None:
    """Add the numbers of the nodes: messages, syncs, elections, catching up, batches."""
    counted = metrics_work.last_counts(rows).groupBy("run").agg(F.sum("frames"), F.sum("syncs"))
    for run, frames, syncs in counted.collect():
        numbers[run] |= {"frames": frames, "syncs": syncs}
    means = {"seconds": "election_s", "rounds": "election_rounds", "messages": "election_messages"}
    elections = written["elections"].groupBy("run").agg(*(F.avg(of).alias(name) for of, name in means.items()))
    for row in elections.collect():
        numbers[row["run"]] |= {name: row[name] for name in means.values()}
    sums = [F.sum(name).alias(name) for name in ("transactions", "cut", "bytes")]
    joins = written["catching_up"].groupBy("run", "kind").agg(
        F.count("*").alias("times"), *sums, F.avg("seconds").alias("seconds")
    )  # fmt: skip
    for row in sorted(joins.collect(), key=itemgetter("kind")):
        numbers[row["run"]]["catch_up"].append({name: row[name] for name in joins.columns if name != "run"})
    for row in sorted(written["messages"].collect(), key=itemgetter("kind")):
        numbers[row["run"]]["messages"][row["kind"]] = row["number"]
    for row in written["batches"].collect():
        numbers[row["run"]] |= {
            "durable_batches": row["number"], "transactions_per_batch": row["transactions"] / row["number"],
        }  # fmt: skip


def _add_ratios(run_numbers: Numbers) -> None:
    """Add the numbers that are derived from others. A committed write is a transaction that any node delivered."""
    operations = sum(run_numbers[outcome] for outcome in ("acked", "failed", "unknown"))
    run_numbers["unknown_share"] = run_numbers["unknown"] / operations if operations else None
    joins = [it for it in run_numbers["catch_up"] if it["kind"] != "nothing"]
    if joins:
        run_numbers["catch_up_s"] = sum(it["seconds"] * it["times"] for it in joins) / sum(it["times"] for it in joins)
    if run_numbers["delivered"] and run_numbers["frames"] is not None:
        sent = sum(run_numbers["messages"].get(kind, 0) for kind in metrics_work.BROADCAST)
        run_numbers["frames_per_write"] = run_numbers["frames"] / run_numbers["delivered"]
        run_numbers["messages_per_write"] = sent / run_numbers["delivered"]
        run_numbers["syncs_per_write"] = run_numbers["syncs"] / run_numbers["delivered"]
