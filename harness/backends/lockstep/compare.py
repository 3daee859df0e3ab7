"""Two runs' folders, byte for byte: the first thing in which they differ, in the order in which it happened.

All that the nodes, the clients and the harness have written is compared: traces, recordings, operations, faults, milestones,
the verdict, the canonical dump and, where both kept them, the nodes' disks. Not compared are what only a run with processes
has (`config/`, `log/`) and, of run.json, which world it was and the command that repeats it.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from zab_chaos.node.store.os_files import VOLATILE

APART = ("config", "log", "manifest.json", "report.html")  # at the top of a folder; the manifest names all other files
OF_THE_WORLD = ("backend", "command")  # in run.json
AROUND = 16  # bytes that are shown of a binary file


@dataclass(frozen=True, slots=True)
class Difference:
    """`place` is a line (of *.jsonl, from 1) or a byte offset; `t` the world's time there, if the line says it."""

    file: str
    place: int
    expected: str
    got: str
    t: int | None = None

    def __str__(self) -> str:
        at = "line" if self.file.endswith("jsonl") else "offset"
        return f"{self.file}, {at} {self.place}\n  expected  {self.expected}\n  got       {self.got}"


def first_difference(expected: Path, got: Path) -> Difference | None:
    """None: they are equal. Of several, the one that happened first; what bears no time comes last."""
    found = list(_differences(expected, got))
    return min(found, key=lambda one: (one.t is None, one.t or 0, one.file), default=None)


def _differences(expected: Path, got: Path) -> Iterator[Difference]:
    ours, theirs = _files(expected), _files(got)
    if "data" not in _tops(ours) or "data" not in _tops(theirs):
        ours, theirs = _without_disks(ours), _without_disks(theirs)
    for name in sorted(ours | theirs):
        if name not in theirs:
            yield Difference(name, 0, "a file", "no file")
        elif name not in ours:
            yield Difference(name, 0, "no file", "a file")
        else:
            one, other = _content(expected, name), _content(got, name)
            if one != other:
                yield _in_lines(name, one, other) if name.endswith("jsonl") else _in_bytes(name, one, other)


def _files(folder: Path) -> set[str]:
    paths = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    return {str(path) for path in paths if path.parts[0] not in APART and VOLATILE not in path.parts}


def _tops(names: set[str]) -> set[str]:
    return {name.split("/")[0] for name in names}


def _without_disks(names: set[str]) -> set[str]:
    return {name for name in names if not name.startswith("data/")}


def _content(folder: Path, name: str) -> bytes:
    data = folder.joinpath(name).read_bytes()
    if name != "run.json":
        return data
    facts = {key: value for key, value in json.loads(data).items() if key not in OF_THE_WORLD}
    return json.dumps(facts, indent=2).encode()


def _in_lines(name: str, one: bytes, other: bytes) -> Difference:
    pairs = zip_longest(one.splitlines(), other.splitlines())
    for number, (expected, got) in enumerate(pairs, 1):
        if expected != got:
            t = min((time for line in (expected, got) if (time := _time(line)) is not None), default=None)
            return Difference(name, number, _line(expected), _line(got), t)
    return Difference(name, number, "the end of the file", "another end of the file")


def _time(line: bytes | None) -> int | None:
    try:
        value = json.loads(line or b"{}").get("t")
    except ValueError:
        return None
    return value if isinstance(value, int) else None


def _line(line: bytes | None) -> str:
    return "the end of the file" if line is None else line.decode(errors="backslashreplace")


def _in_bytes(name: str, one: bytes, other: bytes) -> Difference:
    place = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return Difference(name, place, _around(one, place), _around(other, place))


def _around(data: bytes, place: int) -> str:
    shown = data[place : place + AROUND]
    return f"{shown.hex(' ')} {shown!r}" if shown else f"the end of the file, {len(data)} bytes"
