"""Reading folders into tables: documented columns, no dropped lines, no repeated reading, and the effects of damage."""

import json
import os
import shutil
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

from tests.corpus.story import ensemble
from tests.integration.analyzed import Analyzed
from tests.integration.damage import DAMAGE, NODE_1, REFUSED, lines, saved
from zab_chaos.pipeline import columns as c
from zab_chaos.pipeline.folders import NoRuns, find
from zab_chaos.pipeline.ingest import ingest
from zab_chaos.pipeline.judging import JudgedRun
from zab_chaos.pipeline.tables import Rows, escape_path, read_table

pytestmark = pytest.mark.timeout(600)
ODD = "a [1] {x} %20 ü"


@pytest.fixture(scope="module")
def damaged(analyzed: Analyzed) -> dict[str, JudgedRun]:
    """The verdicts on a good run and on a version of it with each kind of damage, by the folders' names."""
    return analyzed.below(analyzed.damaged)


@pytest.mark.parametrize("harm", DAMAGE, ids=lambda harm: harm.__name__)
def test_each_damage_has_its_outcome(damaged: dict[str, JudgedRun], harm: Callable[[Path], None]) -> None:
    verdict = damaged[harm.__name__]
    expected, words = DAMAGE[harm]
    assert verdict.verdict == expected, verdict.json["reasons"]
    told = [*verdict.json["reasons"], *(v["words"] for it in verdict.json["properties"] for v in it["violations"])]
    assert words in " ".join(told)


def test_the_verdict_is_that_of_the_worst_run_and_all_are_in_the_summary(analyzed: Analyzed) -> None:
    assert analyzed.analysis.verdict == "HARNESS-ERROR"
    assert len(analyzed.analysis.summary["runs"]) == len(analyzed.analysis.verdicts)


def test_a_number_that_could_not_be_measured_is_not_zero(damaged: dict[str, JudgedRun]) -> None:
    """The traces of these runs count no messages and no syncs."""
    metrics = damaged["good"].json["metrics"]
    assert metrics["frames"] is metrics["messages_per_write"] is metrics["syncs_per_write"] is None


def test_refused_lines_are_in_quarantine_with_their_place(
    spark: Any, analyzed: Analyzed, damaged: dict[str, JudgedRun]
) -> None:
    runs = {it.run: name for name, it in damaged.items()}
    quarantine = read_table(spark, analyzed.out / "tables", c.QUARANTINE).collect()
    rows = [row for row in quarantine if row["run"] in runs]
    assert {runs[row["run"]] for row in rows} == {harm.__name__ for harm in REFUSED}
    for row in rows:
        run = analyzed.damaged / runs[row["run"]]
        text = (run / row["file"]).read_text().split("\n")[row["line"] - 1]
        assert row["text"] == text[:1000]
        assert row["reason"].startswith("is ")
        assert row["torn"] == (runs[row["run"]] == "truncated")


def test_no_line_is_dropped(spark: Any, analyzed: Analyzed) -> None:
    """Every line of every file is in exactly one table."""
    tables = [
        read_table(spark, analyzed.out / "tables", it).select("run") for it in c.TABLES.values() if it is not c.RUNS
    ]
    kept = {row["run"]: row["count"] for row in reduce(DataFrame.unionAll, tables).groupBy("run").count().collect()}
    runs = find([str(analyzed.corpus), str(analyzed.damaged)])
    for folder in runs:
        run = Path(folder.path)
        files = [*run.glob("trace/*.jsonl"), *run.glob("*.jsonl")]
        written = sum(path.read_text().rstrip("\n").count("\n") + 1 for path in files if path.stat().st_size)
        assert kept.get(folder.run, 0) == written, run
    assert len(runs) > len(DAMAGE)


def test_a_copy_counts_once(analyzed: Analyzed, damaged: dict[str, JudgedRun]) -> None:
    assert "good-copy" not in damaged
    assert damaged["good"].copies == [str(analyzed.damaged / "good-copy")]
    assert damaged["good"].verdict == "PASS"


def test_every_table_has_its_documented_columns(spark: Any, analyzed: Analyzed) -> None:
    for name, it in c.TABLES.items():
        written = spark.read.parquet(f"file://{escape_path(str(analyzed.out))}/tables/{name}")
        assert written.dtypes == [(column.name, column.type) for column in (*it.columns, c.LOAD)]


def test_an_older_run_has_null_in_missing_columns(damaged: dict[str, JudgedRun]) -> None:
    facts = damaged["older"].facts
    assert facts["seed"] is facts["backend"] is facts["disk"] is None
    assert facts["record"] is False


def test_an_event_that_is_not_known_is_kept_whole(spark: Any, analyzed: Analyzed) -> None:
    rows = read_table(spark, analyzed.out / "tables", c.EVENTS).where("event = 'mood'").collect()
    assert [json.loads(row["raw"])["epoch"] for row in rows] == ["sunny"]


# ---- what is read, and what is read again ----


