"""Metrics of the clients: latency, throughput, unavailability.

Latency is counted from the time at which an operation was due, whether or not the client could send it then. So a stalled
service cannot hide behind a client that waits for it (no coordinated omission). Times are seconds unless the name has `ms`.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from zab_chaos.pipeline import columns as c
from zab_chaos.pipeline.tables import Rows

PERCENTILES = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "p999_ms": 0.999}
SHORTEST_PAUSE_S = 0.1  # seconds: shorter pauses between two writes are not listed as unavailability


def latency(rows: Rows) -> DataFrame:
    """Return the latency of successful operations: `run`, `of` (all, writes, reads), nearest-rank percentiles, maximum, `number`."""
    kind = F.when(F.col("read"), F.lit("reads")).otherwise(F.lit("writes"))
    of = F.explode(F.array(F.lit("all"), kind)).alias("of")
    took = rows.operations.where("ok").select("run", of, (F.col("t") - F.col("due")).alias("took"))
    ranks = [
        F.expr(f"percentile_disc({share}) WITHIN GROUP (ORDER BY took) / 1e6").alias(name)
        for name, share in PERCENTILES.items()
    ]
    return took.groupBy("run", "of").agg(*ranks, (F.max("took") / 1e6).alias("max_ms"), F.count("*").alias("number"))


def throughput(rows: Rows) -> DataFrame:
    """Return the operations answered in each second, by outcome: `run`, `second` (since the first operation, without gaps), counts.
    The last second is that of the last answer, and incomplete."""
    second = F.floor((F.col("t") - F.col("begin")) / 1e9).cast("int")
    answered = rows.operations.join(F.broadcast(_begin(rows)), "run").where("t IS NOT NULL")
    busy = answered.groupBy("run", second.alias("second")).agg(
        F.count_if("ok").alias("ok"),
        F.count_if("failed").alias("failed"),
        F.count_if(F.expr("NOT ok AND NOT failed")).alias("unknown"),
    )
    every = busy.groupBy("run").agg(F.explode(F.sequence(F.lit(0), F.max("second"))).alias("second"))
    return every.join(busy, ["run", "second"], "left").fillna(0, ["ok", "failed", "unknown"])


def acked_per_second(rows: Rows) -> DataFrame:
    """Return `run` and `rate` (1/s): the operations that were due under the load and succeeded, divided by the load's duration. The
    keys are created before the load, and the final checks follow it. A run without such operations or without a load has no row."""
    begin = F.expr("min(t) FILTER (WHERE event = 'workload-started') AS begin")
    end = F.expr("min(t) FILTER (WHERE event IN ('safety-ended', 'workload-stopped')) AS end")
    load = rows.of(c.MILESTONES).groupBy("run").agg(begin, end).where("end > begin")
    due = rows.operations.join(F.broadcast(load), "run").where("due BETWEEN begin AND end")
    return due.groupBy("run").agg((F.count_if("ok") * 1e9 / (F.max("end") - F.max("begin"))).alias("rate"))


def unavailability(rows: Rows) -> DataFrame:
    """Return the times in which a write was waiting and none was served: `run`, `begin` (since the first operation), `seconds`."""
    since = rows.pauses.join(F.broadcast(_begin(rows).withColumnRenamed("begin", "first")), "run")
    return since.select(
        "run",
        ((F.col("begin") - F.col("first")) / 1e9).alias("begin"),
        ((F.col("end") - F.col("begin")) / 1e9).alias("seconds"),
    ).where(F.col("seconds") >= SHORTEST_PAUSE_S)


def _begin(rows: Rows) -> DataFrame:
    return rows.operations.groupBy("run").agg(F.min("due").alias("begin"))
