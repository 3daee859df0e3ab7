"""Compares two runs' folders byte for byte, and finds the difference that happened first (`zab run --compare`).

Everything that the nodes, the clients and the harness have written is compared: traces, recordings, operations, faults,
milestones, the verdict, the canonical dump and, if both runs kept them, the nodes' disks. Left out are `config/` and `log/`,
which only a run with processes has, and the backend and the command in run.json.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from zab_chaos.node.store.os_files import VOLATILE

NOT_COMPARED = (
    "config",
    "log",
    "manifest.json",
    "report.html",
)  # at the top of a folder; the manifest names all other files
BACKEND_FIELDS = ("backend", "command")  # in run.json
SHOWN_BYTES = 16  # bytes that are shown of a binary file


@dataclass(frozen=True, slots=True)
class FileDifference:
    """A difference between two files. `place`: a line number (in *.jsonl, from 1) or a byte offset.

    `t`: the world's time at that line, if the line has one.
    """

    file: str
    place: int
    expected: str
    got: str
    t: int | None = None

    def __str__(self) -> str:
        at = "line" if self.file.endswith("jsonl") else "offset"
        return f"{self.file}, {at} {self.place}\n  expected  {self.expected}\n  got       {self.got}"


def first_difference(expected: Path, got: Path) -> FileDifference | None:
    """Return the difference that happened first; those without a time come last. None if the folders are equal."""
    found = list(_differences(expected, got))
    return min(found, key=lambda one: (one.t is None, one.t or 0, one.file), default=None)


def _differences(expected: Path, got: Path) -> Iterator[FileDifference]:
    expected_files, got_files = _files(expected), _files(got)
    if "data" not in _top_folders(expected_files) or "data" not in _top_folders(got_files):
        expected_files, got_files = _without_disks(expected_files), _without_disks(got_files)
    for name in sorted(expected_files | got_files):
        if name not in got_files:
            yield FileDifference(name, 0, "a file", "no file")
        elif name not in expected_files:
            yield FileDifference(name, 0, "no file", "a file")
        else:
            one, other = _content(expected, name), _content(got, name)
            if one != other:
                yield _in_lines(name, one, other) if name.endswith("jsonl") else _in_bytes(name, one, other)


def _files(folder: Path) -> set[str]:
    paths = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    return {str(path) for path in paths if path.parts[0] not in NOT_COMPARED and VOLATILE not in path.parts}


def _top_folders(names: set[str]) -> set[str]:
    return {name.split("/")[0] for name in names}


def _without_disks(names: set[str]) -> set[str]:
    return {name for name in names if not name.startswith("data/")}


def _content(folder: Path, name: str) -> bytes:
    data = folder.joinpath(name).read_bytes()
    if name != "run.json":
        return data
    facts = {key: value for key, value in json.loads(data).items() if key not in BACKEND_FIELDS}
    return json.dumps(facts, indent=2).encode()


def _in_lines(name: str, one: bytes, other: bytes) -> FileDifference:
    pairs = zip_longest(one.splitlines(), other.splitlines())
    for number, (expected, got) in enumerate(pairs, 1):
        if expected != got:
            t = min((time for line in (expected, got) if (time := _time(line)) is not None), default=None)
            return FileDifference(name, number, _line(expected), _line(got), t)
    return FileDifference(name, number, "the end of the file", "another end of the file")


def _time(line: bytes | None) -> int | None:
    try:
        value = json.loads(line or b"{}").get("t")
    except ValueError:
        return None
    return value if isinstance(value, int) else None


def _line(line: bytes | None) -> str:
    return "the end of the file" if line is None else line.decode(errors="backslashreplace")


def _in_bytes(name: str, one: bytes, other: bytes) -> FileDifference:
    place = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return FileDifference(name, place, _bytes_at(one, place), _bytes_at(other, place))


def _bytes_at(data: bytes, place: int) -> str:
    shown = data[place : place + SHOWN_BYTES]
    return f"{shown.hex(' ')} {shown!r}" if shown else f"the end of the file, {len(data)} bytes"
