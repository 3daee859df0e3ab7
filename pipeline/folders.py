"""Finds run folders, lists their files, and detects whether they have changed since they were read."""

import glob
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import file_digest, sha256
from pathlib import Path
from typing import NamedTuple

_FILE = re.compile(
    r"(?P<folder>.*)/(?P<name>(?:run|manifest)\.json|(?:ops|faults|harness)\.jsonl|trace/node-\d+-\d+\.jsonl"
    r"|record/node-\d+-\d+\.bin)"
)


class NoRuns(Exception):
    """A given path has no runs, or can't be read. The text names all such paths, and what is allowed."""


class Size(NamedTuple):
    """A file's size and modification time."""

    bytes: int
    modified: int  # nanoseconds


@dataclass(frozen=True, slots=True)
class Folder:
    """A run's folder, and the files that a judge reads, by their names relative to it."""

    path: str
    files: dict[str, Size] = field(default_factory=dict)

    @property
    def run(self) -> int:
        """The run's number in all tables: 60 bits of a hash of its path."""
        return int(sha256(self.path.encode()).hexdigest()[:15], 16)

    @property
    def bytes(self) -> int:
        return sum(size.bytes for size in self.files.values())

    @property
    def stamp(self) -> str:
        """A hash of names, sizes and modification times: folders with equal stamps count as unchanged."""
        return sha256(repr(sorted(self.files.items())).encode()).hexdigest()

    def fingerprint(self) -> str:
        """A hash of the contents of all files, equal for copies of a run. Raises OSError."""
        digests = []
        for name in sorted(self.files):
            with Path(self.path, name).open("rb") as file:
                digests.append((name, file_digest(file, "sha256").hexdigest()))
        return sha256(repr(digests).encode()).hexdigest()


def find(places: Sequence[str]) -> list[Folder]:
    """Find every run in or below the places (folders or shell patterns), each once, sorted by path. Raises NoRuns."""
    meant = {place: matching(place) for place in places}
    missing = [f"{place}: there is no such file or folder" for place, paths in meant.items() if not paths]
    if missing:
        raise NoRuns("\n".join(missing))
    found: dict[str, Folder] = {}
    try:
        for path in _below({Path(path).absolute() for paths in meant.values() for path in paths}):
            match = _FILE.fullmatch(os.path.normpath(path))
            if match is not None:
                told = path.stat()
                folder = found.setdefault(match["folder"], Folder(match["folder"]))
                folder.files[match["name"]] = Size(told.st_size, told.st_mtime_ns)
    except OSError as error:
        raise NoRuns(f"{error.filename} can't be read: {error.strerror}") from error
    if not found:
        raise NoRuns(
            f"no run in {', '.join(places)}: nowhere below is a run.json. Name folders of runs (results/README.md), "
            "folders that hold such folders, or patterns."
        )
    return _without_links(found.values())


def matching(place: str) -> list[str]:
    """The paths that match a path or a pattern."""
    return [place] if Path(place).exists() else glob.glob(place)  # noqa: PTH207 - Path has no absolute patterns


def _below(places: Iterable[Path]) -> Iterator[Path]:
    """Every file below. Hidden folders are left out; a link back to a folder that it is in is not followed."""
    for place in places:
        for folder, inner, names in os.walk(place, onerror=_raised, followlinks=True):
            inner[:] = [name for name in inner if not name.startswith(".") and not _leads_back(Path(folder, name))]
            yield from (Path(folder, name) for name in names)


def _leads_back(path: Path) -> bool:
    return path.is_symlink() and path.parent.resolve().is_relative_to(path.resolve())


def _raised(error: OSError) -> None:
    """Passes over what goes meanwhile: a run that passes removes its disks."""
    if not isinstance(error, FileNotFoundError):
        raise error


def _without_links(folders: Iterable[Folder]) -> list[Folder]:
    """One folder for each place: `results/latest` is a link to a run that is there anyway."""
    taken: dict[str, Folder] = {}
    for folder in sorted(folders, key=lambda it: it.path):
        real = os.path.realpath(folder.path)
        if real not in taken or folder.path == real:
            taken[real] = folder
    return sorted(taken.values(), key=lambda it: it.path)
