"""Spark's types from DDL. PySpark asks the JVM for that, which reads every schema with a parser of its own: a second for ten of them."""

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

_PLAIN: dict[str, DataType] = {
    "bigint": LongType(), "int": IntegerType(), "double": DoubleType(), "boolean": BooleanType(), "string": StringType(),
}  # fmt: skip


def struct_of(ddl: str) -> StructType:
    """The type of rows with the columns of `ddl`: names and types, as in "`run` bigint, refs array<struct<file:string>>".

    Raises ValueError for a type that none of our tables has.
    """
    return StructType([_field(*part.split(maxsplit=1)) for part in _parts(ddl)])


def _type_of(ddl: str) -> DataType:
    """One type. Raises ValueError."""
    of, _, rest = ddl.strip().partition("<")
    inside = _parts(rest.removesuffix(">"))
    match of:
        case "array":
            return ArrayType(_type_of(inside[0]))
        case "map":
            return MapType(_type_of(inside[0]), _type_of(inside[1]))
        case "struct":
            return StructType([_field(*part.split(":", maxsplit=1)) for part in inside])
    if ddl.strip() not in _PLAIN:
        raise ValueError(f"{ddl!r} is no type that is used here: {', '.join(_PLAIN)}, array, map, struct")
    return _PLAIN[of]


def _field(name: str, kind: str) -> StructField:
    return StructField(name.strip().strip("`"), _type_of(kind))


def _parts(text: str) -> list[str]:
    """What stands between commas that are in no brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += {"<": 1, ">": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]
