"""A Spark session for one analysis: its messages go to a file, and a local master uses no sockets beyond this machine."""

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
    """Spark did not start, or the master can't be reached. The text names the file with Spark's messages."""


@contextmanager
def session(
    master: str = "local[*]", *, memory: str = "4g", log: Path | None = None, packages: Sequence[Path] = ()
) -> Iterator[SparkSession]:
    """Start a session on `master` (any Spark master URL). Raises java.JavaMissing, SparkUnavailable.

    `memory` is the driver's heap, and with a local master that of everything but Python. `log` is the file that gets what
    Spark prints. `packages` are folders of Python packages that are sent to the executors.
    """
    java.version(java.find())
    place = Path(tempfile.mkdtemp(prefix="zab-spark-"))
    log = log or place / "spark.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    builder = SparkSession.Builder().appName("zab analyze").master(master)
    for key, value in _settings(master, memory, place).items():
        builder = builder.config(key, value)
    if is_local(master):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else whatever python3 is on the PATH
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
            with suppress(Exception):  # it must not hide what has happened: an interrupt has ended the JVM
                spark.stop()
            raise
        spark.stop()
    finally:
        shutil.rmtree(place, ignore_errors=True)


def is_local(master: str) -> bool:
    """Whether the executors are threads of the driver."""
    return master.startswith("local")


def _settings(master: str, memory: str, place: Path) -> dict[str, str]:
    """The configuration of every session."""
    settings = {
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": "-Xss4m",  # Java serializes a long plan recursively; 1 MB is little for it
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.python.sql.dataFrameDebugging.enabled": "false",  # else each step of a query looks up its line
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
    """Redirect stderr to `path` in this block, and for good in child processes that are started in it."""
    with path.open("ab") as file:
        kept = os.dup(2)
        sys.stderr.flush()
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
