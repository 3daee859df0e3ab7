"""What ZooKeeper asked of its broadcast (LADIS 2008, section 2): prefix, causal order, reliable delivery."""

from pyspark.sql import functions as F

from pipeline.facts import ORDER, Facts, order
from pipeline.findings import Counted, Found, Property
from pipeline.ledger import Ledger
from pipeline.properties.delivery import broadcast, delivered
from pipeline.properties.primary import leaps
from pipeline.standing import beyond, up
from pipeline.words import Sql, Violated, plain, ref, say, show, span, trace, when


def _prefix(facts: Facts, ledger: Ledger) -> Found:
    """Verifies, for each node and each epoch, that what it delivered of what was broadcast in the epoch is a prefix. Does not verify
    the order (local primary order), nor that the rest of what a leader proposed is ever delivered."""
    missing = F.shiftleft("epoch", 32) + F.col("expected")
    gaps = leaps(facts, ledger).where("NOT older").withColumn("z", missing).where("zfirst > z")
    gaps = gaps.join(broadcast(facts), ["run", "z"]).where(F.col("b_order") < order())
    gaps = gaps.groupBy("run", *ORDER, "zfirst", "z").agg(
        F.min(F.struct("b_order", "b_node", "b_life", "b_line")).alias("b")
    )
    rows = gaps.select("run", *ORDER, "zfirst", "z", "b.*")
    words = say(
        "node {node} delivered ", show("zfirst"), ", but not ", span("z", Sql("zfirst - 1")),
        ", which the leader, node {b_node}, had proposed before it",
    )  # fmt: skip
    return Found([Violated(rows, words, [trace("b_"), trace()])], [delivered(facts)])


def _causal(facts: Facts, ledger: Ledger) -> Found:
    """Verifies that each life of each node delivers in strictly ascending order of zxids, and that a leader's proposals come after
    everything it had delivered: both of the paper's causal relations are the order of zxids. Does not verify causality
    through clients that talk to each other outside."""
    words = say(
        "node {node} broadcast ", show("zfirst"), " after it had delivered ", show("done"), ", which follows it"
    )
    early = Violated(facts.broadcasts.where("done >= zfirst"), words, [trace()])
    words = say("node {node} delivered ", show("zfirst"), " after ", show("before"), ", which it precedes")
    back = Violated(leaps(facts, ledger).where("zfirst <= before"), words, [trace()])
    return Found([early, back], [delivered(facts)])


def _reliable(facts: Facts, ledger: Ledger) -> Found:
    """Verifies, after everything was healed, that each node that is up at the end has, in its last life, delivered everything that
    anyone had delivered by the time the run was settled. Does not verify servers that are down at the end, nor how fast it
    went; recovery does."""
    settled = facts.timeline.where("settled IS NOT NULL").select("run", "settled")
    slices = ledger.slices.join(F.broadcast(settled), "run").where("at <= settled.t")
    target = slices.groupBy("run").agg(F.max("zlast").alias("target"))
    here = up(facts).join(F.broadcast(settled), "run").join(ledger.places, ["run", "node"], "left")
    here = facts.keep(here.fillna(0, ["reached", "last"]).fillna(False, ["diverged"]))
    behind = here.join(target, "run").where("reached < target")
    author = slices.select(
        "run", F.col("from").alias("a_from"), F.col("zlast").alias("a_to"),
        *(F.col(name).alias(f"a_{name}") for name in ("node", "life", "line")),
    )  # fmt: skip
    beside = behind.join(author, "run").where("a_to > reached")
    rows = beside.groupBy("run", "node", "life", "line", "reached", "last", "diverged", "target", "settled").agg(
        F.min(F.struct("a_from", "a_node", "a_life", "a_line")).alias("a")
    ).select("*", "a.*")  # fmt: skip
    words = say(
        "node {a_node} delivered ", span(Sql("greatest(a_from, reached + 1)"), "target"),
        ", but node {node}, up at the end, has delivered up to ", show("last"), " only",
        when("diverged", plain(", on another path"), plain("")),
    )  # fmt: skip
    refs = [trace("a_"), trace(), ref("harness.jsonl", "settled.line")]
    words_ = "the run has neither `converged` nor `not-converged`"
    return Found(
        [Violated(rows, words, refs, "node")],
        [Counted(here)],
        [facts.timeline.where("settled IS NULL").select("run", F.lit(words_).alias("words"))],
        [beyond(facts).select("run", F.lit("a quorum of disks was lost").alias("words"))],
    )


PREFIX = Property(
    name="prefix",
    source="LADIS 2008",
    statement="What is delivered of a leader's proposals is a prefix of them.",
    find=_prefix,
)
CAUSAL_ORDER = Property(
    name="causal order",
    source="LADIS 2008",
    statement="If a causally precedes b and both are delivered, a is delivered before b.",
    find=_causal,
    rests_on_absence=False,
)
RELIABLE_DELIVERY = Property(
    name="reliable delivery",
    source="LADIS 2008",
    statement="After healing, what one node delivered is delivered by every node that is up.",
    find=_reliable,
)
