"""Reading and judging damaged run folders."""

import json
import resource
from itertools import count, islice
from pathlib import Path

import pytest

from tests.corpus.story import ensemble
from zab_chaos.model.manifest import seal
from zab_chaos.model.oracle.facts import Damage
from zab_chaos.model.oracle.oracle import judge
from zab_chaos.model.runfiles import RunReader
from zab_chaos.model.verdict import Outcome


def test_a_good_folder_passes(folder: Path) -> None:
    assert judge(folder).verdict is Outcome.PASS


def test_a_missing_run_json_is_a_harness_error(folder: Path) -> None:
    (folder / "run.json").unlink()
    verdict = judge(folder)
    assert verdict.verdict is Outcome.HARNESS_ERROR
    assert "run.json" in verdict.reasons[0]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"nodes": 0}', '{"nodes": "three"}'])
def test_an_invalid_run_json_is_a_harness_error(folder: Path, text: str) -> None:
    (folder / "run.json").write_text(text)
    verdict = judge(folder)
    assert (verdict.verdict, verdict.exit) == (Outcome.HARNESS_ERROR, 3)
    assert str(folder / "run.json") in verdict.reasons[0]


def test_an_unreadable_line_is_named(folder: Path) -> None:
    path = folder / "ops.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([lines[0], "nonsense\n", *lines[1:]]))
    seal(folder)
    verdict = judge(folder)
    assert verdict.verdict is Outcome.UNKNOWN
    assert any("ops.jsonl:2" in reason for reason in verdict.reasons)


def test_the_lines_after_an_unreadable_one_keep_their_numbers(folder: Path) -> None:
    path = folder / "trace" / "node-1-1.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([lines[0], "\n", *lines[1:]]))
    damages: list[Damage] = []
    events = [event for event in RunReader(folder, damages.append).events() if event.node == 1]
    assert [event.line for event in events] == [1, *range(3, len(lines) + 2)]
    assert [(it.file, it.line) for it in damages] == [("trace/node-1-1.jsonl", 2)]


def test_an_event_in_another_nodes_file_makes_the_run_unknown(folder: Path) -> None:
    source = (folder / "trace" / "node-2-1.jsonl").read_text().splitlines()[-1]
    with (folder / "trace" / "node-3-1.jsonl").open("a") as file:
        file.write(source + "\n")
    seal(folder)
    assert judge(folder).verdict is Outcome.UNKNOWN


def test_time_that_goes_back_within_a_life_makes_the_run_unknown(folder: Path) -> None:
    path = folder / "trace" / "node-2-1.jsonl"
    lines = path.read_text().splitlines()
    last = json.loads(lines[-1])
    path.write_text("\n".join([*lines[:-1], json.dumps({**last, "t": 1})]) + "\n")
    seal(folder)
    assert judge(folder).verdict is Outcome.UNKNOWN


def test_a_last_line_that_lacks_only_its_newline_is_complete(folder: Path) -> None:
    path = folder / "trace" / "node-2-1.jsonl"
    path.write_text(path.read_text().rstrip("\n"))
    seal(folder)
    assert judge(folder).verdict is Outcome.PASS


def test_a_strangers_file_among_the_traces_costs_no_time(folder: Path) -> None:
    """Nobody looks for the four billion lives before it. What the manifest does not name makes the run uncertain."""
    (folder / "trace" / "node-1-4000000000.jsonl").touch()
    verdict = judge(folder)
    assert verdict.verdict is Outcome.UNKNOWN
    assert len(verdict.reasons) == 1
    assert "node-1-4000000000.jsonl" in verdict.reasons[0]


def test_an_empty_folder_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"nodes": 3}')
    assert judge(tmp_path).verdict is Outcome.UNKNOWN


def test_a_run_may_have_more_lives_than_a_process_may_have_open_files(tmp_path: Path) -> None:
    story = ensemble(3, 1)
    for _ in range(40):
        story.crash(3)
        story.boot(3)
    story.save(tmp_path / "run")
    damages: list[Damage] = []
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = {int(path.name) for path in Path("/proc/self/fd").iterdir()}
    ten_more = next(islice((number for number in count() if number not in taken), 10, None))
    resource.setrlimit(resource.RLIMIT_NOFILE, (ten_more, hard))
    try:
        events = list(RunReader(tmp_path / "run", damages.append).events())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert damages == []
    assert len(events) == sum(map(len, story.traces.values()))
