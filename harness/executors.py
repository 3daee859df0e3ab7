"""A Spark session for a command: started where the user says, with our packages on its executors, ended with the command."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from harness.exits import HarnessError
from harness.interrupt import Forced, Stopped

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGES = ("node", "model", "faults", "harness", "pipeline")  # shipped to the executors of a cluster
MASTER = r"local(\[(\*|[1-9]\d*)(,\d+)?\])?|yarn|(spark|k8s|mesos)://\S+"
NO_MASTER = "--master is {!r}; it needs a Spark master's URL: local[*], local[2], spark://HOST:PORT, yarn or k8s://..."
NOT_INSTALLED = "the pipeline needs packages that are not installed ({}). pip install 'zab-chaos[pipeline]'"
NEEDED = ("msgspec", "zmq", "psutil", "requests", "toxiproxy", "rich")  # what these import, and has to be there already


@contextmanager
def spark(master: str, memory: str, words: Path) -> Iterator["SparkSession"]:
    """A session on `master`, whose executors have what our packages import. `memory` is the driver's heap, `words` the file for
    what Spark says. Raises HarnessError."""
    try:
        session = import_module("pipeline.session")
    except ImportError as error:
        raise HarnessError(NOT_INSTALLED.format(error)) from error
    from pipeline.java import JavaMissing

    local = session.is_local(master)
    packages = [] if local else [Path(str(import_module(name).__file__)).parent for name in PACKAGES]
    try:
        with (
            _interruptible(),
            session.session(master, memory=memory, words=words, packages=packages) as started,
            _interruptible(),
            _spoken(words),
        ):
            _require(started)
            yield started
    except (JavaMissing, session.NoCluster) as error:
        raise HarnessError(str(error)) from error


@contextmanager
def _interruptible() -> Iterator[None]:
    """Spark takes Ctrl-C for itself: it is given back. And its JVM would finish what it is at before it ends: whoever is
    interrupted kills it."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    except (Stopped, Forced, KeyboardInterrupt):
        for child in psutil.Process().children(recursive=True):
            if "java" in child.name() or "spark" in " ".join(child.cmdline()):
                child.kill()
        raise
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)


@contextmanager
def _spoken(words: Path) -> Iterator[None]:
    """What Spark fails at, in a sentence, as long as it can still say it; all of it is beside what else it says."""
    errors = import_module("pyspark.errors")
    java = import_module("py4j.protocol")
    try:
        yield
    except (errors.PySparkException, java.Py4JError) as error:
        with words.open("a", encoding="utf-8") as file:
            file.write(f"{error}\n")
        raise HarnessError(f"Spark could not go on: {reason(error)}. All that it says is in {words}") from error


def _require(spark: "SparkSession") -> None:
    """Raises HarnessError if an executor's Python lacks what our packages import."""
    context = spark.sparkContext
    probes = context.defaultParallelism
    try:
        lacking = context.parallelize(range(probes), probes).flatMap(_lacking).distinct().collect()
    except Exception as error:
        raise HarnessError(
            f"Python does not run on the executors of {context.master}: {reason(error)}. They need the Python that runs "
            "here; PYSPARK_PYTHON says where they have it."
        ) from error
    if lacking:
        names = " ".join(sorted(_DISTRIBUTIONS.get(name, name) for name in lacking))
        raise HarnessError(
            f"the Python of the executors of {context.master} lacks packages. There: pip install {names}"
        )


_DISTRIBUTIONS = {"zmq": "pyzmq", "toxiproxy": "toxiproxy-python"}


def _lacking(_probe: int) -> list[str]:
    """Which of the modules this interpreter can't import."""
    lacking = []
    for name in NEEDED:
        try:
            import_module(name)
        except ImportError:
            lacking.append(name)
    return lacking


def reason(error: Exception) -> str:
    """The line of Spark's long answer that says what is wrong."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if "Error" in line or "Cannot run" in line or "Exception:" in line]
    return (telling or lines or [type(error).__name__])[-1]
