"""Metrics of work: the messages, syncs and batches that a committed write costs.

Messages and syncs are counted by the nodes themselves (`work` events). The last moments of a life that was killed, at most a
second, are missing. A run of an older version, whose nodes did not count, has none of these numbers.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from zab_chaos.pipeline.tables import Rows

# the messages that writes need under an established leader
BROADCAST = ("FORWARD", "ANSWER", "PROPOSE", "ACK", "COMMIT")


def last_counts(rows: Rows) -> DataFrame:
    """Return the last counts of each life: `run`, `node`, `life`, `frames`, `messages`, `syncs`."""
    last = F.max_by(F.struct("frames", "messages", "syncs"), "line").alias("it")
    return rows.event("work").groupBy("run", "node", "life").agg(last).select("run", "node", "life", "it.*")


def committed_transactions(rows: Rows) -> DataFrame:
    """Return `run` and `committed`, the number of transactions that any node delivered. Counters of an epoch have no gaps."""
    epochs = rows.deliveries.groupBy("run", "epoch").agg(F.max(F.expr("zlast & 4294967295")).alias("number"))
    return epochs.groupBy("run").agg(F.sum("number").alias("committed"))


def messages(rows: Rows) -> DataFrame:
    """Return the messages sent by all nodes: `run`, `kind`, `number`, and `per_write`, the number per committed write."""
    kinds = last_counts(rows).select("run", F.explode("messages").alias("kind", "number"))
    sums = kinds.groupBy("run", "kind").agg(F.sum("number").alias("number"))
    return sums.join(committed_transactions(rows), "run", "left").select(
        "run", "kind", "number", (F.col("number") / F.col("committed")).alias("per_write")
    )


def batches(rows: Rows) -> DataFrame:
    """Return the batches that became durable: `run`, `number`, their `transactions`, percentiles and maximum of their sizes."""
    ranks = [
        F.expr(f"percentile_disc({share}) WITHIN GROUP (ORDER BY size)").cast("bigint").alias(name)
        for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))
    ]
    return rows.accepts.groupBy("run").agg(
        F.count("*").alias("number"),
        F.sum("size").alias("transactions"),
        *ranks,
        F.max("size").cast("bigint").alias("max"),
    )
