"""Reads new and changed run folders into the Parquet tables."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from zab_chaos.pipeline import columns as c
from zab_chaos.pipeline.folders import Folder
from zab_chaos.pipeline.lines import LINE_SCHEMA, lines_files, read_lines, run_row
from zab_chaos.pipeline.tables import read_table, write_load

RUNS_AT_ONCE = 500
BYTES_AT_ONCE = 2**33
TASK_BYTES = 2**26  # of files that one task reads, at most
FEW_BYTES = 2**21  # ... and at least, as long as every core has a task: each task writes a file of every table
RunRow = dict[str, Any]  # a row of `runs`
Progress = Callable[[str], None]
_EVENTS = (
    "boot", "left", "role", "phase", "vote", "accepted_epoch", "current_epoch", "established", "member", "confirmed",
    "truncate", "snapshot", "differs", "refused", "recovery", "work", "fault", "client", "abort", "exit",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ingested:
    """What one call did. `runs`: of the runs that were named the rows of `runs` that count, by path; `read`: the numbers of those
    that had to be read."""

    runs: list[RunRow]
    read: list[int]


def ingest(spark: SparkSession, found: Sequence[Folder], tables: Path, progress: Progress = lambda _: None) -> Ingested:
    """Read the new and changed ones of these runs into the tables at `tables`."""
    known, load = _known_runs(spark, tables)
    changed = [folder for folder in found if folder.run not in known or known[folder.run]["stamp"] != folder.stamp]
    newly_read: list[int] = []
    done = 0
    for batch in _batches(changed):
        load += 1
        progress(f"reading runs {done + 1} to {done + len(batch)} of {len(changed)}")
        new = _load(spark, tables, load, batch, known)
        newly_read += new
        done += len(batch)
    return Ingested([known[folder.run] for folder in found], newly_read)


def _known_runs(spark: SparkSession, tables: Path) -> tuple[dict[int, RunRow], int]:
    """For each run in the tables its newest row, and the highest load."""
    if not (tables / c.RUNS.name).exists():
        return {}, 0
    rows = [row.asDict() for row in read_table(spark, tables, c.RUNS).orderBy("load").collect()]
    return {row["run"]: row for row in rows}, max((row["load"] for row in rows), default=0)


def _batches(found: Sequence[Folder]) -> Iterator[list[Folder]]:
    """Split runs into batches that are read at once, limited by number and by bytes."""
    batch: list[Folder] = []
    for folder in found:
        batch.append(folder)
        if len(batch) == RUNS_AT_ONCE or sum(it.bytes for it in batch) > BYTES_AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch


def _load(spark: SparkSession, tables: Path, load: int, batch: Sequence[Folder], known: dict[int, RunRow]) -> list[int]:
    """One load of every table; the numbers of the runs that were read for it. `known` gets the rows of `runs`.

    A run that was touched and is the same as before keeps the load that its rows are in. `runs` is written last: what was
    interrupted before that does not count, and is overwritten by the next call.
    """
    rows = _distribute(spark, batch).map(run_row).collect()
    new: list[int] = []
    for row in rows:
        before = known.get(row["run"])
        same = before is not None and before["fingerprint"] == row["fingerprint"]
        row["rows_in"] = before["rows_in"] if before is not None and same else load
        new += [] if same else [row["run"]]
    if new:
        _write(spark, tables, load, [folder for folder in batch if folder.run in set(new)])
    values = [[row[name] for name in c.RUNS.names] for row in rows]
    write_load(spark.createDataFrame(values, c.RUNS.ddl), tables, c.RUNS, load)
    known |= {row["run"]: row for row in rows}
    return new


def _write(spark: SparkSession, tables: Path, load: int, new: Sequence[Folder]) -> None:
    """Write all tables but `runs`. The lines are cached until the last table is written."""
    files = [source for folder in new for source in lines_files(folder)]
    all_lines = spark.createDataFrame(
        _distribute(spark, new, files).flatMap(read_lines), LINE_SCHEMA, verifySchema=False
    ).persist()
    for table in c.TABLES.values():
        if table is not c.RUNS:
            write_load(_rows_of(all_lines, table), tables, table, load)
    all_lines.unpersist()


def _distribute(spark: SparkSession, folders: Sequence[Folder], items: Sequence[Any] | None = None) -> Any:
    """These folders (or `items` of theirs) as tasks: four for each core, of more than `FEW_BYTES` and less than `TASK_BYTES`."""
    context = spark.sparkContext
    given = folders if items is None else items
    cores, size = context.defaultParallelism, sum(folder.bytes for folder in folders)
    tasks = max(cores, min(4 * cores, size // FEW_BYTES), size // TASK_BYTES)
    return context.parallelize(given, max(1, min(tasks, len(given))))


def _rows_of(all_lines: DataFrame, table: c.Table) -> DataFrame:
    """The lines of a table, with its columns."""
    mine = all_lines.where(F.col("table") == table.name)
    if table is c.QUARANTINE:
        return mine.withColumn("text", F.substring("text", 1, 1000)).select(*table.names)
    known = F.get_json_object("text", "$.event").isin(*_EVENTS) if table is c.EVENTS else F.lit(False)
    own = {"run": F.col("run"), "line": F.col("line"), "raw": F.when(~known, F.col("text"))}
    parsed = F.from_json("text", c.ddl(column for column in table.columns if column.name not in own))
    columns = [own.get(name, F.col(f"parsed.{name}")).alias(name) for name in table.names]
    return mine.withColumn("parsed", parsed).select(*columns)
