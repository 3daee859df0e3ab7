"""The metrics of some runs: written as tables, and boiled down to each run's own numbers."""

from functools import partial
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipeline import metrics, metrics_recovery, metrics_work
from pipeline.facts import Facts
from pipeline.folders import literally
from pipeline.frames import gathered, threads
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
        written = f"{place}/{name}/part={part}"
        gathered(frame).write.mode("overwrite").parquet(written)
        return facts.spark.read.schema(frame.schema).parquet(literally(written))

    made = frames(facts, ledger)
    with threads(facts.spark) as pool:
        kept = dict(zip(made, pool.map(write, made, made.values()), strict=True))
        parts = (
            partial(_counted, facts, ledger, numbers),
            partial(_clients, kept, numbers),
            partial(_nodes, kept, numbers),
        )
        list(pool.map(lambda fill: fill(), parts))  # each fills in other numbers
    for row in facts.runs.select("run").collect():
        _ratios(numbers[row["run"]])


def _counted(facts: Facts, ledger: Ledger, numbers: dict[int, Numbers]) -> None:
    """What needs no table of its own."""
    for row in metrics.outcomes(facts).collect():
        mine = numbers[row["run"]]
        name = {"ok": "acked"}.get(row["outcome"], row["outcome"])
        mine[name] += row["number"]
        if row["writes"]:
            mine[f"writes_{name}"] = row["number"]
    for row in metrics_work.counts(facts, ledger).collect():
        whole = row["name"] != "converged_s"
        numbers[row["run"]][row["name"]] = int(row["number"]) if whole else row["number"]
    for row in longest(facts).collect():
        numbers[row["run"]]["longest_unavailability_s"] = row["seconds"]


def _clients(kept: dict[str, DataFrame], numbers: dict[int, Numbers]) -> None:
    """What the clients saw. Throughput is the mean over all seconds, also those in which nothing came."""
    for row in kept["latency"].where("of = 'all'").collect():
        for name in (*metrics.PERCENTILES, "max_ms"):
            numbers[row["run"]][f"latency_{name}"] = row[name]
    for row in kept["throughput"].groupBy("run").avg("ok").collect():
        numbers[row["run"]]["acked_per_second"] = row["avg(ok)"]
    was: dict[tuple[int, str], list[str]] = {}
    for row in kept["hits"].orderBy("node").collect():
        was.setdefault((row["run"], row["id"]), []).append(row["was"])
    for row in sorted(kept["recovery"].collect(), key=lambda row: int(row["id"]) if row["id"].isdigit() else 0):
        fault = {name: row[name] for name in ("id", "do", "role", "nodes", "seconds", "stood_still")}
        fault["was"] = was.get((row["run"], row["id"]), [])
        fault["id"] = int(fault["id"]) if fault["id"].isdigit() else fault["id"]
        numbers[row["run"]]["faults"].append(fault)


def _nodes(kept: dict[str, DataFrame], numbers: dict[int, Numbers]) -> None:
    """What the nodes did."""
    told = ("seconds", "rounds", "messages")
    for row in kept["elections"].groupBy("run").agg(*(F.avg(name).alias(name) for name in told)).collect():
        numbers[row["run"]] |= {
            "election_s": row["seconds"], "election_rounds": row["rounds"], "election_messages": row["messages"],
        }  # fmt: skip
    volumes = [F.sum(name).alias(name) for name in ("transactions", "cut", "bytes")]
    caught = kept["catching_up"].groupBy("run", "kind").agg(
        F.count("*").alias("times"), *volumes, F.avg("seconds").alias("seconds")
    )  # fmt: skip
    for row in caught.orderBy("run", "kind").collect():
        numbers[row["run"]]["catch_up"].append({name: value for name, value in row.asDict().items() if name != "run"})
    for row in kept["messages"].orderBy("run", "kind").collect():
        numbers[row["run"]]["messages"][row["kind"]] = row["number"]
    for row in kept["batches"].collect():
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
