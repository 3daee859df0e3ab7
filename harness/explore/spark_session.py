"""A Spark session for the length of a command, with the packages of zab-chaos on its executors."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

import zab_chaos
from zab_chaos.harness.errors import HarnessError
from zab_chaos.harness.extras import extra
from zab_chaos.harness.machine.interrupt import Forced, Stopped

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER = r"local(\[(\*|[1-9]\d*)(,\d+)?\])?|yarn|(spark|k8s|mesos)://\S+"
NO_MASTER = "--master is {!r}; it needs a Spark master's URL: local[*], local[2], spark://HOST:PORT, yarn or k8s://..."
# What they import, and must have.
NEEDED = ("msgspec", "zlib_ng", "xxhash", "zmq", "psutil", "requests", "toxiproxy", "rich")


@contextmanager
def spark(master: str, memory: str, log: Path) -> Iterator["SparkSession"]:
    """Start a session on `master`, after checking that its executors have the needed packages.

    `memory` is the driver's heap, `log` the file for Spark's messages. Raises MissingExtra, HarnessError.
    """
    with extra("pipeline", "the pipeline"):
        session = import_module("zab_chaos.pipeline.session")
    from zab_chaos.pipeline.java import JavaMissing

    local = session.is_local(master)
    packages = [] if local else [Path(zab_chaos.__file__).parent]
    try:
        with (
            _interruptible(),
            session.session(master, memory=memory, log=log, packages=packages) as started,
            _interruptible(),
            _spoken(log),
        ):
            _require(started)
            yield started
    except (JavaMissing, session.SparkUnavailable) as error:
        raise HarnessError(str(error)) from error


@contextmanager
def _interruptible() -> Iterator[None]:
    """Restore Ctrl-C, which Spark takes for itself, and kill the JVM on an interrupt: it would first finish its work."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    except (Stopped, Forced, KeyboardInterrupt):
        for child in psutil.Process().children(recursive=True):
            # It may have ended meanwhile; one that nobody has waited for counts as ended, too.
            with suppress(psutil.NoSuchProcess):
                if "java" in child.name() or "spark" in " ".join(child.cmdline()):
                    child.kill()
        raise
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)


@contextmanager
def _spoken(log: Path) -> Iterator[None]:
    """Turn an error of Spark into a one-line HarnessError, and append all of it to the log."""
    errors = import_module("pyspark.errors")
    java = import_module("py4j.protocol")
    try:
        yield
    except (errors.PySparkException, java.Py4JError) as error:
        with log.open("a", encoding="utf-8") as file:
            file.write(f"{error}\n")
        raise HarnessError(f"Spark failed: {reason(error)}. The whole message is in {log}") from error


def _require(spark: "SparkSession") -> None:
    """Check that the Python of the executors has the needed packages. Raises HarnessError."""
    context = spark.sparkContext
    probes = context.defaultParallelism
    try:
        lacking = context.parallelize(range(probes), probes).flatMap(_lacking).distinct().collect()
    except Exception as error:
        raise HarnessError(
            f"Python does not run on the executors of {context.master}: {reason(error)}. They need the Python that runs "
            "here; set PYSPARK_PYTHON to its path there."
        ) from error
    if lacking:
        names = " ".join(sorted(_DISTRIBUTIONS.get(name, name) for name in lacking))
        raise HarnessError(
            f"the Python of the executors of {context.master} lacks packages. There: pip install {names}"
        )


_DISTRIBUTIONS = {"zmq": "pyzmq", "toxiproxy": "toxiproxy-python"}


def _lacking(_probe: int) -> list[str]:
    """The needed modules that this interpreter can't import."""
    lacking = []
    for name in NEEDED:
        try:
            import_module(name)
        except ImportError:
            lacking.append(name)
    return lacking


def reason(error: Exception) -> str:
    """The line of Spark's long message that names the error."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if "Error" in line or "Cannot run" in line or "Exception:" in line]
    return (telling or lines or [type(error).__name__])[-1]
