"""The small pieces that all queries are made of, held against Spark itself."""

from concurrent.futures import Future
from typing import Any

import pytest
from pyspark.sql.functions import col, lit
from pyspark.sql.types import StructType

from pipeline import columns as c
from pipeline.frames import none_of, of_rows, rows_of, threads
from pipeline.types import struct_of
from pipeline.words import LATER, Sql, Violated, plain, ref, say, show, span, trace, when

pytestmark = pytest.mark.timeout(300)
ONE = 1 << 32


def said(spark: Any, *expressions: str) -> list[Any]:
    """What expressions say of one row."""
    form = "run bigint, node int, life int, line int, z bigint, to bigint, none string, it struct<line:int>"
    row = of_rows(spark, [(1, 2, 3, 4, ONE + 7, ONE + 9, None, {"line": 5})], form)
    (told,) = row.selectExpr(*expressions).collect()
    return list(told)


def test_zxids_are_shown_as_people_write_them(spark: Any) -> None:
    assert said(spark, show("z"), show(Sql("z - z")), span("z", "to"), span("z", "z"), span("z", Sql("z + 1"))) == [
        "1:7", "0:0 (nothing)", "1:7 to 1:9", "1:7", "1:7 to 1:8",
    ]  # fmt: skip


def test_words_are_taken_literally_and_names_are_columns(spark: Any) -> None:
    odd = say('it\'s \\ "node" {node}: ', show("z"), " {it.line} {none} ", Sql("none"))
    assert said(spark, odd, when("node = 2", plain("two's"), plain("other"))) == [
        'it\'s \\ "node" 2: 1:7 5 null null', "two's",
    ]  # fmt: skip


def test_a_citation_names_file_and_line_or_nothing(spark: Any) -> None:
    here, there, nowhere = said(spark, trace(), ref("ops.jsonl", "it.line"), ref("ops.jsonl", "none"))
    assert (here["file"], here["line"]) == ("trace/node-2-3.jsonl", 4)
    assert (there["file"], there["line"]) == ("ops.jsonl", 5)
    assert nowhere is None


def test_a_violation_lists_the_citations_that_exist_and_further_ones(spark: Any) -> None:
    row = of_rows(spark, [(1, 2, 3, 4)], "run bigint, node int, life int, line int")
    none, more = Sql("NULL"), Sql(f"array({ref('ops.jsonl', 'line')})")
    for violated, files in (
        (Violated(row, plain("x"), [none, trace()], LATER), ["trace/node-2-3.jsonl"]),
        (Violated(row, plain("x"), [], "0"), []),
        (Violated(row, plain("x"), [trace()], "line", more), ["trace/node-2-3.jsonl", "ops.jsonl"]),
        (Violated(row, plain("x"), [trace()], "line", none), ["trace/node-2-3.jsonl"]),
    ):
        (told,) = violated.told().collect()
        assert [it["file"] for it in told["refs"]] == files
        assert told["words"] == "x"


def test_every_type_of_every_table_is_what_spark_makes_of_it(spark: Any) -> None:
    for ddl in (*(table.ddl for table in c.TABLES.values()), c.trace_fields()):
        assert struct_of(ddl) == StructType.fromDDL(ddl)


def test_rows_of_several_frames_come_back_by_name(spark: Any) -> None:
    numbers = of_rows(spark, [(-(2**63), 0.1), (2**63 - 1, None)], "run bigint, d double")
    words = of_rows(spark, [(["a'", '"'],)], "list array<string>")
    told = rows_of({"numbers": numbers, "words": words, "none": none_of(numbers)})
    assert told == {
        "numbers": [{"run": -(2**63), "d": 0.1}, {"run": 2**63 - 1, "d": None}],
        "words": [{"list": ["a'", '"']}],
        "none": [],
    }


def test_a_frame_of_nothing_keeps_its_columns(spark: Any) -> None:
    frame = of_rows(spark, [(1, [2])], "run bigint, list array<int>")
    assert none_of(frame).schema == frame.schema
    assert none_of(frame).collect() == []


def test_equal_columns_are_made_once_and_literals_keep_their_types(spark: Any) -> None:
    assert col("run")._jc is col("run")._jc
    literals = spark.range(1).select(lit(1).alias("a"), lit(True).alias("b"), lit(1.0).alias("c"))
    assert [field.dataType.simpleString() for field in literals.schema] == ["int", "boolean", "double"]


def test_no_thread_is_asked_where_a_query_came_from(spark: Any) -> None:
    def asked() -> str:
        return str(spark.sparkContext.getLocalProperty("callSite.long"))

    with threads(spark, 2) as pool:
        waiting: list[Future[str]] = [pool.submit(asked) for _ in range(2)]
        assert {it.result() for it in waiting} == {asked()} == {"zab analyze"}
