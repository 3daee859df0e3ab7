"""All properties over all runs: one verdict a run, in the schema of `verdict.json` (results/README.md).

Every property gives rows of violations. They are counted, and of what is violated the first few of each run and property are
told. What reaches this process is a few lines for each run, never its events.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F

from pipeline.evidence import cite
from pipeline.expectations import Expected, expected
from pipeline.facts import Chosen, Facts
from pipeline.findings import Counted, Found, Property
from pipeline.frames import at_once, threads, together
from pipeline.ingest import Fresh, Ingested, Run
from pipeline.ledger import Ledger
from pipeline.properties import ALL
from pipeline.properties.experiment import damages
from pipeline.standing import beyond
from pipeline.words import Violated

LISTED = 5  # violations spelled out for each property; one bug often shows a thousand times
AT_ONCE = 500  # runs judged in one query
WORST_FIRST = ("HARNESS-ERROR", "VIOLATION", "UNKNOWN", "BEYOND-FAULT-MODEL", "PASS")
EXIT = {"PASS": 0, "VIOLATION": 1, "UNKNOWN": 2, "HARNESS-ERROR": 3, "BEYOND-FAULT-MODEL": 5}
Said = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A run's verdict. `json` is the object that `verdict.json` holds; `copies` are folders with the same contents."""

    run: int
    path: str
    facts: dict[str, Any]
    json: dict[str, Any]
    copies: list[str]

    @property
    def verdict(self) -> str:
        return str(self.json["verdict"])

    def judgements(self) -> dict[str, str]:
        """What was made of each property, by name."""
        return {item["name"]: item["verdict"] for item in self.json["properties"]}


@dataclass(slots=True)
class _Seen:
    """What Spark said of one run: by property the violations listed and counted and the facts checked."""

    listed: dict[str, list[Row]] = field(default_factory=dict)
    times: dict[str, int] = field(default_factory=dict)
    checked: dict[str, int] = field(default_factory=dict)
    unknown: dict[str, list[str]] = field(default_factory=dict)
    spared: set[str] = field(default_factory=set)
    damaged: bool = False
    acked: int = 0
    lost: dict[str, Any] = field(default_factory=dict)  # see `standing.beyond`


def worst(verdicts: Iterable[str]) -> str:
    """The verdict that stands for several; PASS when there are none."""
    given = set(verdicts)
    return next((one for one in WORST_FIRST if one in given), "PASS")


def judge(
    spark: SparkSession,
    tables: str,
    done: Ingested,
    said: Said = lambda _: None,
    measure: Callable[[Facts, Ledger], None] | None = None,
) -> list[Verdict]:
    """The verdicts of these runs, in the order of their paths. `measure` gets the facts of each group of runs, while Spark still
    has them."""
    rows = done.runs
    copies = _copies(rows)
    sound = [row for row in rows if row["error"] is None and row["path"] not in copies]
    verdicts = {row["run"]: _unusable(row) for row in rows if row["error"] is not None}
    for begin in range(0, len(sound), AT_ONCE):
        part = sound[begin : begin + AT_ONCE]
        said(f"judging runs {begin + 1} to {begin + len(part)} of {len(sound)}")
        for verdict in _judge(spark, tables, part, copies, done.fresh, measure):
            verdicts[verdict.run] = verdict
    return [verdicts[row["run"]] for row in rows if row["run"] in verdicts]


def _copies(rows: Sequence[Run]) -> dict[str, str]:
    """Folders with the same contents as one before them: path -> that one's path."""
    first: dict[str, str] = {}
    return {
        row["path"]: first[row["fingerprint"]]
        for row in rows
        if first.setdefault(row["fingerprint"], row["path"]) != row["path"]
    }


def _judge(
    spark: SparkSession,
    tables: str,
    rows: Sequence[Run],
    copies: dict[str, str],
    fresh: Fresh,
    measure: Callable[[Facts, Ledger], None] | None,
) -> Iterator[Verdict]:
    expectations = {row["run"]: expected(row["expect"]) for row in rows}
    chosen = [
        Chosen(row["run"], row["rows_in"], row["nodes"], it.converges_within, it.unavailable_at_most)
        for row in rows
        for it in [expectations[row["run"]]]
    ]
    facts = Facts(spark, tables, chosen, fresh)
    ledger = Ledger(facts)
    try:
        with threads(facts.spark, 1) as beside:
            measuring = beside.submit(measure, facts, ledger) if measure and at_once(spark) > 1 else None
            seen = _look(facts, ledger)
            cited = cite(facts, _cited(seen))
            if measuring is not None:
                measuring.result()
            elif measure is not None:
                measure(facts, ledger)
    finally:
        facts.forget()
    for row in rows:
        same = sorted(path for path, first in copies.items() if first == row["path"])
        said = _conclude(row, seen[row["run"]], expectations[row["run"]], cited)
        yield Verdict(row["run"], row["path"], row, said, same)


