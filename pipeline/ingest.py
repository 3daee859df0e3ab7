"""Reads new and changed run folders into the Parquet tables."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from zab_chaos.pipeline import columns as c
from zab_chaos.pipeline.folders import SourceFolder
from zab_chaos.pipeline.lines import LINE_SCHEMA, lines_files, read_lines, run_row
from zab_chaos.pipeline.tables import read_table, write_load

RUNS_AT_ONCE = 500
BYTES_AT_ONCE = 2**33
TASK_BYTES_MAX = 2**26  # bytes of files that one task reads, at most
TASK_BYTES_MIN = 2**21  # ... and at least, if every core has a task anyway: each task writes a file of every table
RunRow = dict[str, Any]  # a row of `runs`
Progress = Callable[[str], None]
_DOCUMENTED_EVENTS = (
    "boot", "left", "role", "phase", "vote", "accepted_epoch", "current_epoch", "established", "member", "confirmed",
    "truncate", "snapshot", "differs", "misanswered", "refused", "recovery", "work", "fault", "client", "abort", "exit",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ingested:
    """The result of one call: the valid row in the table `runs` of each given run, in their order, and how many of the runs were
    new or changed and so were read."""

    runs: list[RunRow]
    newly_read: int


def ingest(
    spark: SparkSession, found: Sequence[SourceFolder], tables: Path, progress: Progress = lambda _: None
) -> Ingested:
    """Read those of the runs that are new or changed into the tables in the folder `tables`."""
    known, load = _known_runs(spark, tables)
    changed = [folder for folder in found if folder.run not in known or known[folder.run]["stamp"] != folder.stamp]
    done, before = 0, load
    for batch in _batches(changed):
        load += 1
        progress(f"reading runs {done + 1} to {done + len(batch)} of {len(changed)}")
        _write_batch(spark, tables, load, batch, known)
        done += len(batch)
    runs = [known[folder.run] for folder in found]
    return Ingested(runs, sum(row["rows_in"] > before for row in runs))


def _known_runs(spark: SparkSession, tables: Path) -> tuple[dict[int, RunRow], int]:
    """Return the newest row of each run that is in the tables, and the highest load."""
    if not (tables / c.RUNS.name).exists():
        return {}, 0
    rows = sorted((row.asDict() for row in read_table(spark, tables, c.RUNS).collect()), key=itemgetter("load"))
    return {row["run"]: row for row in rows}, rows[-1]["load"] if rows else 0


def _batches(found: Sequence[SourceFolder]) -> Iterator[list[SourceFolder]]:
    """Split runs into batches that are read at once. A batch is limited in number and in bytes."""
    batch: list[SourceFolder] = []
    for folder in found:
        batch.append(folder)
        if len(batch) == RUNS_AT_ONCE or sum(it.bytes for it in batch) > BYTES_AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch


def _write_batch(
    spark: SparkSession, tables: Path, load: int, batch: Sequence[SourceFolder], known: dict[int, RunRow]
) -> None:
    """Write one load of every table, and add the new rows of `runs` to `known`.

    A run whose files were touched but not changed keeps the load that its rows are in. The table `runs` is written last: a
    load that was interrupted before that does not count, and the next call overwrites it.
    """
    rows = _distribute(spark, batch).map(run_row).collect()
    for row in rows:
        before = known.get(row["run"], {})
        same = before.get("fingerprint") == row["fingerprint"]
        row["rows_in"] = before["rows_in"] if same else load
    new = {row["run"] for row in rows if row["rows_in"] == load}
    if new:
        _write_lines(spark, tables, load, [folder for folder in batch if folder.run in new])
    values = [[row[name] for name in c.RUNS.names] for row in rows]
    write_load(spark.createDataFrame(values, c.RUNS.ddl), tables, c.RUNS, load)
    known |= {row["run"]: row for row in rows}


def _write_lines(spark: SparkSession, tables: Path, load: int, new: Sequence[SourceFolder]) -> None:
    """Write all tables except `runs`. The lines are cached until the last table is written."""
    files = [source for folder in new for source in lines_files(folder)]
    read = _distribute(spark, new, files).flatMap(read_lines)
    all_lines = spark.createDataFrame(read, LINE_SCHEMA, verifySchema=False).persist()
    for table in c.TABLES.values():
        if table is not c.RUNS:
            write_load(_parsed_lines(all_lines, table), tables, table, load)
    all_lines.unpersist()


def _distribute(spark: SparkSession, folders: Sequence[SourceFolder], items: Sequence[Any] | None = None) -> Any:
    """Distribute folders, or `items` that belong to them, over tasks: up to four for each core, within the limits of bytes a task."""
    context = spark.sparkContext
    given = folders if items is None else items
    cores, size = context.defaultParallelism, sum(folder.bytes for folder in folders)
    tasks = max(cores, min(4 * cores, size // TASK_BYTES_MIN), size // TASK_BYTES_MAX)
    return context.parallelize(given, max(1, min(tasks, len(given))))


def _parsed_lines(all_lines: DataFrame, table: c.Table) -> DataFrame:
    """Select the lines of one table, parsed into its columns."""
    mine = all_lines.where(F.col("table") == table.name)
    if table is c.QUARANTINE:
        return mine.withColumn("text", F.substring("text", 1, 1000)).select(*table.names)
    known = F.get_json_object("text", "$.event").isin(*_DOCUMENTED_EVENTS) if table is c.EVENTS else F.lit(False)
    own = {"run": F.col("run"), "line": F.col("line"), "raw": F.when(~known, F.col("text"))}
    parsed = F.from_json("text", c.ddl(column for column in table.columns if column.name not in own))
    columns = [own.get(name, F.col(f"parsed.{name}")).alias(name) for name in table.names]
    return mine.withColumn("parsed", parsed).select(*columns)
