"""Primary order (DSN 2011, section III-A): local, global, primary integrity, and one leader an epoch."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from pipeline.facts import ORDER, Facts, order
from pipeline.findings import Counted, Found, Property
from pipeline.ledger import Ledger
from pipeline.properties.delivery import broadcast, delivered
from pipeline.words import Sql, Violated, counter_of, epoch_of, say, show, span, trace, when


def leaps(facts: Facts, ledger: Ledger) -> DataFrame:
    """Deliveries that do not begin with the zxid after the node's last one; `expected`: the counter that was next in their epoch."""
    same = epoch_of("before") == F.col("epoch")
    found = ledger.steps.where("kind = 'deliver' AND zfirst <> before + 1").select(
        "run", *ORDER, "epoch", "zfirst", "before",
        F.when(same, counter_of("before") + 1).otherwise(F.lit(1)).alias("expected"),
        (F.col("epoch") < epoch_of("before")).alias("older"),
    )  # fmt: skip
    return facts.once("leaps", lambda it: it.keep(found, rare=True))


def primaries(facts: Facts) -> DataFrame:
    """One row a process that broadcast in an epoch: its first broadcast, and what it had delivered by then."""
    first = F.min_by(F.struct(*ORDER, "zfirst", "done"), order()).alias("it")
    found = facts.broadcasts.groupBy("run", "epoch", F.col("node").alias("of"), F.col("life").alias("in")).agg(first)
    return facts.once("primaries", lambda it: it.keep(found.select("run", "epoch", "it.*")))


def named(frame: DataFrame, prefix: str, *names: str) -> DataFrame:
    """A frame's `run`, its order as `<prefix>order`, and these columns with the prefix."""
    kept = [F.col(name).alias(f"{prefix}{name}") for name in dict.fromkeys((*ORDER, *names))]
    return frame.select("run", order().alias(f"{prefix}order"), *kept)


def _local(facts: Facts, ledger: Ledger) -> Found:
    """Verifies for all pairs that a primary broadcasts counters 1, 2, 3, ..., and that a node delivers an epoch's counters in that
    order, from 1 on, without a gap. Does not verify which epochs follow each other."""
    own = Window.partitionBy("run", "epoch", "node", "life").orderBy("at", "line")
    earlier = own.rowsBetween(Window.unboundedPreceding, -1)
    sent = facts.broadcasts.select(
        "*",
        (counter_of(F.coalesce(F.max("zlast").over(earlier), F.lit(0))) + 1).alias("next"),
        F.lag("line").over(own).alias("b_line"),
        F.col("node").alias("b_node"),
        F.col("life").alias("b_life"),
    ).where("first <> next")
    again = say("node {node} broadcast {epoch}:{first} again")
    beyond = say("node {node} broadcast {epoch}:{first} where {epoch}:{next} was next")
    odd = Violated(sent, when("first < next", again, beyond), [trace("b_"), trace()])

    gaps = leaps(facts, ledger).where("NOT older AND zfirst <> shiftleft(epoch, 32) + expected")
    gaps = gaps.withColumn("z", F.shiftleft("epoch", 32) + F.col("expected")).join(
        broadcast(facts), ["run", "z"], "left"
    )
    gaps = gaps.groupBy("run", *ORDER, "epoch", "zfirst", "before", "z").agg(
        F.min(F.when(F.col("b_order") < order(), F.struct("b_order", "b_node", "b_life", "b_line"))).alias("b")
    )
    gaps = gaps.select("run", *ORDER, "epoch", "zfirst", "before", "z", "b.*")
    after = say("node {node} delivered ", show("zfirst"), " after ", show("before"))
    without = say(after, ", without ", span("z", Sql("zfirst - 1")), " of the same epoch")
    refs = [when("zfirst < z", Sql("NULL"), trace("b_")), trace()]
    return Found([odd, Violated(gaps, when("zfirst < z", after, without), refs)], [delivered(facts)])


def _global(facts: Facts, ledger: Ledger) -> Found:
    """Verifies that epochs never go back in the sequence that a node delivers in one life. Does not verify the order within an
    epoch."""
    words = say("node {node} delivered ", show("zfirst"), " of epoch {epoch} after ", show("before"))
    back = Violated(leaps(facts, ledger).where("older"), words, [trace()])
    return Found([back], [delivered(facts)])


