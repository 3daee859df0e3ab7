"""The ledger: everything that was ever delivered in a run, in order, and how each node's deliveries compare with it.

The first node that delivers beyond the ledger's end lengthens it; whoever comes later must find its own deliveries there.
Zab's order is visible in the zxids, so the ledger's end at any time is the highest zxid delivered so far, and where a node
stands is the zxid that it delivered last: a batch is compared with two window functions and one join, without walking.

One thing can't be seen that way: a node that has left the ledger's path (it `diverged`) says nothing about the ledger from
then on, until its next life or a snapshot. So the earliest departure of each run is found first, what follows it at that node is
left out, and the runs that have one are compared again, until no run has another. A good run is compared once.
"""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from pipeline.facts import ORDER, Facts, order
from pipeline.frames import of_rows
from pipeline.shared import Shared, shared
from pipeline.words import packed

_LOST = "run bigint, node int, seg bigint, parted struct<at:bigint,node:int,life:int,line:int>"


@dataclass(frozen=True, slots=True)
class Compared:
    """What one comparison found.

    `slices`: batches (or their ends) that lengthened the ledger. `conflicts`: batches that left the path, with `kind`: `bytes`
    (same zxid, another digest), `other` (not in the ledger), `skipped` (in it, but later) or `again` (in it, but earlier).
    `unknown`: snapshots that are no point of the ledger. `steps`: all that was compared, `parted` null or where it ended.
    """

    steps: DataFrame
    slices: DataFrame
    conflicts: DataFrame
    unknown: DataFrame


