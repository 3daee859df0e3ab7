"""Finds run folders, lists their files, and detects whether they have changed since they were read."""

import glob
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import file_digest, sha256
from pathlib import Path
from typing import NamedTuple

from zab_chaos.model import manifest

_FILE_OF_A_RUN = re.compile(
    r"(?P<folder>.*)/((run|manifest)\.json|(ops|faults|harness)\.jsonl|trace/node-\d+-\d+\.jsonl|record/node-\d+-\d+\.bin)"
)


class NoRuns(Exception):
    """A given path has no runs, or can't be read. The message names all such paths, and says what is allowed."""


class Size(NamedTuple):
    """The size and the modification time of a file."""

    bytes: int
    modified: int  # nanoseconds


@dataclass(frozen=True, slots=True)
class SourceFolder:
    """A run's folder, with its manifest and the files that the manifest lists, by their paths relative to the folder."""

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
        """A hash of names, sizes and modification times. A folder whose stamp is the same as before counts as unchanged."""
        return sha256(repr(sorted(self.files.items())).encode()).hexdigest()

    def fingerprint(self) -> str:
        """Return a hash of the contents of all files; it is equal for copies of a run. Raises OSError."""
        digests = []
        for name in sorted(self.files):
            # A run that ends meanwhile removes its keys.
            with suppress(FileNotFoundError), Path(self.path, name).open("rb") as file:
                digests.append((name, file_digest(file, "sha256").hexdigest()))
        return sha256(repr(digests).encode()).hexdigest()


def find(places: Sequence[str]) -> list[SourceFolder]:
    """Find every run in or below the places (folders or shell patterns), each once, sorted by path. Raises NoRuns."""
    found, wrong = dict[str, SourceFolder](), []
    for place in places:
        paths = matching(place)
        try:
            files = list(_below({Path(path).absolute() for path in paths}))
            runs = {match["folder"] for match in map(_FILE_OF_A_RUN.fullmatch, map(str, files)) if match is not None}
            found = {run: SourceFolder(run) for run in runs} | found
            _add_files(found, files)
        except OSError as error:
            raise NoRuns(f"{error.filename} can't be read: {error.strerror}") from error
        if not runs:
            wrong.append(f"{place}: there is no {'run.json in or below it' if paths else 'such file or folder'}")
    if wrong:
        wrong.append("Name folders of runs (results/README.md), folders that contain such folders, or shell patterns.")
        raise NoRuns("\n".join(wrong))
    return _without_links(found.values())


def _add_files(found: dict[str, SourceFolder], files: Iterable[Path]) -> None:
    """Add to each run its files. The judge compares all that the manifest lists, so a copy that lacks one is not a copy."""
    for path in files:
        folder = next((found[str(parent)] for parent in path.parents if str(parent) in found), None)
        if folder is not None:
            name = path.relative_to(folder.path)
            if (str(name) == manifest.NAME or manifest.covers(name)) and path.is_file():
                status = path.stat()
                folder.files[str(name)] = Size(status.st_size, status.st_mtime_ns)


def matching(place: str) -> list[str]:
    """Return the paths that match a path or a shell pattern."""
    return [place] if Path(place).exists() else glob.glob(place)  # noqa: PTH207 - Path has no absolute patterns


def _below(places: Iterable[Path]) -> Iterator[Path]:
    """Yield every file in or below the places. Hidden folders are skipped, and so are links to a folder that contains them."""
    for place in places:
        for folder, inner, names in os.walk(os.path.normpath(place), onerror=_raise_unless_gone, followlinks=True):
            inner[:] = [name for name in inner if not name.startswith(".") and not _leads_back(Path(folder, name))]
            yield from (Path(folder, name) for name in names)


def _leads_back(path: Path) -> bool:
    return path.is_symlink() and path.parent.resolve().is_relative_to(path.resolve())


def _raise_unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):  # a run that passes removes its disks meanwhile
        raise error


def _without_links(folders: Iterable[SourceFolder]) -> list[SourceFolder]:
    """Drop folders that are links to others: `results/latest` is a link to a run that is found anyway."""
    by_real_path: dict[str, SourceFolder] = {}
    for folder in sorted(folders, key=lambda it: it.path):
        real = os.path.realpath(folder.path)
        if real not in by_real_path or folder.path == real:
            by_real_path[real] = folder
    return sorted(by_real_path.values(), key=lambda it: it.path)
