"""The results folder of a test session: what stays behind when all passed is nothing."""

import contextlib
import re
from collections.abc import Iterable
from pathlib import Path

NAME = 60  # characters of a test's name in a folder's


def name_of(test: str) -> str:
    """A scenario's name for a test: small letters, digits and dashes."""
    words = re.sub(r"[^a-z0-9]+", "-", test.lower()).strip("-")
    return words[:NAME].rstrip("-") or "test"


def tidy(results: Path, used: Iterable[str], *, was_there: bool) -> None:
    """Remove what passed tests leave: a `latest` that points nowhere, and the folders in `used`, if they are empty.

    Only when nobody makes folders any more: another worker's run may be about to begin in one of them.
    """
    latest = results / "latest"
    if latest.is_symlink() and not latest.exists():
        latest.unlink(missing_ok=True)
    folders = {
        parent for name in used for parent in (Path(name), *Path(name).parents) if parent.is_relative_to(results)
    }
    for folder in sorted(folders, reverse=True):
        if folder != results or not was_there:
            with contextlib.suppress(OSError):
                folder.rmdir()
