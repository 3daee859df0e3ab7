"""Metrics of recovery: the time to the next commit, elections, and how nodes catch up. Times are in seconds."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from zab_chaos.pipeline.tables import FOREVER, Rows, zxid

ELECTION = ("run", "node", "life", "epoch", "begin", "end")
JOIN = ("run", "node", "life", "epoch")


def recovery(rows: Rows) -> DataFrame:
    """Return one row per fault: `seconds` from its injection to the next new commit on any node (null if there was none);
    `stood_still`, the longest time until the next fault in which a write was waiting and none was served; `role` of the node that
    it hit: leader, follower, looking, or several if it hit more than one."""
    later = F.lead("t").over(Window.partitionBy("run").orderBy("line"))
    until = F.coalesce(later, F.lit(FOREVER)).alias("until")
    injects = rows.injects.select("run", "id", "do", "t", "nodes", "line", until)
    following = _new_commits(rows).join(F.broadcast(injects), "run").where("at > t")
    following = following.groupBy("run", "line").agg(F.min("at").alias("next"))
    roles = rows.nodes_hit.where("life = 'up' AND role <> ''").groupBy("run", "line").agg(
        F.when(F.count("*") > 1, F.lit("several"))
        .when(F.max("role") == "LEADING", F.lit("leader"))
        .when(F.max("role") == "FOLLOWING", F.lit("follower"))
        .otherwise(F.lit("looking"))
        .alias("role")
    )  # fmt: skip
    still = rows.pauses.join(F.broadcast(injects), "run").where("end > t AND begin < until")
    still = still.groupBy("run", "line").agg((F.max(F.col("end") - F.col("begin")) / 1e9).alias("stood_still"))
    found = injects
    for one in (following, roles, still):
        found = found.join(one, ["run", "line"], "left")
    return found.select(
        "run", "id", "do", "role", "nodes", ((F.col("next") - F.col("t")) / 1e9).alias("seconds"),
        F.coalesce("stood_still", F.lit(0.0)).alias("stood_still"),
    )  # fmt: skip


def _new_commits(rows: Rows) -> DataFrame:
    """Return `run` and `at`, the times at which any node delivered a transaction that none had delivered before."""
    earlier = Window.partitionBy("run").orderBy("t", "node").rowsBetween(Window.unboundedPreceding, -1)
    known = F.max("zlast").over(earlier).alias("known")
    batches = rows.deliveries.select("run", F.col("t").alias("at"), "zlast", known)
    return batches.where("known IS NULL OR zlast > known").select("run", "at")


def hits(rows: Rows) -> DataFrame:
    """Return one row per fault and node that it hit: `run`, `id`, `do`, `node`, and `was`, the node's role and phase at that
    moment, `starting` or `down`."""
    here = F.trim(F.concat_ws(" ", "role", "phase"))
    was = F.when(F.col("life") == "down", F.lit("down")).when(here == "", F.lit("starting")).otherwise(here)
    return rows.nodes_hit.select("run", "id", "do", "node", was.alias("was"))


def elections(rows: Rows) -> DataFrame:
    """Return one row per established epoch, at its leader: `seconds` since it began to look for a leader; `looking`, the part of
    them until it was LEADING; `rounds` in which it voted; `messages`, the votes that all nodes sent in that time (null if the
    traces have no counts)."""
    established = rows.event("established").select("run", "node", "life", "epoch", F.col("t").alias("end"))
    before = rows.events.where("event IN ('role', 'vote')").select(
        "run", "node", "life", "event", "role", "round", F.col("t").alias("at")
    )
    beside = established.join(before, ["run", "node", "life"]).where("at <= end")
    begin = F.max(F.when(F.col("role") == "LOOKING", F.col("at"))).over(Window.partitionBy(*JOIN, "end"))
    begun = beside.withColumn("begin", begin).groupBy(*ELECTION).agg(
        F.max(F.when(F.col("role") == "LEADING", F.col("at"))).alias("led"),
        F.expr("nullif(count(DISTINCT CASE WHEN at >= begin THEN round END), 0)").alias("rounds"),
    )  # fmt: skip
    return begun.join(_votes_sent(rows, begun), [*ELECTION], "left").select(
        "run", "node", "epoch", ((F.col("end") - F.col("begin")) / 1e9).alias("seconds"),
        ((F.col("led") - F.col("begin")) / 1e9).alias("looking"), "rounds", "messages",
    )  # fmt: skip


def _votes_sent(rows: Rows, begun: DataFrame) -> DataFrame:
    """Return the votes that all lives of a run sent from `begin` to `end`: the differences of their last counts. Nodes write their
    counts whenever their phase changes, so the votes of the nodes that took part in the election are complete."""
    votes = F.coalesce(F.col("messages")["VOTE"], F.lit(0))
    life = F.struct("node", "life").alias("who")
    counted = rows.event("work").select("run", life, F.col("t").alias("at"), votes.alias("sent"))
    sent = F.max_by("sent", "at") - F.coalesce(F.max_by("sent", F.when(F.expr("at <= begin"), F.col("at"))), F.lit(0))
    each = begun.join(counted, "run").where("at <= end").groupBy(*ELECTION, "who").agg(sent.alias("sent"))
    return each.groupBy(*ELECTION).agg(F.sum("sent").alias("messages"))


def catching_up(rows: Rows) -> DataFrame:
    """Return how each node got an epoch's initial history: `kind` (snapshot, truncation, difference or nothing), the number of
    `transactions` added to its log, the number that was `cut` off before, `bytes` of the snapshot, `seconds` since it began to
    follow."""
    at = F.col("t").alias("at")
    changes = rows.events.where(
        "event = 'truncate' OR (event = 'role' AND role <> 'LOOKING') OR (event = 'snapshot' AND kind = 'installed')"
    ).select("run", "node", "life", "event", at, "bytes")
    added = rows.accepts.select("run", "node", "life", "event", at, "size")
    steps = changes.unionByName(added, True).unionByName(_cut_off(rows), True)
    joins = rows.event("current_epoch").select(*JOIN, F.col("t").alias("end"))
    begin = F.max(F.when(F.col("event") == "role", F.col("at"))).over(Window.partitionBy(*JOIN, "end"))
    inside = joins.join(steps, ["run", "node", "life"]).where("at <= end")
    since = inside.withColumn("begin", begin).where("at >= begin")
    kind = (
        F.when(F.max(F.col("event") == "snapshot"), F.lit("snapshot"))
        .when(F.max(F.col("event") == "truncate"), F.lit("truncation"))
        .when(F.max(F.col("event") == "accept"), F.lit("difference"))
        .otherwise(F.lit("nothing"))
    )
    sums = {"transactions": "size", "cut": "cut", "bytes": "bytes"}
    return since.groupBy(*JOIN).agg(
        kind.alias("kind"),
        *(F.coalesce(F.sum(of), F.lit(0)).alias(name) for name, of in sums.items()),
        (F.max(F.col("end") - F.col("begin")) / 1e9).alias("seconds"),
    )


def _cut_off(rows: Rows) -> DataFrame:
    """Return `cut` for each truncation: the number of transactions in the node's log after the last one that it kept."""
    cuts = rows.event("truncate").select(
        "run", "node", "life", "event", F.col("t").alias("at"),
        F.expr(zxid("keep")).alias("kept"), F.expr(zxid("last")).alias("end"),
    )  # fmt: skip
    held = rows.accepts.select("run", "node", F.col("t").alias("accepted"), "zfirst", "zlast")
    inside = F.least("zlast", "end") - F.greatest("zfirst", F.col("kept") + 1) + 1
    cut_off = held.join(F.broadcast(cuts), ["run", "node"]).where("accepted < at AND zlast > kept AND zfirst <= end")
    return cut_off.groupBy("run", "node", "life", "event", "at").agg(F.sum(inside).alias("cut"))
