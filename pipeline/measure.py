"""The metrics of some runs: written as tables, and boiled down to each run's own numbers."""

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipeline import metrics, metrics_recovery, metrics_work
from pipeline.facts import Facts
from pipeline.frames import Rows, gathered, rows_of, threads
from pipeline.ledger import Ledger
from pipeline.unavailability import longest

Numbers = dict[str, Any]


def nothing() -> Numbers:
    """The numbers of a run in which nothing happened. None: there is nothing to say, which is not 0."""
    return {
        "acked": 0, "failed": 0, "unknown": 0, "writes_acked": 0, "writes_failed": 0, "writes_unknown": 0, "delivered": 0,
        "latency_p50_ms": None, "latency_p90_ms": None, "latency_p99_ms": None, "latency_p999_ms": None,
        "latency_max_ms": None, "acked_per_second": None, "longest_unavailability_s": 0.0, "faults": [], "elections": 0,
        "epochs": 0, "lives": 0, "election_s": None, "election_rounds": None, "election_messages": None,
        "catch_up": [], "catch_up_s": None, "converged_s": None, "frames": None, "syncs": None, "messages": {},
        "frames_per_write": None, "messages_per_write": None, "syncs_per_write": None, "durable_batches": 0,
        "transactions_per_batch": None,
    }  # fmt: skip


def frames(facts: Facts, ledger: Ledger) -> dict[str, DataFrame]:
    """Every metric that is written as a table, by name."""
    return {
        "latency": metrics.latency(facts),
        "throughput": metrics.throughput(facts),
        "unavailability": metrics.unavailability(facts),
        "recovery": metrics_recovery.recovery(facts, ledger),
        "hits": metrics_recovery.hits(facts),
        "elections": metrics_recovery.elections(facts),
        "catching_up": metrics_recovery.catching_up(facts),
        "messages": metrics_work.messages(facts, ledger),
        "batches": metrics_work.batches(facts),
    }


def measured(facts: Facts, ledger: Ledger, place: str, part: int, numbers: dict[int, Numbers]) -> None:
    """Write the metrics of these runs below `place`, and fill in each run's own numbers."""

    def write(name: str, frame: DataFrame) -> DataFrame:
        kept = facts.keep(gathered(frame))
        kept.write.mode("overwrite").parquet(f"{place}/{name}/part={part}")
        return kept

    made = frames(facts, ledger)
    with threads(facts.spark) as pool:
        kept = dict(zip(made, pool.map(write, made, made.values()), strict=True))
    told = rows_of(_asked(facts, ledger, kept))
    _operations(told, numbers)
    _faults(told, numbers)
    _nodes(told, numbers)
    for run in facts.chosen:
        _ratios(numbers[run])


def _asked(facts: Facts, ledger: Ledger, kept: dict[str, DataFrame]) -> dict[str, DataFrame]:
    """What is to be known of each run. Throughput is the mean over all seconds, also those in which nothing came."""
    means = [F.avg(name).alias(name) for name in ("seconds", "rounds", "messages")]
    volumes = [F.sum(name).alias(name) for name in ("transactions", "cut", "bytes")]
    return {
        "outcomes": metrics.outcomes(facts),
        "counts": metrics_work.counts(facts, ledger),
        "longest": longest(facts),
        "latency": kept["latency"].where("of = 'all'"),
        "throughput": kept["throughput"].groupBy("run").agg(F.avg("ok").alias("ok")),
        "elections": kept["elections"].groupBy("run").agg(*means),
        "catching_up": kept["catching_up"].groupBy("run", "kind").agg(
            F.count("*").alias("times"), *volumes, F.avg("seconds").alias("seconds")
        ),
        **{name: kept[name] for name in ("hits", "recovery", "messages", "batches")},
    }  # fmt: skip


def _operations(told: Rows, numbers: dict[int, Numbers]) -> None:
    """What the clients saw."""
    for row in told["outcomes"]:
        mine = numbers[row["run"]]
        name = "acked" if row["outcome"] == "ok" else row["outcome"]
        mine[name] += row["number"]
        if row["writes"]:
            mine[f"writes_{name}"] = row["number"]
    for row in told["longest"]:
        numbers[row["run"]]["longest_unavailability_s"] = row["seconds"]
    for row in told["latency"]:
        for name in (*metrics.PERCENTILES, "max_ms"):
            numbers[row["run"]][f"latency_{name}"] = row[name]
    for row in told["throughput"]:
        numbers[row["run"]]["acked_per_second"] = row["ok"]


def _faults(told: Rows, numbers: dict[int, Numbers]) -> None:
    """What was done to the ensemble, in the order of the faults' numbers."""
    was: dict[tuple[int, str], list[str]] = {}
    for row in sorted(told["hits"], key=lambda row: row["node"]):
        was.setdefault((row["run"], row["id"]), []).append(row["was"])
    for row in sorted(told["recovery"], key=lambda row: int(row["id"]) if row["id"].isdigit() else 0):
        fault = {name: row[name] for name in ("id", "do", "role", "nodes", "seconds", "stood_still")}
        fault["was"] = was.get((row["run"], row["id"]), [])
        fault["id"] = int(fault["id"]) if fault["id"].isdigit() else fault["id"]
        numbers[row["run"]]["faults"].append(fault)


def _nodes(told: Rows, numbers: dict[int, Numbers]) -> None:
    """What the nodes did."""
    for row in told["counts"]:
        whole = row["name"] != "converged_s"
        numbers[row["run"]][row["name"]] = int(row["number"]) if whole else row["number"]
    for row in told["elections"]:
        numbers[row["run"]] |= {
            "election_s": row["seconds"], "election_rounds": row["rounds"], "election_messages": row["messages"],
        }  # fmt: skip
    for row in sorted(told["catching_up"], key=lambda row: row["kind"]):
        numbers[row["run"]]["catch_up"].append({name: value for name, value in row.items() if name != "run"})
    for row in sorted(told["messages"], key=lambda row: row["kind"]):
        numbers[row["run"]]["messages"][row["kind"]] = row["number"]
    for row in told["batches"]:
        numbers[row["run"]] |= {
            "durable_batches": row["number"], "transactions_per_batch": row["transactions"] / row["number"],
        }  # fmt: skip


def _ratios(mine: Numbers) -> None:
    """What follows from the others. A committed write is a transaction that somebody delivered."""
    joins = [it for it in mine["catch_up"] if it["kind"] != "nothing"]
    if joins:
        mine["catch_up_s"] = sum(it["seconds"] * it["times"] for it in joins) / sum(it["times"] for it in joins)
    if mine["delivered"] and mine["frames"] is not None:
        sent = sum(mine["messages"].get(kind, 0) for kind in metrics_work.BROADCAST)
        mine["frames_per_write"] = mine["frames"] / mine["delivered"]
        mine["messages_per_write"] = sent / mine["delivered"]
        mine["syncs_per_write"] = mine["syncs"] / mine["delivered"]
