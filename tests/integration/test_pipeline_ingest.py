"""From folders to tables: every table as documented, nothing dropped silently, nothing read twice; and what damage does."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline import columns as c
from pipeline import session
from pipeline.analysis import analyze
from pipeline.folders import NoRuns
from pipeline.ingest import ingest, table
from pipeline.judge import Verdict
from tests.corpus.story import Story, ensemble

pytestmark = pytest.mark.timeout(600)
NODE_1, NODE_2 = "trace/node-1-1.jsonl", "trace/node-2-1.jsonl"


def good() -> Story:
    story = ensemble(writes=5)
    story.settle()
    return story


def saved(folder: Path, story: Story | None = None) -> Path:
    """The story as a run's folder, instead of what is there."""
    shutil.rmtree(folder, ignore_errors=True)
    (story or good()).save(folder)
    return folder


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines(keepends=True)


# ---- damage, each with its outcome ----


def truncated(run: Path) -> None:
    """A file that ends in the middle of a line, and no fault that explains it."""
    held = (run / NODE_1).read_bytes()
    (run / NODE_1).write_bytes(held[:-7])


def garbage(run: Path) -> None:
    """A line in the middle that is no JSON."""
    told = lines(run / NODE_1)
    (run / NODE_1).write_text("".join([*told[:6], "\x00\x01 no JSON {\n", *told[6:]]))


def other_form(run: Path) -> None:
    """JSON, but not what the event needs: a zxid of three numbers."""
    with (run / NODE_1).open("a") as file:
        event = {"t": 10**12, "node": 1, "life": 1, "n": len(lines(run / NODE_1)) + 1, "event": "established"}
        file.write(json.dumps({**event, "epoch": 1, "last_zxid": [1, 2, 3], "quorum": [1]}) + "\n")


def stranger(run: Path) -> None:
    """An event of node 2 in the trace of node 1."""
    with (run / NODE_1).open("a") as file:
        file.write(lines(run / NODE_2)[-1])


def missing(run: Path) -> None:
    """A node of which there is no trace at all."""
    (run / NODE_2).unlink()


def backwards(run: Path) -> None:
    """A clock that goes back by a second between two events."""
    told = [json.loads(line) for line in lines(run / NODE_1)]
    told[-1]["t"] -= 10**9
    (run / NODE_1).write_text("".join(json.dumps(event) + "\n" for event in told))


def bad_operation(run: Path) -> None:
    """An answer of the clients with an outcome that there is not."""
    with (run / "ops.jsonl").open("a") as file:
        file.write(json.dumps({"type": "complete", "t": 10**12, "client": 1, "seq": 1, "outcome": "maybe"}) + "\n")


def bad_fault(run: Path) -> None:
    (run / "faults.jsonl").write_text('{"type": "inject"\n')


def bad_milestone(run: Path) -> None:
    with (run / "harness.jsonl").open("a") as file:
        file.write("[1, 2]\n")


def no_run_json(run: Path) -> None:
    (run / "run.json").unlink()


def broken_run_json(run: Path) -> None:
    (run / "run.json").write_text('{"nodes": "three"')


def older(run: Path) -> None:
    """A run of a version that did not say yet which seed, backend and disk it had, and whose events lacked fields."""
    facts = json.loads((run / "run.json").read_text())
    kept = {name: facts[name] for name in ("nodes", "outcome", "expect")}
    (run / "run.json").write_text(json.dumps(kept))


def newer(run: Path) -> None:
    """An event that this version does not know, of a later one: kept as it is, no damage."""
    number = len(lines(run / NODE_1)) + 1
    with (run / NODE_1).open("a") as file:
        file.write(
            json.dumps({"t": 10**12, "node": 1, "life": 1, "n": number, "event": "mood", "epoch": "sunny"}) + "\n"
        )


