"""A run's folder with edited files: every command answers in words, whatever the files contain."""

import io
import json
import shutil
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from zab_chaos.harness.cli.app import main
from zab_chaos.harness.errors import Exit

SCENARIO = """[scenario]
name = "small"
about = "A crash in two seconds."
duration = 2
record = false
[workload]
rate = 20
[[fault]]
at = 0.5
do = "crash"
target = "leader"
for = 0.5
[[fault]]
at = 1.2
do = "partition"
target = "one"
for = 0.5
[expect]
min_acked = 100000
"""
FILES = (
    "run.json",
    "verdict.json",
    "faults.jsonl",
    "harness.jsonl",
    "ops.jsonl",
    "trace/node-1-1.jsonl",
    "scenario.toml",
)
SHRUNK = ("run.json", "verdict.json", "faults.jsonl", "scenario.toml")  # what shrinking reads
COMMANDS = (["verify"], ["report"], ["shrink", "--budget", "1", "--jobs", "1"])

Edit = Callable[[bytes], bytes]
EDITS: dict[str, Edit] = {
    "emptied": lambda old: b"",
    "not UTF-8": lambda old: b"\xff\xfe" + old,
    "not UTF-8 inside": lambda old: old[: len(old) // 2] + b"\xff" + old[len(old) // 2 :],
    "a list": lambda old: b"[]\n",
    "a number": lambda old: b"3\n",
    "deeper than anybody reads": lambda old: b"[" * 5000 + b"\n",
    "more digits than anybody reads": lambda old: b'{"t": ' + b"9" * 5000 + b"}\n",
    "cut": lambda old: old[: len(old) // 2],
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that failed, so that all commands have something to show."""
    place = tmp_path_factory.mktemp("edited")
    (place / "small.toml").write_text(SCENARIO)
    assert (
        main(["run", str(place / "small.toml"), "--on", "sim", "--quiet", "--results", str(place / "r")])
        == Exit.UNKNOWN
    )
    return (place / "r" / "latest").resolve()


def answer(words: list[str]) -> tuple[int, str]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(words)
    assert "internal error" not in err.getvalue(), err.getvalue()
    return code, out.getvalue() + err.getvalue()


def edited(run: Path, place: Path, file: str, edit: Edit) -> Path:
    shutil.copytree(run, place / "run")
    path = place / "run" / file
    path.write_bytes(edit(path.read_bytes()))
    return place / "run"


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("edit", EDITS)
def test_no_edit_of_a_file_leads_to_a_traceback(run: Path, tmp_path: Path, file: str, edit: str) -> None:
    folder = edited(run, tmp_path, file, EDITS[edit])
    for command, *options in COMMANDS:
        if command != "shrink" or file in SHRUNK:
            answer([command, str(folder), *options])


@pytest.mark.parametrize("file", ["run.json", "verdict.json", "faults.jsonl", "harness.jsonl"])
@pytest.mark.parametrize("value", [None, [3], "x", 10**30, {"a": []}], ids=str)
def test_no_value_of_any_type_leads_to_a_traceback(run: Path, tmp_path: Path, file: str, value: object) -> None:
    keys = json.loads((run / file).read_bytes().splitlines()[0] if file.endswith("l") else (run / file).read_bytes())

    def edit(old: bytes, key: str) -> bytes:
        if not file.endswith("l"):
            return json.dumps(json.loads(old) | {key: value}).encode()
        lines = old.splitlines(keepends=True)
        return json.dumps(json.loads(lines[0]) | {key: value}).encode() + b"\n" + b"".join(lines[1:])

    for key in keys:
        place = tmp_path / key
        place.mkdir()
        folder = edited(run, place, file, lambda old, key=key: edit(old, key))  # type: ignore[misc]
        answer(["verify", str(folder), "--quiet"])


def test_the_verdict_is_shown_where_nothing_can_be_written(run: Path, tmp_path: Path) -> None:
    """Root may write to read-only folders, but replace no folder by a file."""
    shutil.copytree(run, tmp_path / "run")
    (tmp_path / "run" / "verdict.json").unlink()
    (tmp_path / "run" / "verdict.json").mkdir()
    code, told = answer(["verify", str(tmp_path / "run")])
    assert code == Exit.UNKNOWN
    assert "could not be written" in told
    assert "total order" in told
    assert "writes were acknowledged; at least 100000 are needed" in told
