"""What the nodes saw of their links and of each other (DSN 2011, section II; LADIS 2008, section 2)."""

from pyspark.sql import Window
from pyspark.sql import functions as F

from pipeline.facts import Facts
from pipeline.findings import Counted, Found, Property
from pipeline.ledger import Ledger
from pipeline.words import Sql, Violated, say, trace


def _channels(facts: Facts, ledger: Ledger) -> Found:
    """Verifies, for each receiving life and each peer, that the frames taken within a session are one unbroken run from sequence
    number 0 on, that nothing is taken from a session that was over, and that incarnations and sessions never go back. Does not
    verify what is in the frames, nor runs that a SIGKILL kept from being written."""
    del ledger
    peer = Window.partitionBy("run", "node", "life", "peer").orderBy("line")
    mine = F.struct("incarnation", "session")
    before = F.struct(mine.alias("of"), "session", "ended", "node", "life", "line")
    runs = facts.channels.select("*", mine.alias("of"), F.lag(before).over(peer).alias("b"))
    who = say("node {node} took frames {first} to {last} of session {session} from node {peer}")
    same, back = F.col("of") == F.col("b.of"), F.col("of") < F.col("b.of")
    fresh = F.col("b").isNull() | (F.col("of") > F.col("b.of"))
    cases = (
        (same & (F.col("b.ended") != "gap"), say(who, " after that session was over ({b.ended})"), True),
        (back, say(who, " after session {b.session}: sessions went back"), True),
        (fresh & (F.col("first") != 0), say(who, ", although a session begins with frame 0"), False),
        (F.col("ended") == "gap", say(who, ", and then a later one: what is between them is missing"), False),
    )
    found = [
        Violated(runs.where(case), words, [trace("b."), trace()] if both else [trace()]) for case, words, both in cases
    ]
    return Found(found, [Counted(facts.channels)])


def _sanity(facts: Facts, ledger: Ledger) -> Found:
    """Verifies that no node ended because its own checks failed. Does not verify anything that the nodes do not check."""
    del ledger
    aborts = facts.event("abort")
    told = aborts.select("run", "node", "life", F.col("line").alias("told"))
    exits = facts.event("exit").where("code = 70").join(told, ["run", "node", "life"], "left")
    silent = exits.where("told IS NULL OR told > line")
    why = Sql("coalesce(why, '')")
    stopped = say("node {node} stopped itself: ", why)
    ended = say("node {node} ended with code 70 (a failed sanity check): ", why)
    found = [
        Violated(aborts, stopped, [trace()]),
        Violated(silent, ended, [trace()]),
    ]
    return Found(found, [Counted(facts.boots)])


CHANNELS = Property(
    name="channels",
    source="DSN 2011",
    statement="Within a session frames are taken from the first on, in order, without gaps; sessions never go back.",
    find=_channels,
    rests_on_absence=False,
)
SANITY = Property(
    name="sanity",
    source="LADIS 2008",
    statement="No node's own sanity check fails.",
    find=_sanity,
    rests_on_absence=False,
)
