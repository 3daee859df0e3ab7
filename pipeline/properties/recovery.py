"""Liveness, after healing (LADIS 2008, section 2: recovery)."""

from pyspark.sql import functions as F

from pipeline.facts import Facts
from pipeline.findings import Counted, Found, Property
from pipeline.ledger import Ledger
from pipeline.standing import beyond
from pipeline.unavailability import longest
from pipeline.words import Sql, Violated, plain, ref, say


def _recovery(facts: Facts, ledger: Ledger) -> Found:
    """Verifies that after `safety-ended` all nodes converged, within `converges_within` if the scenario expects it, and that writes
    were never unavailable for longer than `unavailable_at_most`, if it expects that. Does not verify that they converged on the
    right history; the safety properties do."""
    del ledger
    bounds = facts.runs.select("run", "converges_within", "unavailable_at_most")
    known = facts.timeline.select("run", "safety", "settled", "converged").join(F.broadcast(bounds), "run")
    both = known.where("safety IS NOT NULL AND settled IS NOT NULL")
    took = (F.col("settled.t") - F.col("safety.t")) / 1e9
    lines = [ref("harness.jsonl", "safety.line"), ref("harness.jsonl", "settled.line")]
    never = both.where("converged IS NULL")
    late = both.where(F.col("converged").isNotNull() & (took > F.col("converges_within")))
    words = say(
        "the nodes converged ", Sql("format_string('%.3f', (settled.t - safety.t) / 1e9)"), " s after everything was healed; ",
        _written("converges_within"), " s were expected",
    )  # fmt: skip
    gaps = longest(facts).join(F.broadcast(bounds), "run", "right").where("unavailable_at_most IS NOT NULL")
    longer = gaps.where("seconds > unavailable_at_most")
    down = say(
        "no write succeeded for ", Sql("format_string('%.3f', seconds)"), " s; at most ",
        _written("unavailable_at_most"), " s were expected",
    )  # fmt: skip
    missing = F.when(F.col("safety").isNull(), F.lit("safety-ended")).otherwise(F.lit("converged or not-converged"))
    unknown = known.where("safety IS NULL OR settled IS NULL").select(
        "run",
        F.concat(
            F.lit("harness.jsonl has no `"), missing, F.lit("`: it is not known whether the nodes recovered")
        ).alias("words"),
    )
    return Found(
        [
            Violated(never, plain("the nodes did not converge after everything was healed"), lines, "settled.t"),
            Violated(late, words, lines, "settled.t"),
            Violated(longer, down, [], "0"),
        ],
        [Counted(both), Counted(gaps)],
        [unknown],
        [beyond(facts).select("run", F.lit("a quorum of disks was lost").alias("words"))],
    )


def _written(bound: str) -> Sql:
    """A bound as the scenario's author wrote it: 10, 2.5."""
    return Sql(f"regexp_replace(CAST({bound} AS string), '[.]0$', '')")


RECOVERY = Property(
    name="recovery",
    source="LADIS 2008",
    statement="After healing, all nodes converge within the expected time.",
    find=_recovery,
)
