"""Reading folders into tables: documented columns, no dropped lines, no repeated reading, and the effects of damage."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.corpus.story import Story, ensemble
from zab_chaos.model import manifest
from zab_chaos.pipeline import columns as c
from zab_chaos.pipeline.analysis import analyze
from zab_chaos.pipeline.folders import NoRuns, find
from zab_chaos.pipeline.ingest import ingest
from zab_chaos.pipeline.judging import JudgedRun
from zab_chaos.pipeline.tables import read_table

pytestmark = pytest.mark.timeout(600)
ODD = "a [1] {x} %20 ü"
NODE_1, NODE_2 = "trace/node-1-1.jsonl", "trace/node-2-1.jsonl"


def good() -> Story:
    story = ensemble(writes=5)
    story.settle()
    return story


def saved(folder: Path, story: Story | None = None) -> Path:
    """Save the story as a run's folder, replacing what is there."""
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
    """A line in the middle that is not JSON."""
    told = lines(run / NODE_1)
    (run / NODE_1).write_text("".join([*told[:6], "\x00\x01 no JSON {\n", *told[6:]]))


def other_form(run: Path) -> None:
    """JSON, but not of the event's form: a zxid of three numbers."""
    with (run / NODE_1).open("a") as file:
        event = {"t": 10**12, "node": 1, "life": 1, "n": len(lines(run / NODE_1)) + 1, "event": "established"}
        file.write(json.dumps({**event, "epoch": 1, "last_zxid": [1, 2, 3], "quorum": [1]}) + "\n")


def stranger(run: Path) -> None:
    """An event of node 2 in the trace of node 1."""
    with (run / NODE_1).open("a") as file:
        file.write(lines(run / NODE_2)[-1])


def missing(run: Path) -> None:
    """A node without any trace."""
    (run / NODE_2).unlink()


def backwards(run: Path) -> None:
    """A clock that goes back by a second between two events."""
    told = [json.loads(line) for line in lines(run / NODE_1)]
    told[-1]["t"] -= 10**9
    (run / NODE_1).write_text("".join(json.dumps(event) + "\n" for event in told))


def bad_operation(run: Path) -> None:
    """A completion with an outcome that does not exist."""
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
    """A run of an older version, without seed, backend and disk in run.json, and with fewer fields in its events."""
    facts = json.loads((run / "run.json").read_text())
    kept = {name: facts[name] for name in ("nodes", "outcome", "expect")}
    (run / "run.json").write_text(json.dumps(kept))
    manifest.seal(run)


def newer(run: Path) -> None:
    """An event of a later version, which this one does not know: it is kept unchanged, and is not damage."""
    *before, last = (json.loads(line) for line in lines(run / NODE_1))
    mood = {**before[-1], "n": last["n"], "event": "mood", "epoch": "sunny"}
    told = [*before, mood, {**last, "n": last["n"] + 1}]
    (run / NODE_1).write_text("".join(json.dumps(line) + "\n" for line in told))
    manifest.seal(run)


