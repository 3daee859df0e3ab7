"""From folders to tables. What was read before and has not changed is not read again."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from pipeline import columns as c
from pipeline import folders, forms
from pipeline.files import Contents, File, literally
from pipeline.folders import Folder
from pipeline.frames import hold, is_small, of_rows, threads, together
from pipeline.lines import numbered

RUNS_AT_ONCE = 500
BYTES_AT_ONCE = 2**33
Run = dict[str, Any]  # a row of `runs`
Fresh = dict[c.Table, DataFrame]
Said = Callable[[str], None]
Form = Callable[[DataFrame], DataFrame]
Parts = Callable[[DataFrame], dict[c.Table, DataFrame]]


@dataclass(frozen=True, slots=True)
class Ingested:
    """What one call did. `runs`: of the runs that were named the rows of `runs` that count, by path; `read`: the numbers of those
    that had to be read. `fresh`: with little data, and if the tables were empty before, all that they have now, held by Spark."""

    runs: list[Run]
    read: list[int]
    fresh: Fresh


def ingest(spark: SparkSession, places: Sequence[str], tables: str, said: Said = lambda _: None) -> Ingested:
    """Read all runs in or below `places` into the tables at `tables` (a path or URI). Raises NoRuns."""
    said("looking for runs")
    known, load = _known(spark, tables)
    found = folders.find(spark, places)
    changed = [folder for folder in found if folder.run not in known or known[folder.run]["stamp"] != folder.stamp]
    prints = {run: row["fingerprint"] for run, row in known.items()}
    parts = list(_parts(changed))
    fresh: Fresh | None = {} if is_small(spark) and not known and len(parts) == 1 else None
    read: list[int] = []
    for part in parts:
        load += 1
        said(f"reading runs {len(read) + 1} to {len(read) + len(part)} of {len(changed)}")
        held = folders.contents(spark, part)
        new = [it for it in part if prints.get(it.run) != folders.fingerprint(it, held)]
        known |= _write(spark, tables, load, part, new, held, known, fresh)
        read += [folder.run for folder in new]
    return Ingested(sorted((known[it.run] for it in found), key=lambda row: str(row["path"])), read, fresh or {})


def _known(spark: SparkSession, tables: str) -> tuple[dict[int, Run], int]:
    """What the tables have: for each run its newest row, and the highest load."""
    if not exists(spark, f"{tables}/runs"):
        return {}, 0
    rows = [row.asDict() for row in table(spark, tables, c.RUNS).collect()]
    newest = {row["run"]: row for row in sorted(rows, key=lambda row: int(row["load"]))}
    return newest, max((row["load"] for row in rows), default=0)


def _parts(found: Sequence[Folder]) -> Iterator[list[Folder]]:
    """As many runs as are read at once: so many, or so many bytes."""
    part: list[Folder] = []
    size = 0
    for folder in found:
        part.append(folder)
        size += sum(file.size for file in folder.files.values())
        if len(part) == RUNS_AT_ONCE or size > BYTES_AT_ONCE:
            yield part
            part, size = [], 0
    if part:
        yield part


def _write(
    spark: SparkSession,
    tables: str,
    load: int,
    part: Sequence[Folder],
    new: Sequence[Folder],
    held: dict[str, Contents],
    known: dict[int, Run],
    fresh: Fresh | None,
) -> dict[int, Run]:
    """One load, and what `runs` says of its runs. `runs` comes last: what was interrupted before it does not count, and is
    overwritten. `fresh` gets all of it, if there is one.

    A run that was touched and is the same as before keeps the load that its rows are in."""
    if new:
        _write_rows(spark, tables, load, new, held, fresh)
    kept = {folder.run: known[folder.run]["rows_in"] for folder in part if folder not in new}
    rows = {folder.run: _row(folder, held, kept.get(folder.run, load)) for folder in part}
    runs = of_rows(spark, [[row[name] for name in c.RUNS.names] for row in rows.values()], c.struct(c.RUNS.columns))
    save(runs, tables, c.RUNS, load)
    if fresh is not None:
        fresh[c.RUNS] = runs
    return rows


def _write_rows(
    spark: SparkSession,
    tables: str,
    load: int,
    new: Sequence[Folder],
    held: dict[str, Contents],
    fresh: Fresh | None,
) -> None:
    """All tables but `runs`. Each file is parsed once, and its lines are kept until the last table has them, for `fresh` longer."""

    def read_one(kind: tuple[str, Form, Parts]) -> tuple[DataFrame, dict[c.Table, DataFrame]]:
        name, form, parts = kind
        files = _files(new, name)
        lines = form(numbered(spark, files, held) if files else _nothing(spark))
        read = lines.persist(StorageLevel.MEMORY_AND_DISK) if fresh is None else hold(lines)
        return read, {into: _usable(rows, into) for into, rows in parts(read).items()}

    with threads(spark) as pool:
        all_read = list(pool.map(read_one, _KINDS))
        frames = [read for read, _ in all_read]
        refused = together(_refused(frame) for frame in frames)
        made = {into: rows for _, parts in all_read for into, rows in parts.items()}
        made[c.QUARANTINE] = refused.coalesce(1)
        list(pool.map(lambda it: save(it[1], tables, it[0], load), made.items()))
    if fresh is not None:
        fresh |= made
        return
    for frame in frames:
        frame.unpersist()


def _refused(read: DataFrame) -> DataFrame:
    """The lines that do not have the documented form."""
    torn = (F.col("torn") & F.col("excusable")).alias("torn")
    text = F.substring("text", 1, 1000).alias("text")
    return read.where("reason IS NOT NULL").select("run", "file", "line", "reason", torn, text)


def _of_traces(read: DataFrame) -> dict[c.Table, DataFrame]:
    """The five tables that come from traces, from one reading."""
    batches = {"broadcast": c.BROADCASTS, "accept": c.ACCEPTS, "deliver": c.DELIVERIES}
    links = read.where("event IN ('link', 'channel')").withColumn("last", F.col("last").cast("bigint"))
    others = read.where(~F.col("event").isin(*batches, "link", "channel"))
    named = {table_: read.where(F.col("event") == event) for event, table_ in batches.items()}
    return {**named, c.LINKS: links, c.EVENTS: others}


_KINDS: list[tuple[str, Form, Parts]] = [
    ("trace/", forms.trace, _of_traces),
    ("ops.jsonl", forms.operations, lambda read: {c.OPERATIONS: read}),
    ("faults.jsonl", forms.faults, lambda read: {c.FAULTS: read}),
    ("harness.jsonl", forms.milestones, lambda read: {c.MILESTONES: read}),
]


def _files(chosen: Iterable[Folder], prefix: str) -> list[tuple[int, File]]:
    return [(it.run, file) for it in chosen for name, file in it.files.items() if name.startswith(prefix)]


def _nothing(spark: SparkSession) -> DataFrame:
    return of_rows(spark, [], "run bigint, file string, line int, text string, torn boolean")


def _usable(read: DataFrame, into: c.Table) -> DataFrame:
    """The lines that have the documented form, with a table's columns."""
    usable = read.where("reason IS NULL")
    return usable.select(*(_cast(column) for column in into.columns))


