"""manifest.json: what a run's folder held when the run had ended and was judged (results/README.md).

What is missing from the folder, was added to it or differs from the manifest is damage: a judge that reads the folder
later can't know what it would have said.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from zab_chaos.model.events import UNREADABLE
from zab_chaos.model.oracle.facts import Damage

NAME = "manifest.json"
FORMAT = 1
MADE_LATER = frozenset({NAME, "report.html", "shrunk.toml"})
VERDICT = "verdict.json"
DISKS = "data"  # kept only where somebody wants to look into them
_LIFE = re.compile(r"trace/node-(\d+)-(\d+)\.jsonl")


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file. `lines`: of a file of lines (.jsonl)."""

    lines: int | None
    bytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`lives`: how many each node had; `faults_due`: the steps of a written schedule, 0 for a drawn one; `sha256`: of the
    rest, as canonical JSON."""

    format: int
    lives: dict[str, int]
    faults_due: int
    files: dict[str, Entry]
    sha256: str = ""

    def signed(self) -> "Manifest":
        """With the right `sha256`."""
        rest: dict[str, Any] = msgspec.to_builtins(self)
        del rest["sha256"]
        text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
        return msgspec.structs.replace(self, sha256=hashlib.sha256(text.encode()).hexdigest())

    def to_json(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"


def seal(folder: Path, faults_due: int = 0) -> None:
    """Write the manifest of a run that has ended; nothing is written to the folder after it."""
    files = {name: _entry(folder / name) for name in _files(folder)}
    manifest = Manifest(FORMAT, _lives(files), faults_due, files).signed()
    (folder / NAME).write_bytes(manifest.to_json())


def write_verdict(folder: Path, verdict: bytes) -> None:
    """Write a stored run's verdict anew. The manifest follows, unless it did not fit the folder before."""
    manifest, damages = check(folder)
    (folder / VERDICT).write_bytes(verdict)
    if manifest is not None and not damages:
        files = {**manifest.files, VERDICT: _entry(folder / VERDICT)}
        (folder / NAME).write_bytes(msgspec.structs.replace(manifest, files=files).signed().to_json())


def check(folder: Path) -> tuple[Manifest | None, list[Damage]]:
    """The manifest, if it can be read, and everything in which the folder differs from it."""
    try:
        content = (folder / NAME).read_bytes()
        manifest = msgspec.json.decode(content, type=Manifest)
    except FileNotFoundError:
        return None, [Damage(NAME, 0, "is missing: the run did not end as it should, or the folder is not whole")]
    except (OSError, *UNREADABLE) as error:
        return None, [Damage(NAME, 0, f"is not readable: {error}")]
    if manifest.format != FORMAT or content != manifest.signed().to_json():
        return None, [Damage(NAME, 0, "was changed: it is not as it was written")]
    try:
        return manifest, list(_differences(folder, manifest))
    except OSError as error:
        return manifest, [Damage(error.filename or NAME, 0, f"can't be read: {error.strerror}")]


def _differences(folder: Path, manifest: Manifest) -> Iterator[Damage]:
    found = set(_files(folder))
    for name in sorted(found - manifest.files.keys()):
        yield Damage(name, 0, "was not there when the run had ended")
    for name, entry in sorted(manifest.files.items()):
        yield from [Damage(name, 0, "is missing")] if name not in found else _changes(folder / name, name, entry)
    if manifest.lives != _lives(manifest.files):
        yield Damage(NAME, 0, "names other lives than it has traces")


def _changes(path: Path, name: str, entry: Entry) -> list[Damage]:
    now = _entry(path)
    if now == entry:
        return []
    if now.lines != entry.lines:
        why = f"is the last of {now.lines} lines; when the run had ended, there were {entry.lines}"
        return [Damage(name, now.lines or 0, why)]
    return [Damage(name, 0, f"was changed: when the run had ended, its sha256 began with {entry.sha256[:16]}")]


def _files(folder: Path) -> Iterator[str]:
    """All that belongs to the run, as paths below the folder."""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.is_file() and str(name) not in MADE_LATER and name.parts[0] != DISKS:
            yield name.as_posix()


def _entry(path: Path) -> Entry:
    digest, size, lines = hashlib.sha256(), 0, 0
    with path.open("rb") as file:
        while chunk := file.read(2**20):
            digest.update(chunk)
            size += len(chunk)
            lines += chunk.count(b"\n")
    return Entry(lines if path.suffix == ".jsonl" else None, size, digest.hexdigest())


def _lives(files: dict[str, Entry]) -> dict[str, int]:
    """By node, how many lives left a trace."""
    lives: dict[str, int] = {}
    for name in files:
        match = _LIFE.fullmatch(name)
        if match is not None:
            lives[match[1]] = lives.get(match[1], 0) + 1
    return lives
