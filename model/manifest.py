"""manifest.json: the content of a run's folder at the end of the run, after it was judged (results/README.md).

A file that is missing, was added or was changed is damage: a later judge can't know what the original one would have said.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from zab_chaos.model.events import TRACE_FILE, UNREADABLE
from zab_chaos.model.oracle.facts import Damage
from zab_chaos.model.sealing import MANIFEST, sealing

NAME = MANIFEST
FORMAT = 1
MADE_LATER = frozenset({NAME, "report.html", "shrunk.toml"})
VERDICT = "verdict.json"
PART = ".part-"  # begins the name of a file that is being written
DISKS = "data"  # not part of the manifest: it is kept only to be looked into


class FileEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file. `lines` is None for files other than .jsonl."""

    lines: int | None
    bytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of manifest.json.

    `lives` is the number of lives of each node. Only older runs have `faults_due`, the number of steps of a written schedule, 0
    for a drawn one; run.json has the steps now. `sha256` is that of the other fields as canonical JSON.
    """

    format: int
    lives: dict[str, int]
    faults_due: int | msgspec.UnsetType = msgspec.UNSET
    files: dict[str, FileEntry]
    sha256: str = ""

    def signed(self) -> "Manifest":
        """Return a copy with the right `sha256`."""
        rest: dict[str, Any] = msgspec.to_builtins(self)
        del rest["sha256"]
        text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
        return msgspec.structs.replace(self, sha256=hashlib.sha256(text.encode()).hexdigest())

    def to_json(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"


def seal(folder: Path) -> None:
    """Write the manifest of a run that has ended. Afterwards nothing else is written to the folder."""
    with sealing(folder):
        files = {name: _entry(folder / name) for name in _files(folder)}
        manifest = Manifest(format=FORMAT, lives=_lives(files), files=files).signed()
        (folder / NAME).write_bytes(manifest.to_json())


def write_verdict(folder: Path, verdict: bytes) -> None:
    """Replace the verdict of a stored run, if it is another one, and its entry in the manifest, unless one of the two had been
    changed. Other differences stay in the manifest.

    If one of them can't be written, because the disk is full for example, both stay as they were.
    """
    if _read_bytes(folder / VERDICT) == verdict:
        return
    manifest = _read(folder)
    with ExitStack() as stack:
        new = stack.enter_context(written_beside(folder / VERDICT, verdict, mode=0o600))
        sealed = None
        if isinstance(manifest, Manifest) and not _differences(folder, manifest, [VERDICT]):
            files = {**manifest.files, VERDICT: _entry(new)}
            content = msgspec.structs.replace(manifest, files=files).signed().to_json()
            sealed = stack.enter_context(written_beside(folder / NAME, content, mode=0o600))
        new.replace(folder / VERDICT)
        if sealed is not None:
            sealed.replace(folder / NAME)


@contextmanager
def written_beside(path: Path, content: bytes, mode: int = 0o666) -> Iterator[Path]:
    """Write a file beside the one that it is to replace, and remove it at the end of the block if it is still there.

    If this process is killed, a file is left that no manifest covers.
    """
    new = path.with_name(f"{PART}{path.name}.{os.getpid()}")
    try:
        new.touch(mode)
        new.write_bytes(content)
        yield new
    finally:
        new.unlink(missing_ok=True)


def _read_bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def check(folder: Path) -> tuple[Manifest | None, list[Damage]]:
    """Return the manifest, None if it can't be read, and every difference between it and the folder."""
    manifest = _read(folder)
    if isinstance(manifest, Damage):
        return None, [manifest]
    added = set(_files(folder)) - manifest.files.keys()
    damages = _differences(folder, manifest, [*sorted(added), *sorted(manifest.files)])
    if manifest.lives != _lives(manifest.files):
        damages.append(Damage(NAME, 0, "lists other lives than traces"))
    return manifest, damages


def changes(folder: Path, names: Iterable[str]) -> list[Damage]:
    """Return how these files differ from those that the run had when it ended; nothing if the manifest can't be read."""
    manifest = _read(folder)
    return [] if isinstance(manifest, Damage) else _differences(folder, manifest, names)


def _read(folder: Path) -> Manifest | Damage:
    """Return the manifest, or why it can't be used."""
    try:
        content = (folder / NAME).read_bytes()
        manifest = msgspec.json.decode(content, type=Manifest)
    except FileNotFoundError:
        return Damage(NAME, 0, "is missing: the run did not end properly, or the folder is incomplete")
    except (OSError, *UNREADABLE) as error:
        return Damage(NAME, 0, f"is not readable: {error}")
    if manifest.format != FORMAT or content != manifest.signed().to_json():
        return Damage(NAME, 0, "was changed: it is not as it was written")
    return manifest


def _differences(folder: Path, manifest: Manifest, names: Iterable[str]) -> list[Damage]:
    found = (_difference(folder / name, name, manifest.files.get(name)) for name in names)
    return [damage for damage in found if damage is not None]


def _difference(path: Path, name: str, entry: FileEntry | None) -> Damage | None:
    """Compare a file with its entry in the manifest. Return None if they are equal, or if there is neither."""
    try:
        now = _entry(path) if path.is_file() else None
    except OSError as error:
        return Damage(name, 0, f"can't be read: {error.strerror}")
    if now == entry:
        return None
    if entry is None:
        return Damage(name, 0, "did not exist when the run had ended")
    if now is None:
        return Damage(name, 0, "is missing")
    if now.lines != entry.lines:
        why = f"is the last of {now.lines} lines; when the run had ended, there were {entry.lines}"
        return Damage(name, now.lines or 0, why)
    return Damage(name, 0, f"was changed: when the run had ended, its sha256 began with {entry.sha256[:16]}")


def _files(folder: Path) -> Iterator[str]:
    """Return the files that belong to the run, as paths below the folder."""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.is_file() and covers(name):
            yield name.as_posix()


def covers(name: Path) -> bool:
    """Return whether a manifest lists the file `name` (relative to the run's folder) if it exists."""
    return str(name) not in MADE_LATER and name.parts[0] != DISKS and not name.name.startswith(PART)


def _entry(path: Path) -> FileEntry:
    digest, size, lines = hashlib.sha256(), 0, 0
    with path.open("rb") as file:
        while chunk := file.read(2**20):
            digest.update(chunk)
            size += len(chunk)
            lines += chunk.count(b"\n")
    return FileEntry(lines if path.suffix == ".jsonl" else None, size, digest.hexdigest())


def _lives(files: dict[str, FileEntry]) -> dict[str, int]:
    """Return the number of lives with a trace, by node."""
    lives: dict[str, int] = {}
    for name in files:
        match = TRACE_FILE.fullmatch(name)
        if match is not None:
            lives[match[1]] = lives.get(match[1], 0) + 1
    return lives
