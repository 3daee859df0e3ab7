"""The model's replay of many runs, on Spark's executors: each life of each node by itself.

Spark reads the files, so the runs may lie wherever it can read; what it read of one life is put into a folder of its own
for `model.replay`. A file must fit into memory there, and Spark takes none of more than 2 GiB.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from faults.defects import DEFECTS
from harness.judgement import including_replay
from model.replay import Replayed, replay
from model.verdict import Verdict
from node.core.broadcast import Peer
from node.parts import parts_with
from pipeline.files import located
from pipeline.folders import number_of
from pipeline.frames import of_rows
from pipeline.judge import Verdict as Judged

_FILE = r"/(record|trace)/node-(\d+)-(\d+)\.(?:bin|jsonl)$"


def replayed(spark: SparkSession, judged: Sequence[Judged]) -> None:
    """Add `replay equality` to the verdict of every run that was recorded."""
    recorded = {it.run: it for it in judged if it.facts["record"] and it.json["properties"]}
    lives: dict[int, list[Replayed]] = {run: [] for run in recorded}
    for run, text in _replay(spark, list(recorded.values())) if recorded else ():
        lives[run].append(msgspec.json.decode(text, type=Replayed))
    for run, it in recorded.items():
        ascending = sorted(lives[run], key=lambda one: (one.node, one.life))
        verdict = msgspec.convert(it.json, Verdict)
        it.json.update(msgspec.to_builtins(including_replay(verdict, it.facts, partial(_as_found, ascending))))


def _as_found(lives: list[Replayed], _core: type[Peer]) -> list[Replayed]:
    return lives


def _replay(spark: SparkSession, runs: Sequence[Judged]) -> list[tuple[int, bytes]]:
    """For each life of these runs the number of its run, and its `Replayed` as JSON."""
    files = spark.read.format("binaryFile").option("recursiveFileLookup", "true").option("pathGlobFilter", "node-*-*.*")
    where = F.col("_metadata.file_path")
    parts = ("kind", "node", "life")
    read = files.load([located(it.path) for it in runs]).where(where.rlike(_FILE)).select(
        "content", number_of(F.regexp_replace(where, _FILE, "")).alias("run"),
        *(F.regexp_extract(where, _FILE, at).alias(name) for at, name in enumerate(parts, 1)),
    )  # fmt: skip
    chosen = of_rows(spark, [(it.run, it.facts["defect"]) for it in runs], "run bigint, defect string")
    one = {
        kind: F.first(F.when(F.col("kind") == kind, F.col("content")), ignorenulls=True) for kind in ("record", "trace")
    }
    lives = read.join(F.broadcast(chosen), "run").groupBy("run", "defect", "node", "life").agg(
        *(column.alias(kind) for kind, column in one.items())
    )  # fmt: skip
    spread = lives.repartition(spark.sparkContext.defaultParallelism * 4)
    found: list[tuple[int, bytes]] = spread.rdd.mapPartitions(_each).collect()
    return found


def _each(rows: Iterable[Row]) -> Iterator[tuple[int, bytes]]:
    for row in rows:
        for found in _one(row):
            yield row["run"], msgspec.json.encode(found)


def _one(row: Row) -> list[Replayed]:
    """One life, from what was read of it. Nothing of a defect that this version does not have: the judgement says so."""
    if row["defect"] is not None and row["defect"] not in DEFECTS:
        return []
    parts, _ = parts_with(None if row["defect"] is None else DEFECTS[row["defect"]].path)
    with TemporaryDirectory(prefix="zab-replay-") as place:
        for kind, ending in (("record", "bin"), ("trace", "jsonl")):
            if row[kind] is not None:
                file = Path(place, kind, f"node-{row['node']}-{row['life']}.{ending}")
                file.parent.mkdir()
                file.write_bytes(row[kind])
        return list(replay(Path(place), parts.peer))