def _cited(seen: dict[int, _Seen]) -> list[tuple[int, str, int]]:
    """Every line that a listed violation cites."""
    return sorted(
        {
            (run, ref["file"], ref["line"])
            for run, it in seen.items()
            for rows in it.listed.values()
            for row in rows
            for ref in row["refs"]
        }
    )


def _look(facts: Facts, ledger: Ledger) -> dict[int, _Seen]:
    """Ask Spark, some properties in a query; then, what there is to say of what was violated."""
    seen: dict[int, _Seen] = {run: _Seen() for run in facts.chosen}
    groups = _groups(facts.spark)
    broken: dict[str, dict[int, Violated]] = {}

    def ask(group: Sequence[Property]) -> None:
        found = {item.name: item.find(facts, ledger) for item in group}
        answers, means = _answers(found)
        for row in answers.collect():
            name, kind, query = means[row["means"]]
            _take(seen[row["run"]], name, kind, row)
            if kind == "violated":
                broken.setdefault(name, {})[query] = found[name].violations[query]

    def tell(group: Sequence[Property]) -> None:
        theirs = {item.name: broken[item.name] for item in group if item.name in broken}
        for row in _listed(theirs).collect() if theirs else []:
            seen[row["run"]].listed[row["property"]] = row["listed"]

    def look_around() -> None:
        for row in _around(facts).collect():
            _take(seen[row["run"]], "", row["kind"], row)

    with threads(facts.spark) as pool:  # each of them fills in what nobody else does
        asked = [pool.submit(look_around), *(pool.submit(ask, group) for group in groups)]
        for answer in asked:
            answer.result()
        list(pool.map(tell, groups))
    return seen


def _groups(spark: SparkSession) -> list[list[Property]]:
    """What is asked in one query: with little data, where a query costs more than its rows, as much as there are queries at a
    time; with much data each property alone, so that its rows have all of the memory."""
    number = at_once(spark)
    return [list(ALL[start::number]) for start in range(number)] if number > 1 else [[item] for item in ALL]


def _take(it: _Seen, name: str, kind: str, row: Row) -> None:
    """One row of an answer about a run."""
    match kind:
        case "violated":
            it.times[name] = it.times.get(name, 0) + row["number"]
        case "checked":
            it.checked[name] = it.checked.get(name, 0) + row["number"]
        case "unknown":
            it.unknown.setdefault(name, []).append(row["words"])
        case "spared":
            it.spared.add(name)
        case "damaged":
            it.damaged = True
        case "acked":
            it.acked = row["number"]
        case "lost":
            it.lost = json.loads(row["words"])


def _answers(all_found: dict[str, Found]) -> tuple[DataFrame, list[tuple[str, str, int]]]:
    """What there is to say about these properties, but for what the violations are: `run`, `means`, and a `number` or `words`; and by
    `means` the property, the kind of answer, and which of its queries it is of."""
    means: list[tuple[str, str, int]] = []

    def of(name: str, kind: str, query: int) -> Column:
        means.append((name, kind, query))
        return F.lit(len(means) - 1).alias("means")

    counted, said = [], []
    for name, found in all_found.items():
        violated = [Counted(it.rows) for it in found.violations]
        for kind, many in (("violated", violated), ("checked", found.checked)):
            for query, it in enumerate(many):
                number = F.expr(f"CAST({it.number} AS bigint) AS number")
                counted.append(it.rows.select("run", of(name, kind, query), number))
        for kind, frames in (("unknown", found.unknown), ("spared", found.spared)):
            for query, frame in enumerate(frames):
                said.append(
                    frame.select("run", of(name, kind, query), F.expr("CAST(NULL AS bigint) AS number"), "words")
                )
    sums = together(counted).groupBy("run", "means").agg(F.sum("number").alias("number"))
    return together([sums.select("*", F.expr("CAST(NULL AS string) AS words")), *said]), means


def _listed(broken: dict[str, dict[int, Violated]]) -> DataFrame:
    """The first violations of each run and property: `run`, `property`, `listed`."""
    rows = together(
        it.told().withColumns({"property": F.lit(name), "query": F.lit(number)})
        for name, violated in broken.items()
        for number, it in violated.items()
    )
    place = Window.partitionBy("run", "property").orderBy("at", "query", "words")
    first = rows.select("*", F.row_number().over(place).alias("place")).where(F.col("place") <= LISTED)
    told = F.array_sort(F.collect_list(F.struct("place", "words", "refs"))).alias("listed")
    return first.groupBy("run", "property").agg(told)


