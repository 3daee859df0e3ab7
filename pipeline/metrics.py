"""What a run's traces say about speed: latency, throughput, unavailability, recovery, elections, catching up.

Latency counts from the time at which an operation was due, whether or not the client could send it then: a stalled service
cannot hide behind a client that waits for it (no coordinated omission). Times are seconds unless the name says `ms`.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipeline.facts import READS, WRITES, Facts, together
from pipeline.ledger import Ledger
from pipeline.properties.epochs import promises
from pipeline.unavailability import windows

PERCENTILES = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "p999_ms": 0.999}
NOTICED = 0.1  # seconds: shorter pauses between two writes are not listed as unavailability


def outcomes(facts: Facts) -> DataFrame:
    """`run`, `writes` (or reads), `outcome`, `number` of operations. One that was never answered is unknown."""
    told = facts.answers.where("asked").select("run", "op", "outcome")
    untold = facts.questions.where("open").select("run", "op", F.lit("unknown").alias("outcome"))
    return told.unionAll(untold).groupBy("run", F.col("op").isin(*WRITES).alias("writes"), "outcome").agg(
        F.count("*").alias("number")
    )  # fmt: skip


def latency(facts: Facts) -> DataFrame:
    """`run`, `of` (all, writes or reads), nearest-rank percentiles and the maximum of successful operations, and their `number`."""
    done = facts.answers.where("asked AND outcome = 'ok'")
    kind = F.when(F.col("op").isin(*READS), F.lit("reads")).otherwise(F.lit("writes"))
    rows = done.select(
        "run", F.explode(F.array(F.lit("all"), kind)).alias("of"), (F.col("t") - F.col("due")).alias("took")
    )
    ranks = [
        F.expr(f"percentile_disc({share}) WITHIN GROUP (ORDER BY took) / 1e6").alias(name)
        for name, share in PERCENTILES.items()
    ]
    return rows.groupBy("run", "of").agg(*ranks, (F.max("took") / 1e6).alias("max_ms"), F.count("*").alias("number"))


def throughput(facts: Facts) -> DataFrame:
    """`run`, `second` (from the first operation on, without gaps), and how many operations came to which outcome in it."""
    begin = facts.questions.groupBy("run").agg(F.min("due").alias("begin"))
    rows = facts.answers.where("asked").join(F.broadcast(begin), "run")
    second = F.floor((F.col("t") - F.col("begin")) / 1e9).cast("int")
    each = {name: F.count_if(F.col("outcome") == name).alias(name) for name in ("ok", "failed", "unknown")}
    busy = rows.groupBy("run", second.alias("second")).agg(*each.values())
    every = busy.groupBy("run").agg(F.explode(F.sequence(F.lit(0), F.max("second"))).alias("second"))
    return every.join(busy, ["run", "second"], "left").fillna(0, list(each))


def unavailability(facts: Facts) -> DataFrame:
    """`run`, `begin` (since the first operation), `seconds` of each time in which writes were due and none succeeded."""
    begin = facts.questions.groupBy("run").agg(F.min("due").alias("first"))
    long = windows(facts).join(F.broadcast(begin), "run")
    return long.select(
        "run",
        ((F.col("begin") - F.col("first")) / 1e9).alias("begin"),
        ((F.col("end") - F.col("begin")) / 1e9).alias("seconds"),
    ).where(F.col("seconds") >= NOTICED)


def recovery(facts: Facts, ledger: Ledger) -> DataFrame:
    """For each fault the seconds from its injection to the next new commit anywhere (null if there was none), and the `role` of
    what it hit: leader, follower, or several."""
    injects = facts.faults.where("type = 'inject'").select("run", "id", "do", "t", "nodes", "line")
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
    rows = injects.join(following, ["run", "line"], "left").join(then, ["run", "line"], "left")
    return rows.select("run", "id", "do", "role", "nodes", ((F.col("next") - F.col("t")) / 1e9).alias("seconds"))


def elections(facts: Facts) -> DataFrame:
    """For each established epoch, at its leader: `seconds` since it began to look for a leader, of these `looking` until it led; and
    how many `rounds` it voted in."""
    established = facts.event("established").select("run", "node", "life", "epoch", F.col("at").alias("end"))
    before = facts.events.where("event IN ('role', 'vote')").select(
        "run", "node", "life", "event", "role", "round", "at"
    )
    beside = established.join(before, ["run", "node", "life"]).where("at <= end")
    looking = F.max(F.when(F.col("role") == "LOOKING", F.col("at")))
    led = F.max(F.when(F.col("role") == "LEADING", F.col("at")))
    begun = beside.groupBy("run", "node", "life", "epoch", "end").agg(looking.alias("begin"), led.alias("led"))
    votes = begun.join(before.where("event = 'vote'"), ["run", "node", "life"]).where("at BETWEEN begin AND end")
    rounds = votes.groupBy("run", "node", "life", "epoch").agg(F.count_distinct("round").alias("rounds"))
    return begun.join(rounds, ["run", "node", "life", "epoch"], "left").select(
        "run", "node", "epoch", ((F.col("end") - F.col("begin")) / 1e9).alias("seconds"),
        ((F.col("led") - F.col("begin")) / 1e9).alias("looking"), "rounds",
    )  # fmt: skip


def catching_up(facts: Facts) -> DataFrame:
    """How each node got an epoch's initial history: `kind` (snapshot, truncation, difference or nothing), and how many
    `transactions` it had to take into its log for it, in how many `seconds` since it followed."""
    joins = facts.event("current_epoch").select("run", "node", "life", "epoch", F.col("at").alias("end"))
    names = ("run", "node", "life", "event", "at")
    steps = facts.events.where(
        "event IN ('truncate') OR (event = 'role' AND role <> 'LOOKING') OR (event = 'snapshot' AND kind = 'installed')"
    ).select(*names, F.lit(0).alias("size"))
    taken = promises(facts).where("event = 'accept' AND in_phase = 'SYNCHRONIZATION'").select(*names, "size")
    rows = joins.join(steps.unionAll(taken), ["run", "node", "life"]).where("at <= end")
    begun = rows.groupBy("run", "node", "life", "epoch", "end").agg(
        F.max(F.when(F.col("event") == "role", F.col("at"))).alias("begin")
    )
    since = begun.join(steps.unionAll(taken), ["run", "node", "life"]).where("at BETWEEN begin AND end")
    kind = (
        F.when(F.max(F.col("event") == "snapshot"), F.lit("snapshot"))
        .when(F.max(F.col("event") == "truncate"), F.lit("truncation"))
        .when(F.max(F.col("event") == "accept"), F.lit("difference"))
        .otherwise(F.lit("nothing"))
    )
    return since.groupBy("run", "node", "life", "epoch").agg(
        kind.alias("kind"),
        F.sum("size").alias("transactions"),
        (F.max(F.col("end") - F.col("begin")) / 1e9).alias("seconds"),
    )


def counts(facts: Facts, ledger: Ledger) -> DataFrame:
    """`run`, `name`, `number`: how much there was of everything that is only counted."""

    def one(frame: DataFrame, name: str, number: str = "count(*)") -> DataFrame:
        return (
            frame.groupBy("run")
            .agg(F.expr(number).cast("double").alias("number"))
            .select("run", F.lit(name).alias("name"), "number")
        )

    accepts = promises(facts).where("event = 'accept' AND size > 0")
    settled = facts.timeline.where("converged IS NOT NULL AND safety IS NOT NULL")
    parts = [
        one(ledger.slices, "delivered", "sum(zlast - from + 1)"),
        one(facts.event("role").where("role = 'LEADING'"), "elections"),
        one(facts.event("established"), "epochs", "count(DISTINCT epoch)"),
        one(facts.lives, "lives"),
        one(facts.channels, "frames", "sum(last - first + 1)"),
        one(accepts, "durable_batches"),
        one(accepts, "durable_transactions", "sum(size)"),
        one(settled, "converged_s", "max((converged.t - safety.t) / 1e9)"),
    ]
    return together(parts)