DAMAGE: dict[Callable[[Path], None], tuple[str, str]] = {
    truncated: ("UNKNOWN", f"{NODE_1}:"),
    garbage: ("UNKNOWN", f"{NODE_1}:7 is not readable"),
    other_form: ("UNKNOWN", "it has not the form of a `established`"),
    stranger: ("UNKNOWN", "is of node 2, life 1"),
    missing: ("UNKNOWN", "has nothing of node 2"),
    backwards: ("UNKNOWN", "is earlier than the line before it"),
    bad_operation: ("UNKNOWN", "ops.jsonl:11 is not readable"),
    bad_fault: ("UNKNOWN", "faults.jsonl:1 is not readable"),
    bad_milestone: ("UNKNOWN", "harness.jsonl:6 is not readable"),
    no_run_json: ("HARNESS-ERROR", "give the folder of one run, with its run.json"),
    broken_run_json: ("HARNESS-ERROR", "does not describe a run"),
    older: ("PASS", ""),
    newer: ("PASS", ""),
}
REFUSED = {truncated, garbage, other_form, stranger, bad_operation, bad_fault, bad_milestone}


@pytest.fixture(scope="module")
def damaged(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A good run with each damage done to it, all in one call, beside the good one and a copy of it."""
    root = tmp_path_factory.mktemp("damaged")
    saved(root / "good")
    shutil.copytree(root / "good", root / "good-copy")
    for harm in DAMAGE:
        harm(saved(root / harm.__name__))
    (root / "empty").mkdir()
    out = root.with_name("damaged-out")
    analysis = analyze(spark, [str(root)], str(out))
    return {"root": root, "out": out, "verdicts": {Path(it.path).name: it for it in analysis.verdicts}}


@pytest.mark.parametrize("harm", DAMAGE, ids=lambda harm: harm.__name__)
def test_each_damage_has_its_outcome(damaged: dict[str, Any], harm: Callable[[Path], None]) -> None:
    verdict: Verdict = damaged["verdicts"][harm.__name__]
    expected, words = DAMAGE[harm]
    assert verdict.verdict == expected, verdict.json["reasons"]
    told = [*verdict.json["reasons"], *(v["words"] for it in verdict.json["properties"] for v in it["violations"])]
    assert words in " ".join(told)


def test_what_is_refused_is_in_quarantine_with_its_place(spark: Any, damaged: dict[str, Any]) -> None:
    runs = {it.run: name for name, it in damaged["verdicts"].items()}
    rows = table(spark, f"file://{damaged['out']}/tables", c.QUARANTINE).collect()
    assert {runs[row["run"]] for row in rows} == {harm.__name__ for harm in REFUSED}
    for row in rows:
        run = damaged["root"] / runs[row["run"]]
        text = (run / row["file"]).read_text().split("\n")[row["line"] - 1]
        assert row["text"] == text[:1000]
        assert row["reason"].startswith("is ")
        assert row["torn"] == (runs[row["run"]] == "truncated")


def test_no_line_is_dropped(spark: Any, damaged: dict[str, Any]) -> None:
    """Every line of every file is in exactly one table."""
    place = f"file://{damaged['out']}/tables"
    names = {it.run: name for name, it in damaged["verdicts"].items()}
    kept: dict[str, int] = {}
    for it in c.TABLES.values():
        if it is not c.RUNS:
            for row in table(spark, place, it).groupBy("run").count().collect():
                name = names.get(row["run"], "good-copy")
                kept[name] = kept.get(name, 0) + row["count"]
    for name in ("good", "good-copy", *(harm.__name__ for harm in DAMAGE)):
        run = damaged["root"] / name
        files = [*run.glob("trace/*.jsonl"), *run.glob("*.jsonl")]
        written = sum(path.read_text().rstrip("\n").count("\n") + 1 for path in files if path.stat().st_size)
        assert kept[name] == written, name


def test_a_copy_counts_once(damaged: dict[str, Any]) -> None:
    assert "good-copy" not in damaged["verdicts"]
    assert damaged["verdicts"]["good"].copies == [str(damaged["root"] / "good-copy")]
    assert damaged["verdicts"]["good"].verdict == "PASS"


def test_every_table_has_its_documented_columns(spark: Any, damaged: dict[str, Any]) -> None:
    for name, it in c.TABLES.items():
        written = spark.read.parquet(f"file://{damaged['out']}/tables/{name}")
        assert [(field.name, field.dataType.simpleString()) for field in written.schema] == [
            (field.name, field.dataType.simpleString()) for field in c.struct((*it.columns, c.LOAD))
        ]


def test_an_older_run_lacks_what_it_did_not_say(spark: Any, damaged: dict[str, Any]) -> None:
    facts = damaged["verdicts"]["older"].facts
    assert facts["seed"] is facts["backend"] is facts["disk"] is None
    assert facts["record"] is False


def test_an_event_that_is_not_known_is_kept_whole(spark: Any, damaged: dict[str, Any]) -> None:
    rows = table(spark, f"file://{damaged['out']}/tables", c.EVENTS).where("event = 'mood'").collect()
    assert [json.loads(row["raw"])["epoch"] for row in rows] == ["sunny"]


# ---- what is read, and what is read again ----


def test_only_what_is_new_or_has_changed_is_read(spark: Any, tmp_path: Path) -> None:
    runs, tables = tmp_path / "runs", f"file://{tmp_path}/tables"
    for name in ("a", "b"):
        saved(runs / name, ensemble(writes=3 if name == "a" else 4))

    def read() -> tuple[int, int]:
        done = ingest(spark, [str(runs)], tables)
        return len(done.runs), len(done.read)

    assert read() == (2, 2)
    assert read() == (2, 0)
    touched = runs / "a" / "ops.jsonl"
    os.utime(touched, ns=(10**18, 10**18))  # another time, the same contents
    assert read() == (2, 0)
    saved(runs / "a", ensemble(writes=7))
    saved(runs / "c", ensemble(writes=5))
    assert read() == (3, 2)
    shutil.rmtree(runs / "b")
    assert read() == (2, 0)
    newest = analyze(spark, [str(runs)], str(tmp_path))
    assert newest.read == 0
    assert [(Path(it.path).name, it.json["metrics"]["writes_acked"]) for it in newest.verdicts] == [("a", 7), ("c", 5)]


def test_places_may_be_named_in_many_ways(spark: Any, tmp_path: Path) -> None:
    odd = tmp_path / "a [1] {x} %20 ü"
    for name in ("one", "two"):
        saved(odd / name, ensemble(writes=2 if name == "one" else 3))
    (tmp_path / "latest").symlink_to(odd / "one")
    tables = f"file://{tmp_path}/tables"
    for places in (
        [f"{tmp_path}/a*/one"],
        [f"{tmp_path}/a*/{{one,three}}"],
        [f"{tmp_path}/a*/one", f"{tmp_path}/a*/on?"],
        [f"{tmp_path}/latest"],
        [f"file://{tmp_path}/latest"],
    ):
        assert len(ingest(spark, places, tables).runs) == 1, places
    assert len(ingest(spark, [str(tmp_path)], tables).runs) == 2
    assert len(ingest(spark, [f"{tmp_path}/a*/one", f"{tmp_path}/a*/two"], tables).runs) == 2


def test_places_without_runs_are_all_named(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(NoRuns) as told:
        ingest(spark, [f"{tmp_path}/none", f"{tmp_path}/no*"], f"file://{tmp_path}/tables")
    assert f"{tmp_path}/none: there is no such" in str(told.value)
    assert f"{tmp_path}/no*: there is no such" in str(told.value)
    (tmp_path / "empty").mkdir()
    with pytest.raises(NoRuns, match=r"nowhere below is a run\.json"):
        ingest(spark, [f"{tmp_path}/empty"], f"file://{tmp_path}/tables")


def test_a_file_in_several_blocks_keeps_its_line_numbers(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark reads a large file in blocks and does not count lines."""
    monkeypatch.setattr(session, "BLOCK", 2**12)
    saved(tmp_path / "run", ensemble(writes=400))
    garbage(tmp_path / "run")
    before = spark.conf.get("spark.sql.files.maxPartitionBytes")
    spark.conf.set("spark.sql.files.maxPartitionBytes", "4k")
    try:
        analysis = analyze(spark, [str(tmp_path / "run")], str(tmp_path / "out"))
    finally:
        spark.conf.set("spark.sql.files.maxPartitionBytes", before)
    rows = table(spark, f"file://{tmp_path}/out/tables", c.QUARANTINE).collect()
    assert [(row["file"], row["line"]) for row in rows] == [(NODE_1, 7)]
    for it in analysis.verdicts[0].json["properties"]:
        for violation in it["violations"]:
            assert "was next" in violation["words"] or "is not readable" in violation["words"]