def _around(facts: Facts) -> DataFrame:
    """What else a verdict is made of: `run`, `kind`, and a `number` or `words`."""
    acked = facts.answers.where("asked AND outcome = 'ok' AND op IN ('create', 'set', 'delete', 'multi')")
    no_number, no_words = "CAST(NULL AS bigint) AS number", "CAST(NULL AS string) AS words"
    return together(
        [
            damages(facts).select("run").distinct().selectExpr("run", "'damaged' AS kind", no_number, no_words),
            acked.groupBy("run").count().selectExpr("run", "'acked' AS kind", "count AS number", no_words),
            beyond(facts).selectExpr("run", "'lost' AS kind", no_number, "to_json(struct(lost, gone, which)) AS words"),
        ]
    )


def _conclude(row: Run, seen: _Seen, wanted: Expected, cited: dict[tuple[int, str, int], Any]) -> dict[str, Any]:
    """What `verdict.json` says."""
    properties = [_property(item, row["run"], seen, wanted, cited) for item in ALL]
    unknown = _too_little(row, seen, wanted)
    unknown += [why for item in ALL for why in (*seen.unknown.get(item.name, []), *wanted.wrong(item.name))]
    beyond_ = _beyond(row, seen)
    outcomes = [it["verdict"] for it in properties if it["verdict"] in ("VIOLATION", "UNKNOWN")]
    outcomes += ["UNKNOWN"] if unknown else []
    outcomes += ["BEYOND-FAULT-MODEL"] if beyond_ else []
    reasons = [_sentence(it) for it in properties if it["violations"]] + unknown + beyond_
    if row["outcome"].startswith("harness-error"):
        outcomes.append("HARNESS-ERROR")
        reasons.insert(0, f"the harness failed: {row['outcome'].partition(':')[2].strip() or 'no reason given'}")
    verdict = worst(outcomes)
    return {"verdict": verdict, "exit": EXIT[verdict], "properties": properties, "reasons": reasons, "metrics": {}}


def _property(
    item: Property, run: int, seen: _Seen, wanted: Expected, cited: dict[tuple[int, str, int], Any]
) -> dict[str, Any]:
    """One property's judgement."""
    name, spared = item.name, item.name in seen.spared
    times = 0 if spared else seen.times.get(name, 0)
    checked = 0 if spared else seen.checked.get(name, 0)
    if spared:
        verdict = "NOT-APPLICABLE"
    elif times:
        verdict = "UNKNOWN" if item.rests_on_absence and seen.damaged else item.if_broken
    elif seen.unknown.get(name) or wanted.wrong(name):
        verdict = "UNKNOWN"
    else:
        verdict = "PASS" if checked else "NOT-APPLICABLE"
    listed = seen.listed.get(name, []) if times else []
    shown = [
        {
            "words": one["words"],
            "evidence": [
                {"file": ref["file"], "line": ref["line"], "event": cited[run, ref["file"], ref["line"]]}
                for ref in one["refs"]
            ],
        }
        for one in listed
    ]
    return {
        "name": name, "source": item.source, "verdict": verdict, "statement": item.statement, "checked": checked,
        "violations": shown, "more": times - len(shown),
    }  # fmt: skip


def _sentence(item: dict[str, Any]) -> str:
    """One sentence for a property that does not hold."""
    number = len(item["violations"]) + item["more"]
    certain = "is violated" if item["verdict"] == "VIOLATION" else "is not certain"
    more = f" (and {number - 1} more)" if number > 1 else ""
    return f"{item['name']} {certain}: {item['violations'][0]['words']}{more}"


def _too_little(row: Run, seen: _Seen, wanted: Expected) -> list[str]:
    """Why so little happened that nothing can be said."""
    found = []
    if row["outcome"] != "finished" and not row["outcome"].startswith("harness-error"):
        found.append(f"the run did not finish: {row['outcome']}")
    if seen.acked < wanted.min_acked:
        found.append(f"{seen.acked} writes were acknowledged; at least {wanted.min_acked} are needed to judge")
    if not seen.checked.get("integrity"):
        found.append("nothing was delivered")
    return found


def _beyond(row: Run, seen: _Seen) -> list[str]:
    """What a quorum of lost disks means for what had been acknowledged."""
    if not seen.lost:
        return []
    names = [f"node {number}" for number in seen.lost["lost"]]
    named = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    words = [
        f"the disks of {named} are lost: {row['nodes'] - len(names)} of {row['nodes']} nodes remain, a quorum is "
        f"{row['nodes'] // 2 + 1}; the nodes refused to form rather than invent history"
    ]
    if seen.lost.get("gone"):
        words.append(f"{seen.lost['gone']} acknowledged writes, {seen.lost['which']}, are lost with the disks")
    return words


def _unusable(row: Run) -> Verdict:
    """A run without a usable run.json."""
    said = {"verdict": "HARNESS-ERROR", "exit": 3, "properties": [], "reasons": [row["error"]], "metrics": {}}
    return Verdict(row["run"], row["path"], row, said, [])
