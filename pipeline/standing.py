"""Where the nodes stand at the end of a run: who is up, who lost its disk, and whether that is more than Zab allows for."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipeline.facts import ORDER, Facts, order
from pipeline.frames import none_of, together
from pipeline.words import Sql, packed, span


def standing(facts: Facts) -> DataFrame:
    """One row a node that ever started: its last start (`at`, `life`, `line`), and what it has become since: `phase`, `epoch`
    (f.a), `code` and `exit_t` of its exit, `amnesiac` as long as its lost disk keeps it out of quorums."""
    start = facts.boots.groupBy("run", "node").agg(
        F.max_by(F.struct(*ORDER, "t", "disk", "current_epoch", "held"), order()).alias("boot")
    )
    later = facts.events.join(start, ["run", "node"]).where(order() > F.struct(*(f"boot.{name}" for name in ORDER)))
    exit_ = F.when(F.col("event") == "exit", F.struct(order().alias("o"), "code", "t"))
    since = later.groupBy("run", "node").agg(
        F.max(F.when(F.col("event") == "phase", F.struct(order().alias("o"), "phase"))).alias("phase"),
        F.max(F.when(F.col("event") == "current_epoch", F.struct(order().alias("o"), "epoch"))).alias("joined"),
        F.max(exit_).alias("exit"),
        F.max(F.col("event") == "member").alias("member"),
    )
    lost = (F.col("boot.disk") == "amnesiac") & ~F.coalesce("member", F.lit(False))
    return facts.keep(
        start.join(since, ["run", "node"], "left").select(
            "run", "node", "boot.at", "boot.life", "boot.line", F.col("boot.t").alias("t"),
            F.coalesce("phase.phase", F.lit("")).alias("phase"),
            F.coalesce("joined.epoch", "boot.current_epoch").alias("epoch"),
            F.col("exit.code").alias("code"), F.col("exit.t").alias("exit_t"),
            lost.alias("amnesiac"),
        )
    )  # fmt: skip


def up(facts: Facts) -> DataFrame:
    """The correct servers (LADIS 2008): started, not ended by a fault or by themselves before the run was settled."""
    return facts.once("up", _up)


def _up(facts: Facts) -> DataFrame:
    settled = F.broadcast(facts.timeline.select("run", F.col("settled.t").alias("end")))
    injected = facts.killed.where("type = 'inject'").select("run", "node", F.col("t").alias("hit"))
    here = facts.once("standing", standing).join(settled, "run").join(F.broadcast(injected), ["run", "node"], "left")
    gone = "code IS NOT NULL AND (code <> 0 OR end IS NULL OR exit_t < end)"
    hit = "hit IS NOT NULL AND hit >= t AND (end IS NULL OR hit < end)"
    judged = here.groupBy("run", "node", "at", "life", "line", "phase", "epoch").agg(
        F.max(F.expr(f"coalesce({gone}, false) OR coalesce({hit}, false)")).alias("down")
    )
    return judged.where("NOT down").drop("down")


def beyond(facts: Facts) -> DataFrame:
    """Runs in which a quorum of disks was lost, and since the last of them came back nobody was established; `lost`: the nodes;
    `gone`: how many acknowledged writes no other disk holds, and `which`, as a span of zxids."""
    return facts.once("beyond", _beyond)


def _beyond(facts: Facts) -> DataFrame:
    lost = facts.once("standing", standing).where("amnesiac").groupBy("run").agg(
        F.array_sort(F.collect_list("node")).alias("lost"), F.max("t").alias("since")
    )  # fmt: skip
    lost = lost.join(facts.runs.select("run", "nodes"), "run").where("nodes - size(lost) < floor(nodes / 2) + 1")
    latest = facts.event("established").groupBy("run").agg(F.max("t").alias("established"))
    lost = lost.join(latest, "run", "left").where("established IS NULL OR established < since")
    lost = lost.select("run", "lost")
    if lost.isEmpty():
        return none_of(lost.selectExpr("*", "CAST(NULL AS bigint) AS gone", "CAST(NULL AS string) AS which"))
    lost = facts.keep(lost)
    return lost.join(_gone(facts, lost), "run", "left")


def _gone(facts: Facts, lost: DataFrame) -> DataFrame:
    """Of these runs, the acknowledged writes beyond what the disks hold that were not lost."""
    runs = F.broadcast(lost.select("run"))
    last = F.shiftleft("epoch", 32).bitwiseOR(F.col("first") + F.size("digests") - 1)
    told = [
        facts.boots.select("run", *ORDER, F.col("held").alias("z")),
        facts.accepts.where("size(digests) > 0").select("run", *ORDER, last.alias("z")),
        facts.event("truncate").select("run", *ORDER, packed("keep").alias("z")),
        facts.event("snapshot").where("kind = 'installed'").select("run", *ORDER, packed("zxid").alias("z")),
    ]
    ends = (
        together(frame.join(runs, "run") for frame in told)
        .groupBy("run", "node")
        .agg(F.max_by("z", order()).alias("z"))
    )
    sound = facts.once("standing", standing).where("NOT amnesiac").join(ends, ["run", "node"])
    held = runs.join(sound, "run", "left").groupBy("run").agg(F.coalesce(F.max("z"), F.lit(0)).alias("held"))
    gone = facts.acked.join(F.broadcast(held), "run").where("z > held").groupBy("run")
    return gone.agg(F.count("*").alias("gone"), F.expr(span(Sql("min(z)"), Sql("max(z)"))).alias("which"))