def _cast(column: c.Column) -> Any:
    if column.name == "pairs":
        return F.from_json("pairs", column.type).alias("pairs")
    return F.col(column.name).cast(column.type)


def _row(folder: Folder, held: dict[str, Contents], rows_in: int) -> Run:
    """A run's row in `runs`."""
    file = folder.files.get("run.json")
    said, error = _run_json(folder, held[file.path].text if file else None)
    facts: dict[str, Any] = {
        "run": folder.run,
        "path": folder.path,
        "rows_in": rows_in,
        "stamp": folder.stamp,
        "fingerprint": folders.fingerprint(folder, held),
        "error": error,
        "name": said.get("run"),
        "outcome": said.get("outcome", "finished"),
        "expect": json.dumps(said.get("expect", {})),
        "files": sorted(folder.files),
    }
    texts = ("scenario", "backend", "defect", "disk", "commit", "command", "started", "ended")
    facts |= {name: None if said.get(name) is None else str(said[name]) for name in texts}
    facts |= {name: said[name] if isinstance(said.get(name), int) else None for name in ("seed", "nodes")}
    facts["record"] = bool(said.get("record"))
    return facts


def _run_json(folder: Folder, text: str | None) -> tuple[dict[str, Any], str | None]:
    """What run.json says, and why it can't be used (None if it can)."""
    where = f"{folder.path}/run.json"
    if text is None:
        return {}, f"{where} can't be read (No such file or directory); give the folder of one run, with its run.json"
    try:
        said = json.loads(text)
    except ValueError as error:
        return {}, f"{where} does not describe a run: {error}"
    if not isinstance(said, dict):
        return {}, f"{where} does not describe a run: it is no JSON object"
    forms_ = {
        "nodes": isinstance(said.get("nodes"), int) and said["nodes"] >= 1,
        "outcome": isinstance(said.get("outcome", ""), str),
        "expect": isinstance(said.get("expect", {}), dict),
    }
    wrong = [name for name, right in forms_.items() if not right]
    return (said, None) if not wrong else ({}, f"{where} does not describe a run: look at {', '.join(wrong)}")


def save(frame: DataFrame, tables: str, into: c.Table, load: int) -> None:
    """Write one load of a table."""
    frame.write.mode("overwrite").parquet(f"{tables}/{into.name}/load={load}")


def table(spark: SparkSession, tables: str, which: c.Table) -> DataFrame:
    """A whole table, all loads, with the column `load`."""
    schema = c.struct((*which.columns, c.LOAD))
    place = f"{tables}/{which.name}"
    return spark.read.schema(schema).option("basePath", place).parquet(literally(place))


def exists(spark: SparkSession, place: str) -> bool:
    jvm: Any = spark.sparkContext._jvm
    path = jvm.org.apache.hadoop.fs.Path(place)
    return bool(path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()).exists(path))
