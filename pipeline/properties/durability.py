"""What was acknowledged or delivered stays (LADIS 2008, section 2; Remix, EuroSys 2025)."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, LongType

from pipeline.facts import ORDER, Facts, order
from pipeline.findings import Counted, Found, Property
from pipeline.ledger import Ledger
from pipeline.properties.epochs import undamaged
from pipeline.properties.primary import named
from pipeline.standing import beyond, up
from pipeline.words import LATER, Sql, Violated, epoch_of, packed, ref, say, show, span, trace


def _durability(facts: Facts, ledger: Ledger) -> Found:
    """Verifies that every acknowledged write's transaction was delivered somewhere, and is part of the history of every node that is
    up to date at the end. If the run converged, that is every node that is up. If not, it is a node that stands at the end of
    the ledger, has left it, or takes part in an epoch later than the write's. Does not verify writes whose answer was
    "unknown", nor what the write did."""
    author = [F.col(name).alias(f"d_{name}") for name in ("node", "life", "line")]
    held = ledger.transactions.select("run", "z", *author)
    writes = facts.acked.join(held, ["run", "z"], "left")
    said = say("the write of client {client}, seq {seq} (", show("z"), ") was acknowledged")
    words = say(said, ", but no node ever delivered it")
    nowhere = Violated(writes.where("d_line IS NULL"), words, [ref("ops.jsonl", "line")], "t")

    ends = ledger.slices.groupBy("run").agg(F.max("zlast").alias("end"))
    milestones = facts.timeline.select("run", "settled", F.col("converged").isNotNull().alias("all"))
    nodes = up(facts).join(ledger.places, ["run", "node"], "left").join(milestones, "run").join(ends, "run")
    current = (
        F.col("all")
        | F.coalesce("diverged", F.lit(False))
        | (F.coalesce("reached", F.lit(0)) == F.col("end"))
        | (F.col("phase") == "BROADCAST")
    )
    # Of most nodes nothing is missing: they reached the end of the ledger without a hole.
    lacking = (F.coalesce("reached", F.lit(0)) < F.col("end")) | (F.size("holes") > 0)
    nodes = nodes.where(current & lacking).select(
        "run", F.col("node").alias("n_node"), F.col("life").alias("n_life"), F.col("line").alias("n_line"), "settled",
        "all", "end", "phase", F.col("epoch").alias("n_epoch"), F.coalesce("reached", F.lit(0)).alias("reached"),
        F.coalesce("diverged", F.lit(False)).alias("diverged"), "holes",
    )  # fmt: skip
    hole = F.exists("holes", lambda it: (F.col("z") > it["after"]) & (F.col("z") < it["before"]))
    missing = (F.col("z") > F.col("reached")) | F.coalesce(hole, F.lit(False))
    due = F.col("settled").isNull() | (F.col("t") <= F.col("settled.t"))
    newer = (F.col("phase") == "BROADCAST") & (F.col("n_epoch") > epoch_of("z"))
    stands = F.col("all") | F.col("diverged") | (F.col("reached") == F.col("end")) | newer
    without = writes.where("d_line IS NOT NULL").join(F.broadcast(nodes), "run").where(missing & due & stands)
    rows = without.groupBy("run", "client", "seq", "line", "t", "z", "d_node", "d_life", "d_line").agg(
        F.array_sort(F.collect_list(F.struct("n_node", "n_life", "n_line"))).alias("n")
    )
    names = Sql("array_join(transform(n, it -> concat('node ', it.n_node)), ' and ')")
    starts = Sql(f"transform(n, it -> {trace('it.n_')})")
    words = say(said, ", but ", names, ", up to date at the end, never delivered it")
    gone = Violated(rows, words, [ref("ops.jsonl", "line"), trace("d_")], "t", starts)
    spared = beyond(facts).select("run", F.lit("a quorum of disks was lost").alias("words"))
    return Found([nowhere, gone], [Counted(facts.acked)], spared=[spared])


def _stays(facts: Facts, ledger: Ledger) -> Found:
    """Verifies against the ledger of everything ever delivered, which survives all crashes: no truncation cuts into it; whoever is
    established for an epoch has all of it (of older epochs) in the initial history; and a node's own disk still holds after a
    restart what the node had delivered, unless a fault took or changed it. Does not verify which transactions an initial
    history contains, only where it ends; agreement does, once they are delivered."""
    last = packed(F.from_json("last", ArrayType(LongType())))
    cuts = facts.event("truncate").select("run", *ORDER, packed("keep").alias("low"), last.alias("high"))
    starts = facts.event("established").select("run", *ORDER, "epoch", packed("last_zxid").alias("low"))
    starts = starts.withColumn("high", F.shiftleft("epoch", 32) - 1)

    words = say(
        "node {node} truncated its log from ", show("high"), " to ", show("low"), ", but node {d_node} had delivered ",
        span("d_from", "d_to"),
    )  # fmt: skip
    found = [Violated(_inside(cuts, ledger), words, [trace("d_"), trace()])]
    words = _incomplete("", "d_node", span("d_from", "d_to"))
    found.append(Violated(_inside(starts, ledger), words, [trace("d_"), trace()]))

    older = F.broadcast(named(starts, "e_", "epoch", "low"))
    after = ledger.news.join(older, "run").where(
        (F.col("e_order") < order()) & (F.col("e_epoch") > F.col("epoch")) & (F.col("e_low") < F.col("zlast"))
    )
    after = after.groupBy("run", *ORDER, "zlast").agg(
        F.min(F.struct("e_order", "e_node", "e_life", "e_line", "e_epoch", "e_low")).alias("e")
    ).select("run", *ORDER, "zlast", "e.*")  # fmt: skip
    words = _incomplete("e_", "node", show("zlast"))
    found.append(Violated(after, words, [trace(), trace("e_")]))

    forgotten = undamaged(_forgotten(facts), facts)
    words = say(
        "node {node} started with a log that ends at ", show("held"), ", but on this disk it had delivered up to ",
        show("d_z"),
    )  # fmt: skip
    found.append(Violated(forgotten, words, [trace("d_"), trace()], LATER))
    return Found(found, [Counted(frame) for frame in (cuts, starts, ledger.news, facts.boots)])


def _incomplete(whose: str, by: str, what: Sql) -> Sql:
    start = f"node {{{whose}node}} was established for epoch {{{whose}epoch}} with a history that ends at "
    return say(start, show(f"{whose}low"), f", but node {{{by}}} delivered ", what)


def _inside(marks: DataFrame, ledger: Ledger) -> DataFrame:
    """Marks (events with `low` and `high`) above whose `low`, up to `high`, the ledger had something by then: its first and last
    zxid there as `d_from` and `d_to`, and who delivered the first."""
    held = named(ledger.slices, "d_", "from", "zlast")
    beside = held.join(F.broadcast(marks), "run").where(
        (F.col("d_order") < order()) & (F.col("d_zlast") > F.col("low")) & (F.col("d_from") <= F.col("high"))
    )
    first = F.struct(F.greatest("d_from", F.col("low") + 1).alias("d_from"), "d_node", "d_life", "d_line")
    rows = beside.groupBy("run", *marks.columns[1:]).agg(
        F.min(first).alias("d"), F.max(F.least("d_zlast", "high")).alias("d_to")
    )
    return rows.select("run", *marks.columns[1:], "d.*", "d_to")


def _forgotten(facts: Facts) -> DataFrame:
    """Starts with a log that ends before what the node had delivered on this disk. Each node's lives are walked through in order:
    an empty disk, and a log that is too short, make what was delivered before them void for the lives that follow."""
    tops = facts.deliveries.groupBy("run", "node", "life").agg(
        F.max_by(F.struct(F.col("zlast").alias("z"), "life", "line"), F.struct("zlast", "at", "line")).alias("top")
    )
    starts = facts.boots.join(tops, ["run", "node", "life"], "left").select(
        "run",
        "node",
        F.struct(*ORDER, "t", "held", F.col("disk").isin("fresh", "amnesiac").alias("empty"), "top").alias("it"),
    )
    lives = starts.groupBy("run", "node").agg(F.array_sort(F.collect_list("it")).alias("lives"))
    step = """aggregate(lives, named_struct('top', cast(null AS struct<z:bigint,life:int,line:int>), 'since', cast(null AS bigint),
        'found', cast(array() AS array<struct<at:bigint,node:int,life:int,line:int,t:bigint,held:bigint,since:bigint,
            d_z:bigint,d_life:int,d_line:int>>)),
        (so, it) -> named_struct(
            'top', CASE WHEN it.empty OR it.held < so.top.z OR so.top IS NULL THEN it.top
                        WHEN it.top IS NULL OR it.top.z < so.top.z THEN so.top ELSE it.top END,
            'since', it.t,
            'found', CASE WHEN NOT it.empty AND it.held < so.top.z
                THEN concat(so.found, array(named_struct('at', it.at, 'node', it.node, 'life', it.life, 'line', it.line,
                    't', it.t, 'held', it.held, 'since', so.since,
                    'd_z', so.top.z, 'd_life', so.top.life, 'd_line', so.top.line)))
                ELSE so.found END))"""
    found = lives.select("run", F.explode(F.expr(step)["found"]).alias("it")).select("run", "it.*")
    return found.withColumn("d_node", F.col("node"))


DURABILITY = Property(
    name="durability",
    source="LADIS 2008",
    statement="Every write that a client saw succeed is delivered by every node that is up to date at the end.",
    find=_durability,
)
STAYS = COMMITTED_STAYS = Property(
    name="committed stays",
    source="Remix",
    statement="What was ever delivered is never truncated, never missing in a new epoch's history, never forgotten.",
    find=_stays,
    rests_on_absence=False,
)
