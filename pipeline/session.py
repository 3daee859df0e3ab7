"""A Spark session that keeps to itself: its words go into a file, its sockets stay on this machine."""

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from pipeline import archive, java
from pipeline import small as little
from pipeline.gateway import terse

BLOCK = 2**27  # bytes of a file that a task reads, in a session for little data


class NoCluster(Exception):
    """Spark did not start, or the master can't be reached. The text says where Spark's own words are."""


def start(
    master: str = "local[*]",
    *,
    memory: str = "4g",
    small: bool = False,
    words: Path | None = None,
    packages: Sequence[Path] = (),
    settings: dict[str, str] | None = None,
    cache: Path | None = None,
) -> SparkSession:
    """A session on `master` (any Spark master URL). Raises java.JavaMissing, NoCluster.

    `memory` is the driver's heap, and with a local master all there is. `small`: so little data that compiling the queries would
    take longer than running them, and all of it on this machine. `words` is the file that gets what Spark and the
    JVM print; `packages` are folders of Python packages that the executors must be able to import; `cache` is the folder that
    keeps what makes the next session start sooner (`archive`).
    """
    runtime = java.version(java.find())
    place = Path(tempfile.mkdtemp(prefix="zab-spark-"))
    words = words or place / "spark.log"
    words.parent.mkdir(parents=True, exist_ok=True)
    classes = archive.of(cache, place, runtime) if cache and is_local(master) else None
    wanted = SparkConf(loadDefaults=False).setAppName("zab analyze").setMaster(master)
    for key, value in {**_settings(master, memory, place, words, classes, small=small), **(settings or {})}.items():
        wanted.set(key, value)
    try:
        if is_local(master):
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else whatever python3 is on the PATH
        with _stderr_into(words):
            spark = _small(wanted) if small else SparkSession(SparkContext(conf=wanted))
    except Exception as error:
        shutil.rmtree(place, ignore_errors=True) if words.parent != place else None
        raise NoCluster(
            f"Spark did not start on {master}: {_first_line(error)}. Its own words are in {words}"
        ) from error
    terse(spark, brief=small)
    anonymous(spark)
    for package in packages:
        spark.sparkContext.addPyFile(str(_zipped(package, place)))
    spark._zab_small = small  # type: ignore[attr-defined]
    spark._zab_place = place  # type: ignore[attr-defined]
    spark._zab_classes = classes  # type: ignore[attr-defined]
    return spark


def _small(wanted: SparkConf) -> SparkSession:
    """A session for little data."""
    gateway: Any = SparkContext._gateway or launch_gateway(wanted)  # type: ignore[no-untyped-call]
    with ThreadPoolExecutor(1) as beside:
        classes = beside.submit(little.classes, gateway.jvm)
        context = SparkContext(conf=wanted, gateway=gateway)
        with little.without_extensions(gateway.jvm, classes.result()):
            spark = SparkSession(context)
    little.only_here(context, classes.result())
    return spark


def anonymous(spark: SparkSession) -> None:
    """Spark walks down the stack for each piece of a query, so that its UI, which is off, could tell where that came from. In this
    thread it is told."""
    for name in ("callSite.short", "callSite.long"):
        spark.sparkContext.setLocalProperty(name, "zab analyze")


def stop(spark: SparkSession) -> None:
    """End the session, its JVM, and its temporary files."""
    place: Path = spark._zab_place  # type: ignore[attr-defined]
    classes: archive.Archive | None = spark._zab_classes  # type: ignore[attr-defined]
    context: Any = spark.sparkContext
    gateway = context._gateway
    counting, context._accumulatorServer = context._accumulatorServer, None
    if counting is not None:
        # It looks twice a second whether it should end: nobody waits for it, or hears that its JVM is gone.
        counting.handle_error = lambda *_: None
        Thread(target=counting.shutdown, daemon=True).start()
    with suppress(OSError, Py4JError):  # a JVM that somebody has ended needs no more
        spark.stop()
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    gateway.shutdown()
    if process is not None:
        if process.stdin:
            process.stdin.close()  # the JVM ends when its stdin does
        process.wait(300)  # writing down the classes takes ten seconds, more on a busy machine
    if classes is not None:
        classes.keep()
    type(context)._gateway = None
    type(context)._jvm = None
    shutil.rmtree(place, ignore_errors=True)


def is_local(master: str) -> bool:
    return master.startswith("local")


