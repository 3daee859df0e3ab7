"""From folders to tables. What was read before and has not changed is not read again."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from pipeline import columns as c
from pipeline import folders, forms
from pipeline.folders import Contents, File, Folder
from pipeline.frames import of_rows, threads, together
from pipeline.lines import numbered

RUNS_AT_ONCE = 500
BYTES_AT_ONCE = 2**33
Said = Callable[[str], None]
Form = Callable[[DataFrame], DataFrame]
Parts = Callable[[DataFrame], dict[c.Table, DataFrame]]


@dataclass(frozen=True, slots=True)
class Ingested:
    """What one call did, by run: `chosen` are the runs that were named, `read` those that had to be read."""

    chosen: list[int]
    read: list[int]


@dataclass(frozen=True, slots=True)
class _Known:
    """A run as the tables have it."""

    rows_in: int
    stamp: str
    fingerprint: str


def ingest(spark: SparkSession, places: Sequence[str], tables: str, said: Said = lambda _: None) -> Ingested:
    """Read all runs in or below `places` into the tables at `tables` (a path or URI). Raises NoRuns."""
    said("looking for runs")
    known, load = _known(spark, tables)
    with threads(spark, 1) as beside:
        if not known:
            beside.submit(_rehearse, spark)
        found = folders.find(spark, places)
    fresh = [folder for folder in found if folder.run not in known or known[folder.run].stamp != folder.stamp]
    prints = {run: it.fingerprint for run, it in known.items()}
    read: list[int] = []
    for part in _parts(fresh):
        load += 1
        said(f"reading runs {len(read) + 1} to {len(read) + len(part)} of {len(fresh)}")
        held = folders.contents(spark, part)
        new = [it for it in part if prints.get(it.run) != folders.fingerprint(it, held)]
        _write(spark, tables, load, part, new, held, known)
        read += [folder.run for folder in new]
    return Ingested([folder.run for folder in found], read)


def _known(spark: SparkSession, tables: str) -> tuple[dict[int, _Known], int]:
    """What the tables have: for each run its newest row, and the highest load."""
    if not exists(spark, f"{tables}/runs"):
        return {}, 0
    rows = table(spark, tables, c.RUNS).select("run", "load", "rows_in", "stamp", "fingerprint").collect()
    found = {run: _Known(row["rows_in"], row["stamp"], row["fingerprint"]) for run, row in newest(rows).items()}
    return found, max((row["load"] for row in rows), default=0)


def newest(rows: Iterable[Row]) -> dict[int, Row]:
    """Of rows of `runs`, for each run the one that was written last."""
    return {row["run"]: row for row in sorted(rows, key=lambda row: row["load"])}


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
    known: dict[int, _Known],
) -> None:
    """One load. `runs` comes last: what was interrupted before it does not count, and is overwritten.

    A run that was touched and is the same as before keeps the load that its rows are in."""
    if new:
        _write_rows(spark, tables, load, new, held)
    kept = {folder.run: known[folder.run].rows_in for folder in part if folder not in new}
    rows = [_row(folder, held, kept.get(folder.run, load)) for folder in part]
    save(of_rows(spark, rows, c.struct(c.RUNS.columns)), tables, c.RUNS, load)


def _write_rows(spark: SparkSession, tables: str, load: int, new: Sequence[Folder], held: dict[str, Contents]) -> None:
    """All tables but `runs`. Each file is parsed once, and its lines are kept until the last table has them."""

    def read_one(kind: tuple[str, Form, Parts]) -> tuple[DataFrame, dict[c.Table, DataFrame]]:
        name, form, parts = kind
        files = _files(new, name)
        read = form(numbered(spark, files, held) if files else _nothing(spark)).persist(StorageLevel.MEMORY_AND_DISK)
        return read, {into: _usable(rows, into) for into, rows in parts(read).items()}

    with threads(spark) as pool:
        all_read = list(pool.map(read_one, _KINDS))
        frames = [read for read, _ in all_read]
        refused = together(_refused(frame) for frame in frames)
        made = [it for _, parts in all_read for it in parts.items()] + [(c.QUARANTINE, refused.coalesce(1))]
        list(pool.map(lambda it: save(it[1], tables, it[0], load), made))
    for frame in frames:
        frame.unpersist()


def _rehearse(spark: SparkSession) -> None:
    """Have Spark read what is asked of each line, as long as it has nothing else to do but list folders: it reads it once."""
    nothing = _nothing(spark)
    for _, form, parts in _KINDS:
        for into, rows in parts(form(nothing)).items():
            _usable(rows, into)


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


def _row(folder: Folder, held: dict[str, Contents], rows_in: int) -> tuple[Any, ...]:
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
    return tuple(facts[name] for name in c.RUNS.names)


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
    return spark.read.schema(schema).option("basePath", place).parquet(folders.literally(place))


def exists(spark: SparkSession, place: str) -> bool:
    jvm: Any = spark.sparkContext._jvm
    path = jvm.org.apache.hadoop.fs.Path(place)
    return bool(path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()).exists(path))
