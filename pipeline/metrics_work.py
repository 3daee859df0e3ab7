"""What a committed write costs: messages, syncs, batches; and everything of which only the number matters.

Messages and syncs are counted by the nodes themselves (`work` events); a life that was killed did not tell its last moments, at
most a second. A run of an older version, whose nodes did not count, has none of these numbers.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipeline.facts import Facts
from pipeline.frames import together
from pipeline.ledger import Ledger
from pipeline.properties.epochs import promises

BROADCAST = ("FORWARD", "ANSWER", "PROPOSE", "ACK", "COMMIT")  # what a write needs while a leader stands


def spent(facts: Facts) -> DataFrame:
    """The last count of each life: `run`, `node`, `life`, `frames`, `messages`, `syncs`."""

    def make(facts: Facts) -> DataFrame:
        last = F.max_by(F.struct("frames", "messages", "syncs"), "line").alias("it")
        return facts.keep(
            facts.event("work").groupBy("run", "node", "life").agg(last).select("run", "node", "life", "it.*")
        )

    return facts.once("spent", make)


def committed(ledger: Ledger) -> DataFrame:
    """`run`, `committed`: transactions that somebody delivered."""
    return ledger.slices.groupBy("run").agg(F.expr("sum(zlast - from + 1)").alias("committed"))


def messages(facts: Facts, ledger: Ledger) -> DataFrame:
    """`run`, `kind`, `number` of messages sent by all nodes, and `per_write`: that divided by the committed writes."""
    kinds = spent(facts).select("run", F.explode("messages").alias("kind", "number"))
    sums = kinds.groupBy("run", "kind").agg(F.sum("number").alias("number"))
    return sums.join(committed(ledger), "run", "left").select(
        "run", "kind", "number", (F.col("number") / F.col("committed")).alias("per_write")
    )


def batches(facts: Facts) -> DataFrame:
    """`run`, `number` of batches that became durable in a log, their `transactions`, and the sizes' percentiles and maximum."""
    sizes = promises(facts).where("event = 'accept' AND size > 0")
    ranks = [
        F.expr(f"percentile_disc({share}) WITHIN GROUP (ORDER BY size)").cast("bigint").alias(name)
        for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))
    ]
    return sizes.groupBy("run").agg(
        F.count("*").alias("number"),
        F.sum("size").alias("transactions"),
        *ranks,
        F.max("size").cast("bigint").alias("max"),
    )


def counts(facts: Facts, ledger: Ledger) -> DataFrame:
    """`run`, `name`, `number`: how much there was of everything that is only counted."""

    def one(frame: DataFrame, name: str, number: str = "count(*)") -> DataFrame:
        return (
            frame.groupBy("run")
            .agg(F.expr(number).cast("double").alias("number"))
            .select("run", F.lit(name).alias("name"), "number")
        )

    settled = facts.timeline.where("converged IS NOT NULL AND safety IS NOT NULL")
    parts = [
        one(ledger.slices, "delivered", "sum(zlast - from + 1)"),
        one(facts.event("role").where("role = 'LEADING'"), "elections"),
        one(facts.event("established"), "epochs", "count(DISTINCT epoch)"),
        one(facts.lives, "lives"),
        one(spent(facts), "frames", "sum(frames)"),
        one(spent(facts), "syncs", "sum(syncs)"),
        one(settled, "converged_s", "max((converged.t - safety.t) / 1e9)"),
    ]
    return together(parts)
