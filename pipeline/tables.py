"""The tables on disk, and the rows of those runs that an analysis is about."""

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipeline import columns as c

WRITES = ("create", "set", "delete", "multi")
READS = ("get", "exists", "children")
DIGEST = 16  # hexadecimal digits of a transaction's digest


def save(frame: DataFrame, tables: Path, into: c.Table, load: int) -> None:
    """Write one load of a table."""
    frame.write.mode("overwrite").parquet(f"file://{tables}/{into.name}/load={load}")


def read(spark: SparkSession, tables: Path, which: c.Table) -> DataFrame:
    """A whole table, all loads, with the column `load`."""
    place = f"file://{tables}/{which.name}"
    literal = re.sub(r"([\\\[\]{}*?])", r"\\\1", place)  # Spark takes what it reads for a pattern
    return spark.read.schema(c.ddl((*which.columns, c.LOAD))).option("basePath", place).parquet(literal)


class Rows:
    """The tables' rows of the chosen runs. What several metrics need is kept by Spark until `forget`."""

    def __init__(self, spark: SparkSession, tables: Path, runs: Sequence[dict[str, Any]]) -> None:
        """`runs`: rows of the table `runs`."""
        self._spark, self._tables = spark, tables
        self._loads = sorted({run["rows_in"] for run in runs})
        chosen = [(run["run"], run["rows_in"]) for run in runs]
        self._chosen = spark.createDataFrame(chosen, "run bigint, load int").persist()

    def of(self, table: c.Table) -> DataFrame:
        """A table's rows of the chosen runs."""
        rows = read(self._spark, self._tables, table).where(F.col("load").isin(self._loads))
        return rows.join(F.broadcast(self._chosen), ["run", "load"]).drop("load")

    @cached_property
    def events(self) -> DataFrame:
        return self.of(c.EVENTS).drop("raw", "detail").persist()

    def event(self, name: str) -> DataFrame:
        return self.events.where(F.col("event") == name)

    @cached_property
    def operations(self) -> DataFrame:
        """One row an operation: `run`, `due`, `write`, `read`, when it was answered (`t`, null if never), `ok`, `failed`."""
        asked, told = F.col("type") == "invoke", F.col("type") == "complete"
        one = self.of(c.OPERATIONS).groupBy("run", "client", "seq").agg(
            F.max(F.when(asked, F.col("due"))).alias("due"),
            F.max(asked & F.col("op").isin(*WRITES)).alias("write"),
            F.max(asked & F.col("op").isin(*READS)).alias("read"),
            F.max(F.when(told, F.col("t"))).alias("t"),
            F.max(told & (F.col("outcome") == "ok")).alias("ok"),
            F.max(told & (F.col("outcome") == "failed")).alias("failed"),
        )  # fmt: skip
        return one.where("due IS NOT NULL").persist()

    @cached_property
    def injects(self) -> DataFrame:
        return self.of(c.FAULTS).where("type = 'inject'").persist()

    @cached_property
    def accepts(self) -> DataFrame:
        """Batches that became durable, with their `size` and the zxids `zfirst` and `zlast`."""
        return _sized(self.of(c.ACCEPTS)).persist()

    @cached_property
    def deliveries(self) -> DataFrame:
        """Batches that were delivered, likewise."""
        return _sized(self.of(c.DELIVERIES)).persist()

    def forget(self) -> None:
        """Let Spark drop what is kept."""
        self._spark.catalog.clearCache()


def zxid(pair: str) -> str:
    """A pair as one number, ordered as zxids are."""
    return f"(shiftleft({pair}[0], 32) | {pair}[1])"


def _sized(batches: DataFrame) -> DataFrame:
    size = F.expr(f"length(digests) DIV {DIGEST}")
    first = F.expr("shiftleft(epoch, 32) | first")
    sized = batches.select("run", "node", "life", "event", "t", "epoch", size.alias("size"), first.alias("zfirst"))
    return sized.where("size > 0").withColumn("zlast", F.expr("zfirst + size - 1"))
