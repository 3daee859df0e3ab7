"""Lines of text with their place: which run, which file, which line. Spark splits files and does not count."""

from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipeline.files import LOCAL, Contents, File, as_pattern, named
from pipeline.frames import alone, gathered, of_rows

_Block = tuple[str, int, int, int, int]  # path, start, first row, lines in earlier blocks, lines in the file
_ROW = 2**33 - 1  # the part of a row's id that counts the rows of its task
_PLACES = "path string, start bigint, base bigint, before bigint, total bigint, run bigint, file string, whole boolean"


def numbered(spark: SparkSession, files: Sequence[tuple[int, File]], held: dict[str, Contents]) -> DataFrame:
    """Every line of the files: `run`, `file` (relative), `line` (from 1), `text`, `torn` (the last one, without an end).

    Spark reads a large file in blocks, each from its first line on, and numbers the rows of a task upwards. So a line's number is
    its row's distance from the block's first row, plus what the blocks before it hold.
    """
    text = spark.read.text([as_pattern(file.path) for _, file in files], lineSep="\n").select(
        F.col("value").alias("text"),
        F.monotonically_increasing_id().alias("id"),
        F.col("_metadata.file_path").alias("path"),
        F.col("_metadata.file_block_start").alias("start"),
    )
    blocks = _alone(spark, files, held)
    if blocks is None:
        rows = text.groupBy("path", "start").agg(F.min("id").alias("base"), F.count("*").alias("lines")).collect()
        blocks = _counted([(row["path"], row["start"], row["base"], row["lines"]) for row in rows])
    else:
        text = text.withColumns({"id": F.col("id").bitwiseAND(_ROW), "path": F.regexp_replace("path", *LOCAL)})
    known = {file.path: (run, file.name, held[file.path].whole) for run, file in files}
    places = of_rows(spark, [(*block, *known[named(block[0])]) for block in blocks], _PLACES)
    line = (F.col("id") - F.col("base") + F.col("before") + 1).cast("int")
    return (
        gathered(text)
        .join(F.broadcast(places), ["path", "start"])
        .select("run", "file", line.alias("line"), "text", (~F.col("whole") & (line == F.col("total"))).alias("torn"))
    )


def _alone(spark: SparkSession, files: Sequence[tuple[int, File]], held: dict[str, Contents]) -> list[_Block] | None:
    """Where the rows of each file begin if every task reads one file, and the lines were counted; else None."""
    whole_files = [(file.path, held[file.path].lines) for _, file in files if file.size <= alone(spark)]
    blocks = [(path, 0, 0, 0, lines) for path, lines in whole_files if lines is not None]
    return blocks if len(blocks) == len(files) else None


def _counted(blocks: Iterable[tuple[str, int, int, int]]) -> list[_Block]:
    """(path, start, first row, lines) -> blocks."""
    totals: dict[str, int] = {}
    found = []
    for path, start, base, lines in sorted(blocks):
        found.append((path, start, base, totals.get(path, 0)))
        totals[path] = totals.get(path, 0) + lines
    return [(*block, totals[block[0]]) for block in found]
