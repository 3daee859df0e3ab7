"""A Spark session that keeps to itself: its words go into a file, its sockets stay on this machine."""

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from pipeline import archive, java


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
    take longer than running them. `words` is the file that gets what Spark and the
    JVM print; `packages` are folders of Python packages that the executors must be able to import; `cache` is the folder that
    keeps what makes the next session start sooner (`archive`).
    """
    runtime = java.version(java.find())
    place = Path(tempfile.mkdtemp(prefix="zab-spark-"))
    words = words or place / "spark.log"
    words.parent.mkdir(parents=True, exist_ok=True)
    classes = archive.of(cache, place, runtime) if cache and is_local(master) else None
    builder = SparkSession.builder.appName("zab analyze").master(master)
    for key, value in {**_settings(master, memory, place, words, classes, small=small), **(settings or {})}.items():
        builder = builder.config(key, value)
    try:
        if is_local(master):
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else whatever python3 is on the PATH
        with _stderr_into(words):
            spark = builder.getOrCreate()
    except Exception as error:
        shutil.rmtree(place, ignore_errors=True) if words.parent != place else None
        raise NoCluster(
            f"Spark did not start on {master}: {_first_line(error)}. Its own words are in {words}"
        ) from error
    _remember(spark)
    anonymous(spark)
    for package in packages:
        spark.sparkContext.addPyFile(str(_zipped(package, place)))
    spark._zab_small = small  # type: ignore[attr-defined]
    spark._zab_place = place  # type: ignore[attr-defined]
    spark._zab_classes = classes  # type: ignore[attr-defined]
    return spark


def _remember(spark: SparkSession) -> None:
    """Python asks the JVM what a name means whenever it uses it, and a short one is looked for in package after package. So they
    are asked for once."""
    view: Any = spark.sparkContext._jvm
    for name, constants in _NAMES.items():
        vars(view)[name] = _Remembered(getattr(view, name), constants)


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


def _once(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @lru_cache(maxsize=4096, typed=True)
    def made(of: Any) -> Any:
        return make(of)

    return made


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
            # Hadoop starts a process for the permissions of each file and folder that it makes, and would make a file of
            # checksums for each of them, and one that says that the others are there.
            "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
            "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
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
    "-XX:+UseTransparentHugePages -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
# Rules that found nothing, or next to nothing, in the queries of one small run, and took a tenth of the time of all rules for it.
_OPTIMIZER = "org.apache.spark.sql.catalyst.optimizer"
_IDLE = (
    "ConstantPropagation", "EliminateOuterJoin", "FoldablePropagation", "InferFiltersFromConstraints", "InjectRuntimeFilter",
    "NullDownPropagation", "OptimizeCsvJsonExprs", "OptimizeUpdateFields", "PruneFilters", "RemoveRedundantAggregates",
    "RemoveRedundantAliases", "ReorderAssociativeOperator", "SimplifyBinaryComparison", "SimplifyConditionals",
)  # fmt: skip
_COLUMNS = ("col", "lit", "expr")  # a column is what was said, and never changes
_NAMES = {  # what PySpark needs to build expressions
    "functions": _COLUMNS,
    "org.apache.spark.sql.functions": _COLUMNS,
    "org.apache.spark.sql.expressions.Window": (),
    "PythonUtils": (),
    "PythonSQLUtils": (),
}
_LOG4J = """rootLogger.level = error
rootLogger.appenderRef.file.ref = err
appender.err.type = Console
appender.err.name = err
appender.err.target = SYSTEM_ERR
appender.err.layout.type = PatternLayout
appender.err.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex{5}
"""
