"""Whether the experiment itself can be believed: the faults took effect, and the traces are whole."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipeline import columns as c
from pipeline.facts import KILLS, Facts
from pipeline.findings import Counted, Found, Property
from pipeline.frames import together
from pipeline.ledger import Ledger
from pipeline.types import struct_of
from pipeline.words import Sql, Violated, ref, say, trace, when

_CROSSING = (
    r"(\\{[^{}]*\"at_inject\"[^{}]*\\})"  # the frame counters of one cut link, wherever they are in the evidence
)


def _fault_took_effect(facts: Facts, ledger: Ledger) -> Found:
    """Verifies that every fault's injection and healing was confirmed; that every process which was to be killed has an exit status,
    wrote nothing after the fault was healed, and nothing after its node's next life had begun; and that no frame crossed a cut
    link. Does not verify that unsynced bytes are gone after a power cut: that is the disk's own test."""
    del ledger
    here = ref("faults.jsonl", "line")
    doubtful = facts.faults.where("NOT confirmed")
    unsure = say("fault {id} ({do}) was not confirmed"), say("the healing of fault {id} was not confirmed")
    found = [Violated(doubtful, when("type = 'inject'", *unsure), [here], "t")]
    injected = facts.killed.where("type = 'inject'")
    words = say("fault {id} ({do}): node {node} has no exit status")
    found.append(Violated(injected.where("exit IS NULL"), words, [here], "t"))
    crossed = _crossings(facts)
    words = say(
        "fault {id}: the link from node {it.from} to node {it.to} was cut, but its receiver took frames meanwhile "
        "({it.at_inject} before, {it.at_heal} after)"
    )
    found.append(Violated(crossed.where("it.at_inject <> it.at_heal"), words, [here], "t"))
    found.append(_overtaken(facts))
    found.append(_went_on(facts))
    return Found(found, [Counted(facts.faults), Counted(injected), Counted(crossed)])


def _crossings(facts: Facts) -> DataFrame:
    """The frame counters of each cut link, where both are there."""
    shown = facts.faults.select(
        "run", "t", "id", "line", F.explode(F.expr(f"regexp_extract_all(evidence, '{_CROSSING}', 1)")).alias("text")
    )
    form = "from string, to string, at_inject string, at_heal string"
    read = shown.withColumn("it", F.from_json("text", struct_of(form)))
    return read.where("it.at_inject IS NOT NULL AND it.at_heal IS NOT NULL")


def _overtaken(facts: Facts) -> Violated:
    """Events of a life after the next one had begun, beside the start of that one."""
    boots = facts.boots.select(
        "run", "node", *(F.col(name).alias(f"b_{name}") for name in ("node", "life", "line", "at"))
    )
    beside = facts.zombies.join(F.broadcast(boots), ["run", "node"]).where("b_life > life AND b_at < at")
    rows = beside.groupBy("run", "node", "life", "line", "at").agg(
        F.max(F.struct("b_at", "b_node", "b_life", "b_line")).alias("b")
    ).select("run", "node", "life", "line", "at", "b.*")  # fmt: skip
    words = say("node {node}, life {life}, went on after life {b_life} began")
    return Violated(rows, words, [trace("b_"), trace()])


def _went_on(facts: Facts) -> Violated:
    """Lives that a fault was to end, and that wrote after it was healed."""
    heals = facts.faults.where("type = 'heal'").groupBy("run", "id").agg(
        F.max_by("t", "line").alias("healed"), F.max("line").alias("h_line")
    )  # fmt: skip
    injects = facts.faults.where("type = 'inject'").select("run", "id", "do", "t", F.col("line").alias("i_line"))
    told = facts.killed.groupBy("run", "id", "node").agg(F.max_by("pid", F.struct("type", "line")).alias("pid"))
    told = told.where("pid IS NOT NULL").join(injects, ["run", "id"]).join(heals, ["run", "id"])
    lives = facts.event("boot").select("run", "node", "life", "pid", F.col("t").alias("born"))
    ends = facts.lives.select("run", "node", "life", "last_at", F.col("last_line").alias("line"))
    lives = lives.join(ends, ["run", "node", "life"])
    rows = told.join(lives, ["run", "node", "pid"]).where("born <= t AND last_at > healed")
    words = say("fault {id} ({do}): node {node}, life {life} (process {pid}), was to be killed, but went on")
    return Violated(rows, words, [ref("faults.jsonl", "i_line"), trace()], "last_at")


def damages(facts: Facts) -> DataFrame:
    """Every place where the records do not say what happened: `run`, `file`, `line` (0: the file), `why`."""
    return facts.once("damages", _damages)


def _damages(facts: Facts) -> DataFrame:
    parts = (_unreadable(facts), _odd(facts), _unborn(facts), _missing(facts), _silent(facts), _unasked(facts))
    return facts.keep(together(part.select("run", "file", "line", "why") for part in parts), rare=True)


