"""Finds files in folders that other processes change at the same time, and checks and writes files that the user names."""

import os
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from zab_chaos.harness.errors import BadInput, HarnessError


def below(root: Path, names: Collection[str]) -> Iterator[Path]:
    """Yield the files with these names at any depth below `root`.

    Folders that vanish meanwhile are skipped (`Path.glob` would raise). Links to folders are not followed.
    """
    for folder, _, found in os.walk(root):
        yield from (Path(folder, name) for name in found if name in names)


def write_new(file: Path, text: str) -> Path:
    """Write a text to a file, or if there is another text in it, to a file NAME-2, NAME-3, ... beside it. Return the path."""
    file.parent.mkdir(parents=True, exist_ok=True)
    for number in count(1):
        path = file if number == 1 else file.with_stem(f"{file.stem}-{number}")
        try:
            with path.open("x", encoding="utf-8") as new:
                new.write(text)
        except FileExistsError:
            if path.read_text(encoding="utf-8", errors="replace") != text:
                continue
        return path
    raise AssertionError


def output_mistake(file: Path) -> str | None:
    """Return why a file that the user names can't be written; None if nothing is wrong so far."""
    try:
        if stat.S_ISDIR(file.stat().st_mode):  # since Python 3.14 `is_dir` is false, too, where a name is too long
            return f"{file} is a folder; name a file"
    except (FileNotFoundError, NotADirectoryError):
        if not file.parent.is_dir():
            return f"{file} cannot be written: there is no folder {file.parent}"
    except OSError as error:
        return f"{file} cannot be written: {error.strerror}"
    return None


def output_file(file: Path) -> Path:
    """Return the file of an option `--out`. Raises BadInput, before any work is done, if it can't be written."""
    if mistake := output_mistake(file):
        raise BadInput(f"--out: {mistake}")
    return file


def check_output_file(file: Path | None) -> None:
    """Check the file of an option `--out`, if it was given, before the work is done. Raises BadInput."""
    if file is not None:
        output_file(file)


@contextmanager
def writing(path: Path, option: str = "--out") -> Iterator[None]:
    """Turn errors of the operating system into a HarnessError that names the file and the option."""
    try:
        yield
    except OSError as error:
        file = error.filename2 or error.filename or path
        where = "" if str(file) == str(path) else f" ({file})"
        raise HarnessError(
            f"{path} cannot be written: {error.strerror or error}{where}. Choose another place with {option}."
        ) from error
