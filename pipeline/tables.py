"""Writes and reads the tables on disk (docs/tables.md), and selects the rows of the analyzed runs for the metrics."""

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from zab_chaos.model.oracle.facts import READS, WRITES
from zab_chaos.node.core.digest import DIGITS
from zab_chaos.pipeline import columns as c

FOREVER = 2**62  # ns


def write_load(frame: DataFrame, tables: Path, into: c.Table, load: int) -> None:
    """Write one load of a table."""
    frame.write.mode("overwrite").parquet(f"file://{tables}/{into.name}/load={load}")


def read_table(spark: SparkSession, tables: Path, which: c.Table) -> DataFrame:
    """Return a whole table with all its loads, and the column `load`."""
    place = f"file://{tables}/{which.name}"
    return spark.read.schema(c.ddl((*which.columns, c.LOAD))).option("basePath", place).parquet(escape_path(place))


def escape_path(place: str) -> str:
    """Escape a path, because Spark takes paths as patterns."""
    return re.sub(r"([\\\[\]{}*?])", r"\\\1", place)


class Rows:
    """The rows of the analyzed runs in the tables. Rows that several metrics need are cached until `uncache`."""

    def __init__(self, spark: SparkSession, tables: Path, runs: Sequence[dict[str, Any]]) -> None:
        """`runs`: the rows of the analyzed runs in the table `runs`."""
        self._spark, self._tables = spark, tables
        self._loads = sorted({run["rows_in"] for run in runs})
        chosen = [(run["run"], run["rows_in"]) for run in runs]
        self._chosen = spark.createDataFrame(chosen, "run bigint, load int").persist()

    def of(self, table: c.Table) -> DataFrame:
        """Return a table's rows of the analyzed runs."""
        rows = read_table(self._spark, self._tables, table).where(F.col("load").isin(self._loads))
        return rows.join(F.broadcast(self._chosen), ["run", "load"]).drop("load")

    @cached_property
    def events(self) -> DataFrame:
        return self.of(c.EVENTS).drop("raw", "detail").persist()

    def event(self, name: str) -> DataFrame:
        return self.events.where(F.col("event") == name)

    @cached_property
    def operations(self) -> DataFrame:
        """One row per operation: `run`, `due`, `write`, `read`, time of the answer (`t`, null if there was none), `ok`, `failed`."""
        invoked, completed = F.col("type") == "invoke", F.col("type") == "complete"
        one = self.of(c.OPERATIONS).groupBy("run", "client", "seq").agg(
            F.max(F.when(invoked, F.col("due"))).alias("due"),
            F.max(invoked & F.col("op").isin(*WRITES)).alias("write"),
            F.max(invoked & F.col("op").isin(*READS)).alias("read"),
            F.max(F.when(completed, F.col("t"))).alias("t"),
            F.max(completed & (F.col("outcome") == "ok")).alias("ok"),
            F.max(completed & (F.col("outcome") == "failed")).alias("failed"),
        )  # fmt: skip
        return one.where("due IS NOT NULL").persist()

    @cached_property
    def pauses(self) -> DataFrame:
        """The times in which a write was waiting and none succeeded: `run`, `begin`, `end` (ns), with `end` after `begin`.

        Between two successful writes, the time begins at the first one's answer if another write is waiting then, else when the
        next write is due. The last time ends with the workload; if that is not known, with the last write that was due or succeeded.
        """
        writes = self.operations.where("write")
        answered = F.coalesce("t", F.lit(FOREVER))
        due = writes.select("run", F.col("due").alias("at"), F.lit(1).alias("due"), answered.alias("answered"))
        done = writes.where("ok").select(
            "run", F.col("t").alias("at"), F.lit(0).alias("due"), F.lit(0).alias("answered")
        )
        run = Window.partitionBy("run").orderBy("at", "due")
        points = due.unionAll(done).select(
            "*", F.sum(1 - F.col("due")).over(run).alias("successes"), F.max("answered").over(run).alias("waits_until")
        )
        success = F.when(F.col("due") == 0, F.col("at"))
        since = points.groupBy("run", "successes").agg(
            F.coalesce(
                F.min(F.when(F.col("waits_until") > success, success)), F.min(F.when(F.col("due") == 1, F.col("at")))
            ).alias("begin"),
            F.min(success).alias("success"),
            F.max("at").alias("latest"),
        )
        following = Window.partitionBy("run").orderBy("successes")
        of_run = Window.partitionBy("run")
        spans = since.select(
            "run",
            "begin",
            F.lead("success").over(following).alias("next"),
            F.max("latest").over(of_run).alias("latest"),
        ).where("begin IS NOT NULL")
        stops = (
            self.of(c.MILESTONES).where("event = 'workload-stopped'").groupBy("run").agg(F.max("t").alias("stopped"))
        )
        ended = spans.join(F.broadcast(stops), "run", "left")
        return (
            ended.select("run", "begin", F.coalesce(F.least("next", "stopped"), "latest").alias("end"))
            .where("end > begin")
            .persist()
        )

    @cached_property
    def injects(self) -> DataFrame:
        return self.of(c.FAULTS).where("type = 'inject'").persist()

    @cached_property
    def accepts(self) -> DataFrame:
        """Batches that became durable, with their `size`, and the zxids `zfirst` and `zlast` as numbers."""
        return _sized(self.of(c.ACCEPTS)).persist()

    @cached_property
    def deliveries(self) -> DataFrame:
        """Batches that were delivered, with the same columns as `accepts`."""
        return _sized(self.of(c.DELIVERIES)).persist()

    def uncache(self) -> None:
        """Drop the cached rows."""
        self._spark.catalog.clearCache()


def zxid(pair: str) -> str:
    """Return the SQL expression of a zxid as one number; `pair` is the column with [epoch, counter]."""
    return f"(shiftleft({pair}[0], 32) | {pair}[1])"


def _sized(batches: DataFrame) -> DataFrame:
    size = F.expr(f"length(digests) DIV {DIGITS}")
    first = F.expr("shiftleft(epoch, 32) | first")
    sized = batches.select("run", "node", "life", "event", "t", "epoch", size.alias("size"), first.alias("zfirst"))
    return sized.where("size > 0").withColumn("zlast", F.expr("zfirst + size - 1"))
