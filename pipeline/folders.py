"""Which folders hold runs, what files they have, and whether those have changed since they were read."""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pyspark.sql import Column, Row, SparkSession
from pyspark.sql import functions as F

FILE = r"(?:run\.json|ops\.jsonl|faults\.jsonl|harness\.jsonl|trace/node-\d+-\d+\.jsonl)"
_WHERE = re.compile(rf"(?P<root>.*)/(?P<name>{FILE})")
_AT_A_TIME = 2000  # paths in one look at file contents: what the driver holds at once


class NoRuns(Exception):
    """What was named holds no runs. The text names every path that was wrong, and what is allowed."""


@dataclass(frozen=True, slots=True)
class File:
    """One file of a run. `path` is as Spark names it (a URI, percent-encoded)."""

    path: str
    name: str  # relative to the run's folder
    size: int
    modified: str


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


@dataclass(frozen=True, slots=True)
class Contents:
    """What is in a file: its hash, whether its last line has an end, and the text of a run.json."""

    digest: str
    whole: bool
    text: str | None


def find(spark: SparkSession, places: Sequence[str]) -> list[Folder]:
    """Every run in or below the places, each once, by path. Places are paths, globs or URIs. Raises NoRuns."""
    located = [_locate(place) for place in places]
    _must_exist(spark, places, located)
    seen: dict[str, Folder] = {}
    for row in _listing(spark, located):
        place = _WHERE.fullmatch(row["file_path"])
        if place is None:
            continue
        root = unquote(place["root"])
        folder = seen.setdefault(root, Folder(row["run"], _readable(root)))
        folder.files[place["name"]] = File(row["file_path"], place["name"], row["file_size"], str(row["modified"]))
    found = list(_without_links(seen.values()))
    if not found:
        raise NoRuns(
            f"no run in {', '.join(places)}: nowhere below is a run.json. Name folders of runs (results/README.md), "
            "folders that hold such folders, or patterns."
        )
    return found


def contents(spark: SparkSession, folders: Iterable[Folder]) -> dict[str, Contents]:
    """What is in all files of the folders, by the files' path."""
    paths = [file.path for folder in folders for file in folder.files.values()]
    found = {}
    for begin in range(0, len(paths), _AT_A_TIME):
        names = [as_pattern(path) for path in paths[begin : begin + _AT_A_TIME]]
        frame = spark.read.format("binaryFile").load(names)
        for row in frame.select(
            "_metadata.file_path",
            F.sha2("content", 256).alias("digest"),
            F.expr("length(content) = 0 OR substring(content, -1, 1) = X'0A'").alias("whole"),
            F.expr("CASE WHEN endswith(_metadata.file_path, '/run.json') THEN decode(content, 'utf-8') END").alias(
                "text"
            ),
        ).collect():
            found[row["file_path"]] = Contents(row["digest"], row["whole"], row["text"])
    return found


def fingerprint(folder: Folder, held: dict[str, Contents]) -> str:
    """The hash of a run's contents, wherever its folder is."""
    told = sorted((file.name, held[file.path].digest) for file in folder.files.values())
    return hashlib.sha256(repr(told).encode()).hexdigest()


def as_pattern(path: str) -> str:
    """A file's URI as something that Spark, which reads patterns, takes literally."""
    return literally(unquote(path))


def located(folder: str) -> str:
    """A run's folder, as `runs.path` has it, as something that Spark reads."""
    return literally(_locate(folder))


def run_of(uri: Column) -> Column:
    """The number of the run in a folder, of which Spark says this URI."""
    return F.xxhash64(uri)


def literally(path: str) -> str:
    """A path as a pattern that nothing but this path matches."""
    return re.sub(r"([\\\[\]{}*?])", r"\\\1", path)


def _locate(place: str) -> str:
    """A place with its file system: without one it is on this machine, whatever the cluster's default is."""
    return place if re.match(r"[a-z][a-z0-9+.-]*:/", place) else f"file://{Path(place).absolute()}"


def _readable(root: str) -> str:
    """A folder as people write it."""
    return re.sub(r"^file:/+", "/", root)


def _must_exist(spark: SparkSession, places: Sequence[str], located: Sequence[str]) -> None:
    jvm: Any = spark.sparkContext._jvm
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    missing = []
    for place, uri in zip(places, located, strict=True):
        path = jvm.org.apache.hadoop.fs.Path(uri)
        if not path.getFileSystem(configuration).globStatus(path):
            missing.append(place)
    if missing:
        raise NoRuns("\n".join(f"{place}: there is no such file or folder" for place in missing))


def _listing(spark: SparkSession, located: list[str]) -> list[Row]:
    """All files below that might be a run's."""
    reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    root = F.regexp_extract("_metadata.file_path", rf"^(.*)/{FILE}$", 1)
    return (
        reader.option("pathGlobFilter", "*.json*")
        .load(located)
        .select(
            "_metadata.file_path",
            "_metadata.file_size",
            F.col("_metadata.file_modification_time").cast("string").alias("modified"),
            run_of(root).alias("run"),
        )
        .where(F.col("_metadata.file_path").rlike(rf"/{FILE}$"))
        .collect()
    )


def _without_links(folders: Iterable[Folder]) -> Iterator[Folder]:
    """One folder for each place: `results/latest` is a link to a run that is there anyway."""
    taken: dict[str, Folder] = {}
    for folder in sorted(folders, key=lambda it: it.path):
        real = os.path.realpath(folder.path) if folder.path.startswith("/") else folder.path
        if real not in taken or folder.path == real:
            taken[real] = folder
    yield from sorted(taken.values(), key=lambda it: it.path)
