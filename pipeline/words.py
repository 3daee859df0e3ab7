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
    if isinstance(zxid, str):
        z = quoted(zxid)
        return F.expr(
            f"CASE WHEN {z} = 0 THEN '0:0 (nothing)' ELSE concat_ws(':', shiftright({z}, 32), {z} & {LOW}) END"
        )
    return F.when(zxid == 0, F.lit("0:0 (nothing)")).otherwise(F.concat_ws(":", epoch_of(zxid), counter_of(zxid)))


def span(first: str | Column, last: str | Column) -> Column:
    """`1:3`, or `1:3 to 1:9`."""
    first, last = (F.col(it) if isinstance(it, str) else it for it in (first, last))
    return F.when(first == last, show(first)).otherwise(F.concat(show(first), F.lit(" to "), show(last)))


def say(*parts: str | Column) -> Column:
    """Words and columns, one after the other. Words are strings; a column's name is written `{name}`."""
    columns = [
        F.expr(_spelled(part)) if isinstance(part, str) else F.coalesce(part.cast("string"), F.lit("null"))
        for part in parts
    ]
    return F.concat(*columns) if len(columns) > 1 else columns[0]


def _spelled(words: str) -> str:
    """Words with names of columns in SQL: one expression, where each call from Python would be a question to the JVM."""
    pieces = enumerate(words.replace("}", "{").split("{"))
    return f"concat({', '.join(_named(piece) if number % 2 else _text(piece) for number, piece in pieces)})"


def _named(column: str) -> str:
    return f"coalesce(CAST({quoted(column)} AS string), 'null')"


def quoted(column: str) -> str:
    """A column's name in SQL, where some names are words of the language."""
    return ".".join(f"`{part}`" for part in column.split("."))


def _text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def trace(prefix: str = "") -> Column:
    """A line of a node's trace, from the columns `node`, `life` and `line`, each with the prefix."""
    node, life, line = (quoted(f"{prefix}{name}") for name in ("node", "life", "line"))
    return F.expr(_ref(f"concat('trace/node-', {node}, '-', {life}, '.jsonl')", line))


def ref(file: str, line: str) -> Column:
    """A line of a file, whose number is in a column; null if there is no such line."""
    return F.expr(_ref(_text(file), quoted(line)))


def _ref(file: str, line: str) -> str:
    there = f"{line} IS NOT NULL AND {file} IS NOT NULL"
    return f"CASE WHEN {there} THEN struct({file} AS file, CAST({line} AS int) AS line) END"


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
    cited = F.array_compact(F.array(*refs)).cast(f"array<{REF}>") if refs else F.expr(f"CAST(array() AS array<{REF}>)")
    if more is not None:
        cited = F.coalesce(F.concat(cited, more.cast(f"array<{REF}>")), cited)
    return frame.select(
        "run",
        F.lit(property_).alias("property"),
        words.alias("words"),
        cited.alias("refs"),
        when.cast("bigint").alias("at"),
    )
