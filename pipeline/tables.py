"""Writes and reads the tables on disk (docs/tables.md), and selects the rows of the analyzed runs for the metrics."""

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from zab_chaos.model.oracle.facts import NOT_SERVED, READS, WRITES
from zab_chaos.model.oracle.measures import IDLE_NS
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
    """The rows of the analyzed runs in the tables. Rows that several metrics need are cached."""

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
        """One row per operation: `run`, `due`, `write`, `read`, time of the answer (`t`, null if there was none), `ok`, `failed`,
        `served` (it succeeded or was refused for its content)."""
        invoked, completed = F.col("type") == "invoke", F.col("type") == "complete"
        judged = F.col("error").isNull() | ~F.col("error").isin(*NOT_SERVED)
        one = self.of(c.OPERATIONS).groupBy("run", "client", "seq").agg(
            F.max(F.when(invoked, F.col("due"))).alias("due"),
            F.max(invoked & F.col("op").isin(*WRITES)).alias("write"),
            F.max(invoked & F.col("op").isin(*READS)).alias("read"),
            F.max(F.when(completed, F.col("t"))).alias("t"),
            F.max(completed & (F.col("outcome") == "ok")).alias("ok"),
            F.max(completed & (F.col("outcome") == "failed")).alias("failed"),
            F.max(completed & ((F.col("outcome") == "ok") | ((F.col("outcome") == "failed") & judged))).alias("served"),
        )  # fmt: skip
        return one.where("due IS NOT NULL").persist()

    @cached_property
    def pauses(self) -> DataFrame:
        """The times in which a write was waiting and none was served: `run`, `begin`, `end` (ns), with `end` after `begin`.

        They are defined by `zab_chaos.model.oracle.measures.pauses`. The last time ends with the workload; if that is not known,
        with the last write that was due or served.
        """
        writes = self.operations.where("write")
        answered = F.coalesce("t", F.lit(FOREVER))
        due = writes.select("run", F.col("due").alias("at"), F.lit(1).alias("due"), answered.alias("answered"))
        served = writes.where("served").select("run", F.col("t").alias("at"))
        by_due = Window.partitionBy("run").orderBy("at")
        idle = due.select(
            "run", F.max("answered").over(by_due).alias("at"), F.lead("at", 1, FOREVER).over(by_due).alias("next")
        )  # fmt: skip
        ends = served.unionAll(idle.where(F.col("next") - F.col("at") > IDLE_NS).select("run", "at"))
        run = Window.partitionBy("run").orderBy("at", "due")
        points = due.unionAll(ends.select("run", "at", F.lit(0).alias("due"), F.lit(0).alias("answered"))).select(
            "*", F.sum(1 - F.col("due")).over(run).alias("number"), F.max("answered").over(run).alias("waits_until")
        )
        ended = F.when(F.col("due") == 0, F.col("at"))
        if_one_waits = F.when(F.col("waits_until") > ended, ended)
        when_due = F.when(F.col("due") == 1, F.col("at"))
        since = points.groupBy("run", "number").agg(
            F.coalesce(F.min(if_one_waits), F.min(when_due)).alias("begin"), F.min(ended).alias("ended")
        )
        following = F.lead("ended").over(Window.partitionBy("run").orderBy("number")).alias("next")
        spans = since.select("run", "begin", following).where("begin IS NOT NULL")
        latest = due.select("run", "at").unionAll(served).groupBy("run").agg(F.max("at").alias("latest"))
        stops = self.of(c.MILESTONES).where("event = 'workload-stopped'")
        stops = stops.groupBy("run").agg(F.max("t").alias("stopped"))
        found = spans.join(F.broadcast(latest), "run").join(F.broadcast(stops), "run", "left")
        end = F.least("next", F.coalesce("stopped", "latest")).alias("end")
        return found.select("run", "begin", end).where("end > begin").persist()

    @cached_property
    def injects(self) -> DataFrame:
        return self.of(c.FAULTS).where("type = 'inject'").persist()

    @cached_property
    def nodes_hit(self) -> DataFrame:
        """Return one row per fault and node that it hit, if the node had booted before: `line` of the fault, `id`, `do`, `node`, and
        the node's `life` (`up` or `down`), `role` and `phase` at that moment; both are empty if that life had none yet."""
        injects = self.injects.select("run", "id", "do", "t", "line", "evidence", F.explode("nodes").alias("node"))
        none = F.when(F.expr("event = 'boot'"), F.lit(""))
        life = F.when(F.expr("event = 'boot'"), F.lit("up")).when(F.expr("event = 'exit'"), F.lit("down"))
        traced = self.events.where("event IN ('boot', 'role', 'phase', 'exit')").select(
            "run", "node", F.col("t").alias("at"), life.alias("life"),
            F.coalesce(none, "role").alias("role"), F.coalesce(none, "phase").alias("phase"),
        )  # fmt: skip
        killed = injects.where("get_json_object(evidence, concat('$.', node, '.exit')) IS NOT NULL")
        node = F.get_json_object("raw", "$.node").cast("int").alias("node")
        ended = self.of(c.MILESTONES).where("event = 'ended'").select("run", node, "t")
        gone = killed.select("run", "node", "t").unionAll(ended).withColumnRenamed("t", "at")
        states = traced.unionByName(gone.withColumn("life", F.lit("down")), True)
        before = injects.join(states, ["run", "node"]).where("at < t")
        last = [
            F.max_by(name, F.when(F.col(name).isNotNull(), F.col("at"))).alias(name)
            for name in ("life", "role", "phase")
        ]
        return before.groupBy("run", "line", "id", "do", "node").agg(*last).where("role IS NOT NULL").persist()

    @cached_property
    def accepts(self) -> DataFrame:
        """Batches that became durable, with their `size`, and the zxids `zfirst` and `zlast` as numbers."""
        return _sized(self.of(c.ACCEPTS)).persist()

    @cached_property
    def deliveries(self) -> DataFrame:
        """Batches that were delivered, with the same columns as `accepts`."""
        return _sized(self.of(c.DELIVERIES)).persist()


def zxid(pair: str) -> str:
    """Return the SQL expression of a zxid as one number; `pair` is the column with [epoch, counter]."""
    return f"(shiftleft({pair}[0], 32) | {pair}[1])"


def _sized(batches: DataFrame) -> DataFrame:
    size = F.expr(f"length(digests) DIV {DIGITS}")
    first = F.expr("shiftleft(epoch, 32) | first")
    sized = batches.select("run", "node", "life", "event", "t", "epoch", size.alias("size"), first.alias("zfirst"))
    return sized.where("size > 0").withColumn("zlast", F.expr("zfirst + size - 1"))
