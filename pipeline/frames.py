"""Frames made of this process's rows, frames put together, and where their rows are.

In a session that is meant for little data (`session.start(small=True)`) a shuffle makes one partition. A frame that is in one
partition already needs no shuffle there at all: a query of ten steps is one task instead of twenty.
"""

import json
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StructType

from pipeline import session
from pipeline.gateway import DATASET, UNION
from pipeline.types import struct_of

Rows = dict[str, list[dict[str, Any]]]  # by the name of their frame


def of_rows(spark: SparkSession, rows: Sequence[Sequence[Any]], schema: StructType | str) -> DataFrame:
    """A small frame, in one partition. Values are numbers, strings, lists of these, or None.

    The rows travel as text that the JVM parses; Spark's own `createDataFrame` starts Python workers for them, which takes a second.
    """
    form = struct_of(schema) if isinstance(schema, str) else schema
    text = json.dumps([dict(zip(form.names, row, strict=True)) for row in rows])
    frame = spark.range(0, 1, 1, 1).select(F.inline(F.from_json(F.lit(text), ArrayType(form))))
    return frame if rows else none_of(frame)


def none_of(frame: DataFrame) -> DataFrame:
    """A frame with the same columns and no rows, and nothing else that Spark would have to look at."""
    spark = frame.sparkSession
    jvm: Any = spark.sparkContext._jvm
    return DataFrame(spark._jsparkSession.createDataFrame(jvm.java.util.ArrayList(), frame._jdf.schema()), spark)


def gathered(frame: DataFrame) -> DataFrame:
    """The frame, in one partition if this session works with one."""
    return frame.coalesce(1) if is_small(frame.sparkSession) else frame


def at_once(spark: SparkSession) -> int:
    """How many queries may be on their way at a time: while one is planned, which takes one core, others are computed. With much
    data each gets all of the memory."""
    return 4 if is_small(spark) else 1


def hold(frame: DataFrame) -> DataFrame:
    """The frame with its rows kept until `let_go`, so that what is built on it has a short plan: Spark looks at the whole plan again
    with every step that is added to it. With much data they are computed now, with little when somebody asks for them."""
    return frame.localCheckpoint(eager=not is_small(frame.sparkSession))


def let_go(held: DataFrame) -> None:
    """Have Spark drop what it holds of a frame; with little data it drops all of it in the end."""
    if not is_small(held.sparkSession):
        held._jdf.queryExecution().toRdd().unpersist(False)


def is_small(spark: SparkSession) -> bool:
    """Whether the session is meant for little data."""
    return bool(getattr(spark, "_zab_small", False))


def alone(spark: SparkSession) -> int:
    """The size in bytes up to which a file that Spark reads has a task to itself."""
    return session.BLOCK if is_small(spark) else -1


def threads(spark: SparkSession, number: int | None = None) -> ThreadPoolExecutor:
    """So many threads that ask for something; as many as `at_once` says if no number is given."""
    return ThreadPoolExecutor(number or at_once(spark), initializer=session.anonymous, initargs=(spark,))


def together(frames: Iterable[DataFrame]) -> DataFrame:
    """One frame of several with the same columns. Put together two by two, as `unionAll` does, they would be looked at as often as
    there are frames, each time all of them."""
    parts = list(frames)
    if len(parts) > 1:
        spark = parts[0].sparkSession
        jvm: Any = spark.sparkContext._jvm
        plans = jvm.PythonUtils.toSeq([part._jdf.logicalPlan() for part in parts])
        union = getattr(jvm, UNION)(plans, False, False)
        parts = [DataFrame(getattr(jvm, DATASET).ofRows(spark._jsparkSession, union), spark)]
    return gathered(parts[0])


def rows_of(frames: dict[str, DataFrame]) -> Rows:
    """The rows of some frames with few rows, in one query."""
    found: Rows = {name: [] for name in frames}
    whole = F.to_json(F.struct("*"), {"ignoreNullFields": "false"}).alias("row")
    for row in together(frame.select(F.lit(name).alias("of"), whole) for name, frame in frames.items()).collect():
        found[row["of"]].append(json.loads(row["row"]))
    return found
