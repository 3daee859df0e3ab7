"""Equal histories make equal states (LADIS 2008, section 2: digests as sanity checks)."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from pipeline.facts import ORDER, Facts, order
from pipeline.findings import Counted, Found, Property
from pipeline.ledger import Ledger
from pipeline.words import Sql, Violated, packed, say, show, trace, when

EMPTY = 0xCBF29CE484222325 - 2**64  # the running digest of an empty history; Spark's numbers are signed
PRIME = 0x100000001B3


def number(digest: str | Column) -> Column:
    """16 hexadecimal digits as a 64-bit number."""
    column = F.col(digest) if isinstance(digest, str) else digest
    high, low = (F.conv(F.substring(column, start, 8), 16, 10).cast("bigint") for start in (1, 9))
    return F.shiftleft(high, 32).bitwiseOR(low)


def shown(digest: Column) -> Column:
    """A 64-bit number as 16 hexadecimal digits."""
    return F.lower(F.lpad(F.hex(digest), 16, "0"))


def _reports(facts: Facts, ledger: Ledger) -> DataFrame:
    """Where a node said which state it is in: `z`, the `digest` of its history there, and its tree's."""
    names = ("run", *ORDER, "z", "digest", "tree", "from_boot")
    delivered = facts.deliveries.select("*", F.col("zlast").alias("z"), F.lit(False).alias("from_boot"))
    snapshots = facts.event("snapshot").select("*", packed("zxid").alias("z"), F.lit(False).alias("from_boot"))
    boots = facts.boots.withColumn("z", F.col("began")).withColumn("from_boot", F.lit(True))
    return delivered.select(*names).unionAll(snapshots.select(*names)).unionAll(boots.select(*names))


def _histories(facts: Facts, reports: DataFrame, ledger: Ledger) -> tuple[DataFrame, DataFrame]:
    """Reports of points of the ledger; and those whose digest is not that of the history up to there, with `expected`.

    A slice of the ledger begins where the one before it ended, with the digest that its deliverer reported there. If each report
    follows from the one before it, all are right, by induction; so each is held against that, in parallel. Behind a run's first
    wrong one nothing follows any more: what comes after it in the ledger is not held against it.
    """
    run = Window.partitionBy("run").orderBy("from")
    slices = ledger.slices.select(
        "run", "from", "zfirst", "digests", "digest", order().alias("s_order"),
        *(F.col(name).alias(f"s_{name}") for name in ("node", "life", "line")),
        F.coalesce(number(F.lag("digest").over(run)), F.lit(EMPTY)).alias("start"),
    ).drop("digest")  # fmt: skip
    at = ledger.transactions.select("run", "z", "from", order().alias("t_order"))
    said = reports.where("digest IS NOT NULL")
    placed = said.where("z <> 0").join(at, ["run", "z"]).where(F.col("t_order") <= order())
    points = placed.groupBy("run", "z", "from", "digest").agg(
        F.min(F.struct(*ORDER)).alias("it"), F.count("*").alias("times")
    )
    fresh = F.expr("slice(digests, cast(from - zfirst + 1 AS int), cast(z - from + 1 AS int))")
    fold = F.expr(
        f"aggregate(fresh, named_struct('d', start, 'z', from), (so, it) -> named_struct("
        f"'d', ((so.d ^ so.z) * {PRIME}L ^ it) * {PRIME}L, 'z', so.z + 1), so -> so.d)"
    )
    held = points.join(slices, ["run", "from"]).withColumn("fresh", fresh).withColumn("expected", shown(fold))
    wrong = held.where("digest <> expected").select(
        "run", "z", "digest", "expected", "s_order", "s_node", "s_life", "s_line"
    )
    wrong = facts.keep(placed.drop("from").join(F.broadcast(wrong), ["run", "z", "digest"]), rare=True)
    broken = wrong.where(F.struct(*ORDER) == F.col("s_order")).groupBy("run").agg(F.min("z").alias("until"))
    wrong = wrong.join(F.broadcast(broken), "run", "left").where("until IS NULL OR z <= until")
    empty = said.where("z = 0").select("run", *ORDER, "z", "digest", F.lit(f"{EMPTY % 2**64:016x}").alias("expected"))
    empty = empty.where("digest <> expected")
    sound = placed.select("run").unionAll(said.where("z = 0").select("run"))
    return sound, wrong.unionByName(empty, allowMissingColumns=True)


def _state(facts: Facts, ledger: Ledger) -> Found:
    """Verifies that the running digest which a node reports at a zxid is the one of the history delivered up to there; that the tree's
    digest at a zxid is the same wherever it is reported; and that a snapshot holds nothing but delivered transactions. Does not
    compare trees at zxids that only one node reported, nor trees whose digests collide."""
    reports = facts.keep(_reports(facts, ledger))
    histories, wrong = _histories(facts, reports, ledger)
    words = say(
        "node {node} has digest {digest} at ", show("z"), ", but the history delivered up to there has {expected}"
    )
    own = f"struct({', '.join(ORDER)}) = s_order"
    found = [Violated(wrong, words, [when(own, Sql("NULL"), trace("s_")), trace()])]
    trees = reports.where("tree IS NOT NULL")
    differ = trees.groupBy("run", "z").agg(
        F.min(F.struct(*ORDER, "tree")).alias("o"), F.min("tree").alias("least"), F.max("tree").alias("most")
    ).where("least <> most").select("run", "z", "o")  # fmt: skip
    odd = trees.join(F.broadcast(differ), ["run", "z"]).where("tree <> o.tree")
    words = say("at ", show("z"), " the tree of node {node} has digest {tree}, but that of node {o.node} has {o.tree}")
    found.append(Violated(odd, words, [trace("o."), trace()]))

    words = say("node {node} restored a snapshot at ", show("z"), ", which is no point of the delivered history")
    unknown = ledger.compared.unknown
    found.append(Violated(unknown, words, [trace()]))

    dirty = _taken(facts, ledger).where("z > done")
    words = say(
        "node {node} took a snapshot at ", show("z"), " when it had delivered up to ", show("done"),
        ": the snapshot holds what was not committed",
    )  # fmt: skip
    found.append(Violated(dirty, words, [trace()]))
    return Found(found, [Counted(histories), Counted(trees), Counted(unknown)])


def _taken(facts: Facts, ledger: Ledger) -> DataFrame:
    """Snapshots that a node took of itself, with `done`: what it had delivered by then."""
    names = ("run", *ORDER)
    none = F.lit(None).cast("bigint")
    taken = facts.event("snapshot").where("kind = 'taken'").select(*names, packed("zxid").alias("z"), none.alias("to"))
    mine = taken.select("run", "node").distinct()
    steps = ledger.steps.join(F.broadcast(mine), ["run", "node"], "left_semi")
    both = steps.select(*names, none.alias("z"), F.col("zlast").alias("to")).unionAll(taken)
    node = Window.partitionBy("run", "node").orderBy("at", "life", "line")
    done = F.coalesce(F.last("to", True).over(node), F.lit(0)).alias("done")
    return both.select("*", done).where("z IS NOT NULL")


STATE_EQUALITY = Property(
    name="state equality",
    source="LADIS 2008",
    statement="Nodes that have delivered up to the same zxid have the same digests of history and tree.",
    find=_state,
)
