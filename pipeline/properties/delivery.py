"""The core properties of atomic broadcast (DSN 2011, section III-A): integrity, total order, agreement."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipeline.facts import ORDER, Facts, order
from pipeline.findings import Counted, Found, Property
from pipeline.ledger import Ledger
from pipeline.words import Sql, Violated, plain, say, show, span, trace, when


def delivered(facts: Facts) -> Counted:
    """How many transactions were delivered, each time that some node delivered one."""

    def make(facts: Facts) -> DataFrame:
        return facts.deliveries.groupBy("run").agg(F.sum(F.size("digests")).alias("number"))

    return Counted(facts.once("delivered", lambda it: it.keep(make(it))), "number")


def broadcast(facts: Facts) -> DataFrame:
    """One row a transaction that was broadcast, with who did it, as `b_...`."""
    rows = facts.broadcasts.select("run", *ORDER, "zfirst", F.posexplode("digests").alias("offset", "b_crc"))
    return rows.select(
        "run", (F.col("zfirst") + F.col("offset")).alias("z"), "b_crc", order().alias("b_order"),
        F.col("node").alias("b_node"), F.col("life").alias("b_life"), F.col("line").alias("b_line"),
    )  # fmt: skip


def _integrity(facts: Facts, ledger: Ledger) -> Found:
    """Holds every delivery that is not the ledger's already against what was broadcast before it. Does not verify bytes beyond
    their CRC-32, nor what a snapshot contains (state equality does)."""
    inside = F.slice("digests", (F.col("from") - F.col("zfirst") + 1).cast("int"), F.size("digests"))
    news = ledger.news.select("run", *ORDER, "from", F.posexplode(inside).alias("offset", "crc"))
    news = news.select("run", *ORDER, (F.col("from") + F.col("offset")).alias("z"), "crc")
    beside = news.join(broadcast(facts), ["run", "z"], "left")
    earlier = F.col("b_order") < order()
    same = F.coalesce(earlier & (F.col("b_crc") == F.col("crc")), F.lit(False))
    other = F.struct("b_order", "b_node", "b_life", "b_line", "b_crc")
    judged = beside.groupBy("run", "z", *ORDER, "crc").agg(
        F.max(same).alias("right"), F.min(F.when(earlier, other)).alias("b")
    )
    alien = judged.where("NOT right").groupBy("run", *ORDER).agg(F.min(F.struct("z", "crc", "b")).alias("it"))
    rows = alien.select("run", *ORDER, "it.z", "it.crc", "it.b.*")
    words = when(
        "b_line IS NULL",
        say("node {node} delivered ", show("z"), " (digest {crc}), which nobody had broadcast"),
        say(
            "node {node} delivered ", show("z"), " with digest {crc}, but node {b_node}, the primary, had broadcast it "
            "with digest {b_crc}",
        ),
    )  # fmt: skip
    return Found([Violated(rows, words, [trace("b_"), trace()])], [delivered(facts)])


def _conflicts(ledger: Ledger, *kinds: str) -> DataFrame:
    """Conflicts of these kinds, with `a_...`: who had put the ledger's transaction (at `l_after`'s successor) there."""
    rows = ledger.compared.conflicts.where(F.col("kind").isin(*kinds))
    author = ledger.slices.select(
        "run", F.col("top").alias("a_top"), F.col("from").alias("a_from"), F.col("zlast").alias("a_to"),
        F.col("node").alias("a_node"), F.col("life").alias("a_life"), F.col("line").alias("a_line"),
        F.col("digests").alias("a_digests"), F.col("zfirst").alias("a_first"),
    )  # fmt: skip
    # `again`: the slice of the transaction itself. Else the ledger's next transaction after the place where the node stood,
    # which lies in the first slice that ends beyond it; and if none does, the ledger's last.
    beside = (
        F.broadcast(rows)
        .join(author, "run")
        .where("CASE WHEN kind = 'again' THEN z BETWEEN a_from AND a_to ELSE a_to > stood OR l_after IS NULL END")
    )
    names = ("a_from", "a_top", "a_node", "a_life", "a_line", "a_to", "a_first", "a_digests")
    next_ = F.min(F.when((F.col("kind") == "again") | (F.col("a_to") > F.col("stood")), F.struct(*names)))
    end = F.max(F.struct(*names))
    found = beside.groupBy("run", *ORDER, "kind", "z", "crc", "stood", "l_after", "l_order").agg(
        F.coalesce(next_, end).alias("a"), next_.isNull().alias("at_end")
    )
    return found.select("run", *ORDER, "kind", "z", "crc", "stood", "l_after", "l_order", "a.*", "at_end")


def _total_order(facts: Facts, ledger: Ledger) -> Found:
    """Verifies that a node neither skips a transaction of the ledger nor goes back in it, except that a restart delivers again, from
    the beginning or from a snapshot. Does not verify transactions that are not in the ledger; agreement does."""
    rows = _conflicts(ledger, "skipped", "again")
    skipped = say(
        "node {node} delivered ", show("z"), " without ", span(Sql("greatest(stood + 1, a_from)"), "l_after"),
        ", which node {a_node} had delivered before it",
    )  # fmt: skip
    again = say(
        "node {node} delivered ", show("z"), " again, out of order and without a restart: it had already delivered up to ",
        show("stood"),
    )  # fmt: skip
    words = when("kind = 'skipped'", skipped, again)
    return Found([Violated(rows, words, [trace("a_"), trace()])], [delivered(facts)])


def _agreement(facts: Facts, ledger: Ledger) -> Found:
    """Verifies that a node never delivers, where the ledger has a transaction, one that the ledger does not have (or has with other
    bytes). Each node is compared with the longest sequence, which compares all pairs. Does not verify that everybody arrives
    at the end of the ledger; reliable delivery does."""
    rows = _conflicts(ledger, "other", "bytes")
    at = when("at_end", Sql("a_to"), Sql("greatest(stood + 1, a_from)"))
    there = Sql(f"a_digests[CAST({at} - a_first AS int)]")
    words = say(
        "node {node} delivered ", show("z"), " (digest {crc}) after ", show("stood"),
        ", but node {a_node} had delivered ", show(at), " (digest ", there, ") ",
        when("at_end", plain("last"), plain("there")),
    )  # fmt: skip
    return Found([Violated(rows, words, [trace("a_"), trace()])], [delivered(facts)])


INTEGRITY = Property(
    name="integrity",
    source="DSN 2011",
    statement="What is delivered was broadcast by the primary of its epoch, with the same bytes.",
    find=_integrity,
)
TOTAL_ORDER = Property(
    name="total order",
    source="DSN 2011",
    statement="If a is delivered before b somewhere, then wherever b is delivered, a was delivered before it.",
    find=_total_order,
)
AGREEMENT = Property(
    name="agreement",
    source="DSN 2011",
    statement="Of any two delivered sequences one is a prefix of the other.",
    find=_agreement,
)