def _unreadable(facts: Facts) -> DataFrame:
    """Lines in quarantine, without the torn last lines that a kill excuses."""
    node = F.regexp_extract("file", r"^trace/node-(\d+)-", 1).cast("int")
    rows = facts.rows(c.QUARANTINE).withColumn("node", node)
    killed = facts.killed.where("type = 'inject'").select("run", "node")
    hit = facts.faults.where((F.col("type") == "inject") & F.col("do").isin(*KILLS))
    killed = killed.unionAll(hit.select("run", F.explode("nodes").alias("node"))).distinct()
    killed = killed.withColumn("killed", F.lit(True))
    forced = facts.timeline.select("run", "forced")
    beside = rows.join(F.broadcast(killed), ["run", "node"], "left").join(F.broadcast(forced), "run")
    excused = F.expr("torn AND node IS NOT NULL AND (forced OR coalesce(killed, false))")
    return beside.where(~excused).withColumn("why", F.col("reason"))


def _odd(facts: Facts) -> DataFrame:
    """Lines that are not numbered as they should be, or are earlier than the line before."""
    rows = facts.lives.select("run", _file(), F.explode("odd").alias("it"))
    gap = F.when(F.expr("it.n <> it.next"), F.expr(say("has event {it.n}, {it.next} was next")))
    late = F.when(F.expr("it.t < it.at"), F.lit("is earlier than the line before it"))
    whys = F.explode(F.filter(F.array(gap, late), lambda it: it.isNotNull()))
    return rows.select("run", "file", F.col("it.line").alias("line"), whys.alias("why"))


def _unborn(facts: Facts) -> DataFrame:
    """Lives that take part in something before they have written `boot`."""
    early = facts.lives.where("acts_from IS NOT NULL AND (boot_line IS NULL OR acts_from < boot_line)")
    return early.select(
        "run", _file(), F.col("acts_from").alias("line"), F.lit("acts without having written `boot`").alias("why")
    )


def _missing(facts: Facts) -> DataFrame:
    """Lives of which there is no trace although there is one of a later life."""
    files = facts.rows(c.RUNS).select("run", F.explode("files").alias("file")).where("file LIKE 'trace/%'")
    there = files.select(
        "run",
        F.regexp_extract("file", r"node-(\d+)-(\d+)", 1).cast("int").alias("node"),
        F.regexp_extract("file", r"node-(\d+)-(\d+)", 2).cast("int").alias("life"),
    )
    lives = there.groupBy("run", "node").agg(F.collect_set("life").alias("lives"))
    gone = lives.select(
        "run", "node", F.explode(F.expr("array_except(sequence(1, array_max(lives)), lives)")).alias("life")
    )
    return gone.select("run", _file(), F.lit(0).alias("line"), F.lit("is missing").alias("why"))


def _silent(facts: Facts) -> DataFrame:
    """Nodes of the ensemble of which there is nothing."""
    wanted = facts.runs.select("run", F.explode(F.expr("sequence(1, nodes)")).alias("node"))
    heard = facts.lives.where("boot_line IS NOT NULL OR speaks").select("run", "node")
    rows = wanted.join(heard, ["run", "node"], "left_anti")
    why = F.concat(F.lit("has nothing of node "), "node").alias("why")
    return rows.select("run", F.lit("trace").alias("file"), F.lit(0).alias("line"), why)


def _unasked(facts: Facts) -> DataFrame:
    """Answers without a question."""
    rows = facts.answers.where("NOT asked")
    return rows.select(
        "run", F.lit("ops.jsonl").alias("file"), "line",
        F.lit("completes an operation that waits for no answer").alias("why"),
    )  # fmt: skip


def _file() -> Column:
    return F.concat(F.lit("trace/node-"), "node", F.lit("-"), "life", F.lit(".jsonl")).alias("file")


def _trace_integrity(facts: Facts, ledger: Ledger) -> Found:
    """Verifies that every line can be read, that each life's events are numbered without gaps from `boot` on, that no life is missing,
    and that an incomplete last line stands only where a process was killed. Does not verify that nodes write the truth."""
    del ledger
    place = when("line > 0", say("{file}:{line}"), Sql("file"))
    found = Violated(damages(facts), say(place, " {why}"), [], "line")
    return Found([found], [Counted(facts.lives)])


FAULT = FAULT_TOOK_EFFECT = Property(
    name="fault took effect",
    source="zab-chaos",
    statement="A killed process is gone, no frame crosses a cut link, and every fault is confirmed.",
    find=_fault_took_effect,
    rests_on_absence=False,
    if_broken="UNKNOWN",
)
TRACE = TRACE_INTEGRITY = Property(
    name="trace integrity",
    source="zab-chaos",
    statement="Every event is there and can be read; only a killed process leaves an incomplete last line.",
    find=_trace_integrity,
    if_broken="UNKNOWN",
)
