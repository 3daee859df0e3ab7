"""What the clients saw: outcomes, latency, throughput, unavailability.

Latency counts from the time at which an operation was due, whether or not the client could send it then: a stalled service
cannot hide behind a client that waits for it (no coordinated omission). Times are seconds unless the name says `ms`.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipeline.facts import READS, WRITES, Facts
from pipeline.unavailability import windows

PERCENTILES = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "p999_ms": 0.999}
NOTICED = 0.1  # seconds: shorter pauses between two writes are not listed as unavailability


def outcomes(facts: Facts) -> DataFrame:
    """`run`, `writes` (or reads), `outcome`, `number` of operations. One that was never answered is unknown."""
    told = facts.answers.where("asked").select("run", "op", "outcome")
    untold = facts.questions.where("open").select("run", "op", F.lit("unknown").alias("outcome"))
    return told.unionAll(untold).groupBy("run", F.col("op").isin(*WRITES).alias("writes"), "outcome").agg(
        F.count("*").alias("number")
    )  # fmt: skip


def latency(facts: Facts) -> DataFrame:
    """`run`, `of` (all, writes or reads), nearest-rank percentiles and the maximum of successful operations, and their `number`."""
    done = facts.answers.where("asked AND outcome = 'ok'")
    kind = F.when(F.col("op").isin(*READS), F.lit("reads")).otherwise(F.lit("writes"))
    rows = done.select(
        "run", F.explode(F.array(F.lit("all"), kind)).alias("of"), (F.col("t") - F.col("due")).alias("took")
    )
    ranks = [
        F.expr(f"percentile_disc({share}) WITHIN GROUP (ORDER BY took) / 1e6").alias(name)
        for name, share in PERCENTILES.items()
    ]
    return rows.groupBy("run", "of").agg(*ranks, (F.max("took") / 1e6).alias("max_ms"), F.count("*").alias("number"))


def throughput(facts: Facts) -> DataFrame:
    """`run`, `second` (from the first operation on, without gaps), and how many operations came to which outcome in it."""
    begin = facts.questions.groupBy("run").agg(F.min("due").alias("begin"))
    rows = facts.answers.where("asked").join(F.broadcast(begin), "run")
    second = F.floor((F.col("t") - F.col("begin")) / 1e9).cast("int")
    each = {name: F.count_if(F.col("outcome") == name).alias(name) for name in ("ok", "failed", "unknown")}
    busy = rows.groupBy("run", second.alias("second")).agg(*each.values())
    every = busy.groupBy("run").agg(F.explode(F.sequence(F.lit(0), F.max("second"))).alias("second"))
    return every.join(busy, ["run", "second"], "left").fillna(0, list(each))


def unavailability(facts: Facts) -> DataFrame:
    """`run`, `begin` (since the first operation), `seconds` of each time in which writes were due and none succeeded."""
    begin = facts.questions.groupBy("run").agg(F.min("due").alias("first"))
    long = windows(facts).join(F.broadcast(begin), "run")
    return long.select(
        "run",
        ((F.col("begin") - F.col("first")) / 1e9).alias("begin"),
        ((F.col("end") - F.col("begin")) / 1e9).alias("seconds"),
    ).where(F.col("seconds") >= NOTICED)
