"""Which folders hold runs, which files they have, and whether those have changed since they were read."""

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
    """What was named holds no runs, or can't be read. The text names every path that was wrong, and what is allowed."""


class Size(NamedTuple):
    """What is seen of a file without opening it."""

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
        """Names, sizes and modification times, hashed: folders with equal stamps are believed to be equal."""
        return sha256(repr(sorted(self.files.items())).encode()).hexdigest()

    def fingerprint(self) -> str:
        """The contents of all files, hashed: equal for copies of a run. Raises OSError."""
        digests = []
        for name in sorted(self.files):
            with Path(self.path, name).open("rb") as file:
                digests.append((name, file_digest(file, "sha256").hexdigest()))
        return sha256(repr(digests).encode()).hexdigest()


def find(places: Sequence[str]) -> list[Folder]:
    """Every run in or below the places (folders, or patterns as the shell has them), each once, by path. Raises NoRuns."""
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
    """What a path or a pattern stands for; nothing if there is no such thing."""
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
    raise error


def _without_links(folders: Iterable[Folder]) -> list[Folder]:
    """One folder for each place: `results/latest` is a link to a run that is there anyway."""
    taken: dict[str, Folder] = {}
    for folder in sorted(folders, key=lambda it: it.path):
        real = os.path.realpath(folder.path)
        if real not in taken or folder.path == real:
            taken[real] = folder
    return sorted(taken.values(), key=lambda it: it.path)
