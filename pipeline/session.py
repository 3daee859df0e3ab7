"""Starts a Spark session for one analysis. Spark's messages go to a file; with a local master, Spark listens on 127.0.0.1 only."""

import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from pyspark.sql import SparkSession


class SparkUnavailable(Exception):
    """Spark did not start, or the master can't be reached. The message names the file with Spark's own messages."""


@contextmanager
def session(
    master: str = "local[*]", *, memory: str = "4g", log: Path | None = None, packages: Sequence[Path] = ()
) -> Iterator[SparkSession]:
    """Start a session on `master` (any Spark master URL). Raises SparkUnavailable.

    `memory` is the heap of the driver's JVM, which with a local master is also that of the executors. `log` is the file for
    what Spark prints. `packages` are folders of Python packages to send to the executors.
    """
    place = Path(tempfile.mkdtemp(prefix="zab-spark-"))
    log = log or place / "spark.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    builder = SparkSession.Builder().appName("zab analyze").master(master)
    for key, value in _settings(master, memory, place).items():
        builder = builder.config(key, value)
    if is_local(master):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # otherwise Spark takes the first python3 on the PATH
    try:
        spark = _start(builder, master, log)
        with _stopping(spark, log):
            spark.sparkContext.setLogLevel("ERROR")
            for package in packages:
                spark.sparkContext.addPyFile(str(_zipped(package, place)))
            yield spark
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _start(builder: SparkSession.Builder, master: str, log: Path) -> SparkSession:
    """Start Spark, and restore the handler of SIGINT, which Spark replaces. Raises SparkUnavailable."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        with _stderr_into(log):
            return builder.getOrCreate()
    except Exception as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise SparkUnavailable(f"Spark did not start on {master}: {first}. Its messages are in {log}") from error
    except BaseException:  # an interrupt
        _kill_jvm()
        raise
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)


@contextmanager
def _stopping(spark: SparkSession, log: Path) -> Iterator[None]:
    """Stop the session after the block. An interrupt kills its JVM first, which otherwise would finish its work."""
    try:
        yield
    except BaseException as error:
        with _stderr_into(log):  # what the stop prints or raises must not hide the first error
            if not isinstance(error, Exception):
                _kill_jvm()
            # Where the interrupt came in the middle of a call, the first stop fails before it has ended Spark's thread for
            # accumulators, which prints an error when the JVM is gone. The second ends it, and waits for what it prints.
            for _ in range(2):
                with suppress(Exception):
                    spark.stop()
        raise
    spark.stop()


def _kill_jvm() -> None:
    """Kill Spark's JVM and its Python workers, and wait until the JVM has ended: until then it could still answer a call."""
    own = psutil.Process().children()
    for child in psutil.Process().children(recursive=True):
        # The process may have ended meanwhile. psutil raises NoSuchProcess for a zombie, too.
        with suppress(psutil.NoSuchProcess, psutil.TimeoutExpired):
            if "java" in child.name() or "spark" in " ".join(child.cmdline()):
                child.kill()
                if child in own:
                    child.wait(timeout=1)


def is_local(master: str) -> bool:
    """Return whether the executors are threads of the driver."""
    return master.startswith("local")


def _settings(master: str, memory: str, place: Path) -> dict[str, str]:
    """Return the configuration of a session."""
    settings = {
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": " ".join(_java_options(place)),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
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


def _java_options(place: Path) -> list[str]:
    """Return the driver's options for Java. A killed JVM can't remove its temporary files, so they are all in `place`."""
    return [
        # An analysis is over before Java's second compiler has paid off: up to some 14 million events it costs more than it saves.
        "-XX:TieredStopAtLevel=1",
        "-Xss4m",  # Java serializes a plan recursively; for a long one the default of 1 MB is too small
        f'"-Djava.io.tmpdir={place}"',
        "-XX:-UsePerfData",  # which would be in /tmp
    ]


def _zipped(package: Path, place: Path) -> Path:
    """Zip a package, so that it can be imported from the zip. In a checkout zab_chaos consists of links, so it is copied first."""
    copy = shutil.copytree(package, place / "packages" / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    return Path(shutil.make_archive(str(copy), "zip", copy.parent, package.name))


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
