"""A Spark session that lasts as long as a command, with the packages of zab-chaos on its executors."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import zab_chaos
from zab_chaos.harness.errors import HarnessError
from zab_chaos.harness.extras import extra
from zab_chaos.harness.machine import java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER = r"local(\[(\*|[1-9]\d*)(,\d+)?\])?|yarn|(spark|k8s|mesos)://\S+"
BAD_MASTER = "--master is {!r}; it needs a Spark master's URL: local[*], local[2], spark://HOST:PORT, yarn or k8s://..."
# Modules that the executors import; their Python must have them.
EXECUTOR_MODULES = ("msgspec", "zlib_ng", "xxhash", "zmq", "psutil", "requests", "toxiproxy", "rich")


@contextmanager
def spark(master: str, memory: str, log: Path) -> Iterator["SparkSession"]:
    """Start a session on `master`, after checking that its executors have the needed packages.

    `memory` is the driver's heap, `log` the file for Spark's messages. Raises MissingExtra, HarnessError.
    """
    with extra("pipeline", "the pipeline"):
        session = import_module("zab_chaos.pipeline.session")
    local = session.is_local(master)
    packages = [] if local else [Path(zab_chaos.__file__).parent]
    try:
        java.version(java.find())
        with (
            session.session(master, memory=memory, log=log, packages=packages) as started,
            _errors_as_messages(log),
        ):
            _require_modules(started)
            yield started
    except (java.JavaMissing, session.SparkUnavailable) as error:
        raise HarnessError(str(error)) from error


@contextmanager
def _errors_as_messages(log: Path) -> Iterator[None]:
    """Turn an error of Spark into a HarnessError of one line, and append its full text to the log."""
    errors = import_module("pyspark.errors")
    gateway = import_module("py4j.protocol")
    try:
        yield
    except (errors.PySparkException, gateway.Py4JError) as error:
        with log.open("a", encoding="utf-8") as file:
            file.write(f"{error}\n")
        raise HarnessError(f"Spark failed: {reason(error)}. The full message is in {log}") from error


def _require_modules(spark: "SparkSession") -> None:
    """Check that the Python of the executors has the modules that it needs. Raises HarnessError."""
    context = spark.sparkContext
    probes = context.defaultParallelism
    try:
        missing = context.parallelize(range(probes), probes).flatMap(_missing_modules).distinct().collect()
    except Exception as error:
        raise HarnessError(
            f"Python does not run on the executors of {context.master}: {reason(error)}. They need the Python that runs "
            "here; set PYSPARK_PYTHON to its path there."
        ) from error
    if missing:
        names = " ".join(sorted(_DISTRIBUTIONS.get(name, name) for name in missing))
        raise HarnessError(
            f"the Python of the executors of {context.master} lacks packages. Install them there: pip install {names}"
        )


_DISTRIBUTIONS = {"zmq": "pyzmq", "toxiproxy": "toxiproxy-python"}


def _missing_modules(_probe: int) -> list[str]:
    """Return the needed modules that this interpreter can't import."""
    missing = []
    for name in EXECUTOR_MODULES:
        try:
            import_module(name)
        except ImportError:
            missing.append(name)
    return missing


def reason(error: Exception) -> str:
    """Return the line of Spark's long message that names the error."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    naming = [line for line in lines if "Error" in line or "Cannot run" in line or "Exception:" in line]
    return (naming or lines or [type(error).__name__])[-1]
