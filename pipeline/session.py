"""Starts a Spark session for one analysis. Spark's messages go to a file; with a local master, Spark listens on 127.0.0.1 only."""

import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from pyspark.sql import SparkSession

from zab_chaos.pipeline import java


class SparkUnavailable(Exception):
    """Spark did not start, or the master can't be reached. The message names the file with Spark's own messages."""


@contextmanager
def session(
    master: str = "local[*]", *, memory: str = "4g", log: Path | None = None, packages: Sequence[Path] = ()
) -> Iterator[SparkSession]:
    """Start a session on `master` (any Spark master URL). Raises java.JavaMissing, SparkUnavailable.

    `memory` is the heap of the driver's JVM, which with a local master is also that of the executors. `log` is the file for
    what Spark prints. `packages` are folders of Python packages to send to the executors.
    """
    java.version(java.find())
    place = Path(tempfile.mkdtemp(prefix="zab-spark-"))
    log = log or place / "spark.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    builder = SparkSession.Builder().appName("zab analyze").master(master)
    for key, value in _settings(master, memory, place).items():
        builder = builder.config(key, value)
    if is_local(master):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # otherwise Spark takes the first python3 on the PATH
    try:
        try:
            with _stderr_into(log):
                spark = builder.getOrCreate()
        except Exception as error:
            first = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise SparkUnavailable(f"Spark did not start on {master}: {first}. Its messages are in {log}") from error
        spark.sparkContext.setLogLevel("ERROR")
        spark.conf.set("spark.sql.shuffle.partitions", str(4 * spark.sparkContext.defaultParallelism))
        for package in packages:
            spark.sparkContext.addPyFile(str(_zipped(package, place)))
        try:
            yield spark
        except BaseException:
            with suppress(Exception):  # it must not hide the first error; after an interrupt the JVM has ended already
                spark.stop()
            raise
        spark.stop()
    finally:
        shutil.rmtree(place, ignore_errors=True)


def is_local(master: str) -> bool:
    """Return whether the executors are threads of the driver."""
    return master.startswith("local")


def _settings(master: str, memory: str, place: Path) -> dict[str, str]:
    """Return the configuration of a session."""
    settings = {
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": "-Xss4m",  # Java serializes a plan recursively; for a long one the default of 1 MB is too small
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.python.sql.dataFrameDebugging.enabled": "false",  # otherwise each step of a query looks up its source line
        "spark.sql.warehouse.dir": str(place / "warehouse"),
    }
    if is_local(master):
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.local.dir": str(place),
        }
    return settings


def _zipped(package: Path, place: Path) -> Path:
    """Zip a package's Python files, so that they can be imported from the zip."""
    path = place / f"{package.name}.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for folder, _, names in os.walk(package, followlinks=True):  # in a checkout zab_chaos consists of links
            for source in (Path(folder, name) for name in names if name.endswith(".py")):
                file.write(source, str(Path(package.name) / source.relative_to(package)))
    return path


@contextmanager
def _stderr_into(path: Path) -> Iterator[None]:
    """Redirect stderr to the file `path` in this block. Child processes that are started in it stay redirected."""
    with path.open("ab") as file:
        original = os.dup(2)
        sys.stderr.flush()
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(original, 2)
            os.close(original)
