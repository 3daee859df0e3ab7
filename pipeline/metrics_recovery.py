"""How the ensemble gets over a fault: the time to the next commit, the elections, and how nodes catch up. Times are seconds."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, LongType

from pipeline import columns as c
from pipeline.facts import KILLS, Facts
from pipeline.frames import together
from pipeline.ledger import Ledger
from pipeline.properties.epochs import promises
from pipeline.unavailability import windows

FOREVER = 2**62
ELECTION = ("run", "node", "life", "epoch", "begin", "end")
JOIN = ("run", "node", "life", "epoch")


def recovery(facts: Facts, ledger: Ledger) -> DataFrame:
    """For each fault the `seconds` from its injection to the next new commit anywhere (null if there was none); `stood_still`, the
    longest time until the next fault in which writes were due and none succeeded; the `role` of what it hit: leader, follower, several."""
    later = F.lead("t").over(Window.partitionBy("run").orderBy("line"))
    injects = facts.faults.where("type = 'inject'").select(
        "run", "id", "do", "t", "nodes", "line", F.coalesce(later, F.lit(FOREVER)).alias("until")
    )
    growth = ledger.slices.select("run", "at")
    following = (
        growth.join(F.broadcast(injects), "run").where("at > t").groupBy("run", "line").agg(F.min("at").alias("next"))
    )
    roles = facts.event("role").select("run", "node", "at", "role")
    hit = injects.select("run", "line", "t", F.explode("nodes").alias("node")).join(roles, ["run", "node"])
    then = hit.where("at <= t").groupBy("run", "line", "node").agg(F.max_by("role", "at").alias("role"))
    then = then.groupBy("run", "line").agg(
        F.when(F.count("*") > 1, F.lit("several"))
        .when(F.max("role") == "LEADING", F.lit("leader"))
        .when(F.max("role") == "FOLLOWING", F.lit("follower"))
        .otherwise(F.lit("looking"))
        .alias("role")
    )
    still = windows(facts).join(F.broadcast(injects), "run").where("end > t AND begin < until")
    still = still.groupBy("run", "line").agg((F.max(F.col("end") - F.col("begin")) / 1e9).alias("stood_still"))
    rows = injects
    for found in (following, then, still):
        rows = rows.join(found, ["run", "line"], "left")
    return rows.select(
        "run", "id", "do", "role", "nodes", ((F.col("next") - F.col("t")) / 1e9).alias("seconds"),
        F.coalesce("stood_still", F.lit(0.0)).alias("stood_still"),
    )  # fmt: skip


def hits(facts: Facts) -> DataFrame:
    """For each fault and each node that it hit: `run`, `id`, `do`, `node`, and `was`: the node's role and phase at that moment, or
    `down`. What was killed is down until its next `boot`."""
    injects = facts.faults.where("type = 'inject'").select(
        "run", "id", "do", "t", "line", F.explode("nodes").alias("node")
    )
    said = facts.events.where("event IN ('boot', 'role', 'phase', 'exit') OR (event = 'fault' AND state = 'fired')").select(
        "run", "node", "at", "role", "phase",
        F.when(F.expr("event = 'boot'"), F.lit("starting")).when(F.expr("event IN ('exit', 'fault')"), F.lit("down")).alias("life"),
    )  # fmt: skip
    killed = injects.where(F.col("do").isin(*KILLS) & (F.col("do") != "crash-at"))
    gone = (
        facts.rows(c.MILESTONES)
        .where("event = 'ended'")
        .select("run", F.get_json_object("raw", "$.node").alias("node"), "t")
    )
    nothing = [F.lit(None).cast("string").alias(name) for name in ("role", "phase")]
    ends = [
        frame.select(
            "run",
            F.col("node").cast("int").alias("node"),
            F.col("t").alias("at"),
            *nothing,
            F.lit("down").alias("life"),
        )
        for frame in (killed, gone)
    ]
    before = injects.join(together([said, *ends]), ["run", "node"], "left").where("at < t")
    last = [
        F.max_by(name, F.when(F.col(name).isNotNull(), F.col("at"))).alias(name) for name in ("life", "role", "phase")
    ]
    found = before.groupBy("run", "line", "id", "do", "node").agg(*last)
    was = F.when(F.col("life") == "down", F.lit("down")).otherwise(
        F.coalesce(F.concat_ws(" ", "role", "phase"), F.lit("starting"))
    )
    return found.select("run", "id", "do", "node", was.alias("was"))


def elections(facts: Facts) -> DataFrame:
    """For each established epoch, at its leader: `seconds` since it began to look for a leader, of these `looking` until it led; how
    many `rounds` it voted in, and how many votes all nodes sent meanwhile (`messages`; null if the traces do not count them)."""
    established = facts.event("established").select("run", "node", "life", "epoch", F.col("at").alias("end"))
    before = facts.events.where("event IN ('role', 'vote')").select(
        "run", "node", "life", "event", "role", "round", "at"
    )
    beside = established.join(before, ["run", "node", "life"]).where("at <= end")
    looking = F.max(F.when(F.col("role") == "LOOKING", F.col("at")))
    led = F.max(F.when(F.col("role") == "LEADING", F.col("at")))
    begun = facts.keep(
        beside.groupBy("run", "node", "life", "epoch", "end").agg(looking.alias("begin"), led.alias("led"))
    )
    votes = begun.join(before.where("event = 'vote'"), ["run", "node", "life"]).where("at BETWEEN begin AND end")
    rounds = votes.groupBy(*ELECTION).agg(F.count_distinct("round").alias("rounds"))
    return begun.join(rounds, [*ELECTION], "left").join(_votes_sent(facts, begun), [*ELECTION], "left").select(
        "run", "node", "epoch", ((F.col("end") - F.col("begin")) / 1e9).alias("seconds"),
        ((F.col("led") - F.col("begin")) / 1e9).alias("looking"), "rounds", "messages",
    )  # fmt: skip


def _votes_sent(facts: Facts, begun: DataFrame) -> DataFrame:
    """Votes sent by all lives of a run from `begin` to `end`: the difference of what each had counted last. Nodes count whenever their
    phase changes, so the votes of those that took part are all in it."""
    counted = facts.event("work").select(
        "run",
        F.struct("node", "life").alias("who"),
        "at",
        F.coalesce(F.col("messages")["VOTE"], F.lit(0)).alias("sent"),
    )
    sent = F.max_by("sent", "at") - F.coalesce(F.max_by("sent", F.when(F.expr("at <= begin"), F.col("at"))), F.lit(0))
    each = begun.join(counted, "run").where("at <= end").groupBy(*ELECTION, "who").agg(sent.alias("sent"))
    return each.groupBy(*ELECTION).agg(F.sum("sent").alias("messages"))


def catching_up(facts: Facts) -> DataFrame:
    """How each node got an epoch's initial history: `kind` (snapshot, truncation, difference or nothing), how many `transactions` it
    took into its log for it, how many it had to `cut` off before, the `bytes` of the snapshot, in how many `seconds` since it followed."""
    joins = facts.event("current_epoch").select(*JOIN, F.col("at").alias("end"))
    names = ("run", "node", "life", "event", "at")
    none = F.lit(0).cast("bigint")
    told = facts.events.where(
        "event = 'truncate' OR (event = 'role' AND role <> 'LOOKING') OR (event = 'snapshot' AND kind = 'installed')"
    ).select(*names, none.alias("size"), none.alias("cut"), F.coalesce("bytes", none).alias("bytes"))
    taken = promises(facts).where("event = 'accept' AND in_phase = 'SYNCHRONIZATION'")
    taken = taken.select(*names, F.col("size").cast("bigint").alias("size"), none.alias("cut"), none.alias("bytes"))
    lost = _cut_off(facts).select(*names, none.alias("size"), "cut", none.alias("bytes"))
    steps = facts.keep(told.unionAll(taken).unionAll(lost))
    rows = joins.join(steps, ["run", "node", "life"]).where("at <= end")
    begun = rows.groupBy(*JOIN, "end").agg(F.max(F.when(F.col("event") == "role", F.col("at"))).alias("begin"))
    since = begun.join(steps, ["run", "node", "life"]).where("at BETWEEN begin AND end")
    kind = (
        F.when(F.max(F.col("event") == "snapshot"), F.lit("snapshot"))
        .when(F.max(F.col("event") == "truncate"), F.lit("truncation"))
        .when(F.max(F.col("event") == "accept"), F.lit("difference"))
        .otherwise(F.lit("nothing"))
    )
    return since.groupBy(*JOIN).agg(
        kind.alias("kind"),
        F.sum("size").alias("transactions"),
        F.sum("cut").alias("cut"),
        F.sum("bytes").alias("bytes"),
        (F.max(F.col("end") - F.col("begin")) / 1e9).alias("seconds"),
    )


def _cut_off(facts: Facts) -> DataFrame:
    """For each truncation `cut`: how many transactions the node had taken into its log behind the one that it keeps."""
    keep, last = F.expr("keep[0] << 32 | keep[1]"), F.from_json("last", ArrayType(LongType()))
    cuts = facts.event("truncate").select(
        "run",
        "node",
        "life",
        "event",
        "at",
        keep.alias("kept"),
        F.shiftleft(last[0], 32).bitwiseOR(last[1]).alias("end"),
    )
    first = F.shiftleft("epoch", 32).bitwiseOR(F.col("first"))
    held = promises(facts).where("event = 'accept' AND size > 0").select(
        "run", "node", F.col("at").alias("taken"), first.alias("from"), (first + F.col("size") - 1).alias("to")
    )  # fmt: skip
    inside = F.least("to", "end") - F.greatest("from", F.col("kept") + 1) + 1
    over = held.join(F.broadcast(cuts), ["run", "node"]).where("taken < at AND to > kept AND from <= end")
    return over.groupBy("run", "node", "life", "event", "at").agg(F.sum(inside).alias("cut"))
