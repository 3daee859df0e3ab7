"""Zxids, files and violations as Spark expressions: the same words that the oracle uses.

What there is to say of a violation is SQL text until there is one: in most runs nothing is violated, and an expression that no
row needs would cost as much as one that is needed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

LOW = 0xFFFFFFFF
LATER = str(2**62)  # when something is known at the end only: after all that is known at its own time
REF = "struct<file:string,line:int>"


class Sql(str):
    """An expression in SQL, beside plain words, which are strings."""

    __slots__ = ()


def packed(pair: str | Column) -> Column:
    """A zxid as one number, ordered as the paper orders zxids."""
    column = F.col(pair) if isinstance(pair, str) else pair
    return F.shiftleft(column[0], 32).bitwiseOR(column[1])


def epoch_of(zxid: str | Column) -> Column:
    return F.shiftright(zxid, 32)


def counter_of(zxid: str | Column) -> Column:
    return (F.col(zxid) if isinstance(zxid, str) else zxid).bitwiseAND(LOW)


def quoted(column: str) -> str:
    """A column's name in SQL, where some names are words of the language."""
    return ".".join(f"`{part}`" for part in column.split("."))


def show(zxid: str) -> Sql:
    """A column or an expression as `epoch:counter`; the zxid of an empty history is `0:0 (nothing)`."""
    z = _expression(zxid)
    return Sql(f"CASE WHEN {z} = 0 THEN '0:0 (nothing)' ELSE concat_ws(':', shiftright({z}, 32), {z} & {LOW}) END")


def span(first: str, last: str) -> Sql:
    """`1:3`, or `1:3 to 1:9`."""
    same = f"{_expression(first)} = {_expression(last)}"
    return when(same, show(first), Sql(f"concat({show(first)}, ' to ', {show(last)})"))


def say(*parts: str) -> Sql:
    """Words and expressions, one after the other. In words, a column's name is written `{name}`."""
    pieces = [piece for part in parts for piece in ([_text(part)] if isinstance(part, Sql) else _spelled(part))]
    return Sql(f"concat({', '.join(pieces)})")


def when(condition: str, then: Sql, otherwise: Sql) -> Sql:
    """One thing or the other."""
    return Sql(f"CASE WHEN {condition} THEN {then} ELSE {otherwise} END")


def plain(text: str) -> Sql:
    """Plain words where an expression is wanted."""
    return Sql("'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'")


def trace(prefix: str = "") -> Sql:
    """A line of a node's trace, from the columns `node`, `life` and `line`, each with the prefix."""
    node, life, line = (quoted(f"{prefix}{name}") for name in ("node", "life", "line"))
    return _ref(f"concat('trace/node-', {node}, '-', {life}, '.jsonl')", line)


def ref(file: str, line: str) -> Sql:
    """A line of a file, whose number is in a column; null if there is no such line."""
    return _ref(plain(file), quoted(line))


@dataclass(frozen=True, slots=True)
class Violated:
    """Rows that each violate a property.

    `words` is what happened, `refs` are the lines that show it, in this order (`more`: an array of further ones), and `at` is
    when it happened, by which violations are told: all of them SQL over the columns of `rows`, as `run` is a column there.
    """

    rows: DataFrame
    words: Sql
    refs: Sequence[Sql]
    at: str = "at"
    more: Sql | None = None

    def told(self) -> DataFrame:
        """The violations: `run`, `words`, `refs`, `at`."""
        cited = f"CAST(array_compact(array({', '.join(self.refs)})) AS array<{REF}>)"
        if self.more is not None:
            cited = f"coalesce(concat({cited}, CAST({self.more} AS array<{REF}>)), {cited})"
        return self.rows.selectExpr(
            "run", f"{self.words} AS words", f"{cited} AS refs", f"CAST({self.at} AS bigint) AS at"
        )


def _expression(name: str) -> str:
    return f"({name})" if isinstance(name, Sql) else quoted(name)


def _text(expression: Sql) -> str:
    return f"coalesce(CAST({expression} AS string), 'null')"


def _spelled(text: str) -> list[str]:
    """Words with names of columns, as expressions."""
    pieces = enumerate(text.replace("}", "{").split("{"))
    return [_text(Sql(quoted(piece))) if number % 2 else plain(piece) for number, piece in pieces if piece]


def _ref(file: str, line: str) -> Sql:
    there = f"{line} IS NOT NULL AND {file} IS NOT NULL"
    return Sql(f"CASE WHEN {there} THEN struct({file} AS file, CAST({line} AS int) AS line) END")
