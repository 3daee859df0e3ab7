"""Lines of text with their place: which run, which file, which line. Spark splits files and does not count."""

from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipeline.folders import Contents, File, as_pattern
from pipeline.frames import gathered, of_rows

_PLACES = "path string, start bigint, base bigint, before bigint, total bigint, run bigint, file string, whole boolean"


def numbered(spark: SparkSession, files: Sequence[tuple[int, File]], held: dict[str, Contents]) -> DataFrame:
    """Every line of the files: `run`, `file` (relative), `line` (from 1), `text`, `torn` (the last one, without an end).

    Spark reads a large file in blocks, each from its first line on, and numbers the rows of a task upwards. So the lines
    are counted by block first; a line's number is its row's distance from the block's first row, plus what the blocks
    before it hold.
    """
    text = spark.read.text([as_pattern(file.path) for _, file in files], lineSep="\n").select(
        F.col("value").alias("text"),
        F.monotonically_increasing_id().alias("id"),
        F.col("_metadata.file_path").alias("path"),
        F.col("_metadata.file_block_start").alias("start"),
    )
    blocks = text.groupBy("path", "start").agg(F.min("id").alias("base"), F.count("*").alias("lines")).collect()
    known = {file.path: (run, file.name, held[file.path].whole) for run, file in files}
    counted = [(row["path"], row["start"], row["base"], row["lines"]) for row in blocks]
    places = of_rows(
        spark,
        [(path, start, base, before, total, *known[path]) for path, start, base, before, total in _counted(counted)],
        _PLACES,
    )
    line = (F.col("id") - F.col("base") + F.col("before") + 1).cast("int")
    return (
        gathered(text)
        .join(F.broadcast(places), ["path", "start"])
        .select("run", "file", line.alias("line"), "text", (~F.col("whole") & (line == F.col("total"))).alias("torn"))
    )


def _counted(blocks: Iterable[tuple[str, int, int, int]]) -> list[tuple[str, int, int, int, int]]:
    """(path, start, first row, lines) -> (path, start, first row, lines in earlier blocks, lines in the file)."""
    totals: dict[str, int] = {}
    found = []
    for path, start, base, lines in sorted(blocks):
        found.append((path, start, base, totals.get(path, 0)))
        totals[path] = totals.get(path, 0) + lines
    return [(*block, totals[block[0]]) for block in found]
