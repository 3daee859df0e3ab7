"""The frames that all properties look at: what counts of the traces, where each life begins and ends, what is known of a run.

Everything here is per run, so any number of runs is judged in one query. What an event means depends on where it stands: an
event of a life whose successor has begun (a zombie), or one before `boot`, is no part of a node's history. Events are ordered
as the oracle orders them: by time, then node, life and line.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import MapType, StringType

from pipeline import columns as c
from pipeline import forms, ingest
from pipeline.frames import gathered, hold, let_go, none_of, of_rows, together
from pipeline.shared import Shared, shared
from pipeline.words import packed, quoted

ORDER = ("at", "node", "life", "line")
SPEAKS_UNBORN = ("exit", "abort")  # a life that can't read its disk may say why, and takes part in nothing
WRITES = ("create", "set", "delete", "multi")
READS = ("get", "exists", "children")
DISK_FAULTS = ("wipe", "corrupt", "truncate-file")  # what a disk held may be gone or changed afterwards
KILLS = ("crash", "crash-at", "power-cut", "restart", *DISK_FAULTS)
_HEARD = ", ".join(f"'{name}'" for name in forms.EVENTS if name not in SPEAKS_UNBORN)
_BORN = f"(line >= boot_line OR event NOT IN ({_HEARD}))"


@dataclass(frozen=True, slots=True)
class Chosen:
    """A run to be judged, as `runs` has it, with its expectations in numbers."""

    run: int
    rows_in: int
    nodes: int
    converges_within: float | None
    unavailable_at_most: float | None


class Facts(Shared):
    """Frames of the chosen runs. What is used more than once is kept by Spark until `forget`."""

    def __init__(
        self, spark: SparkSession, tables: str, chosen: list[Chosen], fresh: ingest.Fresh | None = None
    ) -> None:
        """`fresh`: the tables' rows of all that are chosen, where Spark still holds them (`ingest`)."""
        super().__init__()
        self.spark = spark
        self._tables = tables
        self._fresh = fresh or {}
        rows = [(it.run, it.nodes, it.converges_within, it.unavailable_at_most) for it in chosen]
        form = "run bigint, nodes int, converges_within double, unavailable_at_most double"
        self.runs = of_rows(spark, rows, form)
        self.chosen = [it.run for it in chosen]
        self._condition = " OR ".join(
            f"(load = {load} AND {_one_of(it.run for it in chosen if it.rows_in == load)})"
            for load in sorted({it.rows_in for it in chosen})
        )
        self._kept: list[DataFrame] = []

    def keep(self, frame: DataFrame, *, rare: bool = False) -> DataFrame:
        """Hold a frame until `forget`. `rare`: in most runs there is none, and then nothing is done with what is built on it."""
        if rare and frame.isEmpty():
            return none_of(frame)
        kept = hold(frame)
        self._kept.append(kept)
        return kept

    def forget(self) -> None:
        """Let Spark drop what was kept."""
        for frame in self._kept:
            let_go(frame)
        self._kept.clear()

    def rows(self, table: c.Table) -> DataFrame:
        """A table's rows of the chosen runs."""
        return self.once(f"rows of {table.name}", lambda it: it._rows(table))

    def _rows(self, table: c.Table) -> DataFrame:
        if table in self._fresh:
            return self._fresh[table].where(_one_of(self.chosen))
        loaded = ingest.table(self.spark, self._tables, table).where(self._condition)
        return gathered(loaded).select(*table.names)

    # ---- what counts ----

    @shared
    def lives(self) -> DataFrame:
        """One row a life: where it begins (`boot_line`, `boot_at`), its last event, when its successor began (`until`), and
        `odd`: its lines that are not numbered as they should be, or are earlier than the line before."""
        names = ("run", "node", "life", "line", "n", "t", "event")
        tables = (c.EVENTS, c.BROADCASTS, c.ACCEPTS, c.DELIVERIES, c.LINKS)
        every = together(self.rows(table).select(*names) for table in tables)
        life = Window.partitionBy("run", "node", "life").orderBy("line")
        earlier = life.rowsBetween(Window.unboundedPreceding, -1)
        marked = every.select(
            *names,
            (F.coalesce(F.lag("n").over(life), F.lit(0)) + 1).alias("next"),
            F.greatest("t", F.coalesce(F.max("t").over(earlier), "t")).alias("at"),
        )
        boot = F.col("event") == "boot"
        odd = F.when(
            (F.col("n") != F.col("next")) | (F.col("t") < F.col("at")), F.struct("line", "n", "next", "t", "at")
        )
        acts = F.col("event").isin(*(name for name in forms.EVENTS if name not in SPEAKS_UNBORN))
        ends = marked.groupBy("run", "node", "life").agg(
            F.min(F.when(boot, F.col("line"))).alias("boot_line"),
            F.min(F.when(boot, F.col("at"))).alias("boot_at"),
            F.max_by("at", "line").alias("last_at"),
            F.max("line").alias("last_line"),
            F.min(F.when(acts, F.col("line"))).alias("acts_from"),
            F.max(~acts).alias("speaks"),
            F.array_sort(F.collect_list(odd)).alias("odd"),
        )
        later = Window.partitionBy("run", "node").orderBy(F.desc("life")).rowsBetween(Window.unboundedPreceding, -1)
        return self.keep(ends.withColumn("until", F.min("boot_at").over(later)))

    @shared
    def _late(self) -> DataFrame | None:
        """Lines whose time is earlier than that of the line before, with the time at which they count; None if none is."""
        late = self.lives.select("run", "node", "life", F.explode("odd").alias("it")).where("it.t < it.at")
        if late.isEmpty():
            return None
        return late.select("run", "node", "life", F.col("it.line").alias("line"), F.col("it.at").alias("late"))

    @shared
    def _sound(self) -> bool:
        """Whether all lives begin with `boot` and end before their successors begin. Then every line counts."""
        return self.lives.where("boot_line IS NULL OR acts_from < boot_line OR last_at > until").isEmpty()

    def placed(self, table: c.Table) -> DataFrame:
        """A trace table's rows with `at`, the time by which they are ordered."""
        rows = self.rows(table)
        if self._late is None:
            return rows.withColumn("at", F.col("t"))
        rows = rows.join(F.broadcast(self._late), ["run", "node", "life", "line"], "left")
        return rows.withColumn("at", F.coalesce("late", "t")).drop("late")

    def _judged(self, table: c.Table, condition: str) -> DataFrame:
        """The rows that meet a condition on what is known of their life."""
        known = self.lives.select("run", "node", "life", "boot_line", "until")
        return self.placed(table).join(F.broadcast(known), ["run", "node", "life"]).where(condition)

    def _used(self, table: c.Table) -> DataFrame:
        """What is part of a node's history."""
        if self._sound:
            return self.placed(table)
        alive = "(until IS NULL OR at <= until)"
        return self._judged(table, f"{alive} AND {_BORN}").drop("boot_line", "until")

    @shared
    def zombies(self) -> DataFrame:
        """Events of a life after the next one had begun."""
        names = ("run", "node", "life", "line", "at", "until")
        if self._sound:
            return of_rows(self.spark, [], "run bigint, node int, life int, line int, at bigint, until bigint")
        tables = (c.EVENTS, c.BROADCASTS, c.ACCEPTS, c.DELIVERIES, c.LINKS)
        found = together(self._judged(table, f"at > until AND {_BORN}").select(*names) for table in tables)
        return self.keep(found, rare=True)

    @shared
    def events(self) -> DataFrame:
        return self.keep(self._used(c.EVENTS).drop("raw", "detail"))

    @shared
    def broadcasts(self) -> DataFrame:
        """Batches, with the zxids `zfirst` and `zlast`, and `done`: what the primary had delivered by then."""
        return self.keep(_batches(self._used(c.BROADCASTS)).withColumn("done", packed("delivered")).drop("delivered"))

    @shared
    def deliveries(self) -> DataFrame:
        return _batches(self._used(c.DELIVERIES))

    @shared
    def accepts(self) -> DataFrame:
        return self._used(c.ACCEPTS)

    @shared
    def channels(self) -> DataFrame:
        return self._used(c.LINKS).where("event = 'channel'")

    def event(self, name: str) -> DataFrame:
        return self.events.where(F.col("event") == name)

    @shared
    def boots(self) -> DataFrame:
        """Starts that count, with `began`: the zxid of the snapshot that the life begins with, and `held`: the log's last."""
        began = F.coalesce(packed("snapshot_zxid"), F.lit(0)).alias("began")
        return self.event("boot").select("*", began, packed("last_zxid").alias("held"))

    # ---- operations, faults, milestones ----

    @shared
    def _asked(self) -> DataFrame:
        """Operations with the line of the same client and number before and after them."""
        one = Window.partitionBy("run", "client", "seq").orderBy("line")
        beside = ("type", "op", "due", "t", "line")
        return self.rows(c.OPERATIONS).select(
            "*",
            F.lag(F.struct(*beside)).over(one).alias("before"),
            F.lead("type").over(one).alias("after"),
        )

    @shared
    def answers(self) -> DataFrame:
        """Completions with their question's `op` and `due`; `asked` is false if there was no question. `z`: the zxid."""
        return self.keep(
            self._asked.where("type = 'complete'").select(
                "run", "t", "client", "seq", "line", "outcome",
                F.coalesce(F.col("before.type") == "invoke", F.lit(False)).alias("asked"),
                F.col("before.op").alias("op"), F.col("before.due").alias("due"), F.col("before.t").alias("sent"),
                packed("zxid").alias("z"),
            )
        )  # fmt: skip

    @shared
    def questions(self) -> DataFrame:
        """Invocations; `open` if they never got an answer."""
        return self.keep(
            self._asked.where("type = 'invoke'").select(
                "run", "t", "due", "client", "seq", "op", "line",
                F.col("after").isNull().alias("open"),
            )
        )  # fmt: skip

    @shared
    def acked(self) -> DataFrame:
        """Writes that a client saw succeed, with their zxid."""
        return self.answers.where(
            F.col("asked") & (F.col("outcome") == "ok") & F.col("z").isNotNull() & F.col("op").isin(*WRITES)
        )

    @shared
    def faults(self) -> DataFrame:
        return self.keep(self.rows(c.FAULTS), rare=True)

    @shared
    def killed(self) -> DataFrame:
        """What the evidence says of processes that were ended: a row a fault's line and node, with `pid` and `exit`."""
        texts = MapType(StringType(), StringType())
        shown = self.faults.select(
            "run", "type", "t", "id", "do", "line", F.explode(F.from_json("evidence", texts))
        ).where("key RLIKE '^[0-9]+$'")
        said = shown.withColumn("said", F.from_json("value", texts)).where("map_contains_key(said, 'exit')")
        return self.keep(
            said.select(
                "run", "type", "t", "id", "do", "line", F.col("key").cast("int").alias("node"),
                F.col("said")["pid"].cast("bigint").alias("pid"), F.col("said")["exit"].alias("exit"),
            ),
            rare=True,
        )  # fmt: skip

    @shared
    def timeline(self) -> DataFrame:
        """One row a run, of all that are judged: its milestones, the last of each name, as columns."""
        rows = self.rows(c.MILESTONES)
        names = {
            "safety": "safety-ended",
            "converged": "converged",
            "missed": "not-converged",
            "stopped": "workload-stopped",
        }
        last = [
            F.max_by(F.struct("t", "line"), F.when(F.col("event") == event, F.col("line"))).alias(name)
            for name, event in names.items()
        ]
        forced = F.max(F.col("event").isin("leftovers", "interrupted")).alias("forced")
        found = self.runs.join(rows.groupBy("run").agg(*last, forced), "run", "left")
        return self.keep(
            found.withColumn("settled", F.coalesce("converged", "missed")).withColumn(
                "forced", F.coalesce("forced", F.lit(False))
            )
        )


def _one_of(runs: Iterable[int]) -> str:
    return f"run IN ({', '.join(map(str, runs))})"


def _batches(rows: DataFrame) -> DataFrame:
    """Batches that are not empty, with the zxids of their first and last transaction."""
    first = F.shiftleft("epoch", 32).bitwiseOR(F.col("first"))
    return rows.where("size(digests) > 0").select(
        "*", first.alias("zfirst"), (first + F.size("digests") - 1).alias("zlast")
    )


def order(prefix: str = "") -> Column:
    """Where an event stands among all of its run: comparable."""
    return F.expr(f"struct({', '.join(f'{quoted(prefix + name)} AS {name}' for name in ORDER)})")