class Ledger(Shared):
    """The ledgers of all runs."""

    def __init__(self, facts: Facts) -> None:
        super().__init__()
        self.facts = facts

    @shared
    def steps(self) -> DataFrame:
        """Deliveries and, between them, the snapshots that replaced a node's state (`kind`: deliver, boot, restored).

        `before`: the zxid that the node had delivered last; `seg` counts a node's replaced states; `began`: the snapshot's
        zxid of the present one; `zfirst` and `zlast`: the batch, or twice the snapshot's zxid.
        """
        facts = self.facts
        names = ("run", *ORDER, "kind", "zfirst", "zlast", "epoch", "digests", "digest", "tree")
        delivered = facts.deliveries.withColumn("kind", F.lit("deliver")).select(*names)
        boots = _reset(facts.boots, "boot", F.col("began")).select(*names)
        restored = facts.event("snapshot").where("kind = 'restored'")
        resets = boots.unionAll(_reset(restored, "restored", packed("zxid")).select(*names))
        node = Window.partitionBy("run", "node").orderBy("at", "life", "line")
        reset = F.col("kind") != "deliver"
        return facts.keep(
            delivered.unionAll(resets).select(
                "*",
                F.coalesce(F.lag("zlast").over(node), F.lit(0)).alias("before"),
                F.sum(reset.cast("int")).over(node).alias("seg"),
            )
        )

    @shared
    def compared(self) -> Compared:
        """The final comparison of every run."""
        spark = self.facts.spark
        lost = of_rows(spark, [], _LOST)
        first = self._compare(self.steps, lost)
        parted = self._parted(first, lost)
        if parted.isEmpty():
            return first
        bad = parted.select("run").distinct().localCheckpoint()
        steps = self.facts.keep(self.steps.join(F.broadcast(bad), "run"))
        again = first
        while not parted.isEmpty():
            lost = lost.unionAll(parted).localCheckpoint()
            again = self._compare(steps, lost)
            parted = self._parted(again, lost)
        return Compared(
            *(
                self.facts.keep(
                    getattr(first, name).join(F.broadcast(bad), "run", "left_anti").unionByName(getattr(again, name))
                )
                for name in ("steps", "slices", "conflicts", "unknown")
            )
        )

    def _compare(self, steps: DataFrame, lost: DataFrame) -> Compared:
        """Compare all runs of `steps`, without what comes after a node's known departure."""
        keep = self.facts.keep
        here = steps.join(F.broadcast(lost), ["run", "node", "seg"], "left")
        run = Window.partitionBy("run").orderBy(*ORDER).rowsBetween(Window.unboundedPreceding, -1)
        on_path = F.col("parted").isNull() | (order() < F.col("parted"))
        leaving = F.col("parted") == order()
        counted = (F.col("kind") == "deliver") & on_path
        placed = keep(
            here.select(
                "*",
                counted.alias("counted"),
                (counted | ((F.col("kind") == "deliver") & F.coalesce(leaving, F.lit(False)))).alias("compared"),
                F.coalesce(F.max(F.when(counted, F.col("zlast"))).over(run), F.lit(0)).alias("top"),
            )
        )
        grows = F.col("counted") & (F.col("zlast") > F.col("top"))
        follows = (F.col("zfirst") <= F.col("top")) | (F.col("before") == F.col("top"))
        slices = keep(
            placed.where(grows & follows).select(
                "run", *ORDER, F.greatest("zfirst", F.col("top") + 1).alias("from"), "top", "zfirst", "zlast", "epoch", "digests", "digest",
            )
        )  # fmt: skip
        known = self._held(placed, slices)
        conflicts = self._conflicts(placed, known)
        unknown = known.where("kind <> 'deliver' AND (l_z IS NULL OR NOT l_order < here)")
        unknown = unknown.select("run", *ORDER, "kind", "seg", "z")
        return Compared(placed, slices, keep(conflicts, rare=True), keep(unknown, rare=True))

    def _held(self, placed: DataFrame, slices: DataFrame) -> DataFrame:
        """Every transaction that was delivered where the ledger had something already, and every snapshot, beside the ledger's
        transaction with the same zxid (`l_...`, null if there is none)."""
        inside = F.slice("digests", F.lit(1), (F.least("zlast", "top") - F.col("zfirst") + 1).cast("int"))
        names = ("run", *ORDER, "kind", "seg", "before", "zfirst")
        batches = placed.where(F.col("compared") & (F.col("zfirst") <= F.col("top")))
        known = batches.select(*names, F.posexplode(inside).alias("offset", "crc"))
        known = known.select(
            *names,
            (F.col("zfirst") + F.col("offset")).alias("z"),
            "crc",
            F.when(F.col("offset") == 0, F.col("before"))
            .otherwise(F.col("zfirst") + F.col("offset") - 1)
            .alias("stood"),
        )
        resets = placed.where("kind <> 'deliver' AND zlast <> 0").select(
            *names,
            F.col("zlast").alias("z"),
            F.lit(None).cast("bigint").alias("crc"),
            F.lit(None).cast("bigint").alias("stood"),
        )
        held = transactions(slices).select(
            "run", "z", F.col("crc").alias("l_crc"), F.col("after").alias("l_after"), F.col("z").alias("l_z"),
            order().alias("l_order"),
        )  # fmt: skip
        return known.unionAll(resets).join(held, ["run", "z"], "left").withColumn("here", order())

    def _conflicts(self, placed: DataFrame, known: DataFrame) -> DataFrame:
        """The first transaction of each batch that is not the one that the ledger has next."""
        strange = F.col("l_z").isNull() | (F.col("crc") != F.col("l_crc"))
        kind = (
            F.when(F.col("l_z").isNull(), F.lit("other"))
            .when(F.col("stood") < F.col("l_after"), F.lit("skipped"))
            .when(F.col("stood") > F.col("l_after"), F.lit("again"))
            .otherwise(F.lit("bytes"))
        )
        inside = known.where(F.col("kind") == "deliver").where(strange | (F.col("stood") != F.col("l_after")))
        first = F.struct("z", kind.alias("what"), "crc", "stood", "l_after", "l_order")
        odd = inside.groupBy("run", *ORDER, "seg").agg(
            F.min(first).alias("it"), F.min(F.when(strange, F.col("z"))).alias("left_at")
        )
        odd = odd.select("run", *ORDER, "seg", "it.*", "left_at")
        beyond = (F.col("zlast") > F.col("top")) & (F.col("zfirst") > F.col("top")) & (F.col("before") != F.col("top"))
        ahead = placed.where(F.col("compared") & beyond).select(
            "run", *ORDER, "seg", F.col("zfirst").alias("z"), F.lit("other").alias("what"), F.col("digests")[0].alias("crc"),
            F.col("before").alias("stood"), F.lit(None).cast("bigint").alias("l_after"),
            F.lit(None).cast("struct<at:bigint,node:int,life:int,line:int>").alias("l_order"),
            F.col("zfirst").alias("left_at"),
        )  # fmt: skip
        return odd.unionAll(ahead).withColumnRenamed("what", "kind")

    def _parted(self, compared: Compared, lost: DataFrame) -> DataFrame:
        """Each run's earliest departure that is not among the `lost` yet."""
        left = compared.conflicts.where("left_at IS NOT NULL").select("run", "node", "seg", order().alias("parted"))
        strangers = compared.unknown.select("run", "node", "seg", order().alias("parted"))
        new = left.unionAll(strangers).join(F.broadcast(lost), ["run", "node", "seg"], "left_anti")
        first = new.groupBy("run").agg(F.min_by(F.struct("node", "seg", "parted"), "parted").alias("it"))
        return first.select("run", "it.*").localCheckpoint()

    # ---- what others ask ----

    @shared
    def slices(self) -> DataFrame:
        return self.compared.slices

    @shared
    def transactions(self) -> DataFrame:
        """One row a transaction of the ledger: see `transactions`."""
        return transactions(self.slices)

    @shared
    def news(self) -> DataFrame:
        """Deliveries that were not all in the ledger already: those that lengthened it, left its path, or were off it.
        `from`: the first transaction that is new."""
        steps, conflicts = self.compared.steps, self.compared.conflicts
        odd = conflicts.select("run", *ORDER, F.lit(True).alias("odd"))
        grown = self.slices.select("run", *ORDER, F.col("from").alias("grown"))
        marked = steps.where("kind = 'deliver'").join(F.broadcast(odd), ["run", *ORDER], "left")
        off = F.col("parted").isNotNull() & (order() > F.col("parted"))
        marked = marked.join(grown, ["run", *ORDER], "left").where(F.col("odd") | off | F.col("grown").isNotNull())
        start = F.when(F.col("odd") | off, F.col("zfirst")).otherwise(F.col("grown"))
        return self.facts.keep(marked.select("run", *ORDER, "zfirst", "zlast", "epoch", "digests", start.alias("from")))

    @shared
    def places(self) -> DataFrame:
        """Where each node stands at the end: `last` (delivered last), `reached` (the farthest point of the ledger's path in
        its present state), `diverged`, and `holes` ([after, before] zxids of what it skipped)."""
        steps, conflicts = self.compared.steps, self.compared.conflicts
        unknown = self.compared.unknown.select("run", *ORDER, F.lit(True).alias("strange"))
        odd = conflicts.select("run", *ORDER, "kind", "z", "stood", "left_at").withColumnRenamed("kind", "what")
        rows = steps.join(F.broadcast(odd), ["run", *ORDER], "left").join(F.broadcast(unknown), ["run", *ORDER], "left")
        node = Window.partitionBy("run", "node").orderBy("at", "life", "line")
        anew = (F.col("kind") == "boot") | ((F.col("kind") == "restored") & F.col("strange").isNull())
        off = F.col("parted").isNotNull() & (order() > F.col("parted"))
        to = (
            F.when((F.col("kind") != "deliver") & F.col("strange").isNull(), F.col("zlast"))
            .when(off | F.col("strange"), F.lit(None))
            .when(F.col("left_at").isNull(), F.col("zlast"))
            .when(F.col("left_at") > F.col("zfirst"), F.col("left_at") - 1)
        )
        hole = F.when(F.col("what") == "skipped", F.struct(F.col("stood").alias("after"), F.col("z").alias("before")))
        rows = rows.select(
            "run", "node", "seg", order().alias("here"), "zlast", "kind", "parted", to.alias("to"), hole.alias("hole"),
            F.sum(anew.cast("int")).over(node).alias("state"),
        )  # fmt: skip
        final = Window.partitionBy("run", "node")
        rows = rows.select("*", F.max("state").over(final).alias("now"), F.max("seg").over(final).alias("nowseg"))
        present, newest = F.col("state") == F.col("now"), F.col("seg") == F.col("nowseg")
        return self.facts.keep(
            rows.groupBy("run", "node").agg(
                F.max_by("zlast", "here").alias("last"),
                F.coalesce(F.max(F.when(present, F.col("to"))), F.lit(0)).alias("reached"),
                F.max(F.when(newest, F.col("parted").isNotNull())).alias("diverged"),
                F.collect_list(F.when(newest, F.col("hole"))).alias("holes"),
            )
        )


def transactions(slices: DataFrame) -> DataFrame:
    """The ledger, one row a transaction: `z`, `crc`, `after` (the ledger's zxid before it), `from` and `epoch` of its slice, and
    who delivered it first."""
    fresh = F.slice("digests", (F.col("from") - F.col("zfirst") + 1).cast("int"), F.size("digests"))
    rows = slices.select("run", *ORDER, "from", "top", F.posexplode(fresh).alias("offset", "crc"))
    z = F.col("from") + F.col("offset")
    after = F.when(F.col("offset") == 0, F.col("top")).otherwise(z - 1)
    return rows.select("run", *ORDER, "from", z.alias("z"), "crc", after.alias("after"))


def _reset(rows: DataFrame, kind: str, zxid: Column) -> DataFrame:
    """A snapshot that replaced a node's state, as a step."""
    return rows.select(
        "run", *ORDER, F.lit(kind).alias("kind"), zxid.alias("zfirst"), zxid.alias("zlast"),
        F.lit(None).cast("bigint").alias("epoch"), F.lit(None).cast("array<bigint>").alias("digests"), "digest", "tree",
    )  # fmt: skip