def _integrity(facts: Facts, ledger: Ledger) -> Found:
    """Verifies, with the `delivered` field of the primary's first `broadcast` in e, that nobody had delivered a later transaction of
    an older epoch by then, and that nobody ever does afterwards; and that the epoch had been established (ready(e), step
    l.2.2) before. Does not verify that the field is true."""
    first = primaries(facts)
    established = facts.event("established").select(
        "run", "epoch", "node", "life", order().alias("e_order"), F.lit(True).alias("ready")
    )
    early = first.join(established, ["run", "epoch", "node", "life"], "left").groupBy(
        "run", "epoch", *ORDER, "zfirst", "done"
    ).agg(F.max(F.coalesce(F.col("e_order") < order(), F.lit(False))).alias("ready")).where("NOT ready")  # fmt: skip
    words = say("node {node} broadcast ", show("zfirst"), " before it was established for epoch {epoch}")
    found = [Violated(early, words, [trace()])]

    older = named(ledger.slices, "d_", "from", "zlast")
    behind = (
        F.broadcast(first)
        .join(older, "run")
        .where(
            (F.col("d_order") < order()) & (epoch_of("d_zlast") < F.col("epoch")) & (F.col("d_zlast") > F.col("done"))
        )
    )
    behind = behind.groupBy("run", *ORDER, "zfirst", "done").agg(
        F.min(F.struct("d_from", "d_node", "d_life", "d_line")).alias("d"), F.max("d_zlast").alias("to")
    ).select("run", *ORDER, "zfirst", "done", "d.*", "to")  # fmt: skip
    words = say(
        "node {node} broadcast ", show("zfirst"), " when it had delivered up to ", show("done"),
        " only, but node {d_node} had delivered ", span(Sql("greatest(d_from, done + 1)"), "to"),
    )  # fmt: skip
    found.append(Violated(behind, words, [trace("d_"), trace()]))

    later = F.broadcast(named(first, "b_", "epoch", "done"))
    after = ledger.news.join(later, "run").where(
        (F.col("b_order") < order()) & (F.col("b_epoch") > F.col("epoch")) & (F.col("b_done") < F.col("zlast"))
    )
    after = after.groupBy("run", *ORDER, "zlast").agg(
        F.min(F.struct("b_epoch", "b_order", "b_node", "b_life", "b_line", "b_done")).alias("b")
    ).select("run", *ORDER, "zlast", "b.*")  # fmt: skip
    words = say(
        "node {node} delivered ", show("zlast"), ", but node {b_node} had broadcast in epoch {b_epoch} after it had "
        "delivered up to ", show("b_done"), " only",
    )  # fmt: skip
    found.append(Violated(after, words, [trace("b_"), trace()]))
    return Found(found, [Counted(first)])


def _one_leader(facts: Facts, ledger: Ledger) -> Found:
    """Verifies that an epoch is established at most once, by one life of one node, and that only that one broadcasts in it. Does
    not verify how many believe to be a candidate: elections need not be safe."""
    del ledger
    established = facts.event("established").select("run", "epoch", *ORDER)
    words = say(
        "node {node} (life {life}) was established for epoch {epoch}, as node {o_node} (life {o_life}) had been"
    )
    twice = Violated(_not_first(established), words, [trace("o_"), trace()])
    words = say("node {node} (life {life}) broadcast in epoch {epoch}, as node {o_node} (life {o_life}) had done")
    both = Violated(_not_first(primaries(facts)), words, [trace("o_"), trace()])
    return Found([twice, both], [Counted(established), Counted(facts.broadcasts)])


def _not_first(frame: DataFrame) -> DataFrame:
    """All but the first row of each run and epoch, beside the first one as `o_...`."""
    epoch = Window.partitionBy("run", "epoch").orderBy(*ORDER)
    names = ("node", "life", "line")
    beside = [F.first(name).over(epoch).alias(f"o_{name}") for name in names]
    return frame.select("*", *beside, F.row_number().over(epoch).alias("place")).where("place > 1")


LOCAL_ORDER = Property(
    name="local primary order",
    source="DSN 2011",
    statement="Within an epoch, delivery follows the order of broadcast, without gaps, for all pairs.",
    find=_local,
)
GLOBAL_ORDER = Property(
    name="global primary order",
    source="DSN 2011",
    statement="Epochs never go back in a delivered sequence.",
    find=_global,
    rests_on_absence=False,
)
INTEGRITY = Property(
    name="primary integrity",
    source="DSN 2011",
    statement="Before its first broadcast, the primary of e has delivered all that anyone delivers of epochs before e.",
    find=_integrity,
)
ONE_LEADER = Property(
    name="one leader an epoch",
    source="DSN 2011",
    statement="At most one process is ever established for an epoch.",
    find=_one_leader,
    rests_on_absence=False,
)
