"""The results folder of a test session: names of run folders, and the removal of empty folders when tests have passed."""

import contextlib
import re
from collections.abc import Iterable
from pathlib import Path

NAME_LENGTH_MAX = 60  # characters of a test's name in the name of a folder


def scenario_name_of(test: str) -> str:
    """Return a scenario name for a test: lower-case letters, digits and dashes."""
    name = re.sub(r"[^a-z0-9]+", "-", test.lower()).strip("-")
    return name[:NAME_LENGTH_MAX].rstrip("-") or "test"


def remove_empty(results: Path, used: Iterable[str], *, existed_before: bool) -> None:
    """Remove a `latest` link that points nowhere, and the folders in `used` with their parents, if they are empty.

    `results` itself stays if it existed before. Call this when no run is made any more: another worker's run may be about to
    begin in one of the folders.
    """
    latest = results / "latest"
    if latest.is_symlink() and not latest.exists():
        latest.unlink(missing_ok=True)
    folders = {
        parent for name in used for parent in (Path(name), *Path(name).parents) if parent.is_relative_to(results)
    }
    for folder in sorted(folders, reverse=True):
        if folder != results or not existed_before:
            with contextlib.suppress(OSError):
                folder.rmdir()
