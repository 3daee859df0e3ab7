"""The times in which a write was due and none succeeded."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from pipeline.facts import WRITES, Facts


def windows(facts: Facts) -> DataFrame:
    """Between two successes the time counts from the first write that came due after the former; after the last success it counts to
    the end of the workload, or to the last thing that the clients wrote down. `run`, `begin`, `end` (ns), longer than nothing.
    """
    return facts.once("windows", lambda it: it.keep(_windows(it)))


def _windows(facts: Facts) -> DataFrame:
    write = F.col("op").isin(*WRITES)
    due = facts.questions.where(write).select("run", F.col("due").alias("t"), F.lit(1).alias("due"))
    done = facts.answers.where(write & F.expr("asked AND outcome = 'ok'")).select("run", "t", F.lit(0).alias("due"))
    run = Window.partitionBy("run").orderBy("t", "due")
    points = due.unionAll(done).select("*", F.sum(1 - F.col("due")).over(run).alias("successes"))
    since = points.groupBy("run", "successes").agg(
        F.min(F.when(F.col("due") == 1, F.col("t"))).alias("begin"),
        F.min(F.when(F.col("due") == 0, F.col("t"))).alias("success"),
        F.max("t").alias("latest"),
    )
    following = Window.partitionBy("run").orderBy("successes")
    whole = Window.partitionBy("run")
    spans = since.select(
        "run", "begin", F.lead("success").over(following).alias("next"), F.max("latest").over(whole).alias("latest")
    ).where("begin IS NOT NULL")
    stopped = F.broadcast(facts.timeline.select("run", F.col("stopped.t").alias("stopped")))
    ended = spans.join(stopped, "run").select("run", "begin", F.coalesce("next", "stopped", "latest").alias("end"))
    return ended.where("end > begin")


def longest(facts: Facts) -> DataFrame:
    """`run`, `seconds` of the longest time in which no write succeeded although one was due; 0.0 where there was none."""
    gaps = windows(facts).groupBy("run").agg((F.max(F.col("end") - F.col("begin")) / 1e9).alias("seconds"))
    return (
        facts.runs.select("run")
        .join(gaps, "run", "left")
        .select("run", F.coalesce("seconds", F.lit(0.0)).alias("seconds"))
    )