def test_only_new_and_changed_runs_are_read(spark: Any, tmp_path: Path) -> None:
    """The folder's name looks like a pattern, but is not one."""
    out = tmp_path / ODD
    runs, tables = out / "runs", out / "tables"
    for name in ("a", "b"):
        saved(runs / name, ensemble(writes=3 if name == "a" else 4))

    def looked() -> tuple[int, int]:
        done = ingest(spark, find([str(runs)]), tables)
        return len(done.runs), done.newly_read

    assert looked() == (2, 2)
    assert looked() == (2, 0)
    touched = runs / "a" / "ops.jsonl"
    os.utime(touched, ns=(10**18, 10**18))  # another time, the same contents
    assert looked() == (2, 0)
    saved(runs / "a", ensemble(writes=7))
    saved(runs / "c")
    assert looked() == (3, 2)
    os.utime(runs / "b" / "ops.jsonl", ns=(10**18, 10**18))
    newest = ingest(spark, find([str(runs)]), tables)
    assert newest.newly_read == 0
    counted = Rows(spark, tables, newest.runs).accepts.groupBy("run").count().collect()
    batches = {row["run"]: row["count"] for row in counted}
    found = {Path(row["path"]).name: batches[row["run"]] for row in newest.runs}
    assert found == {"a": 21, "b": 12, "c": 15}  # neither the old rows of a, nor none of b
    shutil.rmtree(runs / "b")
    assert looked() == (2, 0)


def test_folders_and_patterns_are_found(tmp_path: Path) -> None:
    odd = tmp_path / ODD
    for name in ("one", "two"):
        saved(odd / name)
    (tmp_path / "latest").symlink_to(odd / "one")
    (tmp_path / ".hidden").mkdir()
    saved(tmp_path / ".hidden" / "run")
    for places in ([f"{tmp_path}/a*/one"], [f"{tmp_path}/a*/one", f"{tmp_path}/a*/on?"], [f"{tmp_path}/latest"]):
        assert len(find(places)) == 1, places
    assert [it.path for it in find([str(tmp_path)])] == [str(odd / "one"), str(odd / "two")]
    assert len(find([str(odd), f"{odd}/one"])) == 2


def test_places_without_runs_are_all_named(tmp_path: Path) -> None:
    with pytest.raises(NoRuns) as told:
        find([f"{tmp_path}/none", f"{tmp_path}/no*"])
    assert f"{tmp_path}/none: there is no such" in str(told.value)
    assert f"{tmp_path}/no*: there is no such" in str(told.value)
    (tmp_path / "empty").mkdir()
    with pytest.raises(NoRuns, match=r"there is no run\.json in or below it"):
        find([f"{tmp_path}/empty"])


# ---- the fields ----


def test_every_field_of_a_line_is_in_its_column(spark: Any, tmp_path: Path) -> None:
    """Also optional fields are read; a field of another type than documented is null."""
    run = saved(tmp_path / "run")
    digests, txns = "00" * 8 + "ff" * 8, [[1, 1, [["create", "/a", 0, 7], ["fence", "", None, None]]], [2, 3, []]]
    number = len(lines(run / NODE_1)) + 1
    common = {"t": 10**12, "node": 1, "life": 1}
    events = [
        {"event": "broadcast", "epoch": 9, "first": 1, "digests": digests, "delivered": [1, 5], "txns": txns},
        {"event": "member", "epoch": 9, "quorum": [2, 3]},
        {"event": "truncate", "keep": [1, 5], "last": [1, 7]},
        {"event": "refused", "what": "frame", "why": "garbled", "peer": "first", "count": 2},
        {"event": "client", "state": "connected", "client": 2**63 - 1},
    ]
    with (run / NODE_1).open("a") as file:
        file.writelines(json.dumps(common | {"n": number + i} | it) + "\n" for i, it in enumerate(events))
    steps, done = [{"op": "create", "path": "/s-", "sequential": True}], [["/s-1", 0], ["/t", None]]
    asked = {
        "type": "invoke",
        "t": 1,
        "due": 1,
        "client": 7,
        "seq": 1,
        "node": 1,
        "op": "multi",
        "path": "",
        "steps": steps,
    }
    told = {
        "type": "complete",
        "t": 2,
        "client": 7,
        "seq": 1,
        "node": 1,
        "outcome": "ok",
        "zxid": [1, 1],
        "steps": done,
    }
    listed = {"type": "complete", "t": 3, "client": 8, "seq": 1, "node": 1, "outcome": "ok", "children": ["a", "b"]}
    made = {
        "type": "invoke",
        "t": 4,
        "due": 4,
        "client": 9,
        "seq": 1,
        "node": 1,
        "op": "create",
        "path": "/s-",
        "sequential": True,
    }
    found = {"type": "complete", "t": 5, "client": 10, "seq": 1, "node": 1, "outcome": "ok", "lists": [[1, 2], []]}
    with (run / "ops.jsonl").open("a") as file:
        file.writelines(json.dumps(it) + "\n" for it in (asked, told, listed, made, found))
    ingest(spark, find([str(run)]), tmp_path / "tables")

    def rows(table: c.Table, condition: str) -> list[Any]:
        return read_table(spark, tmp_path / "tables", table).where(condition).orderBy("line").collect()

    (batch,) = rows(c.BROADCASTS, "epoch = 9")
    assert (batch["digests"], json.loads(batch["txns"]), batch["delivered"]) == (digests, txns, [1, 5])
    member, cut, refused, client = rows(c.EVENTS, f"line > {number}")
    assert (member["event"], member["quorum"]) == ("member", [2, 3])
    assert (cut["keep"], cut["last"]) == ([1, 5], [1, 7])
    assert (refused["peer"], refused["what"], refused["why"]) == (None, "frame", "garbled")
    assert (client["state"], client["client"]) == ("connected", 2**63 - 1)
    multi, answer, children, create, read = rows(c.OPERATIONS, "client >= 7")
    assert (json.loads(multi["steps"]), json.loads(answer["steps"])) == (steps, done)
    assert (children["children"], create["sequential"], multi["sequential"]) == (["a", "b"], True, None)
    assert (read["lists"], create["lists"]) == ([[1, 2], []], None)