DAMAGE: dict[Callable[[Path], None], tuple[str, str]] = {
    truncated: ("UNKNOWN", f"{NODE_1}:"),
    garbage: ("UNKNOWN", f"{NODE_1}:7 is not readable"),
    other_form: ("UNKNOWN", "is not readable: Expected `array` of length 2"),
    stranger: ("UNKNOWN", "is of node 2, life 1"),
    missing: ("UNKNOWN", "trace/node-2-1.jsonl is missing"),
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
    """One analysis of a good run, a copy of it, and a version of it with each kind of damage."""
    root = tmp_path_factory.mktemp("damaged")
    saved(root / "good")
    shutil.copytree(root / "good", root / "good-copy")
    for harm in DAMAGE:
        harm(saved(root / harm.__name__))
    (root / "empty").mkdir()
    out = root.with_name("damaged-out")
    analysis = analyze(spark, find([str(root)]), out)
    return {
        "root": root,
        "out": out,
        "analysis": analysis,
        "verdicts": {Path(it.path).name: it for it in analysis.verdicts},
    }


@pytest.mark.parametrize("harm", DAMAGE, ids=lambda harm: harm.__name__)
def test_each_damage_has_its_outcome(damaged: dict[str, Any], harm: Callable[[Path], None]) -> None:
    verdict: JudgedRun = damaged["verdicts"][harm.__name__]
    expected, words = DAMAGE[harm]
    assert verdict.verdict == expected, verdict.json["reasons"]
    told = [*verdict.json["reasons"], *(v["words"] for it in verdict.json["properties"] for v in it["violations"])]
    assert words in " ".join(told)


def test_the_verdict_is_that_of_the_worst_run_and_all_are_in_the_summary(damaged: dict[str, Any]) -> None:
    assert damaged["analysis"].verdict == "HARNESS-ERROR"
    assert len(damaged["analysis"].summary["runs"]) == len(damaged["verdicts"])


def test_a_number_that_could_not_be_measured_is_not_zero(damaged: dict[str, Any]) -> None:
    """The traces of these runs count no messages and no syncs."""
    metrics = damaged["verdicts"]["good"].json["metrics"]
    assert metrics["frames"] is metrics["messages_per_write"] is metrics["syncs_per_write"] is None


def test_refused_lines_are_in_quarantine_with_their_place(spark: Any, damaged: dict[str, Any]) -> None:
    runs = {it.run: name for name, it in damaged["verdicts"].items()}
    rows = read_table(spark, damaged["out"] / "tables", c.QUARANTINE).collect()
    assert {runs[row["run"]] for row in rows} == {harm.__name__ for harm in REFUSED}
    for row in rows:
        run = damaged["root"] / runs[row["run"]]
        text = (run / row["file"]).read_text().split("\n")[row["line"] - 1]
        assert row["text"] == text[:1000]
        assert row["reason"].startswith("is ")
        assert row["torn"] == (runs[row["run"]] == "truncated")


def test_no_line_is_dropped(spark: Any, damaged: dict[str, Any]) -> None:
    """Every line of every file is in exactly one table."""
    place = damaged["out"] / "tables"
    names = {it.run: name for name, it in damaged["verdicts"].items()}
    kept: dict[str, int] = {}
    for it in c.TABLES.values():
        if it is not c.RUNS:
            for row in read_table(spark, place, it).groupBy("run").count().collect():
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
        assert written.dtypes == [(column.name, column.type) for column in (*it.columns, c.LOAD)]


def test_an_older_run_has_null_in_missing_columns(spark: Any, damaged: dict[str, Any]) -> None:
    facts = damaged["verdicts"]["older"].facts
    assert facts["seed"] is facts["backend"] is facts["disk"] is None
    assert facts["record"] is False


def test_an_event_that_is_not_known_is_kept_whole(spark: Any, damaged: dict[str, Any]) -> None:
    rows = read_table(spark, damaged["out"] / "tables", c.EVENTS).where("event = 'mood'").collect()
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
        return len(done.runs), len(done.newly_read)

    assert looked() == (2, 2)
    assert looked() == (2, 0)
    touched = runs / "a" / "ops.jsonl"
    os.utime(touched, ns=(10**18, 10**18))  # another time, the same contents
    assert looked() == (2, 0)
    saved(runs / "a", ensemble(writes=7))
    saved(runs / "c")
    assert looked() == (3, 2)
    os.utime(runs / "b" / "ops.jsonl", ns=(10**18, 10**18))
    newest = analyze(spark, find([str(runs)]), out)
    assert newest.newly_read == 0
    found = {
        Path(it.path).name: (it.json["metrics"]["writes_acked"], it.json["metrics"]["durable_batches"])
        for it in newest.verdicts
    }
    assert found == {"a": (7, 21), "b": (4, 12), "c": (5, 15)}  # neither the old rows of a, nor none of b
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
        {"event": "vote", "round": "first", "leader": 3, "zxid": [1, 5], "epoch": 1},
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
    with (run / "ops.jsonl").open("a") as file:
        file.writelines(json.dumps(it) + "\n" for it in (asked, told, listed, made))
    ingest(spark, find([str(run)]), tmp_path / "tables")

    def rows(table: c.Table, condition: str) -> list[Any]:
        return read_table(spark, tmp_path / "tables", table).where(condition).orderBy("line").collect()

    (batch,) = rows(c.BROADCASTS, "epoch = 9")
    assert (batch["digests"], json.loads(batch["txns"]), batch["delivered"]) == (digests, txns, [1, 5])
    member, cut, vote = rows(c.EVENTS, f"line > {number}")
    assert (member["event"], member["quorum"]) == ("member", [2, 3])
    assert (cut["keep"], cut["last"]) == ([1, 5], [1, 7])
    assert (vote["round"], vote["leader"], vote["zxid"]) == (None, 3, [1, 5])
    multi, answer, children, create = rows(c.OPERATIONS, "client >= 7")
    assert (json.loads(multi["steps"]), json.loads(answer["steps"])) == (steps, done)
    assert (children["children"], create["sequential"], multi["sequential"]) == (["a", "b"], True, None)