def _settings(
    master: str, memory: str, place: Path, words: Path, classes: archive.Archive | None, *, small: bool
) -> dict[str, str]:
    """What every session is started with, each with its reason."""
    quiet = place / "log4j2.properties"
    quiet.write_text(_LOG4J)
    options = f"-Dlog4j2.configurationFile={quiet.as_uri()} -Djava.io.tmpdir={place}"
    options += f' "-XX:ErrorFile={words.absolute().parent}/java-crash-%p.log"'
    if is_local(master):
        options += f" {_BRIEF}" if small else " -XX:+UseParallelGC"
    if classes is not None:
        options += f" {classes.options}"
    settings = {
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": options,
        "spark.log.structuredLogging.enabled": "false",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.ansi.enabled": "false",  # the running digest is arithmetic modulo 2^64
        "spark.sql.adaptive.enabled": "true",  # sizes differ by four orders between runs
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(place / "warehouse"),
        "spark.sql.maxPlanStringLength": "2000",
        "spark.sql.icu.caseMappings.enabled": "false",  # hexadecimal digits are all that is lowered
        "spark.python.sql.dataFrameDebugging.enabled": "false",  # else each step of a query asks for its line twice
    }
    if is_local(master):
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.local.dir": str(place),
            **{f"spark.hadoop.{name}": value for name, value in little.HADOOP.items()},
            "spark.sql.shuffle.partitions": "1" if small else str(_cores(master) * 4),
        }
    if small:
        settings |= {
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            "spark.sql.adaptive.enabled": "false",
            "spark.sql.optimizer.disableHints": "true",  # a broadcast is a job of its own; see frames
            "spark.sql.autoBroadcastJoinThreshold": "-1",
            "spark.sql.optimizer.excludedRules": ",".join(f"{_OPTIMIZER}.{rule}" for rule in _IDLE),
            "spark.sql.parquet.compression.codec": "uncompressed",  # nothing to gain from a library to load
            "spark.sql.files.maxPartitionBytes": str(BLOCK),
            "spark.sql.files.openCostInBytes": str(BLOCK),  # so that no task reads two of them; see lines
            "spark.cleaner.referenceTracking": "false",  # nothing is swept before the end; two hundred threads would
            "spark.buffer.pageSize": "1m",  # every sort and every hash table takes at least a page
        }
    return settings


def _cores(master: str) -> int:
    """How many threads a local master has."""
    asked = master.partition("[")[2].partition(",")[0].rstrip("]")
    return int(asked) if asked.isdigit() else (os.cpu_count() or 1 if asked == "*" else 1)


def _zipped(package: Path, place: Path) -> Path:
    """A package's Python files as a zip that can be imported from."""
    path = place / f"{package.name}.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for source in sorted(package.rglob("*.py")):
            file.write(source, str(Path(package.name) / source.relative_to(package)))
    return path


@contextmanager
def _stderr_into(path: Path) -> Iterator[None]:
    """Child processes that are started meanwhile write to `path` for good; this process only meanwhile."""
    with path.open("ab") as file:
        kept = os.dup(2)
        sys.stderr.flush()
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


# A JVM that lives for seconds: no second compiler, no helpers for the garbage collector, and room enough that neither the code
# cache nor the classes' memory is swept before the end. Spark's own classes need not be verified. Memory that is touched for the
# first time costs more than collecting in what was touched already: so the young generation is small, and its pages are large.
_BRIEF = (
    "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:MetaspaceSize=512m -Xmn112m "
    "-XX:+UseTransparentHugePages -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote "
    "-XX:ArchiveRelocationMode=0"
)
# Rules that found nothing, or next to nothing, in the queries of one small run, and took a tenth of the time of all rules for it.
_OPTIMIZER = "org.apache.spark.sql.catalyst.optimizer"
_IDLE = (
    "ConstantPropagation", "EliminateOuterJoin", "FoldablePropagation", "InferFiltersFromConstraints", "InjectRuntimeFilter",
    "NullDownPropagation", "OptimizeCsvJsonExprs", "OptimizeUpdateFields", "PruneFilters", "RemoveRedundantAggregates",
    "RemoveRedundantAliases", "ReorderAssociativeOperator", "SimplifyBinaryComparison", "SimplifyConditionals",
)  # fmt: skip
_LOG4J = """rootLogger.level = error
rootLogger.appenderRef.file.ref = err
appender.err.type = Console
appender.err.name = err
appender.err.target = SYSTEM_ERR
appender.err.layout.type = PatternLayout
appender.err.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex{5}
"""
