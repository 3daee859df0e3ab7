"""Which folders hold runs, what files they have, and whether those have changed since they were read."""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from pipeline import here
from pipeline.files import FILE, LOCAL, NOTHING, Contents, File, as_pattern, is_pattern, locate, named, readable, uri
from pipeline.session import is_local

_WHERE = re.compile(rf"(?P<root>.*)/(?P<name>{FILE})")
_AT_A_TIME = 2000  # paths in one look at file contents: what the driver holds at once
_Listed = tuple[str, int, str]  # a file's URI, size, and when it was modified


class NoRuns(Exception):
    """What was named holds no runs, or can't be read. The text names every path that was wrong, and what is allowed."""


@dataclass(slots=True)
class Folder:
    """A run's folder. `run` is its number in all tables."""

    run: int
    path: str
    files: dict[str, File] = field(default_factory=dict)

    @property
    def stamp(self) -> str:
        """Names, sizes and modification times, hashed: equal stamps are believed without a look at the contents."""
        told = sorted((file.name, file.size, file.modified) for file in self.files.values())
        return hashlib.sha256(repr(told).encode()).hexdigest()


def find(spark: SparkSession, places: Sequence[str]) -> list[Folder]:
    """Every run in or below the places, each once, by path. Places are paths, globs or URIs. Raises NoRuns."""
    located = {place: locate(place) for place in places}
    literal = {place: it for place, it in located.items() if not is_pattern(it)}
    near = {place: Path(os.path.normpath(readable(it))) for place, it in literal.items() if _is_near(spark, it)}
    far = {place: it for place, it in located.items() if place not in near}
    missing = [place for place, path in near.items() if not path.exists()] + _missing(spark, far)
    if missing:
        raise NoRuns("\n".join(f"{place}: there is no such file or folder" for place in places if place in missing))
    seen: dict[str, Folder] = {}
    for path, size, modified in [*_near(near.values()), *(_far(spark, list(far.values())) if far else ())]:
        place = _WHERE.fullmatch(path)
        if place is not None:
            root = place["root"]
            folder = seen.setdefault(root, Folder(number(root), readable(unquote(root))))
            folder.files[place["name"]] = File(path, place["name"], size, modified)
    found = list(_without_links(seen.values()))
    if not found:
        raise NoRuns(
            f"no run in {', '.join(places)}: nowhere below is a run.json. Name folders of runs (results/README.md), "
            "folders that hold such folders, or patterns."
        )
    return found


def contents(spark: SparkSession, folders: Iterable[Folder]) -> dict[str, Contents]:
    """What is in all files of the folders, by the files' path. Raises NoRuns for what can't be read."""
    near: list[File] = []
    far: list[File] = []
    for folder in folders:
        for file in folder.files.values():
            (near if _is_near(spark, file.path) else far).append(file)
    with _readable_only():
        return here.contents(near) | _contents(spark, far)


def fingerprint(folder: Folder, held: dict[str, Contents]) -> str:
    """The hash of a run's contents, wherever its folder is."""
    told = sorted((file.name, held[file.path].digest) for file in folder.files.values())
    return hashlib.sha256(repr(told).encode()).hexdigest()


def number(uri: str) -> int:
    """The number of the run in a folder of this name: 60 bits of its hash."""
    return int(hashlib.sha256(uri.encode()).hexdigest()[:15], 16)


def number_of(uri: Column) -> Column:
    """The same of a URI that Spark gave."""
    return F.conv(F.substring(F.sha2(F.regexp_replace(uri, *LOCAL), 256), 1, 15), 16, 10).cast("bigint")


def _is_near(spark: SparkSession, uri: str) -> bool:
    """Whether Spark and what it is asked for are on this machine, so that it need not be asked."""
    return uri.startswith("file:/") and is_local(str(spark.sparkContext.master))


def _near(places: Iterable[Path]) -> Iterator[_Listed]:
    """All files below that might be a run's."""
    with _readable_only():
        for path in (it for place in places for it in here.below(place)):
            if _WHERE.fullmatch(str(path)):
                with suppress(FileNotFoundError):  # a link to what is gone
                    told = path.stat()
                    yield uri(str(path)), told.st_size, str(told.st_mtime_ns)


@contextmanager
def _readable_only() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise NoRuns(f"{error.filename} can't be read: {error.strerror}") from error
    except UnicodeEncodeError as error:
        raise NoRuns(f"{error.object!r} can't be read by Spark: the name is not UTF-8. Rename it") from error


def _missing(spark: SparkSession, located: dict[str, str]) -> list[str]:
    """Places of which Spark finds nothing."""
    jvm: Any = spark.sparkContext._jvm
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    missing = []
    for place, it in located.items():
        path = jvm.org.apache.hadoop.fs.Path(it)
        if not path.getFileSystem(configuration).globStatus(path):
            missing.append(place)
    return missing


def _far(spark: SparkSession, located: list[str]) -> Iterator[_Listed]:
    """The same, by Spark. It lists files without contents, but has no row of them."""
    reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    all_files = reader.option("pathGlobFilter", "*.json*").load(located)
    told = all_files.select(
        "_metadata.file_path",
        "_metadata.file_size",
        F.col("_metadata.file_modification_time").cast("string").alias("modified"),
    ).where(F.col("_metadata.file_path").rlike(rf"/{FILE}$"))
    found = {named(path): (0, "") for path in all_files.inputFiles()}
    found |= {named(row["file_path"]): (row["file_size"], row["modified"]) for row in told.collect()}
    return ((path, *it) for path, it in found.items())


def _contents(spark: SparkSession, files: Sequence[File]) -> dict[str, Contents]:
    """What is in these files, by Spark."""
    found = {
        file.path: replace(NOTHING, text="" if file.name == "run.json" else None) for file in files if not file.size
    }
    paths = [file.path for file in files if file.size]
    for begin in range(0, len(paths), _AT_A_TIME):
        names = [as_pattern(path) for path in paths[begin : begin + _AT_A_TIME]]
        frame = spark.read.format("binaryFile").load(names)
        for row in frame.select(
            "_metadata.file_path",
            F.sha2("content", 256).alias("digest"),
            F.expr("length(content) = 0 OR substring(content, -1, 1) = X'0A'").alias("whole"),
            F.expr("IF(endswith(_metadata.file_path, '/run.json'), make_valid_utf8(string(content)), NULL)").alias(
                "text"
            ),
        ).collect():
            found[named(row["file_path"])] = Contents(row["digest"], row["whole"], row["text"])
    return found


def _without_links(folders: Iterable[Folder]) -> Iterator[Folder]:
    """One folder for each place: `results/latest` is a link to a run that is there anyway."""
    taken: dict[str, Folder] = {}
    for folder in sorted(folders, key=lambda it: it.path):
        real = os.path.realpath(folder.path) if folder.path.startswith("/") else folder.path
        if real not in taken or folder.path == real:
            taken[real] = folder
    yield from sorted(taken.values(), key=lambda it: it.path)
