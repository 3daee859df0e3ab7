"""The epochs that a node promises and joins (DSN 2011, Table 1 and the invariants of section VI)."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from pipeline.facts import DISK_FAULTS, ORDER, Facts
from pipeline.findings import Counted, Found, Property
from pipeline.ledger import Ledger
from pipeline.words import LATER, Violated, say, trace


def undamaged(frame: DataFrame, facts: Facts) -> DataFrame:
    """Rows whose node's disk no fault took or changed between `since` and `t` (times of two of its starts)."""
    hits = facts.faults.where((F.col("type") == "inject") & F.col("do").isin(*DISK_FAULTS))
    hits = hits.select(F.col("run").alias("h_run"), F.explode("nodes").alias("h_node"), F.col("t").alias("h_t"))
    same = (F.col("run") == F.col("h_run")) & (F.col("node") == F.col("h_node"))
    return frame.join(F.broadcast(hits), same & F.col("h_t").between(F.col("since"), F.col("t")), "left_anti")


def promises(facts: Facts) -> DataFrame:
    """See `_held`."""
    return facts.once("held", lambda it: it.keep(_held(it)))


def _held(facts: Facts) -> DataFrame:
    """Everything that changes what a node has promised and joined, beside what it held before: f.p and f.a with the lines that
    say so, its phase, and its last start."""
    changes = facts.events.where("event IN ('boot', 'accepted_epoch', 'current_epoch', 'phase')")
    names = ("run", *ORDER, "t", "event")
    nothing = F.lit(None).cast("bigint")
    rows = changes.select(
        *names, "disk", "phase", "epoch", "accepted_epoch", "current_epoch",
        nothing.alias("in_epoch"), nothing.alias("first"),
        F.lit(0).alias("size"),
    )  # fmt: skip
    taken = facts.accepts.select(*names, "epoch", "in_epoch", "first", F.size("digests").alias("size"))
    rows = rows.unionByName(taken, allowMissingColumns=True)
    node = Window.partitionBy("run", "node").orderBy("at", "life", "line")
    earlier = node.rowsBetween(Window.unboundedPreceding, -1)
    where = ("node", "life", "line")
    is_boot = F.col("event") == "boot"
    promised = F.when(is_boot, F.col("accepted_epoch")).when(F.col("event") == "accepted_epoch", F.col("epoch"))
    joined = F.when(is_boot, F.col("current_epoch")).when(F.col("event") == "current_epoch", F.col("epoch"))
    phase = F.when(is_boot, F.lit("")).when(F.col("event") == "phase", F.col("phase"))

    def last(value: Column, of: str) -> Column:
        return F.last(F.when(value.isNotNull(), F.struct(value.alias("value"), *where)), True).over(earlier).alias(of)

    return rows.select(
        "*",
        last(promised, "p"),
        last(joined, "a"),
        F.last(phase, True).over(earlier).alias("in_phase"),
        F.last(F.when(is_boot, F.col("t")), True).over(earlier).alias("since"),
    )


def _epochs(facts: Facts, ledger: Ledger) -> Found:
    """Verifies that f.a <= f.p, that neither ever goes back, also not over a restart (unless the disk was lost, or a fault changed what
    it held), and that a follower in its broadcast phase accepts only under the epoch that it has promised last. Does not
    verify promises that were made and never traced."""
    del ledger
    held = promises(facts)
    boots = held.where("event = 'boot'")
    again = undamaged(boots.where("disk <> 'amnesiac' AND since IS NOT NULL"), facts)
    promise, joined = (
        held.where("event = 'accepted_epoch' AND p IS NOT NULL"),
        held.where("event = 'current_epoch' AND p IS NOT NULL"),
    )
    accepts = held.where("event = 'accept' AND p IS NOT NULL AND in_phase = 'BROADCAST'")
    of_p, of_a = [trace("p."), trace()], [trace("a."), trace()]
    return Found(
        [
            Violated(
                boots.where("current_epoch > accepted_epoch"),
                say("node {node} started with f.a = {current_epoch}, above f.p = {accepted_epoch}"),
                [trace()],
            ),
            Violated(
                again.where("accepted_epoch < p.value"),
                say("node {node} started with f.p = {accepted_epoch}, but its disk had held f.p = {p.value}"),
                of_p,
                LATER,
            ),
            Violated(
                again.where("current_epoch < a.value"),
                say("node {node} started with f.a = {current_epoch}, but its disk had held f.a = {a.value}"),
                of_a,
                LATER,
            ),
            Violated(
                promise.where("epoch < p.value"),
                say("node {node} promised epoch {epoch} after it had promised {p.value}"),
                of_p,
            ),
            Violated(
                joined.where("epoch < a.value"),
                say("node {node} joined epoch {epoch} after it had joined {a.value}"),
                of_a,
            ),
            Violated(
                joined.where("epoch > p.value"),
                say("node {node} joined epoch {epoch}, but had promised {p.value} only"),
                of_p,
            ),
            Violated(
                accepts.where("in_epoch <> p.value"),
                say(
                    "node {node} accepted {epoch}:{first} under epoch {in_epoch}, although it had promised epoch {p.value}"
                ),
                of_p,
            ),
        ],
        [Counted(boots), Counted(promise), Counted(joined), Counted(accepts)],
    )


EPOCHS = Property(
    name="epochs",
    source="DSN 2011",
    statement="f.a <= f.p, and neither goes back, also across lives.",
    find=_epochs,
    rests_on_absence=False,
)
