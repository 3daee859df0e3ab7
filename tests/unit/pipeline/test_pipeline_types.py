"""Types from DDL, without a JVM."""

import pytest
from pyspark.sql.types import ArrayType, BooleanType, LongType, MapType, StringType, StructField, StructType

from pipeline.types import struct_of


def test_columns_have_names_and_types() -> None:
    assert struct_of("`run` bigint, from string, right boolean") == StructType(
        [StructField("run", LongType()), StructField("from", StringType()), StructField("right", BooleanType())]
    )


def test_types_stand_in_types() -> None:
    refs = StructType([StructField("file", StringType()), StructField("at", ArrayType(ArrayType(LongType())))])
    assert struct_of("refs array<struct<file: string, at: array<array<bigint>>>>, m map<string,bigint>") == StructType(
        [StructField("refs", ArrayType(refs)), StructField("m", MapType(StringType(), LongType()))]
    )


@pytest.mark.parametrize("ddl", ["a decimal(10,2)", "a list<int>", "a array<text>"])
def test_a_type_that_no_table_has_is_named(ddl: str) -> None:
    with pytest.raises(ValueError, match="is no type that is used here: bigint, int, double, boolean, string, array"):
        struct_of(ddl)
