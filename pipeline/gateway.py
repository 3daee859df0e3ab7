"""Fewer words between Python and the JVM: a message for each piece of a query is fifteen thousand of them for one small run."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from py4j.java_gateway import JavaClass
from pyspark.sql import SparkSession


def terse(spark: SparkSession, *, brief: bool) -> None:
    """A name is asked for once, and a list travels in one piece. In a session that is `brief` the JVM keeps what it has made,
    and need not be told what Python no longer needs."""
    context: Any = spark.sparkContext
    for name, constants in _NAMES.items():
        vars(context._jvm)[name] = _Remembered(getattr(context._jvm, name), constants)
    client = context._gateway._gateway_client
    client.converters = [_Lists(client), *client.converters]
    if brief:
        client.gateway_property.enable_memory_management = False
        client.garbage_collect_object = lambda *_: None


class _Remembered:
    """A class of the JVM whose members are looked up once. What `constants` name makes the same of the same, and makes it once."""

    def __init__(self, java: Any, constants: Sequence[str]) -> None:
        self._java = java
        for name in constants:
            setattr(self, name, _once(getattr(java, name)))

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._java, name)
        setattr(self, name, found)
        return found

    def __call__(self, *values: Any) -> Any:
        return self._java(*values)


class _Lists:
    """Lists as Java's, ten items in a message. By itself py4j takes one for each."""

    def __init__(self, client: Any) -> None:
        self._of = JavaClass("java.util.List", client).of
        self._list = JavaClass("java.util.ArrayList", client)

    def can_convert(self, value: Any) -> bool:
        return isinstance(value, list) and all(it is not None for it in value)  # Java's `List.of` takes no null

    def convert(self, value: list[Any], _client: Any) -> Any:
        parts = [self._of(*value[begin : begin + _AT_ONCE]) for begin in range(0, len(value), _AT_ONCE)]
        if len(parts) == 1:
            return parts[0]
        made = self._list()
        for part in parts:
            made.addAll(part)
        return made


def _once(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @lru_cache(maxsize=4096, typed=True)
    def made(of: Any) -> Any:
        return make(of)

    return made


UNION = "org.apache.spark.sql.catalyst.plans.logical.Union"
DATASET = "org.apache.spark.sql.classic.Dataset"
_AT_ONCE = 10  # `List.of` has a form for each number of items up to ten
_COLUMNS = ("col", "lit", "expr")  # a column is what was said, and never changes
_NAMES = {  # what PySpark and `frames` need to build queries
    "functions": _COLUMNS,
    "org.apache.spark.sql.functions": _COLUMNS,
    "org.apache.spark.sql.expressions.Window": (),
    "PythonUtils": (),
    "PythonSQLUtils": (),
    UNION: (),
    DATASET: (),
}
