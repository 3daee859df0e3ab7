"""Finds files in folders that other processes change at the same time."""

import os
from collections.abc import Collection, Iterator
from pathlib import Path


def below(root: Path, names: Collection[str]) -> Iterator[Path]:
    """Yield the files with these names at any depth below `root`.

    Folders that vanish meanwhile are skipped (`Path.glob` would raise). Links to folders are not followed.
    """
    for folder, _, found in os.walk(root):
        yield from (Path(folder, name) for name in found if name in names)
