"""The comparison of `zab run --compare`: what counts as a difference, and which one is returned."""

import json
from pathlib import Path

import pytest

from zab_chaos.harness.backends.lockstep.compare import FileDifference, first_difference

FILES = {
    "run.json": b'{"backend": "sim", "command": "zab run x --on sim", "seed": 1}',
    "trace/node-1-1.jsonl": b'{"t":5,"n":1}\n{"t":9,"n":2}\n',
    "ops.jsonl": b'{"t":7,"type":"invoke"}\n{"t":8,"type":"complete"}\n',
    "record/node-1-1.bin": bytes(range(64)),
    "data/node-1/log-00000001": bytes(100),
    "dump.bin": b"DSEZAB01",
}


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    for folder in ("one", "two"):
        for name, content in FILES.items():
            path = tmp_path / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    return tmp_path / "one", tmp_path / "two"


def test_the_backend_and_the_command_are_not_compared(pair: tuple[Path, Path]) -> None:
    one, two = pair
    facts = json.loads(FILES["run.json"])
    two.joinpath("run.json").write_text(json.dumps({**facts, "backend": "lockstep", "command": "zab run x"}))
    for name in ("config/node-1.json", "log/node-1-1.log", "data/node-1/.volatile/1"):
        path = two / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("only there")
    assert first_difference(one, two) is None


@pytest.mark.parametrize("name", sorted(FILES))
def test_one_byte_is_found(pair: tuple[Path, Path], name: str) -> None:
    one, two = pair
    content = bytearray(FILES[name])
    place = content.rindex(b"1") if name == "run.json" else len(content) - 3
    content[place] ^= 1
    two.joinpath(name).write_bytes(content)
    found = first_difference(one, two)
    assert found is not None
    assert found.file == name
    if not name.endswith("json") and not name.endswith("jsonl"):
        assert found.place == place


def test_the_earliest_difference_is_returned(pair: tuple[Path, Path]) -> None:
    one, two = pair
    two.joinpath("trace/node-1-1.jsonl").write_bytes(b'{"t":5,"n":1}\n{"t":9,"n":3}\n')
    two.joinpath("ops.jsonl").write_bytes(b'{"t":7,"type":"invoke"}\n')
    two.joinpath("dump.bin").unlink()
    found = first_difference(one, two)
    assert found == FileDifference("ops.jsonl", 2, '{"t":8,"type":"complete"}', "the end of the file", 8)
    assert str(found) == ('ops.jsonl, line 2\n  expected  {"t":8,"type":"complete"}\n  got       the end of the file')


def test_a_file_that_only_one_has(pair: tuple[Path, Path]) -> None:
    one, two = pair
    two.joinpath("trace/node-1-2.jsonl").write_text("{}\n")
    assert first_difference(one, two) == FileDifference("trace/node-1-2.jsonl", 0, "no file", "a file")
    assert first_difference(two, one) == FileDifference("trace/node-1-2.jsonl", 0, "a file", "no file")


def test_disks_are_compared_if_both_runs_kept_them(pair: tuple[Path, Path]) -> None:
    one, two = pair
    two.joinpath("data/node-1/log-00000001").unlink()
    assert first_difference(one, two) is None  # the whole folder is gone from one of them
    two.joinpath("data/node-1/log-00000002").write_bytes(b"")
    found = first_difference(one, two)
    assert found is not None
    assert found.file == "data/node-1/log-00000001"
