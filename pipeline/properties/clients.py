"""What a client sees (LADIS 2008, section 1: requests of a client in FIFO order)."""

from pyspark.sql import Window
from pyspark.sql import functions as F

from pipeline.facts import READS, Facts
from pipeline.findings import Counted, Found, Property
from pipeline.ledger import Ledger
from pipeline.words import Violated, ref, say, show

OWN_TRANSACTION = ("create", "set", "delete")  # a multi may be made of checks only, and change nothing


def _client_order(facts: Facts, ledger: Ledger) -> Found:
    """Verifies, for each session: answers (ok or failed) come in the order of `seq`; the transactions of its successful writes ascend in
    that order; no read shows an older state than an earlier answer did, whichever node gave it; and that no transaction answers
    two writes. Does not verify when an "unknown" operation took effect, nor the values that were read."""
    del ledger
    answers = facts.answers.where("asked AND outcome <> 'unknown'")
    session = Window.partitionBy("run", "client").orderBy("line")
    earlier = session.rowsBetween(Window.unboundedPreceding, -1)
    shows = F.when((F.col("outcome") == "ok") & F.col("z").isNotNull(), F.col("z"))
    owns = F.when(F.col("op").isin(*OWN_TRANSACTION), shows)
    rows = answers.select(
        "*",
        F.max(F.struct("seq", F.col("line").alias("at_line"))).over(earlier).alias("answered"),
        F.max(F.when(shows.isNotNull(), F.struct("z", F.col("line").alias("at_line")))).over(earlier).alias("seen"),
        F.last(F.when(owns.isNotNull(), F.struct("z", F.col("line").alias("at_line"))), True)
        .over(earlier)
        .alias("written"),
        owns.alias("own"),
    )
    here = ref("ops.jsonl", "line")
    swapped = Violated(
        rows.where("seq < answered.seq"),
        say("client {client} got the answer to seq {seq} after the one to seq {answered.seq}"),
        [ref("ops.jsonl", "answered.at_line"), here],
        "t",
    )
    back = Violated(
        rows.where(F.col("op").isin(*READS) & shows.isNotNull() & (F.col("z") < F.col("seen.z"))),
        say("client {client} saw ", show("z"), " with seq {seq} ({op}), after it had seen ", show("seen.z")),
        [ref("ops.jsonl", "seen.at_line"), here],
        "t",
    )
    effects = Violated(
        rows.where("own <= written.z"),
        say("client {client} wrote ", show("z"), " with seq {seq} ({op}), after it had written ", show("written.z")),
        [ref("ops.jsonl", "written.at_line"), here],
        "t",
    )
    owners = Window.partitionBy("run", "own").orderBy("line")
    shared = answers.select("*", owns.alias("own")).where("own IS NOT NULL").select(
        "*", F.first(F.struct("client", "seq", F.col("line").alias("at_line"))).over(owners).alias("owner")
    )  # fmt: skip
    twice = Violated(
        shared.where("owner.client <> client"),
        say(
            show("z"), " answers both the write of client {owner.client}, seq {owner.seq}, and that of client {client}, "
            "seq {seq}",
        ),
        [ref("ops.jsonl", "owner.at_line"), here],
        "t",
    )  # fmt: skip
    return Found([swapped, back, effects, twice], [Counted(answers)])


CLIENT_ORDER = Property(
    name="client order",
    source="LADIS 2008",
    statement="A client's answers and effects come in its order, and the reads of a session never go back.",
    find=_client_order,
    rests_on_absence=False,
)
