"""Files on this machine, looked at without Spark: it takes two seconds to look into its first folder."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

from pipeline.files import Contents, File, path_of

_PIECE = 2**20  # bytes of a file that are held at a time


def below(place: Path) -> Iterator[Path]:
    """Every file at or below a path. Raises OSError for what can't be looked into.

    As with Spark, names that begin with a dot or an underscore are left out. A link back to a folder that it is in is not followed.
    """
    if place.is_file():
        yield place
    for folder, inner, names in os.walk(place, onerror=_raised, followlinks=True):
        inner[:] = [name for name in inner if not _hidden(name) and not _leads_back(Path(folder, name))]
        yield from (Path(folder, name) for name in names if not _hidden(name))


def contents(files: Sequence[File]) -> dict[str, Contents]:
    """What is in these files, by their path. Raises OSError."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip((file.path for file in files), pool.map(_look, files), strict=True))


def _look(file: File) -> Contents:
    digest, lines, last = sha256(), 0, b"\n"
    kept = b"" if file.name == "run.json" else None
    with path_of(file.path).open("rb") as opened:
        while piece := opened.read(_PIECE):
            digest.update(piece)
            lines += piece.count(b"\n")
            last = piece
            if kept is not None:
                kept += piece
    whole = last.endswith(b"\n")
    text = None if kept is None else kept.decode(errors="replace")
    return Contents(digest.hexdigest(), whole, text, lines + (not whole))


def _hidden(name: str) -> bool:
    return name.startswith((".", "_"))


def _leads_back(path: Path) -> bool:
    return path.is_symlink() and path.parent.resolve().is_relative_to(path.resolve())


def _raised(error: OSError) -> None:
    raise error
