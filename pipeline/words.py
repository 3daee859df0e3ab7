"""Zxids, files and violations as Spark expressions: the same words that the oracle uses."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

LOW = 0xFFFFFFFF
LATER = 2**62  # when something is known at the end only: after all that is known at its own time
REF = "struct<file:string,line:int>"


def packed(pair: str | Column) -> Column:
    """A zxid as one number, ordered as the paper orders zxids."""
    column = F.col(pair) if isinstance(pair, str) else pair
    return F.shiftleft(column[0], 32).bitwiseOR(column[1])


def epoch_of(zxid: str | Column) -> Column:
    return F.shiftright(zxid, 32)


def counter_of(zxid: str | Column) -> Column:
    return (F.col(zxid) if isinstance(zxid, str) else zxid).bitwiseAND(LOW)


def show(zxid: str | Column) -> Column:
    """`epoch:counter`; the zxid of an empty history is `0:0 (nothing)`."""
    column = F.col(zxid) if isinstance(zxid, str) else zxid
    named = F.concat_ws(":", epoch_of(column), counter_of(column))
    return F.when(column == 0, F.lit("0:0 (nothing)")).otherwise(named)


def span(first: str | Column, last: str | Column) -> Column:
    """`1:3`, or `1:3 to 1:9`."""
    first, last = (F.col(it) if isinstance(it, str) else it for it in (first, last))
    return F.when(first == last, show(first)).otherwise(F.concat(show(first), F.lit(" to "), show(last)))


def say(*parts: str | Column) -> Column:
    """Words and columns, one after the other. Words are strings; a column's name is written `{name}`."""
    columns: list[Column] = []
    for part in parts:
        if isinstance(part, Column):
            columns.append(part.cast("string"))
            continue
        for number, piece in enumerate(part.replace("}", "{").split("{")):
            columns.append(F.col(piece).cast("string") if number % 2 else F.lit(piece))
    return F.concat(*(F.coalesce(column, F.lit("null")) for column in columns))


def trace(prefix: str = "") -> Column:
    """A line of a node's trace, from the columns `node`, `life` and `line`, each with the prefix."""
    node, life, line = (F.col(f"{prefix}{name}") for name in ("node", "life", "line"))
    return ref(F.concat(F.lit("trace/node-"), node, F.lit("-"), life, F.lit(".jsonl")), line)


def ref(file: str | Column, line: str | Column) -> Column:
    """A line of a file; null if there is no such line."""
    name = F.lit(file) if isinstance(file, str) else file
    number = F.col(line) if isinstance(line, str) else line
    return F.when(number.isNotNull() & name.isNotNull(), F.struct(name.alias("file"), number.cast("int").alias("line")))


def violations(
    frame: DataFrame,
    property_: str,
    words: Column,
    refs: Sequence[Column],
    at: str | Column,
    more: Column | None = None,
) -> DataFrame:
    """Rows of violations: what happened, the lines that show it in this order (`more` is an array of further ones), and when it
    happened, by which they are told."""
    when = F.col(at) if isinstance(at, str) else at
    cited = F.filter(F.array(*refs), lambda it: it.isNotNull()) if refs else F.lit(None)
    cited = F.concat(cited.cast(f"array<{REF}>"), more.cast(f"array<{REF}>")) if more is not None else cited
    return frame.select(
        "run",
        F.lit(property_).alias("property"),
        words.alias("words"),
        F.coalesce(cited.cast(f"array<{REF}>"), F.array().cast(f"array<{REF}>")).alias("refs"),
        when.cast("bigint").alias("at"),
    )
